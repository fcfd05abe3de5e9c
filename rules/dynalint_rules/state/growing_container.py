"""DYN503: a list, dict or other container that outlives the call and grows with every one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.events import ContainerChange, Event, StateChange
from dynalint.analysis.kinds import Kind
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.deques import deque_limits
from dynalint_rules._shared.eager_record import recorded_in_eager
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.growth import LIMIT, UP_TO_LIMIT, is_there_before, mentions, same, settles, state_name
from dynalint_rules._shared.scope import Refusal

_GROWING = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "iadd"})
_PLACES = {
    "attribute": "`self.{}`",
    "class": "the class attribute `{}`",
    "global": "the module global `{}`",
    "closure": "`{}` of the enclosing function",
    "default": "the default of the parameter `{}`",
}


def _recorded(example: Example) -> Example:
    """Complete an example of a container that is only added to, which is left to eager code."""
    guard = r"\1if not torch.compiler.is_compiling():\n\1    \2"
    return replace(example, fixed=re.sub(r"(?m)^( *)(.*\S) +# DYN503$", guard, example.code))


class GrowingContainer(Rule):
    """Add to a container that outlives the call, so that every call compiles the code anew.

    ## What it flags

    `append`, `extend`, `insert` and `+=` in compiled code, or in a forward hook that it runs, on a list or deque that
    is there before and after the call: an attribute of a module, a class attribute, a module global, a variable of the
    enclosing function, a mutable default argument. Also a dict that gets a tensor, the `id` of an object or its own
    length as a key, and a list, tuple or text that is replaced by itself plus something
    (`self.names = self.names + [name]`).

    Not flagged is what settles: a local container, one that the same call has made, one that is shortened or emptied
    anywhere in the compiled code, one that is only added to while it is short or lacks a key, items stored under a key
    that stays the same, sets, containers that the caller passes in, and a
    `deque` with a small `maxlen` (see DYN504).

    ## Why

    Dynamo guards on the length of every container that the code touches. A longer list fails the guard, and the whole
    function is compiled again, until Dynamo gives it up after eight graphs and runs it uncompiled. Tensors in it are
    inputs of the next graph, so each graph is larger than the one before. Nothing of the kind happens to a list that
    is made in the call: it is gone when the graph is done.

    ## Example

    ```python
    def forward(self, x):
        h = self.fc(x)
        self.features.append(h.detach())
        return h
    ```

    Use instead:

    ```python
    def forward(self, x):
        h = self.fc(x)
        return h, h.detach()
    ```

    ## How it is rewritten

    A container that compiled code only adds to is a record for someone else: the statement goes behind `if not
    torch.compiler.is_compiling():`, and a lambda that adds gives `None if torch.compiler.is_compiling() else` what it
    gave.
    Declined
    where compiled code reads the container otherwise, or where evaluating what is added has an effect.
    Results belong into the return value then, where the caller collects them, and a cache of tensors into a buffer of
    fixed size.

    ## When the rewrite is not exact

    A compiled run records nothing, so whoever looks at the container afterwards finds it as it was. The fix is `unsafe`
    for that reason; where the record is wanted, return what is added.

    ## How Dynamo words it

    The recompile reason is `len(self.features) == 3`, for a dict `len(self.cache) != 3` or a key that it lacks. In the
    end it says "torch._dynamo hit config.recompile_limit (8)", and with `fullgraph=True` raises
    `FailOnRecompileLimitHit`.

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    """

    code = "DYN503"
    name = "growing-container"
    summary = "A container that outlives the call grows with every call, and every call compiles anew"
    category = "recompile"
    events = (ContainerChange, StateChange)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag additions to containers with a place outside of the call."""
        assert isinstance(event, ContainerChange | StateChange)
        place = _PLACES.get(event.home.type)
        grows = _grows(event, project) if isinstance(event, ContainerChange) else _is_prolonged(event)
        if place is not None and grows and is_there_before(event, project) and not settles(event, project):
            shown = place.format(event.home.name)
            yield Violation(
                event.statement,
                f"{shown} outlives the call and grows with every call: each length is compiled anew, {UP_TO_LIMIT}",
                help="Return what is added and collect it outside of the compiled code.",
                torch=">=2.13" if _is_numbered(event.statement) else "",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Add to it in eager code only, where compiled code never reads it."""
        assert isinstance(event, ContainerChange | StateChange)
        try:
            return recorded_in_eager(event, project)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="read-in-the-next-call",
            code=forward(
                """
                self.cache[x] = self.fc(x)  # DYN503
                return self.cache[x] * 2 + len(self.cache)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.cache = {}",
            ),
            declined="reads `cache` in compiled code",
        ),
        _recorded(
            Example(
                name="features",
                code=forward(
                    """
                h = self.fc(x)
                self.features.append(h.detach())  # DYN503
                return h
                """,
                    init="self.fc = nn.Linear(8, 8)\nself.features = []",
                ),
            )
        ),
        Example(
            name="kept-by-a-forward-hook",
            code=forward(
                "return self.fc(x) * 2",
                init="""
                self.fc = nn.Linear(8, 8)
                self.kept = []
                keep = lambda m, i, o: self.kept.append(o)  # DYN503
                self.fc.register_forward_hook(keep)
                """,
            ),
            fixed=forward(
                "return self.fc(x) * 2",
                init="""
                self.fc = nn.Linear(8, 8)
                self.kept = []
                keep = lambda m, i, o: None if torch.compiler.is_compiling() else self.kept.append(o)
                self.fc.register_forward_hook(keep)
                """,
            ),
        ),
        _recorded(
            Example(
                name="kept-by-a-method",
                code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.kept = []
                        self.fc.register_forward_pre_hook(self.keep)

                    def keep(self, module, args):
                        self.kept.append(args[0])  # DYN503

                    def forward(self, x):
                        return self.fc(x) * 2
                """,
            )
        ),
        Example(
            name="replaced-by-a-hook",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.kept = []
                        self.fc.register_forward_hook(self.keep)

                    def keep(self, module, args, out):
                        self.kept = [out.detach()]

                    def forward(self, x):
                        return self.fc(x) * 2
            """,
        ),
        _recorded(
            Example(
                name="plus-equals",
                code=forward(
                    """
                self.sizes += [x.shape[0]]  # DYN503
                return self.fc(x)
                """,
                    init="self.fc = nn.Linear(8, 8)\nself.sizes = []",
                ),
            )
        ),
        _recorded(
            Example(
                name="replaced-by-a-longer-one",
                code=forward(
                    """
                self.sizes = self.sizes + (x.shape[0],)  # DYN503
                return self.fc(x)
                """,
                    init="self.fc = nn.Linear(8, 8)\nself.sizes = ()",
                ),
            )
        ),
        Example(
            name="in-training-only",
            code=forward(
                """
                h = self.fc(x)
                if self.training:
                    self.losses.extend([h.mean().detach(), h.var().detach()])  # DYN503
                return h
                """,
                init="self.fc = nn.Linear(8, 8)\nself.losses = []",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if self.training and not torch.compiler.is_compiling():
                    self.losses.extend([h.mean().detach(), h.var().detach()])
                return h
                """,
                init="self.fc = nn.Linear(8, 8)\nself.losses = []",
            ),
        ),
        _recorded(
            Example(
                name="in-a-submodule",
                code="""
                import torch
                from torch import nn


                class Block(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.maps = []

                    def forward(self, x):
                        y = torch.softmax(self.fc(x), -1)
                        self.maps.insert(0, y.detach())  # DYN503
                        return y


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.block = Block()

                    def forward(self, x):
                        return self.block(x) * 2
                """,
            )
        ),
        _recorded(
            Example(
                name="module-global",
                code="""
                import torch

                SEEN = []


                @torch.compile
                def scale(x):
                    SEEN.append(x.detach())  # DYN503
                    return x * 2
                """,
                target="scale",
            )
        ),
        Example(
            name="on-one-line",
            code=forward(
                """
                h = self.fc(x)
                if self.training: self.losses.append(h.mean().detach())  # DYN503
                return h
                """,
                init="self.fc = nn.Linear(8, 8)\nself.losses = []",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if self.training and not torch.compiler.is_compiling(): self.losses.append(h.mean().detach())
                return h
                """,
                init="self.fc = nn.Linear(8, 8)\nself.losses = []",
            ),
        ),
        Example(
            name="read-again",
            code=forward(
                """
                h = self.fc(x)
                self.features.append(h.detach())  # DYN503
                return h + self.features[0]
                """,
                init="self.fc = nn.Linear(8, 8)\nself.features = []",
            ),
            declined="reads `features` in compiled code",
        ),
        Example(
            name="effect-of-its-own",
            code=forward(
                """
                h = self.fc(x)
                self.features.append(h.mul_(2))  # DYN503
                return h
                """,
                init="self.fc = nn.Linear(8, 8)\nself.features = []",
            ),
            declined="may have an effect of its own",
        ),
        Example(
            name="mutable-default",
            code="""
                import torch


                @torch.compile
                def scale(x, seen=[]):
                    seen.append(1)  # DYN503
                    return x * len(seen)
            """,
            target="scale",
            declined="reads `seen` in compiled code",
        ),
        _recorded(
            Example(
                name="list-of-the-class",
                code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    seen = []

                    def forward(self, x):
                        self.seen.append(x.shape[0])  # DYN503
                        return x * 2
                """,
            )
        ),
        _recorded(
            Example(
                name="tensor-as-key",
                code=forward(
                    """
                self.cache[x] = 1  # DYN503
                return self.fc(x)
                """,
                    init="self.fc = nn.Linear(8, 8)\nself.cache = {}",
                ),
            )
        ),
        _recorded(
            Example(
                name="numbered-items",
                torch=">=2.13",
                code=forward(
                    """
                self.log[len(self.log)] = x.shape[0]  # DYN503
                return self.fc(x)
                """,
                    init="self.fc = nn.Linear(8, 8)\nself.log = {}",
                ),
            )
        ),
        Example(
            name="identity-as-key",
            code=forward(
                """
                self.cache[id(x)] = 1  # DYN503
                return self.fc(x) * len(self.cache)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.cache = {}",
            ),
            inputs="[(torch.randn(4, 8),) for _ in range(12)]",
            declined="reads `cache` in compiled code",
        ),
        _recorded(
            Example(
                name="list-in-a-dict",
                code=forward(
                    """
                y = self.fc(x)
                self.seen.setdefault("y", []).append(y.detach())  # DYN503
                return y
                """,
                    init="self.fc = nn.Linear(8, 8)\nself.seen = {}",
                ),
            )
        ),
        _recorded(
            Example(
                name="list-in-a-list",
                code=forward(
                    """
                y = self.fc(x)
                self.maps[0].append(y.detach())  # DYN503
                return y
                """,
                    init="self.fc = nn.Linear(8, 8)\nself.maps = [[], []]",
                ),
            )
        ),
        Example(
            name="new-list-in-a-dict",
            code=forward(
                """
                self.seen["y"] = []
                for _ in range(3):
                    x = self.fc(x)
                    self.seen["y"].append(x)
                return torch.stack(self.seen["y"])
                """,
                init="self.fc = nn.Linear(8, 8)\nself.seen = {}",
            ),
        ),
        _recorded(
            Example(
                name="long-deque",
                code=forward(
                    """
                self.sizes.append(x.shape[0])  # DYN503
                return self.fc(x)
                """,
                    head="from collections import deque",
                    init="self.fc = nn.Linear(8, 8)\nself.sizes = deque(maxlen=100)",
                ),
            )
        ),
        Example(
            name="short-deque",
            code=forward(
                """
                self.sizes.append(x.shape[0])
                return self.fc(x)
                """,
                head="from collections import deque",
                init="self.fc = nn.Linear(8, 8)\nself.sizes = deque(maxlen=3)",
            ),
        ),
        Example(
            name="local-list",
            code=forward(
                """
                outputs = []
                for _ in range(3):
                    x = self.fc(x)
                    outputs.append(x)
                return torch.stack(outputs)
                """,
            ),
        ),
        Example(
            name="made-in-the-same-call",
            code=forward(
                """
                self.outputs = []
                for _ in range(3):
                    x = self.fc(x)
                    self.outputs.append(x)
                return torch.stack(self.outputs)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.outputs = []",
            ),
        ),
        Example(
            name="emptied-at-the-end",
            code=forward(
                """
                self.outputs.append(self.fc(x))
                y = self.outputs[-1]
                self.outputs.clear()
                return y
                """,
                init="self.fc = nn.Linear(8, 8)\nself.outputs = []",
            ),
        ),
        Example(
            name="kept-short",
            code=forward(
                """
                self.last.append(x.detach())
                if len(self.last) > 2:
                    self.last.pop(0)
                return self.fc(x) + self.last[0]
                """,
                init="self.fc = nn.Linear(8, 8)\nself.last = []",
            ),
        ),
        Example(
            name="same-key",
            code=forward(
                """
                self.stats["last"] = x.detach().mean()
                self.sizes.add(x.shape[0])
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.stats = {}\nself.sizes = set()",
            ),
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
        ),
        Example(
            name="object-of-this-call",
            code="""
                import torch
                from torch import nn


                class Stack:
                    def __init__(self):
                        self.items = []

                    def push(self, item):
                        self.items.append(item)


                class Model(nn.Module):
                    def forward(self, x):
                        stack = Stack()
                        for _ in range(3):
                            x = x * 2
                            stack.push(x)
                        return torch.stack(stack.items)
            """,
        ),
        Example(
            name="filled-up-to-a-length",
            code=forward(
                """
                while len(self.masks) < 3:
                    self.masks.append(torch.ones(8))
                return self.fc(x) * self.masks[1]
                """,
                init="self.fc = nn.Linear(8, 8)\nself.masks = []",
            ),
        ),
        Example(
            name="list-of-the-caller",
            code="""
                import torch


                @torch.compile
                def scale(x, outputs):
                    outputs.append(x * 3)
                    return x * 2
            """,
            target="scale",
            inputs="[(torch.ones(4, 8), [])]",
        ),
        Example(
            name="read-only-list",
            code=forward(
                """
                for gain in self.gains:
                    x = self.fc(x) * gain
                return x
                """,
                init="self.fc = nn.Linear(8, 8)\nself.gains = [1.0, 0.5]",
            ),
        ),
    )


def _grows(event: ContainerChange, project: Project) -> bool:
    """Whether a change makes a container longer on every call, or for more calls than Dynamo puts up with."""
    if event.method in _GROWING:
        limits = [limit.value if isinstance(limit, ast.Constant) else 0 for limit in deque_limits(event, project)]
        return _is_sequence(event.container) and all(isinstance(limit, int) and limit > LIMIT for limit in limits)
    if event.method == "setitem" and isinstance(event.container, k.Dictionary):
        return _is_new_key(event)
    return False


def _is_sequence(kind: Kind) -> bool:
    return isinstance(kind, k.Sequence) and kind.type in ("list", "deque", "collections.deque")


def _is_new_key(event: ContainerChange) -> bool:
    """Whether an item is stored under a key that is new: a tensor, the number of items, or an identity."""
    if k.only_tensor(event.args[0]) is not None:
        return True
    statement = event.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    keys = [target.slice for target in targets if isinstance(target, ast.Subscript)]
    return any(_differs(key, state_name(event)) for key in keys)


def _differs(key: ast.expr, name: str) -> bool:
    """Whether a key is the number of items of the container called `name`, or the identity of some object."""
    if not isinstance(key, ast.Call) or not isinstance(key.func, ast.Name):
        return False
    return key.func.id == "id" or (key.func.id == "len" and mentions(key, name))


def _is_numbered(statement: ast.AST) -> bool:
    """Whether an item is stored under the number of those before it, for which torch 2.11 compiles once."""
    return (
        isinstance(statement, ast.Assign)
        and isinstance(target := statement.targets[0], ast.Subscript)
        and isinstance(key := target.slice, ast.Call)
        and isinstance(key.func, ast.Name)
        and key.func.id == "len"
    )


def _is_prolonged(event: StateChange) -> bool:
    """Whether a list, tuple or text is replaced by itself plus something."""
    if event.fresh or not event.reads_old:
        return False
    types = {_type(member) for kind in (event.old, event.new) for member in kind.members}
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        # For a list this is a change of the container itself.
        return isinstance(statement.op, ast.Add) and types <= {"tuple", "str"}
    if not isinstance(statement, ast.Assign) or not types <= {"list", "tuple", "str"}:
        return False
    value = statement.value
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add)
        and any(same(side, target) for side in (value.left, value.right) for target in statement.targets)
    )


def _type(kind: Kind) -> str:
    return kind.type if isinstance(kind, k.Sequence | k.Value) else ""
