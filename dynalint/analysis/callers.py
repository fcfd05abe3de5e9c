"""Events that only some callers of compiled code cause, for example because only one of two tests passes a tensor."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache

from dynalint.analysis.events import Event
from dynalint.analysis.frame import Context
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.kinds import UNKNOWN, Kind, tensor_and_number
from dynalint.analysis.steps import walk


def note_others(interpreter: Interpreter, contexts: list[Context], roots: Collection[FunctionInfo]) -> None:
    """Record in each event what happens if other eager code passes numbers where this caller passes tensors.

    If compiled code itself calls a function with tensors, its events are certain and do not depend on what other
    callers pass.
    """
    own: dict[FunctionInfo, list[Context]] = defaultdict(list)
    for context in contexts:
        own[context.function].append(context)
    firm = _firm(interpreter, own, roots)
    kinds_in = cache(interpreter.kinds_in)
    for several in own.values():
        for context in several if len(several) > 1 else ():
            others = [other for other in several if context not in firm and not context.agrees(other.params)]
            for key, event in list(context.events.items()) if others else ():
                numbers = [other for other in others if _differ(event, kinds_in(context), kinds_in(other))]
                if numbers:
                    context.events[key] = replace(event, others=tuple(other.events.get(key) for other in numbers))


def _firm(
    interpreter: Interpreter, own: dict[FunctionInfo, list[Context]], roots: Collection[FunctionInfo]
) -> set[Context]:
    """Return the contexts that compiled code reaches independently of what eager code passes."""
    waiting: list[Context] = []
    for root in roots:
        outer = [one for one in own.get(root, ()) if _is_called_from_outside(interpreter, one)]
        waiting += [one for one in outer if all(one.agrees(other.params) for other in outer)]
    firm: dict[Context, None] = dict.fromkeys(waiting)
    for context in waiting:
        waiting += [callee for callee in context.callees if callee not in firm]
        firm.update(dict.fromkeys(context.callees))
    return set(firm)


def _is_called_from_outside(interpreter: Interpreter, context: Context) -> bool:
    return not context.users or any(user.function in interpreter.scripts for user in context.users)


def _differ(event: Event, mine: Mapping[ast.AST, Kind], theirs: Mapping[ast.AST, Kind]) -> bool:
    """Return whether the event concerns a value that is a tensor in one context and a number in the other."""
    return any(tensor_and_number(mine.get(node, UNKNOWN), theirs.get(node, UNKNOWN)) for node in walk(event.node))
