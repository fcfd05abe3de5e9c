"""DYN404: the clock is read, or waited for."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.exits import leads_to_raise

_TIME = (
    "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time "
    "thread_time_ns sleep strftime strptime localtime gmtime ctime asctime mktime"
).split()
_DATES = "datetime.now datetime.utcnow datetime.today datetime.fromtimestamp date.today datetime timedelta date".split()


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
    It is not: what is measured, and where it is kept, has to move out of the model together.
    `torch.profiler.record_function` marks a part of a compiled model for the profiler and is traced.

    ## When the rewrite is not exact
    There is none. A measurement outside includes all that the call does.

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
                help="measure around the call of the compiled function, or mark the part with "
                "`torch.profiler.record_function`",
                torch=">=2.13" if event.callee.startswith("datetime.") else "",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the measurement as a whole has to move."""
        if isinstance(event, Call) and event.callee == "time.sleep":
            return Declined(
                "a wait inside a model changes when everything after it runs; wait outside the compiled function"
            )
        return Declined(
            "what is done with the time has to move as well; measure around the call of the compiled function"
        )

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
            declined="measure around the call",
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
            declined="wait outside",
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
