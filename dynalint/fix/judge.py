"""Judge a fix by what the compiler does with the new code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynalint.fix.comparison import TriedUnit


def judge_compiled(case: TriedUnit, compiled: Mapping[str, Any], name: str) -> None:
    """Refute a case if its fix leaves or causes a break, a recompilation or a wrong result. Note any other problems.

    `compiled` is the entry with that name in the answer to `equivalence.verify`. Problems that already existed and that
    the fix does not target are ignored, because other findings remain until their own fixes are applied.
    """
    categories = {linted.finding.category for linted in case.unit.linted}
    if "problem" in compiled:
        case.notes.append(compiled["problem"])
        return
    for trouble in _troubles(case, compiled):
        case.refute(f"{name}: {trouble}")
        return
    recompiles, before = compiled["recompiles"], compiled["recompiled_before"] or 0
    targeted = "recompile" in categories
    if compiled["differed_before"] and not compiled["differs"]:
        case.notes.append("the compiled code is now correct")  # Correct code may need more compilations.
    elif recompiles and (recompiles >= before if targeted else recompiles > before and not compiled["same_causes"]):
        case.refute(f"{name} recompiles for the same kind of inputs ({compiled['reason']})")
    elif compiled["differs"] and (not compiled["differed_before"] or "miscompile" in categories):
        case.refute(f"{name} gives different results when compiled: {compiled['differs']}")
    elif compiled["failure"] is not None or compiled["breaks"]:
        case.notes.append("there are still breaks elsewhere")
    else:
        case.notes.append("one graph")


def _troubles(case: TriedUnit, compiled: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems that Dynamo still reports on the changed lines."""
    meant = {gb for linted in case.unit.linted for gb in linted.finding.gb}
    before = [one["gb"] for one in compiled["breaks_before"] if _stands_in(one, case.old_lines)]
    hidden = any(one["effect"] != "split" for one in compiled["breaks_before"])
    after = [one for one in compiled["breaks"] if _stands_in(one, case.new_lines)]
    for one in after:
        count = sum(other["gb"] == one["gb"] for other in after)
        left = one["gb"] in meant and count >= before.count(one["gb"])
        brought = one["gb"] not in before and not hidden
        if left or brought:
            yield f"Dynamo {'still ' if left else ''}breaks the graph in the new code ({one['reason']})"
    failure = compiled["failure"]
    if failure is not None and not compiled["breaks"] and _stands_in(failure, case.new_lines):
        yield f"fullgraph=True fails on the new code ({failure['reason']})"


def _stands_in(place: Mapping[str, Any], lines: Mapping[str, set[int]]) -> bool:
    """Return whether the break is on a changed line, based on the innermost frame that is in a changed file."""
    for frame in reversed(place["frames"]):
        known = lines.get(os.path.realpath(frame["file"]))
        if known is not None:
            return frame["line"] in known
    return False
