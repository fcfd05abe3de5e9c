"""DYN707: a property that is computed once and kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from dynalint.analysis.events import Event, Read
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.examples import forward

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
    no lock: Dynamo traces the computation, and compiles once more when it finds the value kept. As it hangs on what has
    run before, the finding is advice.

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

    It is not: compute the value in the constructor by hand. A `property` is traced as well, and is folded away where
    its value is a plain number.

    ## When the rewrite is not exact

    There is none. By hand: the constructor runs before attributes that are set later are there.

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
