"""DYN404: reading the clock and sleeping."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Violation, leads_to_raise
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.bystanders import guarded_bystanders
from dynalint_rules._shared.guard.statements import guarded

_TIME = (
    "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time "
    "thread_time_ns sleep strftime strptime localtime gmtime ctime asctime mktime"
).split()
_DATES = "datetime.now datetime.utcnow datetime.today datetime.fromtimestamp date.today datetime timedelta date".split()
_NO_WAIT = "compiled code does not wait"


class ClockCall(Rule):
    code = "DYN404"
    name = "clock-call"
    summary = "Reading the clock or sleeping breaks the graph"
    gb = ("GB0007", "GB0156", "GB0147", "GB9193")
    events = (Call,)
    calls = frozenset({*(f"time.{name}" for name in _TIME), *(f"datetime.{name}" for name in _DATES)})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call."""
        if not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"Dynamo does not trace `{event.callee}()`, so the graph breaks here",
                help="measure the time outside the compiled code, or mark the code with "
                "`torch.profiler.record_function`",
                torch=">=2.13" if event.callee.startswith("datetime.") else "",
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Wait and measure in eager code only, if nothing else depends on it."""
        waits = event.callee == "time.sleep"
        try:
            scope = Scope.of(event, project)
            if waits:
                return guarded(scope, event, "Wait only in eager mode", safety="unsafe", conditions=(_NO_WAIT,))
            return guarded_bystanders(scope, event, _is_clock, "Measure the time only in eager mode")
        except Refusal as refusal:
            if waits:
                return Declined(str(refusal))
            return Declined(f"{refusal}; measure the time outside the compiled code")


def _is_clock(callee: str) -> bool:
    return callee.startswith(("time.", "datetime.")) and callee != "time.sleep"
