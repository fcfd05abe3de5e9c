"""DYN707: a property that is computed once and kept."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Read
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.project import Project
from dynalint.analysis.source import SourceFile
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Refusal, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.constructors import appended, check_reads, constructor_for, stores_of
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.uses import self_name

# From Python 3.12 on it takes no lock, so that Dynamo traces it.
_TAKES_LOCK = sys.version_info < (3, 12)


class CachedProperty(Rule):
    code = "DYN707"
    name = "cached-property"
    summary = "reading a `functools.cached_property` for the first time in compiled code costs a break or a graph"
    category = "advice"
    severity = "info"
    gb = ("GB0142",)
    events = (Read,)
    calls = frozenset({"functools.cached_property"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the read; what it costs depends on the version of Python."""
        if isinstance(event, Read):
            cost = "takes a lock, which Dynamo cannot enter," if _TAKES_LOCK else "is compiled for twice"
            yield Violation(
                event.node,
                f"the cached property `{event.node.attr}` {cost} if its value is not there yet",
                help="compute it in the constructor, or make it a `property`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compute a number in the constructor, or anew each time."""
        if not isinstance(event, Read):
            return None
        method = _method(event, project)
        try:
            if method is None:
                raise Refusal(f"dynalint cannot tell whose `{event.node.attr}` it is")
            return _computed_before(project, method)
        except Refusal as refusal:
            return Declined(f"{refusal}; compute it in the constructor by hand")


def _method(event: Read, project: Project) -> FunctionInfo | None:
    """Return the method that computes a cached property."""
    owner = project.kinds(event.function).get(event.node.value)
    return project.find_method(owner.cls, event.node.attr) if isinstance(owner, k.Instance) else None


def _computed_before(project: Project, method: FunctionInfo) -> Rewrite:
    """Compute a number in the constructor, or where it takes nothing from the object each time that it is read.

    Raises:
        Refusal: it is no such number, or something sets or deletes what is kept.
    """
    scope, node = Scope(project, method, project.parents(method), "torch", ()), method.node
    if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1:
        raise Refusal("it has another decorator as well")
    value = method.statements[0].value if isinstance(method.statements[0], ast.Return) else None
    if len(method.statements) > 1 or value is None:
        raise Refusal(f"computing `{method.name}` takes more than one expression")
    if not k.is_number(scope.kind(value)):
        raise Refusal(f"{scope.quote(value)} may be something else than a number")
    overridden = sum(method.name in cls.methods for cls in project.all_classes) > 1
    if overridden or project.mentions(method.name) or any(True for _ in stores_of(scope, method.name)):
        raise Refusal(f"something may override, set or delete `{method.name}`")
    name = self_name(method)
    if not any(isinstance(part, ast.Name) and part.id == name for part in walk(value)):
        check_reads(scope, value, method)
        edits = rw.written(scope.file, (node.decorator_list[0], rw.name("property")))
        condition = f"nothing looks for `{method.name}` in what the object itself holds"
        return Rewrite(f"Make `{method.name}` a `property`", "unsafe", edits, (condition,))
    constructor = constructor_for(scope)
    check_reads(scope, value, constructor)
    made = appended(scope, constructor, f"{name}.{method.name} = {scope.text(value)}")
    edits = (made, _without(scope.file, node))
    condition = f"nothing looks for `{method.name}` in what the object holds before it is first read"
    return Rewrite(f"Compute `{method.name}` in the constructor", "conditional", edits, (condition,))


def _without(file: SourceFile, node: ast.FunctionDef) -> Replacement:
    """Return what takes a method out, and the empty lines above it.

    Raises:
        Refusal: the class would be left without a body, or comments stand above the method.
    """
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    while first > 1 and not file.line(first - 1).strip():
        first -= 1
    if file.line(first - 1).lstrip().startswith(("class ", "#")):
        raise Refusal("the method cannot be taken out by itself")
    last = node.end_lineno or node.lineno
    end = file.line_starts[last] if last < len(file.line_starts) else len(file.text)
    return Replacement(file, file.line_starts[first - 1], end, "")
