"""DYN408: NumPy's random numbers."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.exits import leads_to_raise

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
        return x * torch.empty((), device=x.device).uniform_(0.5, 1.5)
    ```

    ## How it is rewritten
    It is not: no function that stays in the graph draws the same numbers.

    ## When the rewrite is not exact
    Torch has a generator of its own, seeded by `torch.manual_seed`. That is so for the traced functions as well:
    compiled code that calls `np.random.rand(3)` draws from torch's generator, and `np.random.seed` has no effect on
    it.

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
        """Decline: any other generator gives other numbers."""
        return Declined("torch draws other numbers than NumPy; use `torch.rand` or `torch.randint` if that will do")

    examples = (
        Example(
            name="scale",
            code=forward("return self.fc(x) * np.random.uniform(0.5, 1.5)  # DYN408", head="import numpy as np"),
            declined="other numbers",
        ),
        Example(
            name="skipped-layer",
            code=forward(
                """
                if np.random.rand() < 0.5:  # DYN408
                    x = self.fc(x)
                return x + 1
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="choice",
            code=forward(
                """
                rows = np.random.choice(4, 2, replace=False)  # DYN408
                return self.fc(x)[torch.from_numpy(rows)]
                """,
                head="import numpy as np",
            ),
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
