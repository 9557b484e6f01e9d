"""What a scheduling policy is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

Ints = Sequence[int]


class Slice(NamedTuple):
    """Run `core` for `length` instructions.

    exact: end before the first memory access past them, even inside a block of straight-line code;
    else at the end of that block. events: end before this many shared events at the latest, 0 for any number
    (`emu.hooks.shared_access`).
    """

    core: int
    length: int
    exact: bool = True
    events: int = 0


class Scheduler(Protocol):
    """A scheduling policy. eager: it wants to be asked as soon as another task could run."""

    eager: bool

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """The next slice. runnable: cores that can run, ascending. counts: instruction counts of all. events:
        shared events so far. who: the task that runs on each of all cores; None: the core itself."""

    def yielded(self, who: int) -> None:
        """The task has said that others should run (sched_yield)."""

    def rank(self, who: int) -> float:
        """Of tasks that want the same core, those of the highest rank get it."""


class Runner:
    """What a policy does that knows no tasks, only cores."""

    eager = False

    def yielded(self, who: int) -> None:
        """Others run soon anyway."""

    def rank(self, who: int) -> float:
        """All alike: they take turns."""
        return 0.0
