"""DYN008: a test that counts graphs where it means to say that nothing breaks."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import CompilerUse, Project, Rule, Violation, walk_function

_COUNTERS = frozenset(
    f"torch._dynamo.testing.{name}" for name in ("CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs")
)
# What a test asks for that does notice a break.
_TELLING = ("fullgraph", "op_count", "graph_break", "explain(", "nopython", "error_on_graph_break")


class FrameCountTest(Rule):
    code = "DYN008"
    name = "frame-count-test"
    summary = "A test counts graphs, which does not show whether the code breaks"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)
    refusal = "the stricter test may fail, which you have to judge; compile with `fullgraph=True`"

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
        """Flag assertions about the number of graphs of a counter."""
        if event.name not in _COUNTERS:
            return
        text = event.function.file.segment(event.function.node) if event.function.name != "<module>" else ""
        counter = _counter(event, project)
        if counter is None or not text or any(word in text for word in _TELLING):
            return
        for node in _assertions(event, counter):
            yield Violation(
                node,
                "one graph was compiled, but there may still be breaks before it, after it and in loops",
                help="Compile with `fullgraph=True`, which raises at a graph break.",
            )


def _counter(event: CompilerUse, project: Project) -> str | None:
    """The local name that a new counter is bound to."""
    parents = project.parents(event.function)
    call = parents.get(event.node)
    statement = parents.get(call) if isinstance(call, ast.Call) and call.func is event.node else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else None
    return None


def _assertions(event: CompilerUse, counter: str) -> Iterator[ast.stmt]:
    """Yield the statements that say that the counter has counted one graph."""
    for node in walk_function(event.function.node):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
            sides = [node.test.left, *node.test.comparators]
            if isinstance(node.test.ops[0], ast.Eq) and _says_one(sides, counter):
                yield node
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            is_equality = isinstance(called, ast.Attribute) and called.attr in ("assertEqual", "assertEquals")
            if is_equality and _says_one(node.value.args[:2], counter):
                yield node


def _says_one(sides: list[ast.expr], counter: str) -> bool:
    counted = f"{counter}.frame_count"
    is_one = any(isinstance(side, ast.Constant) and side.value == 1 for side in sides)
    return is_one and any(ast.unparse(side) == counted for side in sides)
