"""DYN711: threads, queues and futures."""

from __future__ import annotations

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, quote
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import guarded

_CALLS: dict[str, str] = {
    "queue": "Queue LifoQueue PriorityQueue SimpleQueue",
    "queue.Queue": "put get put_nowait get_nowait",
    "queue.SimpleQueue": "put get put_nowait get_nowait",
    "concurrent.futures": "ThreadPoolExecutor ProcessPoolExecutor Future",
    "concurrent.futures.ThreadPoolExecutor": "submit",
    "multiprocessing": "Lock RLock cpu_count Process Queue Pool",
    "threading": "Timer Barrier active_count",
    "threading.Lock": "acquire release locked",
    "threading.RLock": "acquire release",
    "threading.Event": "set",
    "threading.Thread": "start join",
    "torch.jit": "fork wait",
    "torch.futures": "Future",
}
_PUTS = ("put", "put_nowait")


class ConcurrentCall(Rule):
    code = "DYN711"
    name = "concurrent-call"
    summary = "Communicating with other threads breaks the graph"
    gb = ("GB0007", "GB0142", "GB0156")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())
    message = "`{callee}()` communicates with other threads, which cannot be part of a graph"
    help = "return what they need, and communicate with them around the call"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Put into a queue in eager code only."""
        if event.callee.startswith("queue.") and event.callee.rpartition(".")[2] in _PUTS:
            condition = f"a compiled run skips {quote(event.function.file, event.node)}"
            title, scope = "Put into the queue only in eager code", Scope.of(event, project)
            return guarded(scope, event, title, safety="unsafe", conditions=(condition,))
        return Declined(
            "what another thread does cannot be part of a graph; return what it needs, and communicate with it "
            "around the call"
        )
