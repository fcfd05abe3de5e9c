"""Numbers and sentences that the text and HTML formats share."""

from __future__ import annotations

from dynalint.confirm.wording import helpful_hints
from dynalint.confirm.worker.dynamo.graph_records import Outcome, Remedy, Size
from dynalint.explaining.model import Advice, ExplainedBreak, ExplainedStep, Explanation, OwnFinding
from dynalint.findings import as_advice


def count(number: int, noun: str) -> str:
    """Return a number with a noun, such as "1 graph" or "3 graphs"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size(value: Size) -> str:
    """Return the number of tensors and bytes, such as "2 tensors, 96 B"."""
    return f"{count(value.tensors, 'tensor')}, {_bytes(value.bytes)}" if value.tensors else "no tensors"


def _bytes(number: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} B"


def headline(found: Explanation) -> str:
    """Return the number of graphs, graph breaks and recompiles as a single line."""
    graphs = count(len(found.first_graphs), "graph")
    breaks = count(len(found.causes), "graph break")
    again = count(len(found.recompiles), "recompile")
    return f"{graphs}, {breaks}, {again}"


def verdict(passes: bool | None) -> str:
    """Describe whether `fullgraph=True` succeeded."""
    return {True: "passes", False: "fails", None: "was not tried"}[passes]


def basis(found: Explanation) -> str:
    """Describe how the target was run: versions, device and calls."""
    same, batch = found.calls
    more = f", {batch} with another batch size" if batch else ""
    return f"torch {found.torch} on {found.device}, Python {found.python}; {same} identical calls{more}"


def what(found: ExplainedBreak) -> str:
    """Return a break's id and type."""
    return " ".join(filter(None, (found.gb, found.type or found.reason)))


def cost(step: ExplainedStep) -> str:
    """Describe the data that is passed across the gap after a step."""
    return f"passes on {size(step.crossing)}"


def effect(found: ExplainedBreak) -> str:
    """Describe what a break costs apart from an additional graph, or return an empty string."""
    if found.loses:
        return f"All of {' and '.join(found.loses)} falls back to eager."
    return f"The rest of {' and '.join(found.cuts_off)} falls back to eager." if found.cuts_off else ""


def hints(found: ExplainedBreak) -> list[str]:
    """Return the hints from Dynamo that are specific to this break."""
    return helpful_hints(found.hints)


def remedy(rule: OwnFinding) -> str:
    """Return a rule's help, and mention `dynalint fix` if it can make the change."""
    help_text = rule.help or as_advice(rule.message)
    if rule.fix is None:
        return help_text
    return f"{help_text} `dynalint fix`" + (" does so." if rule.fix.rstrip(".") in help_text else f": {rule.fix}.")


CUT_SHORT = "Time ran out before everything was tried; raise `timeout` in the configuration."
REMEDIES = {
    "settings": "Dynamo settings",
    "fullgraph": "A single graph or an error",
}


def remedy_title(remedy: Remedy) -> str:
    """Return a title for this kind of remedy."""
    return REMEDIES[remedy.kind]


def counted(before: Outcome, after: Outcome) -> list[tuple[str, int, int]]:
    """Return the name of each count with its values before and after a remedy."""
    return [
        ("breaks", before.breaks, after.breaks),
        ("graph runs per call", before.graphs, after.graphs),
        ("operators in graphs", before.operators, after.operators),
        ("recompiles", before.recompiles, after.recompiles),
    ]


def equality(remedy: Remedy) -> str:
    """Describe whether the results are still equal."""
    if remedy.equal is None:
        return "Results were not compared, because the code gives different results in every run."
    if remedy.equal:
        return "Results, gradients and state stayed equal to eager (backend aot_eager)."
    return f"Not equal to eager: {remedy.difference}."


def others(advice: Advice) -> list[str]:
    """Return sentences about options that were tried on their own and are not part of a remedy."""
    rest, helps = _left_over(advice), _helping(advice)
    useless = [name for name in rest if name not in helps]
    also = helps if advice.remedies else []
    return [
        f"{title}: {', '.join(names)}."
        for title, names in (("Also helps, but no more than these", also), ("Tried without effect", useless))
        if names
    ]


def _left_over(advice: Advice) -> list[str]:
    """Return the names of options that were tried on their own and are not part of a remedy."""
    used = {name for remedy in advice.remedies for name in remedy.tried.name.split(" and ")}
    return [one.name for one in advice.tried if " and " not in one.name and one.name not in used]


def _helping(advice: Advice) -> list[str]:
    """Return the names of the left-over options that reduced breaks or recompilations."""
    rest, before = _left_over(advice), (advice.before.breaks, advice.before.recompiles)
    fewer = (one.name for one in advice.tried if not one.outcome.error and _counts(one.outcome) < before)
    return [name for name in fewer if name in rest]


def _counts(outcome: Outcome) -> tuple[int, int]:
    return outcome.breaks, outcome.recompiles


def no_help(advice: Advice) -> str:
    """Return the text to show if there is no remedy."""
    helps = _helping(advice)
    if helps:  # Time ran out before the results were compared.
        return f"Fewer breaks or recompilations with {', '.join(helps)}, but results were not compared in time."
    tried = f"None of the options that were tried ({len(advice.tried)})"
    return f"{tried} reduced breaks or recompilations. Change the source instead."
