"""The machine that all runs of a search begin with: it stands where the program has a second thread, or at
its reset.

Most runs are made by one process, forked from there, that puts its machine back after each (`runs_again`).
Others are forked, each a process of its own, which tells what it did and is gone. Where programs run for long
they leave processes that stand where other runs may go another way: those begin there. A process that stands
is asked through a socket of its own, whose other end comes with the answer of the run that has left it. It
ends when that is closed.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import numpy as np

from corebraid.base.errors import CorebraidError, UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.study.attempts import Attempt, Run, judged
from corebraid.study.conditions import Condition
from corebraid.study.exhaustive.capturing import Watched, guest_of
from corebraid.study.exhaustive.following import Followed, Follower, OverError
from corebraid.study.exhaustive.observing import Observer, touched_by
from corebraid.study.exhaustive.racing import racing_words
from corebraid.study.exhaustive.steps import Footprint, Plan, Step
from corebraid.study.exhaustive.trace import Trace
from corebraid.study.forked_runs import NothingToChooseError
from corebraid.study.runs_again import FORKED_FIRST, Again, AskedAgainError, serve_again
from corebraid.study.subjects import Subject
from emu.board.board import Board
from emu.schedule.step_file import words_to_watch
from emu.schedule.stepped import Stepped
from solver.passes.pool import begin_worker, end_with, end_workers, interrupts_held

if TYPE_CHECKING:
    from recorder.capture.options import Outcome, RecordOptions

#: Processes that stand at once, besides the first; how many a run may leave, and how many steps apart.
_STANDING, _LEFT, _APART = 24, 4, 8
#: Steps before a plan's branch that are soon made again.
_SHORT = 200
#: Before an answer: its bytes.
_HEAD = struct.Struct("<Q")


@dataclass(frozen=True)
class Request:
    """A run that is asked for. watched: the words whose accesses are events, addresses divided by 8.
    patience: see `Follower`. free: how many processes may be left on the way; 0: it need not be forked."""

    plan: Plan
    watched: tuple[int, ...]
    patience: int = 0
    free: int = 0


@dataclass(frozen=True)
class Made:
    """A run that was made. run: how it ended; None if it was stopped before. left: the processes that it has
    left: how many steps each of them has made. again: by the process that makes run after run."""

    followed: Followed
    run: Run | None
    left: tuple[int, ...] = ()
    again: bool = field(default=False, compare=False)


def _refuse_short(outcome: Outcome | None, options: RecordOptions) -> None:
    """Raises UsageError: the run ended at its limit before there was anything to choose."""
    end = None if outcome is None else outcome.end
    if end is not None and end.reason == "limit":
        raise UsageError(
            "the limit comes before the second thread",
            found=f"{options.limit:,} instructions",
            remedy=Phrase("give it more: ", Option("limit")),
        )


class _Server:
    """A process that stands: in itself it waits to be asked, in those that it forks it goes on."""

    def __init__(
        self, asked: Connection, answers: socket.socket, subject: Subject, conditions: tuple[Condition, ...]
    ) -> None:
        self._asked, self._answers = asked, answers
        self._subject, self._conditions = subject, conditions
        self._printed: list[tuple[bool, bytes]] = []
        self._observer = Observer(subject.options.cores)
        self._follower: Follower | None = None
        self._request = Request(Plan(), ())
        self._free = 0
        #: The processes that this run has left: the sockets' other ends, and the steps that each has made.
        self._left: list[tuple[int, int]] = []
        self._told = -1
        #: In the process that runs again and again: where it is asked. In one that is forked to make the same
        #: run: it tells only the process that has forked it.
        self._again: Connection | None = None
        self._compared = False

    def serve(self) -> None:
        """All runs that are asked for; does not return."""
        data = _answer(self._run)
        if self._compared:
            with open(self._told, "wb") as told:
                told.write(data)
            os._exit(0)
        while True:
            if self._follower is None:
                self._receive()
            else:
                # Once the answer is read, whoever forked this process may be let go, and it with that one.
                os.write(self._told, b"!")
                os.close(self._told)
            _send(self._answers, data, [end for end, _ in self._left])
            if self._follower is not None:
                os._exit(0)

    def _run(self) -> Made | None:
        options = replace(
            self._subject.options, schedule="round-robin", steps=Stepped(self._choose, self._goes_on),
            shared=None, unwritten=True, checkpoint=None, evidence=(), evidence_options={},
        )  # fmt: skip
        capture, self._made_tasks = guest_of(
            self._subject, options, lambda *piece: self._printed.append(piece), self._observer
        )
        self._machine = capture.board
        outcome: Outcome | None = None
        with closing(capture):
            try:
                with suppress(OverError):
                    outcome = capture.run()
            except AskedAgainError:
                assert self._again is not None
                self._answers.close()
                del self._answers
                serve_again(self._again, capture, partial(self._once, capture))
        if self._follower is None:
            _refuse_short(outcome, self._subject.options)
            return None
        return self._made(outcome)

    def _once(self, capture: Watched, request: Request) -> bytes:
        """The answer of one of the runs of a process that makes many."""

        def run() -> Made:
            outcome = None
            with suppress(OverError):
                outcome = capture.go_on(again=True)
            return self._made(outcome)

        self._request = request
        return _answer(run)

    def _made(self, outcome: Outcome | None) -> Made:
        assert self._follower is not None
        followed, run = self._follower.finished(), None
        if outcome is not None:
            attempt = Attempt(0, self._subject.options.seed, "exhaustive")
            run = judged(self._subject, attempt, outcome, self._printed, self._conditions)
        return Made(followed, run, tuple(made for _, made in self._left), self._again is not None)

    def _choose(self, enabled: tuple[int, ...]) -> int:
        if self._follower is None:
            if self._again is None:
                _warm_up(self._machine)
                self._stand()
            words = words_to_watch(self._request.watched)
            self._machine.watch(words)
            self._follower = Follower(
                self._machine, self._made_tasks(), self._observer, self._request.plan, words.words,
                self._request.patience,
            )  # fmt: skip
        follower = self._follower
        made = follower.stand()
        if self._free and follower.is_new(_APART * len(self._left)):
            self._free -= 1
            mine, other = socket.socketpair()
            self._asked = Connection(mine.detach())
            self._left.append((other.detach(), made))
            self._stand(going_on=True)
            follower.follow(self._request.plan)
        return follower.choose(enabled)

    def _goes_on(self) -> bool:
        return self._follower is None or self._follower.goes_on()

    def _receive(self) -> Request:
        try:
            asked = self._asked.recv()
        except (EOFError, OSError):
            os._exit(0)
        assert isinstance(asked, Request)
        return asked

    def _stand(self, *, going_on: bool = False) -> None:
        """Wait to be asked; returns in forked processes only. going_on: one of them goes on with what this
        process was asked for."""
        if not going_on:
            gc.collect()
        gc.freeze()
        me = os.getpid()
        if going_on:
            if self._is_forked(me):
                self._asked.close()
                return
            os.close(self._told)
            for end, _ in self._left:
                os.close(end)
        again = None if going_on else Again(self._asked)
        while True:
            if again is not None and (asked := again.begin()) is not None:
                self._again = asked
                raise AskedAgainError
            self._request = self._receive()
            answer: bytes | None = None
            if again is not None and not self._request.free:
                answer = again.run(self._request)
                if answer is not None and not again.in_doubt:
                    _send(self._answers, answer, [])
                    continue
            reader, self._told = os.pipe()
            self._free, self._left = min(self._request.free, _LEFT), []
            self._compared = answer is not None
            if self._is_forked(me):
                os.close(reader)
                self._asked.close()
                if again is not None:
                    again.leave()
                return
            os.close(self._told)
            # The run says that it is about to answer, or is dead.
            with open(reader, "rb") as heard:
                told = heard.read()
            if again is not None and answer is not None:
                _send(self._answers, again.compare(answer, told), [])
            elif not told:
                _send(self._answers, b"", [])

    def _is_forked(self, me: int) -> bool:
        if os.fork():
            return False
        gc.disable()
        end_with(me)
        return True


def _answer(run: Callable[[], Made | None]) -> bytes:
    answer: object
    try:
        answer = run()
    except CorebraidError as error:
        answer = error
    except AskedAgainError:
        raise
    except BaseException:
        answer = traceback.format_exc()
    return pickle.dumps(answer)


def _send(answers: socket.socket, data: bytes, ends: list[int]) -> None:
    socket.send_fds(answers, [_HEAD.pack(len(data))], ends)
    answers.sendall(data)


def _heard(answers: socket.socket) -> tuple[bytes, list[int]]:
    """An answer, and the ends of sockets that come with it; no bytes if nobody answers any more."""
    head, ends, _, _ = socket.recv_fds(answers, _HEAD.size, _LEFT)
    if len(head) < _HEAD.size:
        return b"", ends
    left, parts = _HEAD.unpack(head)[0], []
    while left and (part := answers.recv(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return (b"" if left else b"".join(parts)), ends


def _warm_up(machine: Board) -> None:
    """Load what every run needs."""
    from corebraid.base.rows.event import EVENT

    touched = touched_by(np.ones(2, EVENT))
    for number in range(len(machine.cores)):
        machine.empty_store_buffer(number)
        machine.commit_step(number, own=False)
    steps = [Step(1, Footprint({8: True}, ranges=((0, 8),))), Step(2, Footprint({8: True}))]
    racing_words(Trace(steps), [(touched, touched)] * 2, np.zeros(1, np.uint64))


def _serve(
    asked: Connection, answers: socket.socket, others: tuple[Connection, socket.socket], subject: Subject,
    conditions: tuple[Condition, ...], parent: int,
) -> None:  # fmt: skip
    begin_worker(parent)
    # Nobody waits for processes that end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for other in others:
        other.close()
    _Server(asked, answers, subject, conditions).serve()


@dataclass(frozen=True)
class _Standing:
    """A process that stands. tasks: whose steps it has made. watched: see `Request`."""

    asked: Connection
    tasks: tuple[int, ...]
    watched: tuple[int, ...]


class Machine:
    """Processes with a machine each, which runs are forked from."""

    def __init__(self, subject: Subject, conditions: tuple[Condition, ...]) -> None:
        context = multiprocessing.get_context("fork")
        reader, self._asked = context.Pipe(duplex=False)
        self._answers, theirs = socket.socketpair()
        self._process = context.Process(
            target=_serve, daemon=True,
            args=(reader, theirs, (self._asked, self._answers), subject, conditions, os.getpid()),
        )  # fmt: skip
        with interrupts_held():
            self._process.start()
        reader.close()
        theirs.close()
        #: Whether one process makes the runs that begin where the first one stands, and how many there were.
        self._again, self._runs = True, 0
        #: Those that stand, each on the way of the next.
        self._standing: list[_Standing] = []

    def close(self) -> None:
        """End them, and the run that is under way."""
        end_workers([self._process])
        for asked in (self._asked, *(one.asked for one in self._standing)):
            asked.close()
        self._answers.close()

    def run(self, plan: Plan, watched: tuple[int, ...], patience: int) -> Made:
        """Make a run; see `Request`. Raises CorebraidError, NothingToChooseError: the program never has two
        threads."""
        self._let_go(plan, watched)
        asked = self._standing[-1].asked if self._standing else self._asked
        free = 0 if self._again and plan.branch <= _SHORT else _STANDING - len(self._standing)
        data, ends = b"", list[int]()
        with suppress(BrokenPipeError, ConnectionResetError, OSError):
            asked.send(Request(plan, watched, patience, free))
            data, ends = _heard(self._answers)
        if not data:
            raise CorebraidError(
                "a process of the search was killed",
                remedy=Phrase("try again with more memory, or with fewer ", Option("cores")),
            )
        answer = pickle.loads(data)
        if isinstance(answer, CorebraidError):
            raise answer
        if answer is None:
            raise NothingToChooseError
        if isinstance(answer, str):
            raise RuntimeError(f"a run failed\n{answer}")
        assert isinstance(answer, Made)
        if asked is self._asked and not free:
            self._runs += 1
            self._again = answer.again or self._runs <= FORKED_FIRST
        tasks = tuple(step.task for step in answer.followed.execution.steps)
        for end, made in zip(ends, answer.left, strict=True):
            self._standing.append(_Standing(Connection(end), tasks[:made], watched))
        return answer

    def _let_go(self, plan: Plan, watched: tuple[int, ...]) -> None:
        """Those that do not stand on the way to the plan's branch."""
        while self._standing:
            last = self._standing[-1]
            made = len(last.tasks)
            if last.watched == watched and made <= plan.branch and plan.tasks[:made] == last.tasks:
                return
            self._standing.pop().asked.close()
