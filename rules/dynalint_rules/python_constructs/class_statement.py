"""DYN705: a class created in compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import Call, ClassDefinition, Project, Rule, Violation, k, walk_function


class ClassStatement(Rule):
    code = "DYN705"
    name = "class-statement"
    summary = "Defining a class in compiled code breaks the graph"
    gb = ("GB8977", "GB0156", "GB0007", "GB0147", "GB0193")
    events = (ClassDefinition, Call)
    calls = frozenset({"builtins.type", "dataclasses.make_dataclass", "types.new_class"})
    refusal = "the class may use names from the enclosing function; define it at module level and pass in their values"

    def check(self, event: ClassDefinition | Call, project: Project) -> Iterable[Violation]:
        """Flag the statement or call."""
        if isinstance(event, ClassDefinition):
            message = f"defining `{event.node.name}` breaks the graph, because Dynamo does not trace class creation"
            yield Violation(event.node, message, help="define it at module level")
        elif event.callee == "builtins.type":
            if len(event.args) == 3:
                yield from _of_type(event, project)
        else:
            message = f"`{event.callee}()` breaks the graph, because Dynamo does not trace class creation"
            yield Violation(event.node, message, help="create the class at module level")


def _of_type(event: Call, project: Project) -> Iterator[Violation]:
    """Yield a finding for a class from `type()` that holds a tensor or that is called. Dynamo traces the others."""
    if _holds_tensor(event.args[2]):
        message = "`type()` breaks the graph, because Dynamo does not trace a class that holds a tensor"
        yield Violation(event.node, message, help="pass the tensor to the constructor of a class at module level")
        return
    called = _first_call(event, project)
    if called is not None:
        message = "creating an object breaks the graph, because its class is created in compiled code"
        yield Violation(called, message, help="create the class at module level")


def _holds_tensor(attributes: k.Kind) -> bool:
    if not isinstance(attributes, k.Dictionary):
        return False
    return any(k.only_tensor(one) is not None for one in (attributes.value, *(one for _, one in attributes.items)))


def _first_call(event: Call, project: Project) -> ast.Call | None:
    """Return the first call of the new class in the function, if it has a name or is called immediately."""
    parent = project.parents(event.function).get(event.node)
    if isinstance(parent, ast.Call) and parent.func is event.node:
        return parent
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return None
    name = parent.targets[0].id
    calls = (node for node in walk_function(event.function.node) if isinstance(node, ast.Call))
    return next((one for one in calls if isinstance(one.func, ast.Name) and one.func.id == name), None)
