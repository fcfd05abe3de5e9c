"""Find out which torch functions and methods Dynamo does not trace, by compiling a call to each of them."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from scripts.torch_api.calls import Call, copied, fixed_randomness

Example = tuple[str, Callable[..., Any], Call]

# Dynamo's ids for breaks that do not depend on arguments, such as a function that is skipped or does not return a
# tensor, a layout without fake tensors, or a method that cannot be traced. All other ids depend on the arguments.
_REFUSALS = frozenset(
    "GB0007 GB0208 GB0277 GB0374 GB0045 GB0046 GB0087 GB0107 GB0108 GB0117 GB0126 GB0127 GB0249".split()
)
_LINK = re.compile(r"/gb/gb(\d+)\.html")


def untraced(examples: Iterable[Example]) -> dict[str, list[str]]:
    """Return the names of functions that Dynamo does not trace, by graph break id."""
    found: Mapping[str, list[str]] = defaultdict(list)
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    for name, function, call in sorted(examples, key=lambda one: one[0]):
        broken = set(_breaks(name, function, call)) if _runs(function, call) else set()
        if broken and broken <= _REFUSALS:
            found[min(broken)].append(name)
    torch.compiler.reset()
    logging.disable(level)
    return dict(sorted(found.items()))


def _runs(function: Callable[..., Any], call: Call) -> bool:
    try:
        with fixed_randomness():
            function(*copied(call.args), **copied(dict(call.kwargs)))
    except Exception:  # noqa: BLE001  whatever a call raises, it is no sample
        return False
    return True


def _breaks(name: str, function: Callable[..., Any], call: Call) -> Iterator[str]:
    """Yield the ids of the breaks that Dynamo reports for a call with tensors created in the same graph.

    Methods are called as methods, because Dynamo traces some methods whose functions it does not trace.
    """
    # This is imported late because Dynamo wraps some torch functions on import, and names must be collected before
    # that.
    from torch._dynamo.utils import counters

    args, kwargs = copied(call.args), copied(dict(call.kwargs))
    owner, _, method = name.rpartition(".")

    def run() -> Any:
        given = [one.clone() if isinstance(one, torch.Tensor) else one for one in args]
        if owner == "torch.Tensor":
            return getattr(given[0], method)(*given[1:], **kwargs)
        return function(*given, **kwargs)

    torch.compiler.reset()
    counters.clear()
    try:
        with fixed_randomness():
            torch.compile(run, backend=lambda graph, _: graph.forward)()
    except Exception:  # noqa: BLE001  what raises when compiled and not in eager mode is a bug and no break
        return
    for text in counters["graph_break"]:
        link = _LINK.search(text)
        yield f"GB{link.group(1)}" if link else "?"
