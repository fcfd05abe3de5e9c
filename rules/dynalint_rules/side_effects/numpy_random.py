"""DYN408: NumPy's random numbers."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.drawn import drawn_by_torch
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope

# How many positional arguments come before the size; without one the function gives a number.
_SIZED = {
    "rand": 0,
    "randn": 0,
    "random": 0,
    "random_sample": 0,
    "sample": 0,
    "uniform": 2,
    "normal": 2,
    "randint": 2,
}
_UNTRACED = (
    "choice permutation default_rng RandomState beta binomial bytes chisquare dirichlet exponential f gamma geometric "
    "get_state set_state gumbel hypergeometric laplace logistic lognormal logseries multinomial multivariate_normal "
    "negative_binomial pareto poisson power random_integers ranf rayleigh standard_cauchy standard_exponential "
    "standard_gamma standard_normal standard_t triangular vonmises wald weibull zipf"
).split()


class NumpyRandom(Rule):
    """Draw a number, or choose, with `numpy.random` while a model runs.

    ## What it flags
    `np.random.rand()`, `np.random.uniform(0, 1)`, `np.random.randint(3)` and their like where they give a single
    number; `np.random.choice` and `np.random.permutation`; the distributions that Dynamo has no version of;
    `np.random.default_rng` and `np.random.RandomState`, in code that is compiled. Not flagged: the same functions with
    a size, which are traced.

    ## Why
    What NumPy draws, Dynamo makes a tensor. A single number is read out of that tensor at once, and the graph ends
    there.

    ## Example
    ```python
    def forward(self, x):
        return x * np.random.uniform(0.5, 1.5)
    ```

    Use instead:
    ```python
    def forward(self, x):
        return x * torch.empty(()).uniform_(0.5, 1.5)
    ```

    ## How it is rewritten
    Torch draws instead, a tensor without dimensions: `torch.rand(())`, `torch.randn(())`,
    `torch.empty(()).uniform_(low, high)`, `torch.normal(mean, std, ())`, `torch.randint(low, high, ())`. A branch that
    it decides is rewritten along with it (see DYN101). `np.random.choice(n, k, replace=False)` and
    `np.random.permutation(n)` that index tensors become `torch.randperm`. Declined where the number is needed as one of
    Python, as a size or a slice bound is, and for distributions and generators that torch has nothing like.

    ## When the rewrite is not exact
    It is `unsafe`, since other numbers are drawn. Torch has a generator of its own, seeded by `torch.manual_seed`. That
    is so for the traced functions as well: compiled code that calls `np.random.rand(3)` draws from torch's generator,
    and `np.random.seed` has no effect on it.

    ## How Dynamo words it
    GB0033: `Data dependent operator`, or GB0294: `attempted to trace numpy function unsupported by PyTorch`. For
    `np.random.RandomState` GB0156: `Unsupported method call`.

    ## References
    - https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
    - https://docs.pytorch.org/docs/stable/notes/randomness.html
    """

    code = "DYN408"
    name = "numpy-random"
    summary = "a number drawn by `numpy.random` is read out of a tensor and ends the graph"
    gb = ("GB0033", "GB0294", "GB0156")
    events = (Call,)
    calls = frozenset(f"numpy.random.{name}" for name in (*_SIZED, *_UNTRACED))

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call unless it gives an array by a function that is traced."""
        if not isinstance(event, Call) or leads_to_raise(event, project):
            return
        name = event.callee.rpartition(".")[2]
        sized = name in _SIZED and (len(event.node.args) > _SIZED[name] or "size" in event.keywords)
        if not sized:
            yield Violation(
                event.node,
                f"`np.random.{name}()` ends the graph",
                help="draw with torch in the graph, or draw outside and pass the number as an argument",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Draw with torch."""
        if not isinstance(event, Call):
            return None
        try:
            return drawn_by_torch(Scope.of(event, project), event)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="bound",
            code=forward(
                """
                h = self.fc(x)
                return torch.where(h > np.random.uniform(50, 60), h, -h)  # DYN408
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                return torch.where(h > torch.empty(()).uniform_(50, 60), h, -h)
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="skipped-layer",
            code=forward(
                """
                if np.random.rand() < self.rate:  # DYN408
                    x = self.fc(x)
                return x + 1
                """,
                head="import numpy as np",
                init="self.fc, self.rate = nn.Linear(8, 8), 1.0",
            ),
            fixed=forward(
                """
                x = torch.where(torch.rand(()) < self.rate, self.fc(x), x)
                return x + 1
                """,
                head="import numpy as np",
                init="self.fc, self.rate = nn.Linear(8, 8), 1.0",
            ),
        ),
        Example(
            name="row",
            code=forward(
                """
                h = self.fc(x)
                row = np.random.randint(2, 3)  # DYN408
                return h[row]
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                row = torch.randint(2, 3, ())
                return h[row.reshape(1)].squeeze(0)
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="length",
            code=forward(
                """
                h = self.fc(x)
                return h.repeat(np.random.randint(2, 3), 1)  # DYN204 DYN408
                """,
                head="import numpy as np",
            ),
            declined="draw it outside",
        ),
        Example(
            name="choice",
            code=forward(
                """
                rows = np.random.choice(4, 4, replace=False)  # DYN408
                return self.fc(x)[torch.from_numpy(rows)].sum()
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                rows = torch.randperm(4)[:4]
                return self.fc(x)[rows].sum()
                """,
                head="import numpy as np",
            ),
            exact=False,
        ),
        Example(
            name="choice-for-python",
            code=forward(
                """
                rows = np.random.choice(4, 2, replace=False)  # DYN408
                return self.fc(x), len(rows)
                """,
                head="import numpy as np",
            ),
            declined="does more than index tensors",
        ),
        Example(
            name="generator",
            code=forward(
                """
                h = self.fc(x)
                noise = np.random.default_rng(0)  # DYN408
                return h, noise is None
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="array",
            code=forward(
                "return self.fc(x) + torch.from_numpy(np.random.rand(4, 8) + np.random.normal(0, 1, (4, 8)))",
                head="import numpy as np",
            ),
        ),
        Example(
            name="in-the-constructor",
            code=forward(
                "return self.fc(x) * self.scale",
                head="import numpy as np",
                init="""
                self.fc = nn.Linear(8, 8)
                self.scale = float(np.random.rand())
                """,
            ),
        ),
    )
