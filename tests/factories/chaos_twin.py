"""Chaos as it reads most easily: the naive twin of `emu.schedule.moods` and `emu.schedule.chaos`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emu.schedule.policy import Ints, Runner, Slice

if TYPE_CHECKING:
    from emu.schedule.shared_words import SharedWords

#: Instructions of a stretch with one mood, as powers of two.
_STRETCH_BITS = (6, 14)
#: Longest slice of a run, in instructions, as powers of two; where shared events end slices, and where not.
_LENGTH_BITS, _LENGTH_BITS_ALONE = (8, 14), (3, 12)
#: Shared events in a slice on average, of which each stretch draws one.
_GRAINS = (1, 2, 4, 12)
_EVEN, _STARVE, _RUSH = 3, 3, 2
#: Naps that are planned in a run, as powers of two; instructions of one, as powers of two.
_NAPS_BITS, _NAP_BITS = (0, 4), (6, 12)
#: From here on a rest lasts until nobody else can run, but no more than so many instructions over all cores,
#: and yields: who spins until the one that rests has done something could run for ever.
_HELD, _PATIENCE, _YIELDS = 1 << 62, 1 << 20, 1 << 11


class ChaosTwin(Runner):
    """See `emu.schedule.chaos.Chaos`."""

    def __init__(self, seed: int, shared: SharedWords | None = None) -> None:
        self._random = draw = random.Random(f"chaos/{seed}")
        self._counted = shared is not None and len(shared.events) > 0
        self._seen: list[int] = []
        self._until = 0
        self._grain = 1.0
        self._stays = 0.0
        #: Whose slice was the last, and who may have the next one as well.
        self._last = self._stayed = -1
        #: Tasks that rest, and the instruction count, over all cores, until which they do.
        self._resting: dict[int, int] = {}
        #: Since which instruction, and which yield, those rest that wait until nobody else can run.
        self._since: dict[int, tuple[int, int]] = {}
        self._yields = 0
        self._long_naps = 0
        self._total = self._events = 0
        # A run is fine or coarse on the whole: bugs differ in how long somebody must stand still.
        self._coarse = draw.random()
        self._holds = draw.getrandbits(1) == 1
        #: Of each task the numbers of its events before which it takes a nap, ascending; those it has made.
        self._plan: dict[int, list[int]] = {}
        self._made: dict[int, int] = {}
        self._naps = False
        if shared is not None and self._counted and draw.getrandbits(1):
            self._naps = True
            self._plan_naps(shared)

    def _plan_naps(self, shared: SharedWords) -> None:
        draw = self._random
        for _ in range(1 << draw.randint(*_NAPS_BITS)):
            who, number = shared.draw(draw)
            self._plan.setdefault(who, []).append(number)
        for numbers in self._plan.values():
            numbers.sort()
        self._until = _HELD
        self._stays = draw.choice((0.0, 0.5, 0.9, 0.98))
        self._length = 1 << draw.randint(*_LENGTH_BITS)

    def rank(self, who: int) -> float:
        """Who rests comes last."""
        return 0.0 if self._rests(who) else 1.0

    def yielded(self, who: int) -> None:
        """It does not go on at once."""
        self._stayed = -1
        self._yields += 1

    def take_over(self, names: Sequence[int]) -> None:
        """They do not begin."""
        self._seen += names

    def _meet(self, names: Sequence[int]) -> None:
        """Take note of tasks that are new; they may have to wait until nobody else can run."""
        for who in names:
            if who not in self._seen:
                if self._holds and self._total:
                    self._hold(who, _HELD)
                self._seen.append(who)

    def _wake(self, names: Sequence[int]) -> list[int]:
        """All of these rest: those that are new begin together, or whose rest is over first goes on."""
        least = min(self._resting[who] for who in names)
        chosen = [who for who in names if self._resting[who] == least]
        for who in chosen:
            del self._resting[who]
        return chosen

    def _hold(self, who: int, until: int) -> None:
        self._resting[who], self._since[who] = until, (self._total, self._yields)

    def _rests(self, who: int) -> bool:
        until = self._resting.get(who, 0)
        if until < _HELD:
            return until > self._total
        total, yields = self._since[who]
        if self._total - total > _PATIENCE or self._yields - yields > _YIELDS:
            del self._resting[who]
            return False
        return True

    def _account(self, events: int) -> None:
        """Events since the last slice were its task's, which may be due for a nap: for a time, or until
        nobody else can run, whoever did so first being the first to go on."""
        who, made = self._last, events - self._events
        self._events = events
        if who < 0:
            return
        self._made[who] = made = self._made.get(who, 0) + made
        plan = self._plan.get(who, [])
        if not plan or made < plan[0]:
            return
        self._plan[who] = [number for number in plan if number > made]
        if self._random.getrandbits(1):
            self._long_naps += 1
            self._hold(who, _HELD + self._long_naps)
        else:
            self._resting[who] = self._total + (1 << self._random.randint(*_NAP_BITS))

    def _begin_stretch(self) -> None:
        draw = self._random
        low, high = _STRETCH_BITS
        self._until = self._total + (1 << draw.randint(low, low + round((high - low) * self._coarse)))
        self._grain = draw.choice(_GRAINS)
        self._stays = draw.choice((0.0, 0.0, 0.5, 0.9))
        bits = _LENGTH_BITS if self._counted else _LENGTH_BITS_ALONE
        self._length = 1 << draw.randint(*bits)
        mood = draw.randrange(_EVEN + _STARVE + _RUSH)
        starved: list[int] = []
        if self._seen and _EVEN <= mood < _EVEN + _STARVE:
            starved = [who for who in self._seen if draw.getrandbits(1)]
        elif self._seen and mood >= _EVEN:
            alone = draw.choice(self._seen)
            starved = [who for who in self._seen if who != alone]
        held = {who: until for who, until in self._resting.items() if until >= _HELD}
        self._resting = dict.fromkeys(starved, self._until) | held

    def next(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> Slice:
        """A random task that does not rest, for a short time."""
        names = range(len(counts)) if who is None else who
        self._total = sum(counts)
        self._meet([names[k] for k in runnable])
        self._account(events)
        if self._total >= self._until:
            self._begin_stretch()
        awake = [k for k in runnable if not self._rests(names[k])]
        if not awake:
            woken = self._wake([names[k] for k in runnable])
            awake = [k for k in runnable if names[k] in woken]
        staying = [k for k in awake if names[k] == self._stayed]
        core = staying[0] if staying and self._random.random() < self._stays else self._random.choice(awake)
        self._last = self._stayed = name = names[core]
        length = 1 + self._random.randrange(self._length)
        if not self._counted:
            return Slice(core, length)
        if not self._naps:
            gap = 1 + int(self._random.expovariate(1 / self._grain))
            return Slice(core, length, exact=length < 64, events=gap)
        plan = self._plan.get(name)
        until = plan[0] - self._made.get(name, 0) if plan else 0
        return Slice(core, length, exact=length < 64, events=until)
