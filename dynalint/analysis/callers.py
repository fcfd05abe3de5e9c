"""Which events only some callers of compiled code bring about: one test passes a tensor, another leaves the number."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from dynalint.analysis.events import Event
from dynalint.analysis.frame import Context
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.kinds import UNKNOWN, tensor_and_number


def note_others(interpreter: Interpreter, contexts: list[Context], roots: Collection[FunctionInfo]) -> None:
    """Tell the events of what happens instead where other eager code calls the same with a number for a tensor.

    Where compiled code calls a function with tensors, what follows is certain, whatever others call it with.
    """
    own: dict[FunctionInfo, list[Context]] = defaultdict(list)
    for context in contexts:
        own[context.function].append(context)
    firm = _firm(interpreter, own, roots)
    for several in own.values():
        for context in several if len(several) > 1 else ():
            others = [other for other in several if context not in firm and not context.agrees(other.params)]
            for key, event in list(context.events.items()) if others else ():
                numbers = [other for other in others if _is_number(interpreter, event, context, other)]
                if numbers:
                    context.events[key] = replace(event, others=tuple(other.events.get(key) for other in numbers))


def _firm(
    interpreter: Interpreter, own: dict[FunctionInfo, list[Context]], roots: Collection[FunctionInfo]
) -> set[Context]:
    """The contexts that compiled code comes to whatever eager code passes."""
    waiting: list[Context] = []
    for root in roots:
        outer = [one for one in own.get(root, ()) if _is_called_from_outside(interpreter, one)]
        waiting += [one for one in outer if all(one.agrees(other.params) for other in outer)]
    firm: dict[Context, None] = dict.fromkeys(waiting)
    for context in waiting:
        waiting += [callee for callee in context.callees if callee not in firm]
        firm.update(context.callees)
    return set(firm)


def _is_called_from_outside(interpreter: Interpreter, context: Context) -> bool:
    return not context.users or any(user.function in interpreter.scripts for user in context.users)


def _is_number(interpreter: Interpreter, event: Event, context: Context, other: Context) -> bool:
    """Whether what the event is about is a tensor in one context and a number in the other."""
    mine, theirs = interpreter.kinds_in(context), interpreter.kinds_in(other)
    return any(tensor_and_number(mine.get(node, UNKNOWN), theirs.get(node, UNKNOWN)) for node in ast.walk(event.node))
