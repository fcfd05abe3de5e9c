"""DYN704: code from text, and the names that code can see."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.exits import leads_to_raise


class DynamicCode(Rule):
    """Run code from text, import by name, or look into the namespace while a model runs.

    ## What it flags

    `eval` of a text that names something, `exec`, `compile`, `globals()`, `dir()`, `__import__` and
    `importlib.import_module` in code that is compiled. Not flagged: `eval` of literals such as `"1 + 1"`, `locals()`,
    `vars()`, `getattr` with a name that is worked out, and `import` statements, all of which are traced.

    ## Why

    Dynamo traces the bytecode of functions that it can see. It does not compile text, and its view of the namespace is
    its own, so it ends the graph there. `eval` of a local variable may even fail afterwards, in the function that goes
    on behind the break: the variable is not there unless the code itself uses it.

    ## Example

    ```python
    def forward(self, x):
        h = self.fc(x)
        return eval(f"torch.{self.activation}")(h)
    ```

    Use instead:

    ```python
    def forward(self, x):
        h = self.fc(x)
        return getattr(torch, self.activation)(h)
    ```

    ## How it is rewritten

    It is not. What is meant is seldom to be read off: use `getattr`, a dict of functions, or look the name up in the
    constructor.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB0059: `Failed to trace builtin operator`, GB0193: `invalid call to builtin op handler`, GB0007: `Attempted to call
    function marked as skipped` for imports by name.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html
    """

    code = "DYN704"
    name = "dynamic-code"
    summary = "code from text, or a look into the namespace, ends the graph"
    gb = ("GB0059", "GB0007", "GB0193")
    events = (Call,)
    calls = frozenset(
        {
            "builtins.eval",
            "builtins.exec",
            "builtins.compile",
            "builtins.globals",
            "builtins.dir",
            "builtins.__import__",
            "importlib.import_module",
            "importlib.__import__",
        }
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call, unless it is an `eval` that Dynamo can work out."""
        if not isinstance(event, Call) or leads_to_raise(event, project):
            return
        if event.callee == "builtins.eval" and not _names_something(event):
            return
        yield Violation(
            event.node,
            f"`{event.callee.removeprefix('builtins.')}()` ends the graph: Dynamo traces only code that it can see",
            help="use `getattr` or a dict of functions, or look the name up in the constructor",
        )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: what is meant has to be written out."""
        return Declined("what is meant is not to be read off; use `getattr`, a dict, or look it up in the constructor")

    examples = (
        Example(
            name="function-by-text",
            code=forward(
                """
                h = self.fc(x)
                return eval("torch.relu")(h)  # DYN704
                """,
            ),
            declined="use `getattr`",
        ),
        Example(
            name="formatted-text",
            code=forward(
                """
                h = self.fc(x)
                kind = "relu"
                return eval(f"torch.{kind}")(h)  # DYN704
                """,
            ),
        ),
        Example(
            name="statements",
            code=forward(
                """
                space = {}
                exec("scale = 2", space)  # DYN704
                return self.fc(x) * space["scale"]
                """,
            ),
        ),
        Example(
            name="globals",
            code=forward(
                """
                h = self.fc(x)
                return h * globals()["SCALE"]  # DYN704
                """,
                head="SCALE = 2",
            ),
        ),
        Example(
            name="names-of-attributes",
            code=forward(
                """
                h = self.fc(x)
                return h + ("scale" in dir(self))  # DYN704
                """,
            ),
        ),
        Example(
            name="import-by-name",
            code=forward(
                """
                h = self.fc(x)
                module = importlib.import_module("math")  # DYN704
                return h * module.pi
                """,
                head="import importlib",
            ),
        ),
        Example(
            name="what-is-traced",
            torch=">=2.13",
            code=forward(
                """
                import math  # DYN010

                factor = eval("1 + 1")
                h = getattr(torch, "re" + "lu")(self.fc(x))
                return h * factor * math.pi + len(locals()) + len(vars(self))
                """,
            ),
        ),
        Example(
            name="in-the-constructor",
            code=forward(
                "return self.activation(self.fc(x))",
                init="""
                self.fc = nn.Linear(8, 8)
                self.activation = eval("torch.relu")
                """,
            ),
        ),
    )


def _names_something(event: Call) -> bool:
    """Whether the text that is evaluated is certainly an expression with names in it."""
    given = event.node.args[0] if event.node.args else None
    if isinstance(given, ast.JoinedStr):
        return any(isinstance(part, ast.Constant) and "." in str(part.value) for part in given.values)
    kind = event.args[0] if event.args else k.UNKNOWN
    if not (isinstance(kind, k.Value) and isinstance(kind.constant, str)):
        return False
    try:
        tree = ast.parse(kind.constant.strip(), mode="eval")
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Name) for node in ast.walk(tree))
