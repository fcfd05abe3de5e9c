"""DYN008: a test that counts graphs where it means to say that nothing breaks."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.analysis.events import CompilerUse, Event
from dynalint.analysis.index import walk_function
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation

_COUNTERS = frozenset(
    f"torch._dynamo.testing.{name}" for name in ("CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs")
)
# What a test asks for that does notice a break.
_TELLING = ("fullgraph", "op_count", "graph_break", "explain(", "nopython", "error_on_graph_break")


class FrameCountTest(Rule):
    """Assert that one graph was compiled, which is true of much code that breaks.

    ## What it flags

    `assert counter.frame_count == 1` and `self.assertEqual(counter.frame_count, 1)` for a counter of
    `torch._dynamo.testing`, in a test that asks for nothing else: neither `fullgraph=True` nor the number of operations
    nor the breaks that were counted.

    ## Why

    The counter counts graphs. Code that breaks before its first operation or after its last one has one graph, code
    that breaks in a loop has the graph of a helper while the loop runs uncompiled. Such a test stays green for
    exactly what it was written to catch.

    ## Example

    ```python
    counter = CompileCounter()
    torch.compile(model, backend=counter)(x)
    assert counter.frame_count == 1
    ```

    Use instead:

    ```python
    torch.compile(model, backend="eager", fullgraph=True)(x)
    ```

    ## How it is rewritten

    It is not: the stricter test may fail, which is what it is for. `fullgraph=True` raises at the first break;
    `dynalint.testing.assert_compiles` also sees breaks that only the default mode has, and recompilations.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    It counts the breaks in `torch._dynamo.utils.counters["graph_break"]`.

    ## References

    - https://github.com/pytorch/pytorch/issues/110730
    - https://docs.pytorch.org/docs/stable/compile/programming_model.fullgraph_true.html
    """

    code = "DYN008"
    name = "frame-count-test"
    summary = "A test counts graphs, which does not tell whether the code breaks"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag assertions about the number of graphs of a counter."""
        if not isinstance(event, CompilerUse) or event.name not in _COUNTERS:
            return
        text = event.function.file.segment(event.function.node) if event.function.name != "<module>" else ""
        counter = _counter(event, project)
        if counter is None or not text or any(word in text for word in _TELLING):
            return
        for node in _assertions(event, counter):
            yield Violation(
                node,
                "one graph was compiled, but there may be breaks before it, after it and in loops",
                help="Compile with `fullgraph=True`, which raises at a break.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Say why there is none."""
        return Declined("the stricter test may fail, which only its author can judge; compile with `fullgraph=True`")

    examples = (
        Example(
            name="assert",
            code="""
                import torch
                from torch._dynamo.testing import CompileCounter


                def breaking(x):
                    print("called")  # DYN401
                    return x * 2


                def test_compiles():
                    counter = CompileCounter()
                    torch.compile(breaking, backend=counter)(torch.ones(4))
                    assert counter.frame_count == 1  # DYN008
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
            declined="may fail",
        ),
        Example(
            name="unittest",
            code="""
                import unittest

                import torch
                import torch._dynamo.testing


                class TestModel(unittest.TestCase):
                    def test_compiles(self):
                        counts = torch._dynamo.testing.CompileCounterWithBackend("eager")
                        torch.compile(torch.relu, backend=counts)(torch.ones(4))
                        self.assertEqual(counts.frame_count, 1)  # DYN008
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
            declined="may fail",
        ),
        Example(
            name="asks-for-more",
            code="""
                import torch
                from torch._dynamo.testing import CompileCounter


                def test_whole():
                    counter = CompileCounter()
                    torch.compile(torch.relu, backend=counter, fullgraph=True)(torch.ones(4))
                    assert counter.frame_count == 1


                def test_operations():
                    counter = CompileCounter()
                    torch.compile(torch.relu, backend=counter)(torch.ones(4))
                    assert counter.frame_count == 1
                    assert counter.op_count == 1


                def test_recompiles():
                    counter = CompileCounter()
                    fast = torch.compile(torch.relu, backend=counter)
                    fast(torch.ones(4))
                    fast(torch.ones(4, 4))
                    assert counter.frame_count == 2
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
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
