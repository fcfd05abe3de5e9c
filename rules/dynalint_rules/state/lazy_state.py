"""DYN508: state that the first call makes, so that the second one compiles the code anew."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Call, ContainerChange, Event, StateChange
from dynalint.analysis.kinds import UNKNOWN, only_tensor
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.first_call import made_elsewhere, registered_elsewhere
from dynalint_rules._shared.growth import is_counter, is_held, mentions, state_name, tests_around
from dynalint_rules._shared.scope import Refusal, Scope

_REGISTERING = frozenset(f"torch.nn.Module.{name}" for name in ("register_buffer", "register_parameter", "add_module"))
# What these models keep is no longer kept: what they compute is compared, and what they hold is not.
_STATE_ASIDE = "lambda x, model=Model(): model(x)"
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

    What takes nothing from the call is made in the constructor: of numbers, of names of the module, and of numbers that
    the constructor sets for good. It stays a plain attribute where it was one. A buffer that compiled code registers is
    registered there.

    What depends on sizes, types and devices of the input is made in every call, under the same name: the constructor
    does not have those, and a small table is cheap in a compiled graph, where often it is folded into what reads it.

    What a dictionary keeps for a size, and a table that grows with the length asked for, go by a local name, if nothing
    else reads them.

    Not rewritten is what depends on data, what draws random numbers, what is changed in place, and what other code sets
    or compares. Run the model once before compiling it.

    ## When the rewrite is not exact

    In the constructor it is made with the device and dtype that new tensors get there, before anything asks for it. A
    buffer that the constructor registers is part of `state_dict()` from the start, and without `persistent=False` of
    checkpoints. A dictionary of what was made for each size stays empty, and a table as long as the
    constructor makes it.

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

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Make it in the constructor, or in every call."""
        try:
            scope = Scope.of(event, project)
            if not isinstance(event, Call):
                return made_elsewhere(scope, event.statement)
            name = next(node.value for node in event.node.args[:1] if isinstance(node, ast.Constant))
            return registered_elsewhere(scope, event.node, str(name))
        except Refusal as refusal:
            return Declined(str(refusal))

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
            fixed=forward(
                """
                self.mask = torch.ones(x.shape[-1])
                return self.fc(x) * self.mask
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mask = None",
            ),
            shows="recompile-once",
        ),
        Example(
            name="anew-for-another-size",
            code=forward(
                """
                if self.mask is None or self.mask.size(0) != len(x):
                    # one row for each of the batch
                    rows = torch.arange(len(x), device=x.device)
                    self.mask = (rows[:, None] + 1).float()  # DYN508
                return self.fc(x) * self.mask
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mask = None",
            ),
            fixed=forward(
                """
                # one row for each of the batch
                rows = torch.arange(len(x), device=x.device)
                self.mask = (rows[:, None] + 1).float()
                return self.fc(x) * self.mask
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mask = None",
            ),
            shows="recompile-once",
        ),
        Example(
            name="of-the-settings",
            code=forward(
                """
                if self.mask is None:
                    self.mask = torch.full((self.width,), 0.5)  # DYN508
                return self.fc(x) * self.mask
                """,
                init="self.width = 8\nself.fc = nn.Linear(8, 8)\nself.mask = None",
            ),
            fixed=forward(
                "return self.fc(x) * self.mask",
                init="self.width = 8\nself.fc = nn.Linear(8, 8)\nself.mask = torch.full((self.width,), 0.5)",
            ),
            shows="recompile-once",
        ),
        Example(
            name="of-the-data",
            code=forward(
                """
                if self.mean is None:
                    self.mean = x.detach().mean(0)  # DYN508
                return self.fc(x) - self.mean
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mean = None",
            ),
            declined="depends on more than the sizes of the input",
            shows="recompile-once",
        ),
        Example(
            name="drawn-at-first",
            code=forward(
                """
                if self.noise is None:
                    self.noise = torch.randn(8)  # DYN508
                return self.fc(x) + self.noise
                """,
                init="self.fc = nn.Linear(8, 8)\nself.noise = None",
            ),
            declined="may do more than give a value",
            shows="recompile-once",
        ),
        Example(
            name="changed-in-place",
            code=forward(
                """
                if self.seen is None:
                    self.seen = torch.zeros(x.shape[-1])  # DYN508
                self.seen.add_(1)
                return self.fc(x) + self.seen
                """,
                init="self.fc = nn.Linear(8, 8)\nself.seen = None",
            ),
            declined="may change it in place",
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
            declined="decides about more than `self.ready`",
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
            fixed=forward(
                "return self.fc(x) * self.scale",
                init="self.fc = nn.Linear(8, 8)\nself.scale = torch.ones(8)",
            ),
            shows="recompile-once",
        ),
        Example(
            name="longer-table",
            target=_STATE_ASIDE,
            code=forward(
                """
                if x.size(0) > self.table.size(0):
                    self.table = torch.arange(x.size(0))  # DYN508
                return self.fc(x) + self.table[: x.size(0), None]
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("table", torch.arange(2), persistent=False)',
            ),
            fixed=forward(
                """
                table = torch.arange(x.size(0))
                return self.fc(x) + table[: x.size(0), None]
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("table", torch.arange(2), persistent=False)',
            ),
            shows="recompile-once",
        ),
        Example(
            name="cache-by-size",
            target=_STATE_ASIDE,
            code=forward(
                """
                size = x.shape[-1]
                if size not in self.masks:
                    self.masks[size] = torch.ones(size)  # DYN508
                return self.fc(x) * self.masks[size]
                """,
                init="self.fc = nn.Linear(8, 8)\nself.masks = {}",
            ),
            fixed=forward(
                """
                size = x.shape[-1]
                mask = torch.ones(size)
                return self.fc(x) * mask
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
            fixed=forward(
                "return self.fc(x) + self.ones",
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("ones", torch.ones(8))',
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
    return mentions(test, name) or any(isinstance(node, ast.Constant) and node.value == name for node in walk(test))


def _place(event: StateChange | ContainerChange) -> str:
    return f"self.{event.home.name}" if event.home.type == "attribute" else event.home.name
