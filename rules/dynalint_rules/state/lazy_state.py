"""DYN508: state that the first call makes, so that the second one compiles the code anew."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, ContainerChange, Event, StateChange
from dynalint.analysis.index import walk_function
from dynalint.analysis.kinds import Kind
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.absent import Asking, asking, is_made_for_sure, turns_from_none
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.first_call import made_elsewhere
from dynalint_rules._shared.growth import is_counter, is_held, same
from dynalint_rules._shared.scope import Refusal, Scope

_REGISTERING = frozenset(f"torch.nn.Module.{name}" for name in ("register_buffer", "register_parameter", "add_module"))
# What these models keep is no longer kept: what they compute is compared, and what they hold is not.
_STATE_ASIDE = "lambda x, model=Model(): model(x)"
_HELP = "Make it in the constructor, or call the model once before it is compiled."
_HELP_MOVED = "Register it as a buffer, which goes with the module, or keep the result under a local name."


class LazyState(Rule):
    """Make state on the first call, so that the second one compiles the code anew.

    ## What it flags

    An attribute that compiled code sets under a test of that very attribute (`if self.mask is None:`,
    `if not self.ready:`, `if not hasattr(self, "cache"):`, `if n > self.table.size(0):`), an item that is stored under
    a test for its key (`if n not in self.cache:`), both also behind a test that returns what is there
    (`if n in self.cache: return self.cache[n]`), one that is None at first and is computed from what it was
    (`self.state = self.cell(x, self.state)`), a tensor that is no buffer and is moved to where the input is
    (`self.table = self.table.to(x.device)`), and buffers, parameters and submodules that are registered outside of the
    constructor.

    It is a recompilation for sure, and no advice, where the constructor leaves the state missing and no other test
    decides whether the call makes it.

    Not flagged are tests of what the same call has set before, counts (DYN501), and what is set in any case.

    ## Why

    The test is a guard: what Dynamo compiled for the first call holds only while the attribute is missing. The second
    call finds it there, and the whole function is compiled again. Later calls are fine, which is why this is no error;
    but the first call is the one that everybody takes for the warm-up. What is kept by the size of the input costs this
    for each size, which without it would be a variable of one graph, until Dynamo gives up after eight. A parameter or
    buffer that appears with the first call is also unknown to optimizers and `state_dict()` before it.

    `model.to("cuda")` leaves behind a tensor that is neither parameter nor buffer. The first call moves it, and the
    guard on its device fails in the second. Where the constructor made it on the device of the input, nothing happens.

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

    What depends on no more than sizes, types and devices of the input is made in every call, under the same name: the
    constructor does not have those, and a small table is cheap in a compiled graph, where often it is folded into what
    reads it. What takes nothing from the call is better made in the constructor, by hand.

    Not rewritten is what a dictionary keeps for a size, a table that grows with the length asked for, a buffer that
    compiled code registers, what depends on data, what draws random numbers, what is changed in place, and what other
    code sets. Run the model once before compiling it.

    ## When the rewrite is not exact

    Every call makes what the first one made, or one that fits its own input.

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
        elif isinstance(event, StateChange) and _is_moved(event, project):
            yield Violation(
                event.statement,
                f"`{_place(event)}` is no buffer and does not go with the module: if the first call has to move it, "
                "the second is compiled anew; later ones are not",
                help=_HELP_MOVED,
            )
        elif isinstance(event, StateChange) and _comes_of_none(event, project):
            yield Violation(
                event.statement,
                f"`{_place(event)}` is None in the first call only: the second is compiled anew, later ones are not",
                help=_HELP,
                category="recompile",
                severity="warning",
            )
        elif isinstance(event, StateChange | ContainerChange) and _may_be_first(event, project):
            found = asking(event, project)
            if found is not None:
                yield self._made_once(event, found, project)

    def _made_once(self, event: StateChange | ContainerChange, found: Asking, project: Project) -> Violation:
        place = _place(event)
        if isinstance(event, ContainerChange):
            told = f"the first call with a key puts it into `{place}`, the second finds it there and is compiled anew"
        elif found.leaves:
            line = event.statement.lineno
            told = f"the first call makes `{place}` in line {line}, the second finds it here and is compiled anew"
        else:
            told = f"`{place}` is made by the first call: the second one finds it there and is compiled anew"
        sure = is_made_for_sure(event, found, project)
        return Violation(
            found.statement.test if found.leaves else event.statement,
            f"{told}; later ones are not" if isinstance(event, StateChange) else f"{told}, once for each key",
            help=_HELP,
            category="recompile" if sure else None,
            severity="warning" if sure else None,
        )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Make it in every call."""
        if isinstance(event, Call):
            return Declined("what is registered is part of `state_dict()`; register it in the constructor by hand")
        if isinstance(event, StateChange) and _is_moved(event, project):
            return Declined(
                "as a buffer it would be part of `state_dict()`, or cast with the module; register it by hand"
            )
        if isinstance(event, StateChange) and _comes_of_none(event, project):
            return Declined("what it is before the first call depends on the input; start it as zeros by hand")
        try:
            return made_elsewhere(Scope.of(event, project), event.statement)
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
                """
                self.mask = torch.full((self.width,), 0.5)
                return self.fc(x) * self.mask
                """,
                init="self.width = 8\nself.fc = nn.Linear(8, 8)\nself.mask = None",
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
                """
                self.scale = torch.ones(8)
                return self.fc(x) * self.scale
                """,
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
            name="returned-where-it-is-there",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.masks = {}
                        self.ones = None

                    def mask(self, n):
                        if n in self.masks:  # DYN508
                            return self.masks[n]
                        mask = torch.ones(n)
                        self.masks[n] = mask
                        return mask

                    def scale(self, x):
                        if self.ones is not None and self.ones[0] == x.device:  # DYN508
                            return self.ones[1]
                        self.ones = (x.device, torch.ones(8))
                        return self.ones[1]

                    def forward(self, x):
                        return self.fc(x) * self.mask(x.shape[-1]) * self.scale(x)
            """,
            declined="more than one test decides",
            shows="recompile-once",
        ),
        Example(
            name="looked-up-before-the-test",
            code=forward(
                """
                mask = self.masks.get(x.shape[-1])
                if mask is None:
                    mask = torch.ones(x.shape[-1])
                    self.masks[x.shape[-1]] = mask  # DYN508
                return self.fc(x) * mask
                """,
                init="self.fc = nn.Linear(8, 8)\nself.masks = {}",
            ),
            declined="decides about more than",
            shows="recompile-once",
        ),
        Example(
            name="handed-on-from-call-to-call",
            code=forward(
                """
                self.state = cell(self.fc(x), self.state)  # DYN508
                return self.state
                """,
                head="""
                def cell(x, state=None):
                    return x.tanh() if state is None else (x + state.detach()).tanh()
                """,
                init="self.fc = nn.Linear(8, 8)\nself.state = None",
            ),
            declined="start it as zeros by hand",
            shows="recompile-once",
        ),
        Example(
            name="under-a-local-name",
            code=forward(
                """
                state = self.state
                if state is None:
                    state = torch.zeros_like(x)
                state = (self.fc(x) + state).tanh().detach()
                self.state = state  # DYN508
                return state
                """,
                init="self.fc = nn.Linear(8, 8)\nself.state = None",
            ),
            declined="start it as zeros by hand",
            shows="recompile-once",
        ),
        Example(
            name="not-looked-at",
            code=forward(
                """
                before = self.state
                self.state = self.fc(x).detach()
                return self.state * 2
                """,
                init="self.fc = nn.Linear(8, 8)\nself.state = None",
            ),
        ),
        Example(
            name="moved",
            code=forward(
                """
                self.table = self.table.to(x.dtype)  # DYN508
                return self.fc(x) * self.table
                """,
                init="self.fc = nn.Linear(8, 8).double()\nself.table = torch.ones(8)",
            ),
            inputs="[(torch.randn(4, 8).double(),)] * 3",
            declined="register it by hand",
            shows="recompile-once",
        ),
        Example(
            name="buffer-moved",
            code=forward(
                """
                self.table = self.table.to(x.dtype)
                return self.fc(x) * self.table
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("table", torch.ones(8))',
            ),
        ),
        Example(
            name="moved-under-a-local-name",
            code=forward(
                """
                table = self.table.to(x.dtype)
                return self.fc(x) * table
                """,
                init="self.fc = nn.Linear(8, 8).double()\nself.table = torch.ones(8)",
            ),
            inputs="[(torch.randn(4, 8).double(),)] * 3",
        ),
        Example(
            name="argument-of-the-same-name",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.mask = None

                    def forward(self, x, mask=None):
                        if mask is None:
                            self.mask = torch.ones(8)
                        return self.fc(x) * self.mask
            """,
        ),
        Example(
            name="kept-while-it-is-there",
            code=forward(
                """
                if self.last is not None:
                    self.last = torch.softmax(self.fc(x), -1)
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.last = torch.ones(4, 8)",
            ),
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


def _may_be_first(event: StateChange | ContainerChange, project: Project) -> bool:
    """Whether a change is of state that is there before the call, and may be the first one."""
    if event.home.type not in ("attribute", "class", "global", "closure"):
        return False
    if event.home.type == "attribute" and not is_held(event.function, project, compiled=True):
        return False
    if isinstance(event, ContainerChange):
        return event.method == "setitem"
    return not (event.fresh or event.reads_old or is_counter(event, project))


def _comes_of_none(event: StateChange, project: Project) -> bool:
    return is_held(event.function, project, compiled=True) and turns_from_none(event, project)


def _is_moved(event: StateChange, project: Project) -> bool:
    """Whether a tensor that is no buffer is put on the device, or given the type, of something else."""
    statement = event.statement
    if event.home.type != "attribute" or event.fresh or not isinstance(statement, ast.Assign):
        return False
    call = statement.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    kinds = project.kinds(event.function)
    given = [kinds.get(one, k.UNKNOWN) for one in (*call.args, *(keyword.value for keyword in call.keywords))]
    return (
        call.func.attr in ("to", "type_as")
        and same(call.func.value, statement.targets[0])
        and any(map(_is_of_the_call, given))
        and is_held(event.function, project, compiled=True)
        and _is_plain_tensor(event, project)
    )


def _is_plain_tensor(event: StateChange, project: Project) -> bool:
    """Whether constructors make an attribute a tensor that is neither a buffer nor a parameter."""
    name, owner = event.home.name, event.function.owner
    lineage = project.mro(owner) if owner is not None else ()
    made = [
        project.kinds(method).get(statement.value, k.UNKNOWN)
        for cls in lineage
        for method, statement in cls.stores.get(name, ())
        if method.name == "__init__" and isinstance(statement, ast.Assign)
    ]
    registered = any(
        isinstance(node, ast.Constant) and node.value == name
        for cls in lineage
        for method in cls.methods.values()
        for node in walk_function(method.node)
    )
    return bool(made) and all(isinstance(one, k.Tensor) and one.origin is None for one in made) and not registered


def _is_of_the_call(kind: Kind) -> bool:
    """Whether a kind is a tensor, or a device or type that the code does not spell."""
    if isinstance(kind, k.Value):
        return kind.type in ("device", "dtype") and kind.constant is k.MISSING
    return isinstance(kind, k.Tensor)


def _place(event: StateChange | ContainerChange) -> str:
    return f"self.{event.home.name}" if event.home.type == "attribute" else event.home.name
