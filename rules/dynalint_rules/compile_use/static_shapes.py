"""DYN009: code compiled with `dynamic=False` is called with tensors of several sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import CompilerUse, Project, Rule, Violation, walk
from dynalint_rules._code.compiling import option

_FACTORIES = frozenset({"randn", "rand", "ones", "zeros", "empty", "full", "randint", "arange"})


class StaticShapes(Rule):
    code = "DYN009"
    name = "static-shapes"
    summary = "Code compiled with `dynamic=False` is called with several sizes"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
        """Flag the compilation where calls of what it gives show sizes that differ."""
        if event.name != "torch.compile":
            return
        parents = project.parents(event.function)
        call = parents.get(event.node)
        if not isinstance(call, ast.Call) or call.func is not event.node or option(call, "dynamic") is not False:
            return
        target = _target(parents.get(call), call)
        if target is not None and _varies(list(_calls(event, target))):
            yield Violation(
                call,
                f"`dynamic=False` compiles a graph for each size, and `{target}` is called with several",
                help="Leave the option out, or pad the inputs to a few sizes.",
            )


def _target(parent: ast.AST | None, call: ast.Call) -> str | None:
    """What the compiled version is called by: the name that it is bound to, or that of the decorated function."""
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return ast.unparse(parent.targets[0])
    if isinstance(parent, ast.FunctionDef) and call in parent.decorator_list:
        return parent.name
    return None


def _calls(event: CompilerUse, target: str) -> Iterator[tuple[ast.expr, frozenset[str]]]:
    """Yield the first argument of each call in the file, with the names that loops around it set."""
    pending: list[tuple[ast.AST, frozenset[str]]] = [(event.function.module.tree, frozenset())]
    while pending:
        node, varying = pending.pop()
        if isinstance(node, ast.For):
            varying |= {part.id for part in walk(node.target) if isinstance(part, ast.Name)}
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) == target:
            yield node.args[0], varying
        pending.extend((child, varying) for child in ast.iter_child_nodes(node))


def _varies(calls: list[tuple[ast.expr, frozenset[str]]]) -> bool:
    """Whether tensors that are made for the calls have sizes that differ."""
    made = [(node, varying) for node, varying in calls if _is_made(node)]
    if any(isinstance(part, ast.Name) and part.id in varying for node, varying in made for part in walk(node)):
        return True
    return len({ast.unparse(node) for node, _ in made if _is_constant(node)}) > 1


def _is_made(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FACTORIES


def _is_constant(node: ast.expr) -> bool:
    """Whether a tensor is made with nothing but numbers for its size."""
    return isinstance(node, ast.Call) and all(
        isinstance(part, ast.Constant) for argument in node.args for part in getattr(argument, "elts", [argument])
    )
