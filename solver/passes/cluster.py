"""Regions solved on an existing dask.distributed cluster: problems go out, answers come back.

The one file that touches dask. A worker that dies loses its regions only, which the scheduler gives to
another. Regions whose workers died again and again go out once more, each alone, since dask cannot tell
which of a worker's regions killed it; one that kills even then is left undecided.
"""

from __future__ import annotations

import gc
import os
import queue
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from corebraid.base.errors import CorebraidError, UsageError
from corebraid.base.wording import shown
from solver.passes.answers import Options
from solver.passes.partial import solver_digest
from solver.passes.remote import answer_here, digest_here
from solver.passes.results import Answer
from solver.regions.problem import Problem, Verdict, no_order

WORKER_DIED = "worker died"
#: A scheduler is there when it connects, and when it answers what it is asked.
_CONNECT_S, _ANSWER_S, _LONELY_S = 10, 15.0, 60.0
#: Those that dask gives levels of their own.
_LOGGERS = ("distributed", "distributed.client")
#: Regions under way for each thread of the cluster.
_AHEAD = 4
_RESUME = "run the same command again: finished regions are kept"


def _client_class(distributed: Any) -> Callable[..., Any]:
    """Clients that close when what answers is no scheduler: dask's own do so for an OSError alone, and one
    that is left half open waits for itself when it is collected. Nor do they wait for one that takes the
    connection and says nothing: dask's own have a time for each step but that."""
    import asyncio

    class Client(distributed.Client):  # type: ignore[misc]
        async def _ensure_connected(self, timeout: Any = None) -> Any:
            try:
                connected = super()._ensure_connected(timeout=timeout)
                return await asyncio.wait_for(connected, None if timeout is None else 1.5 * timeout)
            except (OSError, ImportError):
                raise
            except Exception as error:
                raise OSError(f"no answer of a scheduler: {type(error).__name__}") from None

    return Client


def _distributed() -> Any:
    """The package. What goes wrong is told by our errors, not by its log, unless somebody has asked for that
    (dask's configuration, `logging`). Raises UsageError."""
    try:
        import dask.config

        asked = dask.config.get("logging", None)
        with dask.config.set({"logging": asked or dict.fromkeys(_LOGGERS, "critical")}):
            import distributed
    except ImportError:
        raise UsageError(
            "dask.distributed is not installed", remedy="pip install 'corebraid[cluster]'"
        ) from None
    return distributed


def _connect(make: Callable[..., Any], address: str) -> tuple[Any, str]:
    """A client, or None and what went wrong. No exception is left that would keep a client alive."""
    try:
        return make(address, timeout=_CONNECT_S, set_as_default=False, direct_to_workers=False), ""
    except Exception as error:
        # What dask raises depends on the address and on what answers. It asserts, too, that its own thread
        # starts within ten seconds, which a loaded machine may not manage.
        return None, type(error).__name__


