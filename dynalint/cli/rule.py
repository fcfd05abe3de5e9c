"""`dynalint rule`, which explains a code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from dynalint.errors import UsageError

if TYPE_CHECKING:
    from dynalint.rulebook.catalogue import CodeEntry
    from dynalint.rulebook.graph_breaks import BreakKind

_EPILOG = """\b
Examples:
  dynalint rule DYN101                           explain what it flags, why, and how to fix it
  dynalint rule GB0170                           list the rules that find this graph break
  dynalint rule --all                            list all rules, one per line
  dynalint rule --all --output-format json
"""


@click.command(epilog=_EPILOG)
@click.argument("code", required=False)
@click.option("--all", "every", is_flag=True, help="List all rules.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def rule(code: str | None, every: bool, output_format: str) -> None:
    """Explain what a rule flags, why, and how to fix it.

    CODE is a code such as DYN101, a name such as branch-on-tensor, or a graph break id from Dynamo's log, such as
    GB0170.
    """
    import json

    from dynalint.cli.console import write
    from dynalint.rulebook.catalogue import catalogue

    if every == (code is not None):
        raise UsageError("pass either a rule code or --all.")
    if code is None:
        entries = list(catalogue().values())
        write(_json(entries) if output_format == "json" else _table(entries))
        return
    if code.upper().startswith("GB"):
        found = _find_break(code)
        write(json.dumps(found.to_json(), indent=2) + "\n" if output_format == "json" else _break_text(found))
        return
    entry = _find(code)
    write(json.dumps(entry.to_json(), indent=2) + "\n" if output_format == "json" else _text(entry))


def _find(code: str) -> CodeEntry:
    from dynalint.config import nearest
    from dynalint.rulebook.catalogue import catalogue

    entries = catalogue()
    by_name = {entry.name: entry for entry in entries.values()}
    entry = entries.get(code.upper()) or by_name.get(code.lower())
    if entry is None:
        hint = nearest(code.upper(), list(entries)) or nearest(code.lower(), list(by_name))
        raise UsageError(f'no rule has the code "{code}"{hint or "; `dynalint rule --all` lists them"}.')
    return entry


def _find_break(name: str) -> BreakKind:
    from dynalint.config import nearest
    from dynalint.rulebook.graph_breaks import graph_breaks, table

    breaks = graph_breaks()
    found = breaks.get(name.upper())
    if found is None:
        hint = nearest(name.upper(), list(breaks)) or ""
        raise UsageError(f'torch {table()["torch"]} do not have a graph break with the id "{name}"{hint}.')
    return found


def _break_text(found: BreakKind) -> str:
    from dynalint.rulebook.catalogue import catalogue
    from dynalint.rulebook.graph_breaks import MEANINGS

    lines = [f"{found.id}: {found.type}", "", f"This is a Dynamo graph break ({MEANINGS[found.seen]}).", ""]
    if found.rules:
        lines += ["These rules find it:", ""]
        lines += [f"  {code}  {catalogue()[code].name}: {catalogue()[code].summary}" for code in found.rules]
    else:
        lines.append(
            found.reason or "No rule finds it. When dynalint confirms findings, it reports the graph break as DYN001."
        )
    return "\n".join(lines) + "\n"


def _json(entries: Iterable[CodeEntry]) -> str:
    import json

    return json.dumps([entry.to_json() for entry in entries], indent=2) + "\n"


def _table(entries: list[CodeEntry]) -> str:
    width = max(len(entry.name) for entry in entries)
    return "".join(
        f"{entry.code}  {entry.name:<{width}}  {'[*]' if entry.fix else '   '}  {entry.summary}\n" for entry in entries
    )


def _text(entry: CodeEntry) -> str:
    facts = [f"category {entry.category}", f"severity {entry.severity}"]
    if entry.gb:
        facts.append(f"Dynamo's ids {', '.join(entry.gb)}")
    if entry.torch:
        facts.append(f"torch {entry.torch}")
    facts.append("fixes" if entry.fix else "no fix")
    head = f"{entry.code}: {entry.name}\n\n{entry.summary}.\n\n({'; '.join(facts)})\n"
    return f"{head}\n{entry.documentation.strip()}\n"
