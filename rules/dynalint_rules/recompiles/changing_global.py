"""DYN805: compiled code reads a global that other code sets to other values."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, GlobalRead
from dynalint.analysis.index import FunctionInfo, walk_function
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation

_CONSTANTS = ("int", "bool", "str", "none")


class ChangingGlobal(Rule):
    """Read a module global that other code sets to other values, so that each value has its own graph.

    ## What it flags

    A read of a global int, bool or text in compiled code, where a function that is not compiled declares it `global`
    and sets it: a setting that `set_level()` changes, a step that a training loop counts. Also an item of a global
    dict, `CONFIG["scale"]`, that such a function sets.

    Not flagged are globals that only compiled code changes (DYN502), floats, which become variables of the graph after
    one more compilation, and globals that nothing sets again.

    ## Why

    Dynamo takes a global for a constant and guards on it. Each value that it gets compiles the function anew, and the
    ninth makes Dynamo give it up. For a switch with two positions that is what one wants; for a number that is
    counted up it is not.

    ## Example

    ```python
    STEP = 0

    def train(batches):
        global STEP
        for batch in batches:
            STEP += 1
            loss(batch)

    @torch.compile
    def loss(batch):
        return batch.sum() * STEP
    ```

    Use instead:

    ```python
    def train(batches):
        for step, batch in enumerate(batches, start=1):
            loss(batch, step)

    @torch.compile
    def loss(batch, step):
        return batch.sum() * step
    ```

    ## How it is rewritten

    It is not. As an argument, an int becomes a variable of the graph after one more compilation, a tensor at once.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    The recompile reason is `G['STEP'] == 3`; in the end "torch._dynamo hit config.recompile_limit (8)".

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    """

    code = "DYN805"
    name = "changing-global"
    summary = "Compiled code reads a global that other code changes, and each value has its own graph"
    category = "advice"
    severity = "info"
    events = (GlobalRead,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the first read in a function of a global that code outside of the region sets."""
        assert isinstance(event, GlobalRead)
        item = _item(event, project)
        read, kind = (event.node, event.kind) if item is None else (item, project.kinds(event.function).get(item))
        if kind is None or not all(isinstance(one, k.Value) and one.type in _CONSTANTS for one in kind.members):
            return
        writer = next(_writers(event, read), None) if _is_first(event, read) else None
        if writer is not None:
            shown = ast.unparse(read)
            yield Violation(
                read,
                f"`{shown}` is a constant of the graph, and `{writer.qualname}` sets it: each value compiles anew",
                help="Pass it in as an argument.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the number has to come in from the caller."""
        return Declined(
            "whoever calls the compiled code has to pass it in; make it an argument, or where it is only computed "
            "with, a tensor of the module that is changed by `fill_`"
        )

    examples = (
        Example(
            name="counted-by-the-caller",
            code="""
                import torch

                STEP = 1


                def loss(x):
                    return x.sum() * STEP  # DYN805


                class Trainer:
                    def __init__(self):
                        self.loss = torch.compile(loss)

                    def step(self, x):
                        global STEP
                        STEP += 1
                        return self.loss(x)


                def train(batches):
                    trainer = Trainer()
                    for batch in batches:
                        trainer.step(batch)
            """,
            target="loss",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="item-of-a-global-dict",
            code="""
                import torch

                CONFIG = {"scale": 1, "rate": 0.5, "depth": 2}


                @torch.compile
                def loss(x):
                    return x.sum() * CONFIG["scale"] * CONFIG["rate"] * CONFIG["depth"]  # DYN805


                def set_scale(value):
                    CONFIG["scale"] = value
                    CONFIG["rate"] = value / 2
            """,
            target="loss",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="local-dict-of-the-same-name",
            code="""
                import torch

                CONFIG = {"scale": 1}


                @torch.compile
                def loss(x):
                    return x.sum() * CONFIG["scale"]


                def other():
                    CONFIG = {}
                    CONFIG["scale"] = 3
                    return CONFIG
            """,
            target="loss",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="set-by-nobody",
            code="""
                import torch

                STEP = 1


                @torch.compile
                def loss(x):
                    return x.sum() * STEP


                def show():
                    global STEP
                    print(STEP)
            """,
            target="loss",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="float",
            code="""
                import torch

                RATE = 1.0


                @torch.compile
                def loss(x):
                    return x.sum() * RATE


                def decay():
                    global RATE
                    RATE *= 0.5
            """,
            target="loss",
            inputs="[(torch.ones(4),)]",
        ),
    )


def _item(event: GlobalRead, project: Project) -> ast.Subscript | None:
    """The item that is read of a global dict."""
    parent = project.parents(event.function).get(event.node)
    is_read = isinstance(parent, ast.Subscript) and parent.value is event.node and isinstance(parent.ctx, ast.Load)
    return parent if is_read and isinstance(event.kind, k.Dictionary) else None  # type: ignore[return-value]


def _is_first(event: GlobalRead, read: ast.expr) -> bool:
    """Whether no read of the same global, or of the same item, stands above in the function."""
    return not any(
        type(node) is type(read)
        and ast.dump(node) == ast.dump(read)
        and (node.lineno, node.col_offset) < (read.lineno, read.col_offset)
        for node in walk_function(event.function.node)
        if isinstance(node, ast.expr)
    )


def _writers(event: GlobalRead, read: ast.expr) -> Iterator[FunctionInfo]:
    """Yield the functions outside of the region that set the global, or the item."""
    for function in event.function.module.functions:
        if not function.reached and any(_sets(node, event.name, read) for node in walk_function(function.node)):
            own = event.name in function.locals
            declared = event.name in {name for node in walk_function(function.node) for name in _declared(node)}
            if declared or (isinstance(read, ast.Subscript) and not own):
                yield function


def _declared(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global) else []


def _sets(node: ast.AST, name: str, read: ast.expr) -> bool:
    """Whether a node is the target of an assignment to the global, or to the item that is read."""
    if isinstance(read, ast.Subscript):
        same = isinstance(node, ast.Subscript) and ast.unparse(node) == ast.unparse(read)
        return same and isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
