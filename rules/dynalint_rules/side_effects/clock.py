"""DYN404: the clock is read, or waited for."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.bystanders import guarded_bystanders
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.guard import guarded
from dynalint_rules._shared.scope import Refusal, Scope

_TIME = (
    "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time "
    "thread_time_ns sleep strftime strptime localtime gmtime ctime asctime mktime"
).split()
_DATES = "datetime.now datetime.utcnow datetime.today datetime.fromtimestamp date.today datetime timedelta date".split()
_NO_WAIT = "a compiled run does not wait"


class ClockCall(Rule):
    """Read the clock, or wait, while a model runs.

    ## What it flags
    `time.time`, `time.perf_counter`, `time.sleep` and the other functions of `time`, `datetime.now`, `datetime.today`
    and the making of `datetime` and `timedelta` objects, in code that is compiled. Dates are flagged for torch 2.13 and
    later; torch 2.11 was seen to trace them. Not flagged: timing around the call of a compiled model, and constants of
    these modules.

    ## Why
    The time of a call cannot be part of a graph. Dynamo ends the graph, reads the clock and begins a second graph, so
    the times that are measured are those of other code than what runs without them.

    ## Example
    ```python
    def forward(self, x):
        start = time.perf_counter()
        h = self.fc(x)
        self.elapsed = time.perf_counter() - start
        return h
    ```

    Use instead:
    ```python
    start = time.perf_counter()
    h = model(x)
    elapsed = time.perf_counter() - start
    ```

    ## How it is rewritten
    Statements that read the clock are put behind `if not torch.compiler.is_compiling():`, together with those that the
    time goes to: a difference under a name of its own, a print, an attribute. `time.sleep` goes behind a guard as well.
    Declined where the time is returned, decides something, or goes to code that computes with it: then what is
    measured has to move out of the model. `torch.profiler.record_function` marks a part of a compiled model for the
    profiler and is traced.

    ## When the rewrite is not exact
    The guard is `safe`: eager code measures as before, and nothing else depends on it. It is `unsafe` where the time is
    kept in an attribute, which a compiled run leaves as it was, and for `time.sleep`, which a compiled run leaves out.

    ## How Dynamo words it
    GB0007: `Attempted to call function marked as skipped` for `time`, GB0156: `Unsupported method call` or GB0147:
    `Unsupported function call` for `datetime`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/profiler.html
    """

    code = "DYN404"
    name = "clock-call"
    summary = "reading the clock or waiting ends the graph"
    gb = ("GB0007", "GB0156", "GB0147")
    events = (Call,)
    calls = frozenset({*(f"time.{name}" for name in _TIME), *(f"datetime.{name}" for name in _DATES)})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"`{event.callee}()` cannot be part of a graph, which ends there",
                help="measure around what is compiled, or mark the part with `torch.profiler.record_function`",
                torch=">=2.13" if event.callee.startswith("datetime.") else "",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Wait and measure in eager code only, where nothing else depends on it."""
        if not isinstance(event, Call):
            return None
        waits = event.callee == "time.sleep"
        try:
            scope = Scope.of(event, project)
            if waits:
                return guarded(scope, event, "Wait only in eager code", safety="unsafe", conditions=(_NO_WAIT,))
            return guarded_bystanders(scope, event, _is_clock, "Measure only in eager code")
        except Refusal as refusal:
            if waits:
                return Declined(str(refusal))
            return Declined(f"{refusal}; measure around what is compiled")

    examples = (
        Example(
            name="timing-a-layer",
            code=forward(
                """
                start = time.perf_counter()  # DYN404
                h = self.fc(x)
                return h, time.perf_counter() > start  # DYN404
                """,
                head="import time",
            ),
            declined="measure around what is compiled",
        ),
        Example(
            name="waiting",
            code=forward(
                """
                h = self.fc(x)
                time.sleep(0)  # DYN404
                return h
                """,
                head="import time",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    time.sleep(0)
                return h
                """,
                head="import time",
            ),
        ),
        Example(
            name="only-shown",
            code=forward(
                """
                start = time.time()  # DYN404
                h = self.fc(x)
                elapsed = time.time() - start  # DYN404
                print("layer", elapsed > 10)  # DYN401
                return torch.relu(h)
                """,
                head="import time",
            ),
            fixed=forward(
                """
                if not torch.compiler.is_compiling():
                    start = time.time()
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    elapsed = time.time() - start
                    print("layer", elapsed > 10)
                return torch.relu(h)
                """,
                head="import time",
            ),
        ),
        Example(
            name="kept-in-an-attribute",
            code=forward(
                """
                start = time.time()  # DYN404
                h = self.fc(x)
                self.slow = time.time() - start > 10  # DYN404
                return torch.relu(h)
                """,
                head="import time",
                init="self.fc, self.slow = nn.Linear(8, 8), False",
            ),
            fixed=forward(
                """
                if not torch.compiler.is_compiling():
                    start = time.time()
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    self.slow = time.time() - start > 10
                return torch.relu(h)
                """,
                head="import time",
                init="self.fc, self.slow = nn.Linear(8, 8), False",
            ),
        ),
        Example(
            name="date",
            code=forward(
                """
                year = datetime.now().year  # DYN404
                return self.fc(x) * (year > 2000)
                """,
                head="from datetime import datetime",
            ),
        ),
        Example(
            name="timing-outside",
            code=forward("return self.fc(x)", head="import time")
            + "\n\ndef measure(model, x):\n    start = time.perf_counter()\n    model(x)\n"
            "    return time.perf_counter() - start\n",
        ),
        Example(
            name="marked-for-the-profiler",
            code=forward("""
                with torch.profiler.record_function("layer"):
                    return self.fc(x)
            """),
        ),
    )


def _is_clock(callee: str) -> bool:
    return callee.startswith(("time.", "datetime.")) and callee != "time.sleep"
