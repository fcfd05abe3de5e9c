"""DYN010: an import in the code that is compiled."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from dynalint.analysis.events import Event, Importing
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.examples import forward

_CERTAIN = frozenset({"torch", "", *sys.stdlib_module_names})  # a relative import has a name that starts with a dot


class ImportInRegion(Rule):
    """Import a module in code that is compiled.

    ## What it flags

    `import` and `from ... import` of another package in a function that Dynamo traces. In a `try` it is worth more
    attention: there the package may be missing. Not flagged are torch, the standard library and the project's own
    modules, which are there for certain: importing those costs nothing.

    ## Why

    Dynamo imports the module while it traces, once, with all that the module does when it is imported, and guards on
    what it finds there. Where the module is missing, the import raises while tracing, and `try` does not help: the
    function is left to eager Python as a whole, on exactly those machines that lack an optional package.

    ## Example

    ```python
    def forward(self, x):
        try:
            from fast_kernels import gelu
        except ImportError:
            gelu = torch.nn.functional.gelu
        return gelu(self.fc(x))
    ```

    Use instead:

    ```python
    try:
        from fast_kernels import gelu
    except ImportError:
        gelu = torch.nn.functional.gelu
    ```

    ## How it is rewritten

    It is not: imports stand in functions to break a circle or to put off the cost, and only its author knows. Move it
    to the top of the file, or into the constructor.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    Where the module is missing: GB0069 `Import failure`, "Failure when attempting to import". Else nothing.

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN010"
    name = "import-in-region"
    summary = "A module is imported in compiled code"
    category = "advice"
    severity = "info"
    gb = ("GB0069",)
    events = (Importing,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the statement."""
        assert isinstance(event, Importing)
        name = _module(event.node)
        root = name.partition(".")[0]
        if root in _CERTAIN or project.locate(root) is not None:
            return
        if event.position.try_:
            message = f"where `{name}` is missing, this import keeps the whole function from being compiled"
            yield Violation(event.node, message, help="Import it at the top of the file.", severity="warning")
        else:
            message = f"`{name}` is imported while Dynamo traces, not when the code runs"
            yield Violation(event.node, message, help="Import it at the top of the file.")

    examples = (
        Example(
            name="optional-package",
            code=forward(
                """
                try:
                    from dynalint_no_such_package import gelu  # DYN010
                except ImportError:
                    gelu = torch.nn.functional.gelu
                return gelu(self.fc(x))
                """
            ),
            shows="graph-break",
        ),
        Example(
            name="in-forward",
            code=forward(
                """
                import numpy.polynomial  # DYN010

                return self.fc(x) * len(numpy.polynomial.__name__)
                """
            ),
            shows="clean",
        ),
        Example(
            name="there-for-certain",
            code=forward(
                """
                import math

                from torch.nn import functional

                return functional.relu(self.fc(x)) * math.pi
                """
            ),
        ),
        Example(
            name="at-the-top",
            code=forward(
                """
                return self.fc(x) * math.pi
                """,
                head="import math",
            ),
        ),
        Example(
            name="in-the-constructor",
            code=forward(
                """
                return self.fc(x) * self.factor
                """,
                init="import math\n\nself.fc = nn.Linear(8, 8)\nself.factor = math.pi",
            ),
        ),
    )


def _module(node: ast.Import | ast.ImportFrom) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name
    return "." * node.level + (node.module or "")
