"""DYN108: assertions about containers of tensors, modules and other objects."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Assertion, Declined, Project, Rewrite, Rule, Violation, k, quote, rw
from dynalint_rules._code.scope import Scope

_CONTAINERS = ("list", "tuple", "dict")
# Other classes may be constants for Dynamo, as enums are.
_PLAIN = ("abc.ABC", "object", "typing.Generic", "typing.Protocol")


class AssertOnObject(Rule):
    code = "DYN108"
    name = "assert-on-object"
    summary = "Assertion about a container of tensors, a module or another object, which Dynamo takes for a number"
    gb = ("GB0112", "GB0055")
    events = (Assertion,)

    def check(self, event: Assertion, project: Project) -> Iterable[Violation]:
        """Flag assertions whose condition Dynamo neither knows nor can convert to a tensor."""
        statement = event.statement
        if not isinstance(statement, ast.Assert) or not (
            statement.msg is None or isinstance(statement.msg, ast.Constant)
        ):
            return
        members = [one for one in event.kind.members if one != k.NONE]
        if members and all(_is_object(one, project) for one in members):
            shown = quote(event.function.file, event.node)
            yield Violation(
                event.node,
                f"Dynamo breaks the graph, because it adds this assertion to the graph as if {shown} were a number",
                help=f"assert `{_instead(event)}`",
            )

    def fix(self, event: Assertion, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Convert the condition to a bool first, which Dynamo can do."""
        scope = Scope.of(event, project)
        if "bool" in event.function.locals or "bool" in event.function.module.bindings:
            return Declined("the name `bool` refers to something else here; compare the object instead")
        edits = rw.written(scope.file, (event.node, lambda node: rw.call("bool", node)))
        return Rewrite("Convert the condition to a bool", "safe", edits)


def _instead(event: Assertion) -> str:
    text, members = ast.unparse(event.node), [one for one in event.kind.members if one != k.NONE]
    if all(isinstance(one, k.Sequence | k.Dictionary) for one in members):
        return f"{text} and len({text}) > 0" if len(members) < len(event.kind.members) else f"len({text}) > 0"
    return f"{text} is not None"


def _is_object(kind: k.Kind, project: Project) -> bool:
    """Return whether Dynamo does not know the value as a constant, because it is an object or holds one."""
    if isinstance(kind, k.Sequence) and kind.type in _CONTAINERS:
        items = [kind.element] if kind.items is None else kind.items
        return any(_is_held(item, project) for item in items)
    if isinstance(kind, k.Dictionary) and kind.type in _CONTAINERS:
        return any(_is_held(item, project) for item in [kind.value, *(value for _, value in kind.items)])
    if isinstance(kind, k.Instance):
        bases = project.lineage(kind.cls)[1]
        return project.is_module_class(kind.cls) or all(base in _PLAIN for base in bases)
    name = kind.type if isinstance(kind, k.Object | k.Sequence | k.Dictionary) else ""
    cls = project.api.torch_class(name)
    return cls is not None and cls.is_module


def _is_held(kind: k.Kind, project: Project) -> bool:
    if k.only_tensor(kind) is not None:
        return True
    return bool(kind.members) and all(_is_object(one, project) for one in kind.members)
