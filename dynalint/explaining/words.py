"""Numbers and sentences that the text and the page have in common."""

from __future__ import annotations

from dynalint.confirm.wording import helpful_hints
from dynalint.confirm.worker.graph_records import Size
from dynalint.explaining.model import Break, Explanation, Rule, Step


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 graph" or "3 graphs"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seconds(value: float) -> str:
    """Return a time with two digits that count."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1 or unit == "µs":
            return f"{value * factor:.2g} {unit}" if value * factor < 100 else f"{value * factor:.0f} {unit}"
    raise AssertionError


def size(value: Size) -> str:
    """Return tensors and bytes, such as "2 tensors, 96 B"."""
    return f"{count(value.tensors, 'tensor')}, {_bytes(value.bytes)}" if value.tensors else "no tensors"


def _bytes(number: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} B"


def headline(found: Explanation) -> str:
    """Return the counts in one line."""
    graphs = count(len(found.first_graphs), "graph")
    breaks = count(len(found.causes), "graph break")
    again = count(len(found.recompiles), "recompile")
    return f"{graphs}, {breaks}, {again}"


def basis(found: Explanation) -> str:
    """Return what was run to know all this."""
    same, batch = found.calls
    more = f", {batch} with another batch size" if batch else ""
    return f"torch {found.torch} on {found.device}, Python {found.python}; {same} calls alike{more}"


def timing(found: Explanation) -> str:
    """Return how the times were taken."""
    if not found.timed_calls:
        return ""
    engine = {
        "eager": "Graphs were run operator by operator (backend eager), and compile times are Dynamo's own, without "
        "code generation; `--backend inductor` has both.",
        "aot_eager": "Graphs were run operator by operator (backend aot_eager); compile times are without code "
        "generation; `--backend inductor` has both.",
        "inductor": "Compile times are those of Dynamo, AOTAutograd and Inductor together.",
    }[found.backend]
    return f"Times in a call are medians of {count(found.timed_calls, 'call')} after everything was compiled. {engine}"


def what(found: Break) -> str:
    """Return the id and kind of a break."""
    return " ".join(filter(None, (found.gb, found.type or found.reason)))


def cost(step: Step) -> str:
    """Return what a cut costs: what is handed on across it, and how long no graph runs."""
    return f"hands on {size(step.crossing)}; {seconds(step.gap)} outside graphs"


def effect(found: Break) -> str:
    """Return what a break costs beyond one more graph, empty if nothing."""
    if found.loses:
        return f"All of {' and '.join(found.loses)} goes back to eager."
    return f"The rest of {' and '.join(found.cuts_off)} goes back to eager." if found.cuts_off else ""


def hints(found: Break) -> list[str]:
    """Return the hints of Dynamo's that say something about this very break."""
    return helpful_hints(found.hints)


def remedy(rule: Rule) -> str:
    """Return what a rule of dynalint's says is to be done, and whether `dynalint fix` does it."""
    help_text = rule.help[:1].upper() + rule.help[1:]
    if help_text and not help_text.endswith((".", "!", "?")):
        help_text = f"{help_text}."
    if rule.fix is None:
        return help_text
    return f"{help_text} `dynalint fix`" + (" does so." if rule.fix.rstrip(".") in help_text else f": {rule.fix}.")
