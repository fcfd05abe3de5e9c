"""Measure how many small programs that break and have a known rewrite `dynalint fix` repairs.

    python benchmarks/repairs.py FOLDER [--safe-only] [--list]

FOLDER is the same as for `probes.py`. In a record's `rewrites`, `usable` says whether a rewrite compiled to one graph.
The conditions of conditional fixes are assumed to hold, to measure what fixes there are. A program is repaired if all
its findings except advice are fixed, or all its advice if there are no other findings.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fixes import fix
from probes import OK, Record, claims, is_hidden, with_call

from dynalint.findings import Finding

# Rewrites with these names run the program with a Dynamo setting instead of changing it.
SETTINGS = ("cdo_config", "cso", "cso_check", "allow_rnn", "trace_autograd_ops")


def main() -> None:
    """Print the share for the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--safe-only", action="store_true", help="take no unsafe fix")
    parser.add_argument("--list", action="store_true", help="print what is left of each program that is not repaired")
    options = parser.parse_args()
    with (options.folder / "probes.jsonl").open(encoding="utf-8") as lines:
        records: list[Record] = [json.loads(line) for line in lines]
    wanted = {record["id"]: record for record in records if _is_wanted(record)}
    left = _left(options.folder, sorted(wanted), unsafe=not options.safe_only)
    repaired = [name for name in wanted if not left[name]]
    print(f"repaired   {len(repaired) / len(wanted):.3f} ({len(repaired)}/{len(wanted)})")
    print(Counter(name[:2] for name in wanted if left[name]))
    for name in sorted(wanted) if options.list else ():
        if left[name]:
            print(f"\n{name}: {wanted[name]['pattern']}")
            print(*(f"    {line}" for line in left[name]), sep="\n")
            print("    known:", *(one["name"] for one in wanted[name]["rewrites"] if one["usable"]))


def _is_wanted(record: Record) -> bool:
    """Return whether a program breaks visibly in the source and has a working rewrite that is not just a setting."""
    changes = any(one["usable"] and one["name"] not in SETTINGS for one in record["rewrites"])
    return record["outcome"] != OK and not is_hidden(record) and changes


def _left(folder: Path, names: list[str], *, unsafe: bool) -> dict[str, list[str]]:
    """Return the findings left in each program after it has been fixed, with the reasons."""
    taken = argparse.Namespace(static=False, assume=True, unsafe_fixes=unsafe, separately=True, examples=None)
    left: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as copies:
        corpus = Path(copies).resolve()
        for name in names:
            program = with_call((folder / "probes" / f"{name}.py").read_text(encoding="utf-8"))
            (corpus / f"{name}.py").write_text(program, encoding="utf-8")
            found, result = fix(corpus, [f"{name}.py"], taken)
            fixed = {one.finding.sort_key for one in result.fixed}
            reasons = {one.finding.sort_key: one.reason for one in result.refused}
            # Advice only counts if there are no other findings.
            claimed = [one for one in found if claims([one.to_json()])] or found
            unfixed = [one for one in claimed if one.sort_key not in fixed]
            left[name] = [f"{one.line}: {one.code} {_reason(one, reasons)}" for one in unfixed]
            if not found:
                left[name] = ["no finding"]
    return left


def _reason(finding: Finding, refused: Mapping[Any, str]) -> str:
    declined = finding.fix.declined if finding.fix else None
    return declined or refused.get(finding.sort_key, "has no fix")


if __name__ == "__main__":
    main()
