"""Chaos: starve some tasks, let others rush ahead, cut slices short around what is shared.

After rr's chaos mode (O'Callahan, "Introducing rr chaos mode", 2016): bugs want a task that stands still for
a random time at a random place, which no even schedule gives.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from emu.schedule.moods import HELD, RUN, TASK, choose, meet, rests
from emu.schedule.policy import Ints, Moods, Runner, Slice
from emu.schedule.twister import draws_of

if TYPE_CHECKING:
    from emu.schedule.shared_words import SharedWords

#: Longest slice of a run with naps, in instructions, as powers of two; how often who ran goes on.
_LENGTH_BITS, _STAYS = (8, 14), (0.0, 0.5, 0.9, 0.98)
#: Naps that are planned in a run, as powers of two: no more than `MOST_NAPS`.
_NAPS_BITS = (0, 4)
#: Tasks that there is always room for: as many as there can be cores.
_ROOM = 64


class Chaos(Runner):
    """Some runs consist of stretches of random length, each with its mood: all tasks alike, some starved, or
    one alone. In most a task that is about to make one of some shared events, drawn at the beginning, takes a
    nap, for a time or until nobody else can run. In one half of both, tasks that begin wait until nobody else
    can run, so that short ones meet.

    shared: what is known of shared events, None if they are not counted. If they are, slices of a stretch end
    before one of the next few.
    """

    eager = True

    def __init__(self, seed: int, shared: SharedWords | None = None) -> None:
        draw = random.Random(f"chaos/{seed}")
        counted = shared is not None and len(shared.events) > 0
        self._runs, self._tasks = np.zeros(1, RUN), np.zeros(_ROOM, TASK)
        #: The same as plain numbers.
        self._run = run = self._runs[0]
        run["counted"], run["grain"], run["last"], run["stayed"] = counted, 1.0, -1, -1
        run["coarse"], run["holds"] = draw.random(), draw.getrandbits(1)
        if shared is not None and counted and draw.getrandbits(1):
            naps = sorted(shared.draw(draw) for _ in range(1 << draw.randint(*_NAPS_BITS)))
            run["naps"], run["until"] = len(naps), HELD
            run["napper"][: len(naps)], run["before"][: len(naps)] = zip(*naps, strict=True)
            run["stays"], run["length"] = draw.choice(_STAYS), 1 << draw.randint(*_LENGTH_BITS)
        run["draws"] = draws_of(draw)

    def rank(self, who: int) -> float:
        """Who rests comes last."""
        return 0.0 if rests(self._runs, self._tasks, who) else 1.0

    def yielded(self, who: int) -> None:
        """It does not go on at once."""
        self._run["stayed"] = -1
        self._run["yields"] += 1

    def take_over(self, names: Sequence[int]) -> None:
        """They do not begin."""
        self._make_room(len(names))
        for who in names:
            meet(self._runs, self._tasks, who)

    def _make_room(self, more: int = _ROOM) -> None:
        if (lacking := self._runs["known"].item() + more - len(self._tasks)) > 0:
            self._tasks = np.concatenate([self._tasks, np.zeros(lacking + _ROOM, TASK)])

    def ahead(self) -> Moods:
        """It chooses the next ones as well as this one."""
        self._make_room()
        return Moods(self._runs, self._tasks, 1)

    def next(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> Slice:
        """A random task that does not rest, for a short time."""
        seats = np.array([(k, k if who is None else who[k]) for k in runnable], np.int64)
        self._make_room()
        picked, length, exact, until = self._choose(self._runs, self._tasks, seats, sum(counts), events)
        return Slice(runnable[picked], length, exact=bool(exact), events=until)

    @cached_property
    def _choose(self) -> Callable[..., Any]:
        return choose.like(self._runs, self._tasks, np.zeros((1, 2), np.int64), 0, 0)
