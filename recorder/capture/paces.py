"""Who runs when in learning runs."""

from __future__ import annotations

import random
from collections.abc import Sequence

from emu.schedule.policy import TIME, Runner, Slice, Timed

_SLICE, _SLICE_ALONE = 400, 50_000
#: After one of so many slices who has the highest rank falls behind the others.
_FALLS = 32
#: In one of so many slices nobody runs, and time passes.
_TIMES = 16


class Paces(Runner):
    """Random short slices as soon as there is a choice. In all runs but the first timeouts come early. In
    every second run tasks have ranks, the first time the younger the higher, so that one does much before
    another begins: what a task does only then is seen in no run in which all go on at about one pace."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(f"learning {number}" if number else "learning")
        self._times = random.Random(f"times {number}") if number else None
        self._timed: Timed | None = None
        self._met = set[int]()
        self._ranks: dict[int, float] | None = {} if number % 2 else None
        self._younger_first = number == 1

    def know_waits(self, timed: Timed) -> None:
        """While somebody waits with a timeout slices are short."""
        self._timed = timed

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """A random core, or that of the highest rank; in long slices if it is the only one."""
        alone = len(runnable) == 1
        if self._times is not None and self._timed is not None and who is not None:
            self._met.update(who[core] for core in runnable)
            if any(map(self._timed, self._met)):
                alone = False
                if not self._times.randrange(_TIMES):
                    return Slice(TIME, 0)
        longest = _SLICE_ALONE if alone else _SLICE
        return Slice(self._chosen(runnable, who), self._random.randint(1, longest), exact=False)

    def _chosen(self, runnable: Sequence[int], who: Sequence[int] | None) -> int:
        ranks = self._ranks
        if ranks is None:
            return self._random.choice(runnable)
        names = {core: core if who is None else who[core] for core in runnable}
        for name in names.values():
            ranks.setdefault(name, name + 1.0 if self._younger_first else self._random.random())
        core = max(runnable, key=lambda one: ranks[names[one]])
        if len(runnable) > 1 and not self._random.randrange(_FALLS):
            # It may be waiting for one of the others.
            ranks[names[core]] = min(ranks.values()) - 1.0
        return core
