"""Measure what an edit costs the language server, and check that it finds the same as if it had just started.

    python benchmarks/edits.py FOLDER [--edits 100] [--seed 0] [--smallest LINES] [--no-compare]

Each edit changes, adds or removes one line in a function of a random file, which is the only open file. The output is
the share of edits after which only the changed function was analysed, and the processor time of an answer for these
edits, for the others, and for a server that has just started. The exit code is 1 if any answers differ.
"""

from __future__ import annotations

import argparse
import ast
import gc
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from dynalint.analysis import analyze
from dynalint.findings import Finding
from dynalint.linting import lint
from dynalint.server.analyst import Analyst

LINES = ("pass", "print(1)", "value = float(1)", "value = torch.ones(3).sum().item()", "# a note")


def edited(text: str, chance: random.Random) -> str | None:
    """Return the text with a random edit of a function, or None if there is no function or the result is no Python."""
    lines, nodes = text.split("\n"), list(ast.walk(ast.parse(text)))
    bodies = [node.body for node in nodes if isinstance(node, ast.FunctionDef)]
    if not bodies:
        return None
    statement = chance.choice(chance.choice(bodies))
    start = statement.lineno - 1
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    kind = chance.choice(("add", "comment", "change", "remove"))
    if kind == "add":
        lines.insert(start, indent + chance.choice(LINES))
    elif kind == "comment":
        lines[start] += "  # noted"
    elif kind == "change":
        old, new = chance.choice(((" + ", " - "), (" * ", " / "), ("1", "2"), (".sum(", ".mean("), (" > ", " < ")))
        lines[start] = lines[start].replace(old, new)
    else:
        lines[start : statement.end_lineno] = [f"{indent}pass"]
    new_text = "\n".join(lines)
    try:
        ast.parse(new_text)
    except SyntaxError:
        return None
    return new_text if new_text != text else None


def answer(analyst: Analyst, path: Path, text: str) -> tuple[tuple[Finding, ...], float]:
    """Return the findings in an open file, and the processor time in seconds."""
    start = time.process_time()
    findings = analyst.look({path: text})[path].findings
    return findings, time.process_time() - start


def started(folder: Path) -> Analyst:
    """Return a new server's analyst, without the garbage of earlier ones, which a server of its own would not have."""
    gc.unfreeze()
    gc.collect()
    return Analyst(folder, {})


def shown(seconds: Sequence[float]) -> str:
    """Return the median and the ninth decile in milliseconds."""
    if len(seconds) < 2:
        return "no figures"
    ninth = statistics.quantiles(seconds, n=10)[-1]
    return f"{statistics.median(seconds) * 1000:.0f} ms (median), {ninth * 1000:.0f} ms (ninth decile)"


def main() -> int:
    """Edit the files of a folder."""
    parser = argparse.ArgumentParser(description="Time the language server's answers to random edits.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smallest", type=int, default=100, help="only edit files of at least this many lines")
    parser.add_argument("--no-compare", action="store_true", help="do not start a server after each edit to compare")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    chance = random.Random(arguments.seed)  # noqa: S311 - any edits will do
    texts = {path: path.read_text() for path in sorted(folder.rglob("*.py"))}
    large = [path for path, text in texts.items() if text.count("\n") >= arguments.smallest]
    analysed = 0

    def counted(*given: object, **named: object) -> object:
        nonlocal analysed
        analysed += 1
        return analyze(*given, **named)  # type: ignore[arg-type]

    vars(lint)["analyze"] = counted
    revised, repeated, cold = list[float](), list[float](), list[float]()
    different, path, analyst = 0, large[0], started(folder)
    while len(revised) + len(repeated) < arguments.edits:
        if chance.random() < 0.1 or not cold:
            path, analyst = chance.choice(large), started(folder)
            cold.append(answer(analyst, path, texts[path])[1])
        text = edited(texts[path], chance)
        if text is None:
            continue
        texts[path], before = text, analysed
        found, seconds = answer(analyst, path, text)
        (revised if analysed == before else repeated).append(seconds)
        if not arguments.no_compare and found != answer(Analyst(folder, {}), path, text)[0]:
            different += 1
            print(f"{path}: different after edit {len(revised) + len(repeated)}")
    print(f"{len(revised)} of {arguments.edits} edits: only the changed function was analysed: {shown(revised)}")
    print(f"{len(repeated)} of {arguments.edits} edits: everything was analysed again: {shown(repeated)}")
    print(f"a server that has just started: {shown(cold)}; answers that differ: {different}")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
