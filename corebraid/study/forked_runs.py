"""Runs of a hunt, forked from one machine that stands where schedules begin to matter: what comes before is
the same for all, and is run once.

Each process of a hunt has such a machine. Of a run that it forks nothing is written; its end is told through
a pipe. What is kept of a hunt is recorded once more, from the beginning (`corebraid.study.hunting`).
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import CorebraidError
from corebraid.base.wording import Option, Phrase
from corebraid.study.attempts import Attempt, Ended, Progress, Run, judged
from corebraid.study.conditions import Condition
from corebraid.study.course import OnLooker
from corebraid.study.runs_again import Again, AskedAgainError, serve_again
from corebraid.study.subjects import Subject
from emu.core.shared_log import SharedLog
from solver.passes.pool import begin_worker, end_with, end_workers, interrupts_held

if TYPE_CHECKING:
    from recorder.capture.linux import LinuxCapture
    from recorder.capture.options import Outcome, RecordOptions

#: Shared accesses of a run that are looked at, of those that are to be.
_SEEN = 1 << 15
#: Subjects whose machines are kept.
_KEPT = 2
#: What a process answers: a run; that there is nothing for schedules to decide; an error, a defect.
_RUN, _NOTHING, _ERROR, _CRASHED = "run", "nothing", "error", "crashed"


class NothingToChooseError(Exception):
    """The program never has two tasks."""


def can_fork(subject: Subject) -> bool:
    """Whether runs of a subject can be forked: a Linux program whose time is its own."""
    return subject.spec is not None and subject.spec.clock == "virtual" and subject.time_limit is None


class _Machine:
    """The machine of one process, and what becomes of it: in the process itself it waits, in one that was
    forked it goes on."""

    def __init__(self, connection: Connection, subject: Subject, conditions: tuple[Condition, ...]) -> None:
        self._connection, self._subject, self._conditions = connection, subject, conditions
        self._printed: list[tuple[bool, bytes]] = []
        self._first = self._receive()
        self._options = replace(
            subject.options, seed=self._first.seed, schedule=self._first.schedule, schedule_seed=0,
            unwritten=True, checkpoint=None, evidence=(), evidence_options={},
        )  # fmt: skip
        #: Of a forked process: the run that it is, and where it tells its end.
        self._mine: tuple[Attempt, int] | None = None
        #: Of the process that runs again and again: where it is asked.
        self._asked: Connection | None = None
        self._looking = OnLooker()
        self._state: NDArray[np.void] | None = None
        self._log: SharedLog | None = None

    def _receive(self) -> Attempt:
        try:
            tried = self._connection.recv()
        except EOFError:
            os._exit(0)
        assert isinstance(tried, Attempt)
        return tried

    def serve(self) -> None:
        """All runs that are asked for; does not return."""
        answer = _answer(self._run)
        if self._mine is not None:
            _write(self._mine[1], answer)
            os._exit(0)
        while True:
            self._connection.send_bytes(answer)
            self._receive()

    def _run(self) -> tuple[Any, ...]:
        from isa.registry import linux_abi_of
        from recorder.capture.linux import LinuxCapture

        spec = self._subject.spec
        assert spec is not None
        capture = LinuxCapture(
            spec, Path(), spec.isa, linux_abi_of(spec.isa), self._options,
            lambda data: self._printed.append((False, data)), lambda data: self._printed.append((True, data)),
            self._subject.more,
        )  # fmt: skip
        self._state = capture.machine.machine_rows
        capture.choose = self._stand
        with closing(capture):
            try:
                outcome = capture.run()
            except AskedAgainError:
                assert self._asked is not None
                serve_again(self._asked, capture, partial(self._once, capture))
            if self._mine is None:
                return (_NOTHING,)
            return self._told(capture, self._mine[0], outcome)

    def _told(self, capture: LinuxCapture, tried: Attempt, outcome: Outcome) -> tuple[Any, ...]:
        run = judged(self._subject, tried, outcome, self._printed, self._conditions)
        if tried.noted:
            killed = capture.machine.killed_core
            pc = None if killed is None else capture.machine.cores[killed].pc
            run = replace(run, course=self._looking.course(pc))
        if self._log is not None:
            run = replace(run, encounters=self._looking.encounters(self._log.rows()))
        return _RUN, run

    def _once(self, capture: LinuxCapture, tried: Attempt) -> bytes:
        """The answer of one of the runs of a process that makes many."""

        def run() -> tuple[Any, ...]:
            return self._told(capture, tried, capture.go_on(again=True))

        self._printed.clear()
        self._looking, self._log = OnLooker(), None
        capture.choose = lambda: self._chosen(tried)
        return _answer(run)

    def _chosen(self, tried: Attempt) -> RecordOptions:
        """The options of a run."""
        around = self._looking if tried.noted else None
        if tried.seeing and self._state is not None:
            self._log = SharedLog(self._state, _SEEN)
        chosen = replace(self._options, schedule=tried.schedule, around=around)
        return replace(chosen, schedule_seed=tried.schedule_seed)

    def _stand(self) -> RecordOptions:
        """Where schedules begin to matter: in the process itself this does not return, in each forked one it
        does, in the one that runs again and again it raises AskedAgainError."""
        gc.collect()
        gc.freeze()
        again = Again(self._connection)
        tried = self._first
        while True:
            if (asked := again.begin()) is not None:
                self._asked = asked
                raise AskedAgainError
            answer = again.run(tried)
            if answer is None or again.in_doubt:
                reader, writer = os.pipe()
                me = os.getpid()
                if (child := os.fork()) == 0:
                    return self._go_on(tried, (reader, writer), me)
                os.close(writer)
                with open(reader, "rb") as told:
                    forked = told.read()
                os.waitpid(child, 0)
                answer = again.compare(answer, forked)
            self._connection.send_bytes(answer)
            tried = self._receive()

    def _go_on(self, tried: Attempt, pipe: tuple[int, int], parent: int) -> RecordOptions:
        os.close(pipe[0])
        self._connection.close()
        # What a collection touches is copied, and all of it goes soon.
        gc.disable()
        end_with(parent)
        self._mine = tried, pipe[1]
        return self._chosen(tried)


def _answer(run: Callable[[], tuple[Any, ...]]) -> bytes:
    answer: tuple[Any, ...]
    try:
        answer = run()
    except CorebraidError as error:
        answer = _ERROR, error
    except AskedAgainError:
        raise
    except BaseException:
        answer = _CRASHED, traceback.format_exc()
    return pickle.dumps(answer)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _serve(
    connection: Connection, others: Sequence[Connection], subject: Subject,
    conditions: tuple[Condition, ...], parent: int,
) -> None:  # fmt: skip
    begin_worker(parent)
    for other in others:
        other.close()
    _Machine(connection, subject, conditions).serve()


class ForkedRuns:
    """Processes with a machine each."""

    def __init__(self, subject: Subject, conditions: tuple[Condition, ...], jobs: int) -> None:
        context = multiprocessing.get_context("fork")
        self._connections: list[Connection] = []
        self._processes = []
        for _ in range(jobs):
            mine, theirs = context.Pipe()
            others = [*self._connections, mine]
            process = context.Process(
                target=_serve, args=(theirs, others, subject, conditions, os.getpid()), daemon=True
            )
            with interrupts_held():
                process.start()
            theirs.close()
            self._connections.append(mine)
            self._processes.append(process)

    def close(self) -> None:
        """End them, and the runs that they have forked."""
        end_workers(self._processes)
        for connection in self._connections:
            connection.close()

    def hunt(self, tries: Iterator[Attempt], progress: Progress) -> tuple[Run | None, Ended]:
        """The first run for which a condition holds, and how many there were. Raises CorebraidError,
        NothingToChooseError."""
        found, done = None, Ended()
        idle, busy = list(self._connections), list[Connection]()
        while True:
            while idle and found is None and (tried := next(tries, None)) is not None:
                busy.append(idle.pop())
                # A process that is dead says so when it is heard.
                with suppress(BrokenPipeError, ConnectionResetError):
                    busy[-1].send(tried)
            if not busy:
                return found, done
            for ready in wait(busy):
                assert isinstance(ready, Connection)
                run = _heard(ready)
                busy.remove(ready)
                idle.append(ready)
                done.add(run)
                first = found is None or run.attempt.number < found.attempt.number
                if (run.held or run.refused) and first:
                    found = run
            progress(done.runs)

    def each(self, tries: Iterator[Attempt]) -> Generator[Run, None, None]:
        """What becomes of all of these, as they end. What is begun is awaited, also where nobody wants more.
        Raises as `hunt` does."""
        idle, busy = list(self._connections), list[Connection]()
        try:
            while True:
                while idle and (tried := next(tries, None)) is not None:
                    busy.append(idle.pop())
                    with suppress(BrokenPipeError, ConnectionResetError):
                        busy[-1].send(tried)
                if not busy:
                    return
                for ready in wait(busy):
                    assert isinstance(ready, Connection)
                    busy.remove(ready)
                    run = _heard(ready)
                    idle.append(ready)
                    yield run
        finally:
            for late in busy:
                with suppress(EOFError, OSError):
                    late.recv_bytes()


class Machines:
    """Processes for the subjects that were asked for last, for runs with one seed: parts of a hunt with store
    buffers and parts without take turns, and to prepare a machine takes as long as a hundred runs.

    jobs: processes for each.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._kept: list[tuple[Subject, tuple[Condition, ...], ForkedRuns]] = []

    def of(self, subject: Subject, conditions: tuple[Condition, ...]) -> ForkedRuns:
        """Those of this subject, the very same object, with these conditions."""
        for k, (known, asked, forked) in enumerate(self._kept):
            if known is subject and asked == conditions:
                self._kept.append(self._kept.pop(k))
                return forked
        if len(self._kept) == _KEPT:
            self._kept.pop(0)[-1].close()
        forked = ForkedRuns(subject, conditions, self.jobs)
        self._kept.append((subject, conditions, forked))
        return forked

    def close(self) -> None:
        """End them all."""
        while self._kept:
            self._kept.pop()[-1].close()


def _heard(connection: Connection) -> Run:
    try:
        data = connection.recv_bytes()
    except (EOFError, OSError):
        data = b""
    if not data:
        raise CorebraidError(
            "a recording process was killed",
            remedy=Phrase("try again with ", Option("jobs", 1), ", or with more memory"),
        )
    what, *rest = pickle.loads(data)
    if what == _ERROR:
        raise rest[0]
    if what == _CRASHED:
        raise RuntimeError(f"a run failed\n{rest[0]}")
    if what == _NOTHING:
        raise NothingToChooseError
    run = rest[0]
    assert isinstance(run, Run)
    return run
