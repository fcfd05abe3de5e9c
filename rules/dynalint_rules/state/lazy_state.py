"""DYN508: state that the first call makes, so that the second one compiles the code anew."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Call, ContainerChange, Event, StateChange
from dynalint.analysis.kinds import UNKNOWN, only_tensor
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.growth import is_counter, is_held, mentions, state_name, tests_around

_REGISTERING = frozenset(f"torch.nn.Module.{name}" for name in ("register_buffer", "register_parameter", "add_module"))
_HELP = "Make it in the constructor, or call the model once before it is compiled."


class LazyState(Rule):
    """Make state on the first call, so that the second one compiles the code anew.

    ## What it flags

    An attribute that compiled code sets under a test of that very attribute (`if self.mask is None:`,
    `if not self.ready:`, `if not hasattr(self, "cache"):`, `if n > self.table.size(0):`), an item that is stored under
    a test for its key (`if n not in self.cache:`), and buffers, parameters and submodules that are registered outside
    of the constructor.

    Not flagged are tests of what the same call has set before, counts (DYN501), and what is set in any case.

    ## Why

    The test is a guard: what Dynamo compiled for the first call holds only while the attribute is missing. The second
    call finds it there, and the whole function is compiled again. Later calls are fine, which is why this is advice
    and no error; but the first call is the one that everybody takes for the warm-up. A parameter or buffer that appears
    with the first call is also unknown to optimizers and `state_dict()` before it.

    ## Example

    ```python
    def forward(self, x):
        if self.mask is None:
            self.mask = torch.ones(x.shape[-1])
        return self.fc(x) * self.mask
    ```

    Use instead:

    ```python
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mask", torch.ones(size), persistent=False)

    def forward(self, x):
        return self.fc(x) * self.mask
    ```

    ## How it is rewritten

    It is not: what the first call makes often depends on its input, and the constructor does not have that. Where the
    sizes are known, make it in the constructor. Where they are not, compute it in every call: a small table is cheap
    in a compiled graph, and often it is folded into the operation that reads it. Or run the model once before
    compiling it.

    ## When the rewrite is not exact

    There is no rewrite. Registered in the constructor, a buffer becomes part of the state dict unless it is registered
    with `persistent=False`.

    ## How Dynamo words it

    The recompile reason names the attribute, such as `self.mask is None`, `not self.ready` or
    `not ___dict_contains('mask', self.__dict__)`.

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    """

    code = "DYN508"
    name = "lazy-state"
    summary = "State is made by the first call, and the second call compiles anew"
    category = "advice"
    severity = "info"
    events = (StateChange, ContainerChange, Call)
    calls = _REGISTERING

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag state that is set under a test of itself, and registrations in compiled code."""
        if isinstance(event, Call):
            name = next((node.value for node in event.node.args[:1] if isinstance(node, ast.Constant)), None)
            if event.function.name != "__init__" and isinstance(name, str):
                yield Violation(
                    event.node,
                    f"`{name}` is registered in compiled code: the call after it finds it there and is compiled anew",
                    help="Register it in the constructor.",
                )
        elif isinstance(event, StateChange | ContainerChange) and _is_made_once(event, project):
            yield Violation(
                event.statement,
                f"`{_place(event)}` is made by the first call: the second one finds it there and is compiled anew",
                help=_HELP,
            )

    examples = (
        Example(
            name="none-at-first",
            code=forward(
                """
                if self.mask is None:
                    self.mask = torch.ones(x.shape[-1])  # DYN508
                return self.fc(x) * self.mask
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mask = None",
            ),
            shows="recompile-once",
        ),
        Example(
            name="flag",
            code=forward(
                """
                if not self.ready:
                    self.fc.weight.data.fill_(0.1)
                    self.ready = True  # DYN508
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.ready = False",
            ),
            shows="recompile-once",
        ),
        Example(
            name="no-such-attribute",
            code=forward(
                """
                if not hasattr(self, "scale"):
                    self.scale = torch.ones(8)  # DYN508
                return self.fc(x) * self.scale
                """,
            ),
            shows="recompile-once",
        ),
        Example(
            name="longer-table",
            code=forward(
                """
                if x.size(0) > self.table.size(0):
                    self.table = torch.arange(x.size(0))  # DYN508
                return self.fc(x) + self.table[: x.size(0), None]
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("table", torch.arange(2), persistent=False)',
            ),
            shows="recompile-once",
        ),
        Example(
            name="cache-by-size",
            code=forward(
                """
                size = x.shape[-1]
                if size not in self.masks:
                    self.masks[size] = torch.ones(size)  # DYN508
                return self.fc(x) * self.masks[size]
                """,
                init="self.fc = nn.Linear(8, 8)\nself.masks = {}",
            ),
            shows="recompile-once",
        ),
        Example(
            name="buffer-registered-in-forward",
            code=forward(
                """
                self.register_buffer("ones", torch.ones(8))  # DYN508
                return self.fc(x) + self.ones
                """,
            ),
            shows="recompile-once",
        ),
        Example(
            name="made-in-the-constructor",
            code=forward(
                """
                if self.mask is not None:
                    x = x * self.mask
                return self.fc(x)
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mask", torch.ones(8))',
            ),
        ),
        Example(
            name="forgotten-before-the-test",
            code=forward(
                """
                self.mask = None
                if self.training:
                    self.mask = torch.ones(8)
                if self.mask is None:
                    self.mask = torch.zeros(8)
                return self.fc(x) * self.mask
                """,
            ),
        ),
        Example(
            name="set-in-every-call",
            code=forward(
                """
                self.last = torch.softmax(self.fc(x), -1)
                return self.last
                """,
                init="self.fc = nn.Linear(8, 8)\nself.last = None",
            ),
        ),
    )


def _is_made_once(event: StateChange | ContainerChange, project: Project) -> bool:
    """Whether a change stands under a test of what it changes, and ends what the test asks for."""
    if event.home.type not in ("attribute", "class", "global", "closure"):
        return False
    if event.home.type == "attribute" and not is_held(event.function, project, compiled=True):
        return False
    if isinstance(event, ContainerChange):
        if event.method != "setitem":
            return False
    elif event.fresh or event.reads_old or is_counter(event, project):
        return False
    name, kinds = state_name(event), project.kinds(event.function)
    tests = (test for test, _ in tests_around(event.statement, event.function, project))
    # What a tensor decides is not among the things that a compilation rests on.
    return any(_asks_for(test, name) for test in tests if only_tensor(kinds.get(test, UNKNOWN)) is None)


def _asks_for(test: ast.expr, name: str) -> bool:
    """Whether a test reads what is called `name`, or asks whether there is an attribute of that name."""
    return mentions(test, name) or any(isinstance(node, ast.Constant) and node.value == name for node in ast.walk(test))


def _place(event: StateChange | ContainerChange) -> str:
    return f"self.{event.home.name}" if event.home.type == "attribute" else event.home.name
