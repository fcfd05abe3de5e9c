"""DYN601: a recurrent layer, which Dynamo does not trace."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.rulekit import RECURRENT_LAYERS, Call, Load, Project, Read, Rule, Violation, k
from dynalint_rules._code.order import always_before

# `isinstance` on any other object does not break the graph.
_ASKING = ".__instancecheck__"


class RecurrentLayer(Rule):
    code = "DYN601"
    name = "recurrent-layer"
    summary = "A recurrent torch layer makes the rest of the function run in eager mode"
    gb = ("GB0014", "GB0148", "GB0175", "GB4841")
    gives_up = True
    events = (Call, Read, Load)
    calls = frozenset(f"{name}.*" for name in RECURRENT_LAYERS)
    refusal = (
        "no layer that Dynamo traces gives exactly the same result; compile the parts before and after it separately, "
        "or write the recurrence as a loop over a cell"
    )

    def check(self, event: Call | Read | Load, project: Project) -> Iterable[Violation]:
        """Flag the first use of a recurrent layer in the function, or the first read of the attribute that holds it."""
        if isinstance(event, Call) and event.callee.endswith(_ASKING):
            return
        used = _owner(event)
        parents, kinds = project.parents(event.function), project.kinds(event.function)
        if isinstance(event, Load) and (isinstance(used, ast.Name) or _is_used(used, parents)):
            return  # reading a variable does not break the graph, and any other use has its own event
        for node, kind in kinds.items():
            met = isinstance(node, ast.Attribute) or _is_used(node, parents)
            if met and _layers(kind, project) and always_before(node, used, parents):
                return
        name = _name(event)
        among = _layers(kinds.get(used, k.UNKNOWN), project) or [name]
        if among != [""] and (name not in among or name == among[0]):
            shown = " or ".join(f"`{one.removeprefix('torch.')}`" for one in among)
            yield Violation(
                event.node,
                f"Dynamo does not trace {shown}, so the function is not compiled from here on",
                help="compile the parts before and after the layer separately, or use a cell in a loop",
                setting="allow_rnn",
                torch="<2.15" if isinstance(event, Load) and not _is_tested(used, parents) else "",
            )


def _name(event: Call | Read | Load) -> str:
    """Return the name of the layer that an event uses, or "" if its attribute is only read."""
    return (
        "" if isinstance(event, Load) else (event.callee if isinstance(event, Call) else event.name).rpartition(".")[0]
    )


def _is_used(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether an expression is called, or one of its attributes is read, rather than passed on."""
    parent = parents.get(node)
    return (isinstance(parent, ast.Attribute) and parent.value is node) or (
        isinstance(parent, ast.Call) and parent.func is node
    )


def _is_tested(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether an expression is an argument of `isinstance`."""
    call = parents.get(node)
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "isinstance"


def _owner(event: Call | Read | Load) -> ast.expr:
    """Return the layer's expression: `self.lstm` for `self.lstm(x)` and `self.lstm.flatten_parameters()`."""
    if isinstance(event, Load):
        return event.node
    if isinstance(event, Read):
        return event.node.value
    function = event.node.func
    is_call = event.callee.endswith(".__call__")
    return function.value if isinstance(function, ast.Attribute) and not is_call else function


def _layers(kind: k.Kind, project: Project) -> list[str]:
    """Return the recurrent layers that a value can be an instance of."""
    names: set[str] = set()
    for one in kind.members:
        if isinstance(one, k.Object):
            names.add(one.type)
        elif isinstance(one, k.Instance):
            inherited = [base for base in project.lineage(one.cls)[1] if base in RECURRENT_LAYERS]
            names.update(inherited[:1])  # a class may inherit from a layer more than once
        elif isinstance(one, k.Super):
            names.update(_layers(one.receiver, project))
    return sorted(names & set(RECURRENT_LAYERS))
