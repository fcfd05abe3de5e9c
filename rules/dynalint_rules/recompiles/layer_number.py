"""DYN801: layers are compiled separately, and each reads a different number."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import ClassInfo, CompilerUse, Project, Rule, Violation, k, walk, walk_function
from dynalint_rules._code.compiling import compilation, loops_around
from dynalint_rules._code.growth import UP_TO_LIMIT

_LOOPS = (ast.For, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)


class LayerNumber(Rule):
    code = "DYN801"
    name = "layer-number"
    summary = "Layers are compiled individually, and each one recompiles because it reads a different number"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
        """Flag loops that compile modules, each of which reads a different number."""
        kind = _compiled_kind(event, project)
        if not isinstance(kind, k.Instance) or not loops_around(event.node, event, project):
            return
        for name in sorted(set(_own_numbers(kind.cls, project))):
            yield Violation(
                event.statement,
                f"each `{kind.cls.name}` has a different int `{name}`, so each one recompiles instead of "
                f"sharing a graph, {UP_TO_LIMIT}",
                help=f"Pass in the value that `{name}` selects, or compile the whole model.",
            )
            return


def _compiled_kind(event: CompilerUse, project: Project) -> k.Kind | None:
    """Return the kind of `layer` in `layer.compile()`, `torch.compile(layer)` or `torch.compile(layer.forward)`."""
    kinds = project.kinds(event.function)
    if event.name == "torch.nn.Module.compile" and isinstance(event.node, ast.Attribute):
        return kinds.get(event.node.value)
    found = compilation(event, project)
    kind = None if found is None else kinds.get(found.subject)
    return kind.receiver if isinstance(kind, k.Function) else kind


def _own_numbers(cls: ClassInfo, project: Project) -> Iterator[str]:
    """Yield the attributes that compiled methods read and that the constructor sets from a counting argument."""
    counted = set(_counted_arguments(cls, project))
    for name, stores in cls.stores.items():
        from_argument = any(
            method.name == "__init__"
            and isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Name)
            and statement.value.id in counted
            for method, statement in stores
        )
        if from_argument and _is_read(cls, name):
            yield name


def _is_read(cls: ClassInfo, name: str) -> bool:
    """Return whether a compiled method of the class reads the attribute."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        for method in cls.methods.values()
        if method.reached and method.name != "__init__"
        for node in walk_function(method.node)
    )


def _counted_arguments(cls: ClassInfo, project: Project) -> Iterator[str]:
    """Yield the constructor's parameters that receive the variable of a loop over numbers."""
    constructor = project.find_method(cls, "__init__")
    if constructor is None:
        return
    names = [one.arg for one in constructor.node.args.args[1:]]
    for module in list(project.modules.values()):
        if f"{cls.name}(" not in module.file.text:
            continue
        for loop in walk(module.tree):
            if isinstance(loop, _LOOPS):
                counters = set(_counters(loop))
                for call in walk(loop):
                    if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(cls.name):
                        given = [*zip(names, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
                        yield from (
                            name
                            for name, value in given
                            if name and isinstance(value, ast.Name) and value.id in counters
                        )


def _counters(loop: ast.AST) -> Iterator[str]:
    """Yield a loop's variables that iterate over `range` or count in `enumerate`."""
    ways: list[ast.For | ast.comprehension] = [loop] if isinstance(loop, ast.For) else getattr(loop, "generators", [])
    for way in ways:
        called = way.iter.func.id if isinstance(way.iter, ast.Call) and isinstance(way.iter.func, ast.Name) else ""
        target = way.target
        if called == "enumerate" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        if called in ("range", "enumerate") and isinstance(target, ast.Name):
            yield target.id
