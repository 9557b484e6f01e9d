"""z3 in a process of its own, which is started once and used again and again.

What z3 does with its memory, its time and its signals is then its own affair: a process that does not answer
in time is killed, and an interrupt here leaves no half-made object of z3's behind. A problem goes out as
arrays, an answer comes back as numbers (`solver.smt.child` is the other end).

The process has a process group of its own, so that Ctrl-C on a terminal does not reach it, and ends by itself
once nobody holds the other end of its pipe: whatever ends this process, it does not outlive it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import Any

from corebraid.base.errors import CorebraidError

#: What the process runs, with the number of its end of the pipe. It finds modules where this one does.
_CODE = "import sys; sys.path[:] = {path!r}; from solver.smt.child import main; main(int(sys.argv[1]))"
#: How long it may take to load z3, on however busy a machine.
_START_S = 120.0
#: How late an answer may come: a share of the time that it had, and seconds.
_LATE_SHARE, _LATE_S = 0.1, 0.5
#: First words of an answer: the function's result; the traceback of what it raised.
DONE, CRASHED = "done", "crashed"


class TooLateError(Exception):
    """The process did not answer in time."""


class DiedError(Exception):
    """The process ended before it had answered."""


class _Process:
    """One process. Whoever is interrupted while using it has to `kill` it: what is in the pipe is unknown."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        try:
            # Made before the process is, so that an interrupt in between leaves nothing but a pipe's end.
            command = [sys.executable, "-c", _CODE.format(path=sys.path), str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._process.poll()

    def hear(self, seconds: float) -> Any:
        """What it says within so many seconds. Raises TooLateError, DiedError."""
        try:
            if self._connection.poll(seconds):
                return self._connection.recv()
        except (EOFError, OSError):
            raise DiedError from None
        raise TooLateError

    def tell(self, what: Any) -> None:
        """Raises DiedError."""
        try:
            self._connection.send(what)
        except OSError:
            raise DiedError from None

    def kill(self) -> None:
        """End it, whatever it does."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Let go of it in a process that was forked from the one that it works for."""
        self._connection.close()
        # Else Python would say that a process of this one is still running.
        self._process.returncode = 0


class Processes:
    """Those that have nothing to do. Each thread that asks something has one for itself while it asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Process] = []

    def ask(self, name: str, *arguments: Any, timeout_s: float) -> Any:
        """The result of the function "module:function" in `solver.smt.child`, which is told to take no more
        than `timeout_s` seconds. Its process is killed if it takes much longer, and another one tries once if
        it dies. Raises TooLateError, DiedError, and CorebraidError for what it raised or if z3 cannot be
        started.
        """
        try:
            what, value = self._ask(name, arguments, timeout_s)
        except DiedError:
            # It may have ended while it had nothing to do, as others for which memory was short.
            what, value = self._ask(name, arguments, timeout_s)
        if what == CRASHED:
            raise CorebraidError(
                f"the SMT engine failed: {value}", remedy="this is a defect of corebraid: please report it"
            )
        return value

    def _ask(self, name: str, arguments: tuple[Any, ...], timeout_s: float) -> Any:
        process = self._take()
        try:
            process.tell((name, arguments, timeout_s))
            answer = process.hear(timeout_s * (1 + _LATE_SHARE) + _LATE_S)
        except BaseException:
            process.kill()
            raise
        with self._lock:
            self._idle.append(process)
        return answer

    def _take(self) -> _Process:
        """An idle process that is alive, or a new one that has loaded z3."""
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                break
            if process.status is None:
                return process
            process.kill()
        process = _Process()
        try:
            what, value = process.hear(_START_S)
        except (TooLateError, DiedError):
            process.kill()
            raise CorebraidError(
                "the process that runs z3 did not start",
                found=f"exit status {process.status}",
                remedy="is there enough memory, and does 'python -c \"import z3\"' work?",
            ) from None
        except BaseException:
            process.kill()
            raise
        if what == CRASHED:
            process.kill()
            raise CorebraidError(f"z3 cannot be loaded: {value}", remedy="pip install z3-solver")
        return process

    @property
    def idle(self) -> list[int]:
        """Process ids of those that have nothing to do."""
        with self._lock:
            return [process.pid for process in self._idle]

    def close(self) -> None:
        """End those that have nothing to do."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.kill()

    def forget(self) -> None:
        """In a process that was forked from this one: those here are not its own."""
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        for process in idle:
            with suppress(OSError):
                process.forget()


PROCESSES = Processes()
os.register_at_fork(after_in_child=PROCESSES.forget)
atexit.register(PROCESSES.close)
