"""What a scheduling policy is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = Sequence[int]
#: Of a task whether it waits with a timeout.
Timed = Callable[[int], bool]
#: `Slice.core` of one in which nobody runs: time passes, until the next timer goes off.
TIME = -1


class Slice(NamedTuple):
    """Run `core`, or `TIME`, for `length` instructions.

    exact: end before the first memory access past them, even inside a block of straight-line code;
    else at the end of that block. events: end before this many shared events at the latest, 0 for any number
    (`emu.hooks.shared_access`).
    """

    core: int
    length: int
    exact: bool = True
    events: int = 0


class Ahead(NamedTuple):
    """Slices that a policy has chosen before anybody knows which cores can run.

    rows: uint64[n, 3]: of the cores that can run the one of this number, modulo how many they are; length,
    instructions; nonzero: exact. lone: how much longer they are while one core alone can run. use: told how
    many of them were taken, the first ones.
    """

    rows: NDArray[np.uint64]
    lone: int
    use: Callable[[int], None]


class Moods(NamedTuple):
    """What chooses the next slices one by one (`emu.schedule.moods.choose`), for any cores that can run.
    runs, tasks: see there. lone: as of `Ahead`."""

    runs: NDArray[np.void]
    tasks: NDArray[np.void]
    lone: int

    def use(self, many: int) -> None:
        """It has noted that."""


class Scheduler(Protocol):
    """A scheduling policy. eager: it wants to be asked as soon as another task could run. follows: it wants
    to know how each slice ended (`ended`)."""

    eager: bool
    follows: bool

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """The next slice. runnable: cores that can run, ascending. counts: instruction counts of all. events:
        shared events so far. who: the task that runs on each of all cores; None: the core itself."""

    def ended(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> None:
        """The slice has ended, and nothing has happened since: tasks have not changed cores. As `next` has
        them."""

    def ahead(self) -> Ahead | Moods | None:
        """The next slices, some of them, or what chooses them; None: it is to be asked for each."""

    def yielded(self, who: int) -> None:
        """The task has said that others should run (sched_yield)."""

    def rank(self, who: int) -> float:
        """Of tasks that want the same core, those of the highest rank get it."""

    def take_over(self, names: Sequence[int]) -> None:
        """Before the first slice: these tasks have run under another policy."""

    def know_waits(self, timed: Timed) -> None:
        """Before the first slice: how it gets to know who waits with a timeout."""


class Runner:
    """What a policy does that knows no tasks, only cores."""

    eager = False
    follows = False

    def ended(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> None:
        """It makes no difference."""

    def ahead(self) -> Ahead | Moods | None:
        """Not known."""
        return None

    def yielded(self, who: int) -> None:
        """Others run soon anyway."""

    def rank(self, who: int) -> float:
        """All alike: they take turns."""
        return 0.0

    def take_over(self, names: Sequence[int]) -> None:
        """Whoever comes is welcome."""

    def know_waits(self, timed: Timed) -> None:
        """It makes no difference."""
