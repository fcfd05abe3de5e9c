"""DYN711: threads, queues and futures."""

from __future__ import annotations

from dynalint.rulekit import Call, Rule

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


class ConcurrentCall(Rule):
    code = "DYN711"
    name = "concurrent-call"
    summary = "Communicating with other threads breaks the graph"
    gb = ("GB0007", "GB0142", "GB0156")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())
    message = "`{callee}()` communicates with other threads, which breaks the graph"
    help = "return the data that other threads need, and communicate outside the compiled code"
    refusal = (
        "a graph cannot communicate with other threads; return the data that they need, and communicate with them "
        "outside the compiled code"
    )
