"""DYN707: a property that is computed once and kept."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Read
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.project import Project
from dynalint.analysis.source import SourceFile
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.constructors import appended, check_reads, constructor_for, stores_of
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.uses import self_name

# From Python 3.12 on it takes no lock, so that Dynamo traces it.
_TAKES_LOCK = sys.version_info < (3, 12)


class CachedProperty(Rule):
    """Read a `functools.cached_property` while a model runs.

    ## What it flags

    Reading an attribute that a class of the project computes by `functools.cached_property`, in code that is compiled.
    Not flagged: `property`, a method under `functools.lru_cache`, and attributes that a constructor sets, which are
    traced.

    ## Why

    Up to Python 3.11 a cached property takes a lock before it computes its value, and Dynamo cannot enter locks: if the
    value is not there yet when the function is compiled, nothing of the function is. Once it is there, from an
    uncompiled call or a constructor that has read it, it is an attribute like any other. From Python 3.12 on there is
    no lock: Dynamo traces the computation, and compiles once more when it finds the value kept. As it depends on what
    has run before, the finding is advice.

    ## Example

    ```python
    @functools.cached_property
    def scale(self):
        return self.width**-0.5


    def forward(self, x):
        return self.fc(x) * self.scale
    ```

    Use instead:

    ```python
    def __init__(self, width):
        super().__init__()
        self.scale = width**-0.5


    def forward(self, x):
        return self.fc(x) * self.scale
    ```

    ## How it is rewritten

    A number that one expression gives is computed at the end of the constructor, if it takes from the object only
    numbers that the constructor sets for good, and the method is taken out. One that takes nothing from the object
    becomes a `property`, which is traced and folded away. Anything else is declined: a tensor would be another one for
    each read, and what is set later is not there yet in the constructor.

    ## When the rewrite is not exact

    The object holds the number from the start, and not from the first read on; with a `property` it holds none.

    ## How Dynamo words it

    GB0142: `Unsupported context manager`, within the standard library.

    ## References

    - https://docs.python.org/3/library/functools.html#functools.cached_property
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0142.html
    """

    code = "DYN707"
    name = "cached-property"
    summary = "reading a `functools.cached_property` for the first time in compiled code costs a break or a graph"
    category = "advice"
    severity = "info"
    gb = ("GB0142",)
    events = (Read,)
    calls = frozenset({"functools.cached_property"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the read; what it costs depends on the version of Python."""
        if isinstance(event, Read):
            cost = "takes a lock, which Dynamo cannot enter," if _TAKES_LOCK else "is compiled for twice"
            yield Violation(
                event.node,
                f"the cached property `{event.node.attr}` {cost} if its value is not there yet",
                help="compute it in the constructor, or make it a `property`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compute a number in the constructor, or anew each time."""
        if not isinstance(event, Read):
            return None
        method = _method(event, project)
        try:
            if method is None:
                raise Refusal(f"dynalint cannot tell whose `{event.node.attr}` it is")
            return _computed_before(project, method)
        except Refusal as refusal:
            return Declined(f"{refusal}; compute it in the constructor by hand")

    examples = (
        Example(
            name="of-the-model",
            code="""import functools
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    @functools.cached_property
    def scale(self):
        return self.fc.in_features**-0.5

    def forward(self, x: torch.Tensor):
        return self.fc(x) * self.scale  # DYN707
""",
            fixed="""import functools
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.scale = self.fc.in_features**-0.5

    def forward(self, x: torch.Tensor):
        return self.fc(x) * self.scale
""",
            shows="graph-break" if _TAKES_LOCK else None,
        ),
        Example(
            name="of-an-object",
            code=forward(
                """
                settings = Settings()
                return self.fc(x) * settings.scale  # DYN707
                """,
                head="""
                from functools import cached_property


                class Settings:
                    @cached_property
                    def scale(self):
                        return 3
                """,
            ),
            fixed=forward(
                """
                settings = Settings()
                return self.fc(x) * settings.scale
                """,
                head="""
                from functools import cached_property


                class Settings:
                    @property
                    def scale(self):
                        return 3
                """,
            ),
            shows="graph-break" if _TAKES_LOCK else None,
        ),
        Example(
            name="tensor",
            code="""import functools
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    @functools.cached_property
    def ones(self):
        return torch.ones(8)

    def forward(self, x: torch.Tensor):
        return self.fc(x) * self.ones  # DYN707
""",
            declined="may be something else than a number",
            shows="graph-break" if _TAKES_LOCK else None,
        ),
        Example(
            name="property",
            code="""import functools
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.offset = 1

    @property
    def scale(self):
        return self.fc.in_features**-0.5

    @functools.lru_cache
    def bound(self):
        return 3

    def forward(self, x: torch.Tensor):
        return self.fc(x) * self.scale + self.offset + self.bound()
""",
        ),
    )


def _method(event: Read, project: Project) -> FunctionInfo | None:
    """Return the method that computes a cached property."""
    owner = project.kinds(event.function).get(event.node.value)
    return project.find_method(owner.cls, event.node.attr) if isinstance(owner, k.Instance) else None


def _computed_before(project: Project, method: FunctionInfo) -> Rewrite:
    """Compute a number in the constructor, or where it takes nothing from the object each time that it is read.

    Raises:
        Refusal: it is no such number, or something sets or deletes what is kept.
    """
    scope, node = Scope(project, method, project.parents(method), "torch", ()), method.node
    if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1:
        raise Refusal("it has another decorator as well")
    value = method.statements[0].value if isinstance(method.statements[0], ast.Return) else None
    if len(method.statements) > 1 or value is None:
        raise Refusal(f"computing `{method.name}` takes more than one expression")
    if not k.is_number(scope.kind(value)):
        raise Refusal(f"{scope.quote(value)} may be something else than a number")
    overridden = sum(method.name in cls.methods for cls in project.all_classes) > 1
    if overridden or project.mentions(method.name) or any(True for _ in stores_of(scope, method.name)):
        raise Refusal(f"something may override, set or delete `{method.name}`")
    name = self_name(method)
    if not any(isinstance(part, ast.Name) and part.id == name for part in walk(value)):
        check_reads(scope, value, method)
        edit = Replacement(scope.file, *scope.file.span(node.decorator_list[0]), "property")
        condition = f"nothing looks for `{method.name}` in what the object itself holds"
        return Rewrite(f"Make `{method.name}` a `property`", "unsafe", (edit,), (condition,))
    constructor = constructor_for(scope)
    check_reads(scope, value, constructor)
    made = appended(scope, constructor, f"{name}.{method.name} = {scope.text(value)}")
    edits = (made, _without(scope.file, node))
    condition = f"nothing looks for `{method.name}` in what the object holds before it is first read"
    return Rewrite(f"Compute `{method.name}` in the constructor", "conditional", edits, (condition,))


def _without(file: SourceFile, node: ast.FunctionDef) -> Replacement:
    """Return what takes a method out, and the empty lines above it.

    Raises:
        Refusal: the class would be left without a body, or comments stand above the method.
    """
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    while first > 1 and not file.line(first - 1).strip():
        first -= 1
    if file.line(first - 1).lstrip().startswith(("class ", "#")):
        raise Refusal("the method cannot be taken out by itself")
    last = node.end_lineno or node.lineno
    end = file.line_starts[last] if last < len(file.line_starts) else len(file.text)
    return Replacement(file, file.line_starts[first - 1], end, "")
