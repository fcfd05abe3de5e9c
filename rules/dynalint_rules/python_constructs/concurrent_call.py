"""DYN711: threads, queues and futures."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.guard import guarded
from dynalint_rules._shared.scope import Refusal, Scope

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
    """Start, wait for or talk to other threads while a model runs.

    ## What it flags

    Making queues, pools and futures, putting something into a queue and getting it out, submitting work, taking a lock
    by `acquire`, starting and joining threads, and `torch.jit.fork` and `torch.jit.wait`, in code that is compiled. Not
    flagged: reading whether an event is set, `threading.local`, and all of it in code that is not compiled.

    ## Why

    What another thread does is no part of a graph. Queues and threads also take locks, which Dynamo cannot enter.

    ## Example

    ```python
    def forward(self, x):
        h = self.fc(x)
        self.log.put(h.shape)
        return torch.relu(h)
    ```

    Use instead:

    ```python
    def forward(self, x):
        h = self.fc(x)
        return torch.relu(h), h


    out, h = model(x)
    log.put(h.shape)
    ```

    ## How it is rewritten

    What is put into a queue goes behind `if not torch.compiler.is_compiling():`. Anything else is declined: return what
    other threads want to know, and talk to them around the call. `torch.jit.fork` runs nothing side by side outside of
    TorchScript; call the function.

    ## When the rewrite is not exact

    A compiled run puts nothing into the queue, which is `unsafe`.

    ## How Dynamo words it

    GB0007: `Attempted to call function marked as skipped`, GB0142: `Unsupported context manager`, GB0156: `Unsupported
    method call`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0142.html
    """

    code = "DYN711"
    name = "concurrent-call"
    summary = "dealing with other threads ends the graph"
    gb = ("GB0007", "GB0142", "GB0156")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"`{event.callee}()` deals with other threads, which are no part of a graph",
                help="return what they want to know, and talk to them around the call",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Put into a queue in eager code only."""
        if isinstance(event, Call) and event.callee.startswith("queue.") and event.callee.rpartition(".")[2] in _PUTS:
            try:
                condition = f"a compiled run leaves out {quote(event.function.file, event.node)}"
                title, scope = "Put into the queue only in eager code", Scope.of(event, project)
                return guarded(scope, event, title, safety="unsafe", conditions=(condition,))
            except Refusal as refusal:
                return Declined(str(refusal))
        return Declined(
            "what another thread does is no part of a graph; return what it wants to know, and deal with it around "
            "the call"
        )

    examples = (
        Example(
            name="kept-queue",
            code=forward(
                """
                h = self.fc(x)
                LOG.put(1)  # DYN711
                return torch.relu(h)
                """,
                head="""
                import queue

                LOG = queue.Queue()
                """,
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    LOG.put(1)
                return torch.relu(h)
                """,
                head="""
                import queue

                LOG = queue.Queue()
                """,
            ),
        ),
        Example(
            name="queue-of-its-own",
            code=forward(
                """
                h = self.fc(x)
                waiting = queue.SimpleQueue()  # DYN711
                return torch.relu(h)
                """,
                head="import queue",
            ),
        ),
        Example(
            name="pool",
            code=forward(
                """
                h = self.fc(x)
                later = POOL.submit(torch.relu, h)  # DYN711
                return later.result() + 1
                """,
                head="""
                from concurrent.futures import ThreadPoolExecutor

                POOL = ThreadPoolExecutor(1)
                """,
            ),
        ),
        Example(
            name="lock",
            code=forward(
                """
                h = self.fc(x)
                LOCK.acquire()  # DYN711
                LOCK.release()  # DYN711
                return torch.relu(h)
                """,
                head="""
                import threading

                LOCK = threading.Lock()
                """,
            ),
        ),
        Example(
            name="fork",
            code=forward(
                """
                h = self.fc(x)
                later = torch.jit.fork(torch.relu, h)  # DYN711
                return torch.jit.wait(later)  # DYN711
                """,
            ),
        ),
        Example(
            name="event-and-local",
            code=forward(
                """
                h = self.fc(x)
                scale = 2 if STOPPED.is_set() else LOCAL.scale
                return h * scale
                """,
                head="""
                import threading

                STOPPED = threading.Event()
                LOCAL = threading.local()
                LOCAL.scale = 3
                """,
            ),
        ),
        Example(
            name="in-the-constructor",
            code=forward(
                "return self.fc(x) + self.size",
                head="import multiprocessing",
                init="""
                self.fc = nn.Linear(8, 8)
                self.size = multiprocessing.cpu_count()
                """,
            ),
        ),
    )
