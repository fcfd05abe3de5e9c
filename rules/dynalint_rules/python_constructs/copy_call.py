"""DYN701: `copy.copy` and `copy.deepcopy` of what Dynamo does not copy."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.text import atom

# Built-in containers that have a `copy` method of their own, which gives what `copy.copy` gives.
_WITH_METHOD = ("list", "dict", "set", "deque", "defaultdict", "OrderedDict")
_DEEPEST = 5


class CopyCall(Rule):
    """Copy a list, a tensor or a module by the `copy` module while a model runs.

    ## What it flags

    `copy.copy` of a list, dict, set, deque, tensor or module, and `copy.deepcopy` of a tensor, a module, or a container
    that holds a tensor. Not flagged: `copy.copy` of tuples, numbers and objects, `copy.deepcopy` of plain data, and
    methods such as `names.copy()`, all of which are traced.

    ## Why

    Dynamo follows the methods of containers. The functions of `copy` dispatch on the type, in C or by the pickle
    protocol, where it does not follow: the graph ends there.

    ## Example

    ```python
    def forward(self, x):
        skips = [x, self.fc(x)]
        rest = copy.copy(skips)
        return sum(rest)
    ```

    Use instead:

    ```python
    def forward(self, x):
        skips = [x, self.fc(x)]
        rest = skips.copy()
        return sum(rest)
    ```

    ## How it is rewritten

    `copy.copy` of a container that the same call has made becomes its own `copy` method. The rewrite is `safe`: the
    type of the container is known, and the method makes the same shallow copy. `copy.deepcopy` of a tensor becomes
    `tensor.detach().clone()`. The rest is declined.

    ## When the rewrite is not exact

    A deep copy lets no gradient through either, but it asks for one of its own where the tensor does, and raises where
    the tensor is computed from one that does. So the rewrite of a tensor is `unsafe`, but for whole numbers and masks,
    which need no gradient. It is declined for parameters, of which a deep copy is a parameter again.

    ## How Dynamo words it

    GB0007: `Attempted to call function marked as skipped`, GB0156: `Unsupported method call`, GB4198: `Attempted to
    copy.deepcopy a tensor`, GB0208: `torch.* op returned non-Tensor`, GB0008 for modules.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb4198.html
    """

    code = "DYN701"
    name = "copy-call"
    summary = "copying by the `copy` module ends the graph"
    gb = ("GB0007", "GB4198", "GB0208", "GB0156", "GB0008", "GB0088", "GB0179")
    events = (Call,)
    calls = frozenset({"copy.copy", "copy.deepcopy"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag what was seen to break by the kind of what is copied."""
        if not isinstance(event, Call) or not event.args:
            return
        deep = event.callee == "copy.deepcopy"
        breaks = _breaks_deep if deep else _breaks_shallow
        if all(breaks(project, one) for one in event.args[0].members):
            how = "it cannot copy tensors" if deep else "Dynamo does not follow it"
            yield Violation(event.node, f"`{event.callee}()` ends the graph: {how}")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use the container's own method, where its type is known for certain."""
        if not isinstance(event, Call):
            return None
        kind = event.args[0]
        if event.callee == "copy.deepcopy":
            return _cloned(event)
        if not (isinstance(kind, k.Sequence | k.Dictionary) and kind.type in _WITH_METHOD and kind.home is None):
            return Declined("the type of what is copied is not known for certain; use its own method `copy`")
        if len(event.node.args) != 1 or event.node.keywords:
            return Declined("it is not called with one argument in its place")
        file = event.function.file
        start, end = file.span(event.node)
        content = f"{atom(event.node.args[0], file.segment(event.node.args[0]))}.copy()"
        return Rewrite("Copy by the container's own method `copy`", "safe", (Replacement(file, start, end, content),))

    examples = (
        Example(
            name="list",
            code=forward(
                """
                skips = [x, self.fc(x)]
                rest = copy.copy(skips)  # DYN701
                return rest[0] + rest[1]
                """,
                head="import copy",
            ),
            fixed=forward(
                """
                skips = [x, self.fc(x)]
                rest = skips.copy()
                return rest[0] + rest[1]
                """,
                head="import copy",
            ),
        ),
        Example(
            name="dict-by-name",
            code=forward(
                """
                found = {"hidden": self.fc(x)}
                return shallow(found)["hidden"] + 1  # DYN701
                """,
                head="from copy import copy as shallow",
            ),
            fixed=forward(
                """
                found = {"hidden": self.fc(x)}
                return found.copy()["hidden"] + 1
                """,
                head="from copy import copy as shallow",
            ),
        ),
        Example(
            name="kept-list",
            code=forward(
                """
                h = self.fc(x)
                sizes = copy.copy(self.sizes)  # DYN701
                return h + sizes[0]
                """,
                head="import copy",
                init="""
                self.fc = nn.Linear(8, 8)
                self.sizes = [1, 2]
                """,
            ),
            declined="not known for certain",
        ),
        Example(
            name="deep-copy-of-a-tensor",
            code=forward(
                """
                with torch.no_grad():
                    first = copy.deepcopy(x * 2)  # DYN701
                return self.fc(first)
                """,
                head="import copy",
            ),
            fixed=forward(
                """
                with torch.no_grad():
                    first = (x * 2).detach().clone()
                return self.fc(first)
                """,
                head="import copy",
            ),
        ),
        Example(
            name="deep-copy-of-a-mask",
            code=forward(
                """
                mask = copy.deepcopy(x > 0)  # DYN701
                mask[0] = True
                return x * mask
                """,
                head="import copy",
            ),
            fixed=forward(
                """
                mask = (x > 0).detach().clone()
                mask[0] = True
                return x * mask
                """,
                head="import copy",
            ),
        ),
        Example(
            name="deep-copy-of-a-parameter",
            code=forward(
                """
                scale = copy.deepcopy(self.scale)  # DYN701
                return x * scale
                """,
                head="import copy",
                init="self.scale = nn.Parameter(torch.ones(8))",
            ),
            declined="a parameter again",
        ),
        Example(
            name="deep-copy-of-tensors-in-a-list",
            code=forward(
                """
                both = copy.deepcopy([x, 1])  # DYN701
                return self.fc(both[0])
                """,
                head="import copy",
            ),
            declined="`clone()` would let gradients through",
        ),
        Example(
            name="deep-copy-of-a-layer",
            code=forward(
                """
                layer = copy.deepcopy(self.fc)  # DYN701
                return layer(x)
                """,
                head="import copy",
            ),
        ),
        Example(
            name="plain-data",
            torch=">=2.13",
            code=forward(
                """
                sizes = copy.deepcopy(self.sizes)
                pair = copy.copy((sizes["a"], 1))
                return self.fc(x) + pair[0][0] + sizes["a"].copy()[1]
                """,
                head="import copy",
                init="""
                self.fc = nn.Linear(8, 8)
                self.sizes = {"a": [1, 2]}
                """,
            ),
        ),
        Example(
            name="object",
            torch=">=2.13",
            code=forward(
                """
                settings = copy.copy(Settings())
                return self.fc(x) * settings.scale
                """,
                head="""
                import copy


                class Settings:
                    scale = 2
                """,
            ),
        ),
    )


