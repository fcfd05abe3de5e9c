"""DYN719: a generator expression whose elements break the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from dynalint.rulekit import FunctionInfo, Iteration, Project, Rule, Violation, dotted_name, k, walk


class GeneratorOverBreak(Rule):
    code = "DYN719"
    name = "generator-over-break"
    summary = "A graph break in a generator expression makes the whole function fall back to eager mode"
    gb = ("GB8335",)
    events = (Iteration,)
    gives_up = True
    refusal = "fix the graph break, or pass a list, which computes all elements before the first one is used"

    def check(self, event: Iteration, project: Project) -> Iterable[Violation]:
        """Flag a call with a generator as its argument if computing the elements breaks the graph."""
        parents = project.parents(event.function)
        call = _handed_to(event.node, parents)
        if call is None or _is_given_up(call, parents):
            return
        inside = [one for one in walk(call.args[0]) if isinstance(one, ast.Call)]
        assert project.interpreter is not None
        name = dotted_name(project.interpreter, event.function, call.func)
        if name is not None and (name != "builtins.sum" or not inside):
            return
        kinds = project.kinds(event.function)
        taker = kinds.get(call.func, k.UNKNOWN)
        takers = [*_functions(taker, project)]
        if not takers and taker != k.External("builtins.sum"):
            return
        called = [one for node in inside for one in _functions(kinds.get(node.func, k.UNKNOWN), project)]
        within = tuple(dict.fromkeys([*called, *takers]))
        if within:
            message = "the graph breaks while this generator is running, so Dynamo skips the whole function"
            yield Violation(call, message, help="fix the graph break, or pass a list", within=within)


def _handed_to(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.Call | None:
    """Return the call whose first argument is the generator expression that iterates over `node`."""
    comprehension = parents.get(node)
    generator = parents.get(comprehension) if isinstance(comprehension, ast.comprehension) else None
    if not isinstance(generator, ast.GeneratorExp) or generator.generators[0].iter is not node:
        return None
    call = parents.get(generator)
    return call if isinstance(call, ast.Call) and call.args[:1] == [generator] else None


def _is_given_up(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a node is in a block in which Dynamo does not resume after a graph break."""
    around = parents.get(node)
    while around is not None and not isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(around, ast.For | ast.While | ast.Try | ast.With | ast.comprehension | ast.Lambda):
            return True
        around = parents.get(around)
    return False


def _functions(kind: k.Kind, project: Project) -> Iterator[FunctionInfo]:
    """Yield the project functions that run when `kind` is called."""
    for one in kind.members:
        if isinstance(one, k.Function):
            yield one.function
        elif isinstance(one, k.Instance):
            method = project.find_method(one.cls, "forward" if project.is_module_class(one.cls) else "__call__")
            if method is not None:
                yield method
