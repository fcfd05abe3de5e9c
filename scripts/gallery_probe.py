"""Count the graphs, breaks and recompilations of a call, for `build_gallery.py`.

    python gallery_probe.py DRIVER OUTPUTS

This runs in an interpreter that has the package. DRIVER is Python code that defines `target` and `calls`, a list of
tuples with arguments. The results in eager mode are saved to OUTPUTS, or compared with it if the file exists. The
output is a JSON object.
"""

# ruff: noqa: SLF001 - torch._dynamo is what is asked

from __future__ import annotations

import copy
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch._dynamo


def called(function: Any, arguments: Any) -> Any:
    """Return the result of calling a function with copies of the arguments and always the same random numbers."""
    torch.manual_seed(0)
    return function(*(one.clone() if isinstance(one, torch.Tensor) else one for one in arguments))


def fresh(target: Any) -> Any:
    """Return a module in its state before the first call. Functions are returned unchanged."""
    return copy.deepcopy(target) if isinstance(target, torch.nn.Module) else target


def same(one: Any, other: Any) -> bool:
    """Return whether results are equal up to rounding."""
    try:
        torch.testing.assert_close(one, other, equal_nan=True)
    except AssertionError:
        return False
    return True


def probed(target: Any, calls: list[Any], outputs: Path) -> dict[str, Any]:
    """Return the number of graphs, breaks and recompilations, the reasons for them, and which results are equal."""
    eager = [called(function, one) for function in [fresh(target)] for one in calls]
    if not outputs.exists():
        torch.save(eager, outputs)
    explained = called(torch._dynamo.explain(fresh(target)), calls[0])
    torch.compiler.reset()
    graphs: list[int] = []

    def count(module: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(len(module.graph.nodes))
        return module.forward

    compiled = torch.compile(fresh(target), backend=count)
    results = [called(compiled, calls[0])]
    first = len(graphs)
    results += [called(compiled, one) for one in calls[1:]]
    return {
        "fullgraph": refusal(target, calls[0]),
        "graphs": explained.graph_count,
        "breaks": explained.graph_break_count,
        "reasons": list(dict.fromkeys(worded(one) for one in explained.break_reasons)),
        "calls": len(calls),
        "recompiled": len(graphs) - first,
        "compiled_equals_eager": same(results, eager),
        "equals_before": same(torch.load(outputs, weights_only=False), eager),
    }


def refusal(target: Any, arguments: Any) -> str | None:
    """Return the first line of Dynamo's error if a function does not compile with `fullgraph=True`, otherwise None."""
    torch.compiler.reset()
    try:
        called(torch.compile(fresh(target), backend="eager", fullgraph=True), arguments)
    except torch._dynamo.exc.TorchDynamoException as error:
        return str(error).strip().splitlines()[0]
    return None


def worded(found: Any) -> str:
    """Return a graph break's location, the first line of its reason, and its id."""
    place = found.user_stack[-1] if found.user_stack else None
    where = f"`{Path(place.filename).name}:{place.lineno}`: " if place else ""
    known = re.search(r"gb\d{4}", found.reason)
    reason = found.reason.splitlines()[0].strip().replace("generic_jump TensorVariable()", "branch on a tensor")
    return f"{where}{reason}" + (f" ({known[0].upper()})" if known else "")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(Path(sys.argv[1]).read_text(encoding="utf-8"), names)  # noqa: S102 - the gallery's own data
    print(json.dumps(probed(names["target"], names["calls"], Path(sys.argv[2]))))