def _cloned(event: Call) -> Rewrite | Declined:
    """Replace a deep copy of a tensor by a clone without gradient."""
    tensor = k.only_tensor(event.args[0])
    if tensor is None or event.node.keywords or len(event.node.args) != 1:
        return Declined(
            "`clone()` would let gradients through; write `clone()` or `detach().clone()`, whichever is meant"
        )
    source, file = event.node.args[0], event.function.file
    if tensor.origin == "parameter":
        return Declined("the copy of a parameter is a parameter again; write `detach().clone()` if a tensor will do")
    content = f"{atom(source, file.segment(source))}.detach().clone()"
    replacement = Replacement(file, *file.span(event.node), content)
    title = "Copy the tensor with `detach().clone()`"
    if tensor.dtype in ("bool", "int"):
        return Rewrite(title, "safe", (replacement,))
    change = f"a copy of {quote(file, source)} needs no gradient where a deep copy would, or would raise"
    return Rewrite(title, "unsafe", (replacement,), (change,))


def _breaks_shallow(project: Project, kind: k.Kind) -> bool:
    if isinstance(kind, k.Tensor):
        return not kind.array
    if isinstance(kind, k.Sequence | k.Dictionary):
        return kind.type in (*_WITH_METHOD, "torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict")
    return _is_module(project, kind)


def _breaks_deep(project: Project, kind: k.Kind, depth: int = _DEEPEST) -> bool:
    """Whether a tensor or module is certainly reached."""
    if depth == 0:
        return False
    if isinstance(kind, k.Sequence):
        items = kind.items if kind.items is not None else ()
        return kind.type.startswith("torch.nn.") or any(_breaks_deep(project, item, depth - 1) for item in items)
    if isinstance(kind, k.Dictionary):
        items = tuple(item for _, item in kind.items)
        return kind.type.startswith("torch.nn.") or any(_breaks_deep(project, item, depth - 1) for item in items)
    return (isinstance(kind, k.Tensor) and not kind.array) or _is_module(project, kind)


def _is_module(project: Project, kind: k.Kind) -> bool:
    if isinstance(kind, k.Instance):
        return project.is_module_class(kind.cls)
    cls = project.api.torch_class(kind.type) if isinstance(kind, k.Object) else None
    return cls is not None and cls.is_module
