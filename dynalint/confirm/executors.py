"""Where workers run: on this machine, or on the machines in a Dask cluster.

Each Dask worker starts its own workers, with their sandboxes, from the same files at the same paths. If a Dask worker
is lost, Dask runs its task again on another one. The cluster must belong to the user, because anyone who can reach a
Dask scheduler can run code.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol

from dynalint.confirm.client import Answer, Worker, out_of
from dynalint.confirm.servers import Hello, WorkerError, WorkerOptions, keeping_a_server, worker_hash
from dynalint.errors import UsageError

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_SECONDS = 10
# How often Dask retries a task if its worker is lost.
_RETRIES = 3


class Executor(Protocol):
    """Starts workers."""

    def jobs(self, wanted: int) -> int:
        """Return how many workers to run at once, given the value of the `jobs` setting."""

    def worker(self, options: WorkerOptions) -> Worker:
        """Start a worker.

        Raises:
            WorkerError: If the worker cannot be started.
        """


class LocalExecutor:
    """Runs workers on this machine."""

    def jobs(self, wanted: int) -> int:
        """Return `wanted`."""
        return wanted

    def worker(self, options: WorkerOptions) -> Worker:
        """Start a worker process."""
        return Worker(options)


LOCAL = LocalExecutor()


class DaskExecutor:
    """Runs workers in a Dask cluster, one for each of its threads or, on GPUs, one for each `GPU` resource."""

    def __init__(self, scheduler: str) -> None:
        """Prepare to connect to the scheduler at an address. The connection is made when the first worker is needed.

        Raises:
            UsageError: If `distributed` is not installed.
        """
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise UsageError("--executor dask needs distributed: pip install 'dynalint[dask]'.") from None
        self.scheduler = scheduler

    @cached_property
    def _client(self) -> Client:
        from distributed import Client

        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # Errors that matter are also raised.
        # `Client` waits forever if a server accepts connections but is not a scheduler, such as the dashboard.
        connected: Future[Client] = Future()

        def connect() -> None:
            try:
                connected.set_result(Client(self.scheduler, timeout=_CONNECT_SECONDS, set_as_default=False))
            except Exception as fault:  # noqa: BLE001 - handed to the caller's thread
                connected.set_exception(fault)

        threading.Thread(target=connect, name="dynalint-dask", daemon=True).start()
        try:
            return connected.result(2 * _CONNECT_SECONDS)
        except Exception as fault:
            why = str(fault) or "the server at this address is not a scheduler"
            raise WorkerError(f"there is no Dask scheduler at {self.scheduler}: {why}") from fault

    def jobs(self, wanted: int) -> int:
        """Return the number of threads in the cluster, regardless of `wanted`."""
        threads: int = sum(self._client.nthreads().values())
        if not threads:
            raise WorkerError(f"the Dask cluster at {self.scheduler} has no workers; start some with `dask worker`")
        return threads

    def worker(self, options: WorkerOptions) -> Worker:
        """Start a worker in the cluster."""
        return _DaskWorker(self._client, options)


class _DaskWorker(Worker):
    """A worker somewhere in the cluster. Each message can go to a different Dask worker."""

    def __init__(self, client: Client, options: WorkerOptions) -> None:
        self.options = options
        self._closed = False
        self._server = None
        self._client = client
        self.hello, other = self._run(_greet, replace(options, budget=None))
        if other != worker_hash():
            raise WorkerError(f"the Dask workers at {client.scheduler.address} have a different version of dynalint")

    def _run(self, task: Callable[..., Any], *arguments: Any) -> Any:
        needed = {"GPU": 1} if self.options.device == "cuda" else None
        try:
            return self._client.submit(task, *arguments, pure=False, retries=_RETRIES, resources=needed).result()
        except WorkerError:
            raise
        except Exception as fault:
            # The cluster lost its workers, or they cannot load the task. Dask raises many types of exceptions for this.
            why = (str(fault) or type(fault).__name__).splitlines()[0].partition(". ")[0]
            text = f"the Dask cluster did not run a task: {why}; its workers need this version of dynalint"
            raise WorkerError(text) from fault

    def _ask_together(
        self,
        operation: str,
        requests: Sequence[Mapping[str, Any]],
        prepare: str,
        on_stage: Callable[[str], None] | None,
    ) -> Iterator[Answer]:
        budget = self.options.budget
        if budget is not None and not budget.left:
            yield out_of(budget)
            return
        try:
            answers = self._run(_answer, replace(self.options, budget=None), operation, requests, prepare)
        except WorkerError as fault:
            answers = [Answer("lost", {}, {"reason": str(fault)}, "starting")]
        for answer in answers:
            if budget is not None:
                budget.spend(answer.spent)
            yield answer


def _greet(options: WorkerOptions) -> tuple[Hello, str]:
    """Return the versions of a worker's interpreter and the hash of dynalint's code. This runs in the cluster."""
    with _kept_worker(options) as worker:
        return worker.hello, worker_hash()


def _answer(
    options: WorkerOptions, operation: str, requests: Sequence[Mapping[str, Any]], prepare: str
) -> list[Answer]:
    """Return the answers to requests. This runs in the cluster."""
    with _kept_worker(options) as worker:
        return list(worker.ask_each(operation, requests, prepare=prepare))


def _kept_worker(options: WorkerOptions) -> Worker:
    """Start a worker. Its server has imported torch and is kept for the next worker in the same process."""
    _keep()
    return Worker(options)


@cache
def _keep() -> ExitStack:
    kept = ExitStack()
    kept.enter_context(keeping_a_server())
    return kept