class Cluster:
    """A connection to a scheduler. address: as its workers use it, tcp://HOST:PORT.

    Raises UsageError if dask.distributed is not installed, if nobody answers there, or if a worker has
    another solver than this process.
    """

    def __init__(self, address: str, options: Options) -> None:
        distributed = _distributed()
        self._address, self._options = address, options
        self._killed: type[BaseException] = distributed.KilledWorker
        self._client, failure = _connect(_client_class(distributed), address)
        if self._client is None:
            # A client that was never connected closes when it is collected, and waits for a lock of its
            # class: were that while another client begins, which holds it, it would wait for ever.
            gc.collect()
            raise UsageError(
                "no scheduler answers",
                found=failure,
                where=f"cluster {shown(address)}",
                remedy="start one with 'dask scheduler', and workers with 'dask worker'",
            )
        self._futures: dict[int, Any] = {}
        self._suspects: dict[int, Problem] = {}
        self._sent: dict[int, Problem] = {}
        self._alone: int | None = None
        self._done: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._wake, self._woken = os.pipe()
        self._seen = self._looked = time.monotonic()
        self._threads = 1
        try:
            self._compare_solvers()
        except BaseException:
            self.close()
            raise

    def _compare_solvers(self) -> None:
        mine = solver_digest()
        try:
            theirs = self._asked(lambda: self._client.run(digest_here, on_error="return"))
        except (OSError, TimeoutError) as error:
            raise self._lost(error) from None
        other = sorted(worker for worker, digest in theirs.items() if digest != mine)
        if other:
            raise UsageError(
                "a worker has another version of corebraid, or none",
                found=", ".join(other[:5]),
                where=f"cluster {shown(self._address)}",
                remedy="install the same corebraid on every worker, and start them again",
            )

    def _asked(self, question: Callable[..., Any], **how: Any) -> Any:
        """What a coroutine of the client's comes to. Raises OSError, TimeoutError."""
        return self._client.sync(question, callback_timeout=_ANSWER_S, **how)

    @property
    def signals(self) -> list[int]:
        """File descriptors that can be read when an answer is there."""
        return [self._wake]

    @property
    def room(self) -> int:
        """How many more regions the cluster should be given."""
        return 0 if self._suspects else max(_AHEAD * self._threads - len(self._futures), 0)

    def submit(self, problem: Problem) -> None:
        """Send a region."""
        future = self._client.submit(answer_here, problem, self._options, pure=False)
        self._futures[problem.region], self._sent[problem.region] = future, problem
        future.add_done_callback(lambda _, region=problem.region: self._tell(region))

    def _tell(self, region: int) -> None:
        self._done.put(region)
        os.write(self._woken, b".")

    def finished(self) -> list[tuple[int, Answer]]:
        """(region, answer) of those that have come back since the last call. Does not wait.

        Raises CorebraidError if the scheduler or all workers are gone, and what solving raised.
        """
        answers = []
        while not self._done.empty():
            os.read(self._wake, 1)
            region = self._done.get()
            got = self._result(region, self._futures.pop(region))
            problem = self._sent.pop(region)
            if got is not None:
                answers.append((region, got))
            else:
                self._suspects[region] = problem
        if self._suspects and not self._futures:
            self._alone = next(iter(self._suspects))
            self.submit(self._suspects.pop(self._alone))
        self._look()
        return answers

    def _result(self, region: int, future: Any) -> Answer | None:
        """The answer, or None for a region that is to be tried alone."""
        if future.status == "cancelled" or future.status == "lost":
            raise self._lost(None)
        try:
            got: Answer = future.result(timeout=_LONELY_S)
        except self._killed:
            if region != self._alone:
                return None
            return Answer(Verdict.UNDECIDED, "", 0.0, WORKER_DIED, no_order(), no_order())
        except (CancelledError, OSError, TimeoutError) as error:
            raise self._lost(error) from None
        return got

    def _look(self) -> None:
        """See from time to time whether anybody is still there."""
        now = time.monotonic()
        if now - self._looked < 1:
            return
        self._looked = now
        if self._client.status != "running":
            raise self._lost(None)
        try:
            workers = self._asked(self._client.scheduler.identity, n_workers=-1)["workers"]
        except (OSError, TimeoutError) as error:
            raise self._lost(error) from None
        self._threads = max(sum(worker["nthreads"] for worker in workers.values()), 1)
        if workers or not self._futures:
            self._seen = now
        elif now - self._seen > _LONELY_S:
            raise CorebraidError(
                f"no worker for {_LONELY_S:g} s", where=f"cluster {shown(self._address)}", remedy=_RESUME
            )

    def _lost(self, error: BaseException | None) -> CorebraidError:
        found = type(error).__name__ if error else None
        return CorebraidError(
            "the cluster is lost", found=found, where=f"cluster {shown(self._address)}", remedy=_RESUME
        )

    def close(self) -> None:
        """Take back what is not finished and leave the cluster."""
        self._client.close(timeout=2)
        # A late answer must not be written to a file that has got the same number since.
        self._done = queue.SimpleQueue()
