"""DYN705: a class that is made while a model runs."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, ClassDefinition, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward


class ClassStatement(Rule):
    """Define a class while a model runs.

    ## What it flags

    A `class` statement, `dataclasses.make_dataclass` and `types.new_class` in code that is compiled. Not flagged:
    `collections.namedtuple`, `enum.Enum("Name", ...)` and `type("Name", (), {})`, which Dynamo traces, functions within
    functions, and classes at the top level of a module.

    ## Why

    The statement calls into the interpreter to run the body and to build the class, which Dynamo does not trace. Each
    call also makes another class, so code that uses its instances is compiled anew on every call, up to the limit.

    ## Example

    ```python
    def forward(self, x):
        class Output:
            def __init__(self, value):
                self.value = value

        return Output(self.fc(x)).value
    ```

    Use instead:

    ```python
    class Output:
        def __init__(self, value):
            self.value = value


    def forward(self, x):
        return Output(self.fc(x)).value
    ```

    ## How it is rewritten

    It is not: move the class to the top level by hand, and pass what its body takes from the function around it.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB8977: `Invalid call to __build_class__`, GB0156: `Unsupported method call` for the functions.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb8977.html
    """

    code = "DYN705"
    name = "class-statement"
    summary = "a class that is defined in compiled code ends the graph"
    gb = ("GB8977", "GB0156", "GB0007")
    events = (ClassDefinition, Call)
    calls = frozenset({"dataclasses.make_dataclass", "types.new_class"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the statement or call."""
        if isinstance(event, ClassDefinition):
            yield Violation(
                event.node,
                f"the class `{event.node.name}` is made on every call, which Dynamo does not trace",
                help="define it at the top level of the module",
            )
        elif isinstance(event, Call):
            yield Violation(event.node, f"`{event.callee}()` makes a class on every call, which Dynamo does not trace")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the body may take values from the function around it."""
        return Declined("its body may take values from the function around it; define it at the top level")

    examples = (
        Example(
            name="plain-class",
            code=forward(
                """
                h = self.fc(x)

                class Output:  # DYN705
                    scale = 3

                return h * Output.scale
                """,
            ),
            declined="define it at the top level",
        ),
        Example(
            name="in-a-helper",
            code=forward(
                "return scaled(self.fc(x))",
                head="""
                def scaled(value):
                    class Scale:  # DYN705
                        factor = 2

                    return value * Scale.factor
                """,
            ),
        ),
        Example(
            name="dataclass-by-call",
            code=forward(
                """
                h = self.fc(x)
                Output = dataclasses.make_dataclass("Output", ["value"])  # DYN705
                return h + 1
                """,
                head="import dataclasses",
            ),
        ),
        Example(
            name="traced-makers",
            torch=">=2.13",
            code=forward(
                """
                Pair = namedtuple("Pair", "first second")
                Mode = enum.Enum("Mode", "A B")
                Empty = type("Empty", (), {})

                def doubled(value):
                    return value * 2

                return doubled(Pair(self.fc(x), 1).first) + len(Mode) + (Empty is None)
                """,
                head="import enum\nfrom collections import namedtuple",
            ),
        ),
        Example(
            name="at-the-top-level",
            code=forward(
                "return Output(self.fc(x)).value",
                head="""
                class Output:
                    def __init__(self, value):
                        self.value = value
                """,
            ),
        ),
    )
