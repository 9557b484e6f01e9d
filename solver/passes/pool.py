"""Processes that work on tasks, may be killed at any moment, and are replaced when they are."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from corebraid.base.errors import CorebraidError
from corebraid.base.interrupts import ENDING

#: How a task is named: what is done, and with which number.
Key = tuple[str, int]
Calls = Mapping[str, Callable[..., Iterator[Any]]]
#: What became of a task: a part of its result, its end, an error of corebraid's tree, a dead process.
PART, DONE, FAILED, DIED = "part", "done", "failed", "died"
_CRASHED = "crashed"
_PR_SET_PDEATHSIG = 1
_HELD = {signal.SIGINT, *ENDING}


@dataclass(frozen=True)
class News:
    """Something about the task `key`: one of PART, DONE, FAILED (value: the error) and DIED."""

    key: Key
    what: str
    value: Any = None


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C and other requests to end come only afterwards, to this process and to none that is forked
    meanwhile, until it calls `set_interrupts`: what a forked process inherits would answer in its stead."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def set_interrupts(handler: signal.Handlers) -> None:
    """What Ctrl-C does in a process forked with `interrupts_held`; other requests to end it do so."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)


def end_with(parent: int) -> None:
    """This process, forked from `parent`, is killed when that ends, however it does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def begin_worker(parent: int) -> None:
    """This process works for `parent`, which hears Ctrl-C, and does not outlive it."""
    set_interrupts(signal.SIG_IGN)
    end_with(parent)


def end_workers(workers: Sequence[BaseProcess]) -> None:
    """When this returns they do nothing any more, such as making a file that is to be removed."""
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()


def _serve(connection: Connection, others: Sequence[Connection], calls: Calls, parent: int) -> None:
    """A worker's life: tasks, until the other end is closed."""
    begin_worker(parent)
    for other in others:
        other.close()
    # Loads Numba, which commands that only look up how many processes to use do without.
    from corebraid.base.clock import compiling_time

    before = compiling_time()
    while True:
        try:
            name, arguments = connection.recv()
        except (EOFError, OSError):
            return
        try:
            for part in calls[name](*arguments):
                _tell(connection, PART, part)
            _tell(connection, DONE, compiling_time() - before)
        except CorebraidError as error:
            _tell(connection, FAILED, error)
        except Exception:
            _tell(connection, _CRASHED, traceback.format_exc())


def _tell(connection: Connection, what: str, value: object) -> None:
    """Nobody hears it where the parent has ended: then so does this process."""
    try:
        connection.send((what, value))
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)


class _Worker:
    def __init__(self, calls: Calls, others: Sequence[Connection]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        arguments = (theirs, [*others, self.connection], calls, os.getpid())
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        with interrupts_held():
            self.process.start()
        theirs.close()
        self.key: Key | None = None


class Pool:
    """`n` worker processes, forked: they have what this process had when the pool was made, kernels and
    open files included. calls: the tasks by name; each yields the parts of its result."""

    def __init__(self, n: int, calls: Calls) -> None:
        self._calls = calls
        self._workers: list[_Worker] = []
        #: Seconds that a worker has spent on compiling kernels: the one that has spent most.
        self._compiling = 0.0
        for _ in range(n):
            self._workers.append(self._fork())

    def _fork(self) -> _Worker:
        return _Worker(self._calls, [worker.connection for worker in self._workers])

    @property
    def idle(self) -> int:
        """How many workers have nothing to do."""
        return sum(worker.key is None for worker in self._workers)

    def start(self, key: Key, name: str, *arguments: Any) -> None:
        """Give an idle worker a task; `key` is how `news` will name it. If it is dead, `news` says so."""
        worker = next(worker for worker in self._workers if worker.key is None)
        worker.key = key
        try:
            worker.connection.send((name, arguments))
        except (BrokenPipeError, ConnectionResetError):
            worker.process.kill()

    def news(self, others: Sequence[Any] = (), timeout_s: float | None = None) -> list[News]:
        """Wait for news, from one worker or several. others: file-like objects that end the waiting when they
        can be read. Raises RuntimeError with the traceback if a task ended with an error of its own."""
        busy = {worker.connection: worker for worker in self._workers if worker.key is not None}
        found = []
        for ready in wait([*busy, *others], timeout_s):
            if isinstance(ready, Connection) and ready in busy:
                found.append(self._hear(busy[ready]))
        return found

    def _hear(self, worker: _Worker) -> News:
        key = worker.key
        assert key is not None
        try:
            what, value = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return News(key, DIED)
        if what == _CRASHED:
            raise RuntimeError(f"a worker failed\n{value}")
        if what != PART:
            worker.key = None
        if what == DONE:
            self._wait_for_compiling(value)
            value = None
        return News(key, what, value)

    def _wait_for_compiling(self, seconds: float) -> None:
        """Workers compile the same kernels at the same time, and this process waits for them."""
        from corebraid.base.clock import stand_still

        if seconds > self._compiling:
            stand_still(seconds - self._compiling)
            self._compiling = seconds

    def _replace(self, worker: _Worker) -> None:
        worker.connection.close()
        worker.process.kill()
        worker.process.join()
        self._workers.remove(worker)
        self._workers.append(self._fork())

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process.pid or 0 for worker in self._workers]

    def close(self) -> None:
        """End all workers at once, whatever they do."""
        end_workers([worker.process for worker in self._workers])
        for worker in self._workers:
            worker.connection.close()
