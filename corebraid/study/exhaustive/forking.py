"""The machine that all runs of a search are forked from: it stands where the program has a second thread.

Each run is a process of its own, which tells what it did through a pipe and is gone.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import traceback
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from corebraid.base.errors import CorebraidError
from corebraid.base.wording import Option, Phrase
from corebraid.study.attempts import Attempt, Run, judged
from corebraid.study.conditions import Condition
from corebraid.study.exhaustive.following import Followed, Follower, OverError
from corebraid.study.exhaustive.observing import Observer
from corebraid.study.exhaustive.steps import Plan
from corebraid.study.forked_runs import NothingToChooseError
from corebraid.study.subjects import Subject
from emu.schedule.shared_words import SHARED_EVENT, SharedWords
from emu.schedule.stepped import Stepped
from solver.passes.pool import end_with, end_workers, interrupts_held, set_interrupts

if TYPE_CHECKING:
    from recorder.capture.options import Outcome


@dataclass(frozen=True)
class Request:
    """A run that is asked for. watched: the words whose accesses are events, addresses divided by 8."""

    plan: Plan
    watched: tuple[int, ...]


@dataclass(frozen=True)
class Made:
    """A run that was made. run: how it ended; None if it was stopped before."""

    followed: Followed
    run: Run | None


def words_of(words: tuple[int, ...]) -> SharedWords:
    """Words to watch, as a machine is told of them."""
    return SharedWords(np.array(sorted(words), np.uint64), np.zeros(0, SHARED_EVENT))


class _Server:
    """The machine's process: in itself it waits where the first choice is, in forked ones it goes on."""

    def __init__(self, connection: Connection, subject: Subject, conditions: tuple[Condition, ...]) -> None:
        self._connection, self._subject, self._conditions = connection, subject, conditions
        self._printed: list[tuple[bool, bytes]] = []
        self._request = self._receive()
        self._observer = Observer(subject.options.cores)
        self._follower: Follower | None = None
        self._writer = -1

    def _receive(self) -> Request:
        try:
            asked = self._connection.recv()
        except EOFError:
            os._exit(0)
        assert isinstance(asked, Request)
        return asked

    def serve(self) -> None:
        """All runs that are asked for; does not return."""
        answer: object
        try:
            answer = self._run()
        except CorebraidError as error:
            answer = error
        except BaseException:
            answer = traceback.format_exc()
        data = pickle.dumps(answer)
        if self._follower is not None:
            with open(self._writer, "wb") as told:
                told.write(data)
            os._exit(0)
        while True:
            self._connection.send_bytes(data)
            self._receive()

    def _run(self) -> Made | None:
        from isa.registry import linux_abi_of
        from recorder.capture.linux import LinuxCapture

        spec = self._subject.spec
        assert spec is not None
        options = replace(
            self._subject.options, schedule="round-robin", steps=Stepped(self._choose), shared=None,
            unwritten=True, checkpoint=None, evidence=(), evidence_options={},
        )  # fmt: skip
        capture = LinuxCapture(
            spec, Path(), spec.isa, linux_abi_of(spec.isa), options,
            lambda data: self._printed.append((False, data)), lambda data: self._printed.append((True, data)),
            self._subject.more, (self._observer,),
        )  # fmt: skip
        self._machine = capture.machine
        outcome: Outcome | None = None
        with closing(capture), suppress(OverError):
            outcome = capture.run()
        if self._follower is None:
            return None
        followed = self._follower.finished()
        if outcome is None:
            return Made(followed, None)
        attempt = Attempt(0, options.seed, "exhaustive")
        return Made(followed, judged(self._subject, attempt, outcome, self._printed, self._conditions))

    def _choose(self, enabled: tuple[int, ...]) -> int:
        if self._follower is None:
            self._fork()
            words = words_of(self._request.watched)
            self._machine.watch(words)
            self._follower = Follower(self._machine, self._observer, self._request.plan, words.words)
        return self._follower.choose(enabled)

    def _fork(self) -> None:
        """Returns in forked processes only."""
        gc.collect()
        gc.freeze()
        me = os.getpid()
        while True:
            reader, self._writer = os.pipe()
            if (child := os.fork()) == 0:
                os.close(reader)
                self._connection.close()
                gc.disable()
                end_with(me)
                return
            os.close(self._writer)
            with open(reader, "rb") as told:
                answer = told.read()
            os.waitpid(child, 0)
            self._connection.send_bytes(answer)
            self._request = self._receive()


def _serve(
    connection: Connection, other: Connection, subject: Subject, conditions: tuple[Condition, ...], parent: int
) -> None:
    set_interrupts(signal.SIG_IGN)
    end_with(parent)
    other.close()
    _Server(connection, subject, conditions).serve()


class Machine:
    """A process with a machine that runs are forked from."""

    def __init__(self, subject: Subject, conditions: tuple[Condition, ...]) -> None:
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self._connection, subject, conditions, os.getpid()), daemon=True
        )
        with interrupts_held():
            self._process.start()
        theirs.close()

    def close(self) -> None:
        """End it, and the run that it has forked."""
        end_workers([self._process])
        self._connection.close()

    def run(self, request: Request) -> Made:
        """Make a run. Raises CorebraidError, NothingToChooseError: the program never has two threads."""
        data = b""
        with suppress(BrokenPipeError, ConnectionResetError, EOFError, OSError):
            self._connection.send(request)
            data = self._connection.recv_bytes()
        if not data:
            raise CorebraidError(
                "a process of the search was killed", remedy=Phrase("try again, with more memory, or with fewer ", Option("cores"))
            )
        answer = pickle.loads(data)
        if isinstance(answer, CorebraidError):
            raise answer
        if answer is None:
            raise NothingToChooseError
        if isinstance(answer, str):
            raise RuntimeError(f"a run failed\n{answer}")
        assert isinstance(answer, Made)
        return answer
