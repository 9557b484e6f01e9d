"""A campaign: the cases of a kind are run, judged and counted.

Cases run one after the other in a process, since a fork takes longer than most of them. One that fails behind
others is run once more, alone in a new process, and that counts: a case is made of seed and number alone. If
it does not fail there, that is told too, since a process that reads several recordings (the Python interface)
would have failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.hostile.fork_server import run_cases
from bench.hostile.judging import Ended
from bench.hostile.slot import Limits
from bench.hostile.tally import Tally

#: A case in which kernels are compiled is tried again: what it took says nothing.
_COMPILING, _MOST_ROUNDS = "compiling the kernels", 5
_LONG = Limits(seconds=600.0)
#: Cases after which those that failed are run alone.
_AT_A_TIME = 10_000


class Verdict(NamedTuple):
    """what: the kind of case; outcome: how it ended; fault: what is wrong with that, or ''."""

    what: str
    command: str
    outcome: str
    fault: str
    note: str


class Trials(Protocol):
    """The cases of a kind and a seed. turns: most cases that a process may take."""

    limits: Limits
    turns: int

    def work(self, number: int, folder: Path, note: int) -> int:
        """Run a case in this process, in the empty `folder`; its exit code. note: a file for `judge`."""

    def judge(self, number: int, how: Ended, note: str) -> Verdict:
        """What is to be said of how it ended."""


class Preparation(Protocol):
    """The function `prepare` of a kind's module."""

    def __call__(self, numbers: Sequence[int], seed: int, folder: Path) -> Trials:
        """Make in `folder` what the cases with these numbers need, and load all kernels."""


def run_campaign(
    tally: Tally,
    trials: Trials,
    numbers: Iterable[int],
    folder: Path,
    jobs: int = 1,
    limits: Limits | None = None,
    heard: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Try the cases with these numbers. limits: of each, those of `trials` unless given. heard: told after
    each case."""
    limits, todo = limits or trials.limits, iter(numbers)
    while some := list(islice(todo, _AT_A_TIME)):
        failed, slow = _round(tally, trials, some, folder, jobs, limits, heard)
        for _ in range(_MOST_ROUNDS if slow else 0):
            more, slow = _round(tally, trials, slow, folder, jobs, _LONG, heard)
            failed |= more
        if failed:
            alone = _Alone(trials, failed, tally)
            _round(tally, alone, list(failed), folder, jobs, limits, heard)
    return tally


class _Alone:
    """Cases that failed behind others, each in a process of its own. failed: how, by number."""

    turns = 1

    def __init__(self, trials: Trials, failed: dict[int, str], tally: Tally) -> None:
        self._trials, self._failed, self._tally, self.limits = trials, failed, tally, trials.limits

    def work(self, number: int, folder: Path, note: int) -> int:
        return self._trials.work(number, folder, note)

    def judge(self, number: int, how: Ended, note: str) -> Verdict:
        verdict = self._trials.judge(number, how, note)
        if not verdict.fault:
            self._tally.passed_alone(number, self._failed[number], verdict.note)
        return verdict


def _round(
    tally: Tally,
    trials: Trials,
    numbers: list[int],
    folder: Path,
    jobs: int,
    limits: Limits,
    heard: Callable[[Tally], None],
) -> tuple[dict[int, str], list[int]]:
    """Run them once. Those to be run alone and what was wrong with them; those in which kernels were
    compiled."""
    failed: dict[int, str] = {}
    slow: list[int] = []

    def ended(number: int, how: Ended, note: str) -> None:
        verdict = trials.judge(number, how, note)
        if how.stopped and _COMPILING.encode() in how.err:
            slow.append(number)
        elif verdict.fault and how.before:
            failed[number] = verdict.fault
        else:
            tally.add(number, *verdict, how.seconds)
            heard(tally)

    run_cases(numbers, trials.work, ended, folder, jobs, limits, trials.turns)
    return failed, slow
