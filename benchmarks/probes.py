"""Measure how well the static check agrees with Dynamo on small programs, each with a single pattern and known outcome.

    python benchmarks/probes.py FOLDER [--list]

FOLDER contains `probes.jsonl`, with a record per line, and the programs as `probes/ID.py`. README.md in this folder
describes the keys. Advice counts as a hit for a program that breaks or recompiles, but not as a false alarm for others,
because it claims nothing. Programs are left out if all their breaks are invisible in the source according to dynalint's
table of graph breaks, or if they only recompile because their inputs vary.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dynalint.rulebook.graph_breaks import graph_breaks

Record = Mapping[str, Any]

OK = "ok"
LEFT_OUT = "recompile-varied-inputs"
# Arguments for a program that contains no call, by parameter name.
TENSOR = "torch.randn(4, 8)"
NAMED = {"m": "torch.randn(4, 8) > 0", "mask": "torch.randn(4, 8) > 0", "b": "True"}


def with_call(program: str) -> str:
    """Return the program, with a call to the first of `compiled`, `f` or `M` that it defines if it contains no call."""
    tree = ast.parse(program)
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if "f" in functions and not called & {"compiled", "f"}:
        return f"{program}\ntorch.compile(f)({_inputs(functions['f'])})\n"
    if "M" in classes:
        methods = {node.name: node for node in classes["M"].body if isinstance(node, ast.FunctionDef)}
        if "forward" in methods:
            return f"{program}\ntorch.compile(M())({_inputs(methods['forward'], skip=1)})\n"
    if "make" in functions and "make" not in called:
        return f"{program}\ntorch.compile(make())({TENSOR})\n"
    return program


def _inputs(function: ast.FunctionDef, *, skip: int = 0) -> str:
    names = [one.arg for one in [*function.args.posonlyargs, *function.args.args]]
    required = names[skip : len(names) - len(function.args.defaults)]
    return ", ".join(NAMED.get(name, TENSOR) for name in required)


def findings_of(folder: Path) -> dict[str, list[Record]]:
    """Return the static findings in each program, by the program's id."""
    with tempfile.TemporaryDirectory() as copies:
        for program in sorted((folder / "probes").glob("*.py")):
            Path(copies, program.name).write_text(with_call(program.read_text(encoding="utf-8")), encoding="utf-8")
        command = [sys.executable, "-m", "dynalint", "check", "--static", "--isolated", "--no-cache"]
        ran = subprocess.run(
            [*command, "--output-format", "json", "."], cwd=copies, capture_output=True, text=True, check=False
        )
    if ran.returncode not in (0, 1):
        sys.exit(f"probes: dynalint ended with {ran.returncode}: {ran.stderr}")
    found: dict[str, list[Record]] = {}
    for finding in json.loads(ran.stdout):
        found.setdefault(Path(finding["path"]).stem, []).append(finding)
    return found


def claims(findings: Iterable[Record]) -> list[Record]:
    """Return the findings without advice."""
    return [finding for finding in findings if finding["category"] != "advice"]


def is_hidden(record: Record) -> bool:
    """Return whether all of a program's breaks are invisible in the source, or only its inputs make it recompile."""
    breaks = graph_breaks()
    seen = [breaks[gb].seen for gb in record["gb"] if gb in breaks]
    return record["outcome"] == LEFT_OUT or (bool(seen) and not {*seen} & {"static", "partly"})


def main() -> None:
    """Print both shares for the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", action="store_true", help="print the programs that are missed, or flagged and ok")
    options = parser.parse_args()
    with (options.folder / "probes.jsonl").open(encoding="utf-8") as lines:
        records: list[Record] = [json.loads(line) for line in lines]
    found = findings_of(options.folder)
    fine = [record for record in records if record["outcome"] == OK]
    broken = [record for record in records if record["outcome"] != OK and not is_hidden(record)]
    flagged = [record for record in fine if claims(found.get(record["id"], ()))]
    missed = [record for record in broken if record["id"] not in found]
    share = (len(broken) - len(missed)) / len(broken) if broken else 1.0
    print(f"flagged    {share:.3f} ({len(broken) - len(missed)}/{len(broken)}) of those that break or recompile")
    print(f"           {len(flagged)} of {len(fine)} that do neither")
    for record in missed if options.list else ():
        print(f"missed   {record['id']}: {record['pattern']} ({record['outcome']})")
    for record in flagged if options.list else ():
        for finding in claims(found[record["id"]]):
            print(f"flagged  {record['id']}: {finding['code']} {finding['message']}")


if __name__ == "__main__":
    main()
