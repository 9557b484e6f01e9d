"""Runs in one process that puts its machine back after each (`emu.snapshot`): a tenth of what a
fork costs, whose copies of pages, and translations, are made anew in every run.

Beside it there is always the process that it was forked from, whose machine has never run: now and then that
makes a run once more, by a fork. Where the two differ in anything that is told of a run, or the one that runs
again ends, runs are forked from then on.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from solver.passes.pool import end_with

if TYPE_CHECKING:
    from emu.board.board import Board

#: Instead of an answer: it cannot run again.
_CANNOT = b""
#: Runs that are forked before it is begun, which takes as long as some forks.
FORKED_FIRST = 4
#: Memory beside that of the machine: garbage is collected every so many runs.
_COLLECTED = 16


class Standing(Protocol):
    """A recording in the making."""

    @property
    def board(self) -> Board:
        """The machine."""


class AskedAgainError(Exception):
    """Leaves the run of a machine that stands: it is asked for runs from now on."""


class Again:
    """The process that runs again and again, as seen from the one that stands.

    connection: of the process that stands, which the other one has not.
    """

    def __init__(self, connection: Connection) -> None:
        self._standing = connection
        self._asking: Connection | None = None
        self._child = 0
        self._left, self._runs = FORKED_FIRST, 0

    def begin(self) -> Connection | None:
        """Fork it, once it is worth that. Returns where it is asked, in that process; None in this one."""
        if self._left or self._child:
            self._left = max(0, self._left - 1)
            return None
        ours, theirs = Pipe()
        me = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            ours.close()
            self._standing.close()
            end_with(me)
            return theirs
        theirs.close()
        self._asking = ours
        return None

    @property
    def in_doubt(self) -> bool:
        """Whether the run that it has made last is to be forked, too: the second, fourth, eighth and so on.
        The first one says nothing about how the machine was put back."""
        return self._asking is not None and self._runs > 1 and self._runs & (self._runs - 1) == 0

    def run(self, asked: object) -> bytes | None:
        """The answer of a run; None: it is to be forked."""
        if self._asking is None:
            return None
        answer = _CANNOT
        with suppress(EOFError, OSError):
            self._asking.send(asked)
            answer = self._asking.recv_bytes()
        if answer == _CANNOT:
            self._end()
            return None
        self._runs += 1
        return answer

    def compare(self, answer: bytes | None, forked: bytes) -> bytes:
        """The last run, made again, and forked: what is to be told of it."""
        if answer is None:
            return forked
        if answer != forked and not _same(answer, forked):
            self._end()
            return forked
        return answer

    def leave(self) -> None:
        """In a forked process: the other one ends when nobody asks it any more."""
        if self._asking is not None:
            self._asking.close()

    def _end(self) -> None:
        assert self._asking is not None
        self._asking.close()
        self._asking = None
        # Where nobody waits for processes that end there is none to wait for.
        with suppress(ChildProcessError):
            os.waitpid(self._child, 0)


def _same(answer: bytes, forked: bytes) -> bool:
    return bool(answer and forked and pickle.loads(answer) == pickle.loads(forked))


def serve_again(asked: Connection, capture: Standing, once: Callable[[Any], bytes]) -> NoReturn:
    """The life of the process that runs again and again. capture: stands where every run begins. once: makes
    a run that it is asked for, and tells of it."""
    from emu.snapshot.machine import Snapshot, UnsavableError

    try:
        snapshot = Snapshot(capture.board, [capture], {0, 1, 2, asked.fileno()})
    except UnsavableError:
        os._exit(0)
    gc.freeze()
    gc.disable()
    runs = 0
    while True:
        try:
            wanted = asked.recv()
        except (EOFError, OSError):
            os._exit(0)
        asked.send_bytes(once(wanted))
        snapshot.restore()
        runs += 1
        if runs % _COLLECTED == 0:
            gc.collect()
