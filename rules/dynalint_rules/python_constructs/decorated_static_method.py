"""DYN716: calling a static method that has another decorator above `@staticmethod`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import (
    STATIC_OBJECT,
    Call,
    Declined,
    FunctionInfo,
    Project,
    Replacement,
    Rewrite,
    Rule,
    SourceFile,
    Violation,
    called_function,
    k,
    walk,
)


class DecoratedStaticMethod(Rule):
    code = "DYN716"
    name = "decorated-static-method"
    summary = "A decorator above `@staticmethod` calls a `staticmethod` object, which breaks the graph"
    gb = ("GB0156",)
    events = (Call,)
    calls = frozenset({STATIC_OBJECT})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call of such a method."""
        called = _called(event, project)
        if called is not None:
            above = ast.unparse(_decorators(called)[0])
            yield Violation(
                event.node,
                f"this call breaks the graph, because `@{above}` above `@staticmethod` gets a `staticmethod` object "
                "instead of the function",
                help="put `@staticmethod` above the other decorators",
                inside=True,
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Put `@staticmethod` first."""
        called = _called(event, project)
        if called is None:
            return None
        first = called.node.args.args[:1]
        if (first and first[0].arg == "self") or not _only_called_on_class(called, project):
            return Declined(
                "on an instance, the decorated method gets the instance as its first argument; remove `@staticmethod`, "
                "or put it above the other decorators and check all calls"
            )
        if _may_unwrap(called, project):
            return Declined(
                "a decorator may read the function from the `staticmethod` object; call the function instead"
            )
        file, listed = called.file, _decorators(called)
        last = next(index for index, one in enumerate(listed) if ast.unparse(one) == "staticmethod")
        moved = zip(listed[: last + 1], [listed[last], *listed[:last]], strict=True)
        edits = tuple(Replacement(file, *file.span(old), _text(file, new)) for old, new in moved)
        return Rewrite("Put `@staticmethod` above the other decorators", "safe", edits)


def _called(event: Call, project: Project) -> FunctionInfo | None:
    return called_function(project.kinds(event.function).get(event.node.func, k.UNKNOWN), project)


def _may_unwrap(called: FunctionInfo, project: Project) -> bool:
    """Return whether a module with a function that is named like one of the decorators reads `__func__`."""
    made = {f"def {name}(" for name in called.decorators}
    texts = [module.file.text for module in project.modules.values() if "__func__" in module.file.text]
    return any(one in text for text in texts for one in made)


def _text(file: SourceFile, node: ast.expr) -> str:
    start, end = file.span(node)
    return file.text[start:end]


def _decorators(function: FunctionInfo) -> list[ast.expr]:
    return list(getattr(function.node, "decorator_list", ()))


def _only_called_on_class(called: FunctionInfo, project: Project) -> bool:
    """Return whether all attributes with a method's name are read from a class, judging by the class's name."""
    owner = called.owner
    if owner is None:
        return False
    classes = {"cls", owner.name, *(one.name for one in project.all_classes if owner in project.mro(one))}
    read = (
        node
        for module in project.modules.values()
        if f".{called.name}" in module.file.text
        for node in walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == called.name
    )
    return all(ast.unparse(one.value).rpartition(".")[2] in classes for one in read)
