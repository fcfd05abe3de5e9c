"""DYN009: code compiled with `dynamic=False` is called with tensors of several sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.analysis.events import CompilerUse, Event
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.compiling import option

_FACTORIES = frozenset({"randn", "rand", "ones", "zeros", "empty", "full", "randint", "arange"})


class StaticShapes(Rule):
    """Compile with `dynamic=False` and call the result with tensors of several sizes.

    ## What it flags

    `torch.compile(..., dynamic=False)`, as a call or a decorator, where the same file calls the result with tensors of
    sizes that differ: made in a loop from its variable, or written down with different numbers.

    ## Why

    With `dynamic=False` each size has a graph of its own. The ninth one ends it: Dynamo gives the function up, and all
    further sizes run uncompiled. Without the option Dynamo takes a dimension for a variable at its second size, two
    graphs in all.

    ## Example

    ```python
    fast = torch.compile(model, dynamic=False)
    for size in (8, 16, 32):
        fast(torch.randn(size, 64))
    ```

    Use instead:

    ```python
    fast = torch.compile(model)
    for size in (8, 16, 32):
        fast(torch.randn(size, 64))
    ```

    ## How it is rewritten

    It is not: code for one size is faster than code for all, and with a handful of sizes that may be worth its
    compilations. Pad to a few sizes, leave the option out, or mark the dimension with `torch._dynamo.mark_dynamic`.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    The recompile reason is `tensor 'x' size mismatch at index 0. expected 8, actual 16`; in the end "torch._dynamo hit
    config.recompile_limit (8)".

    ## References

    - https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
    - https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """

    code = "DYN009"
    name = "static-shapes"
    summary = "Code compiled with `dynamic=False` is called with several sizes"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the compilation where calls of what it gives show sizes that differ."""
        if not isinstance(event, CompilerUse) or event.name != "torch.compile":
            return
        parents = project.parents(event.function)
        call = parents.get(event.node)
        if not isinstance(call, ast.Call) or call.func is not event.node or option(call, "dynamic") is not False:
            return
        target = _target(parents.get(call), call)
        if target is not None and _varies(list(_calls(event, target))):
            yield Violation(
                call,
                f"`dynamic=False` compiles each size anew, and `{target}` is called with several",
                help="Leave the option out, or pad the inputs to a few sizes.",
            )

    examples = (
        Example(
            name="sizes-of-a-loop",
            code="""
                import torch


                def measure(function):
                    fast = torch.compile(function, dynamic=False)  # DYN009
                    for size in (8, 16, 32):
                        fast(torch.randn(size, 64))
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="decorated",
            code="""
                import torch


                @torch.compile(dynamic=False)  # DYN009
                def scale(x):
                    return x * 2


                def main():
                    scale(torch.ones(4, 8))
                    scale(torch.ones(5, 8))
            """,
            target="scale",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="one-size",
            code="""
                import torch


                def measure(function, sizes):
                    fast = torch.compile(function, dynamic=False)
                    for _ in range(10):
                        fast(torch.randn(8, 64))
                    anything = torch.compile(function)
                    for size in sizes:
                        anything(torch.randn(size, 64))
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
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
