"""Probabilistic concurrency testing. Source: Burckhardt et al., "A randomized scheduler with probabilistic
guarantees" (ASPLOS 2010)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emu.schedule.policy import TIME, Ints, Runner, Slice

if TYPE_CHECKING:
    from emu.schedule.shared_words import SharedWords

#: Instructions after which a core that runs without a change is taken to spin, and goes behind the others;
#: where shared events are counted each run draws this many bits.
_PATIENCE = 4_000
_PATIENCE_BITS = (12, 16)
_STEP = 1_000
#: Change points by instructions lie in the first 2**n, n drawn from this range.
_HORIZON_BITS = (11, 17)
#: One run in so many has its change points by instructions though shared events are counted: what a program
#: shares on one core, or has not shown to share, is there too.
_BY_INSTRUCTIONS = 6
#: Multiples of it, modulo 1, lie evenly (Weyl 1916).
_GOLDEN = 0.6180339887498949


class Pct(Runner):
    """Random priorities and D - 1 random change points.

    The task of the highest priority that can run runs. At a change point it falls behind all others; so does
    one that yields, and one that ran long on end, since it may be waiting for a starved task. A change point
    lies before a shared event of some task; or, where those are not counted, after a number of instructions.

    late: at a change point time passes, too, or before the task that fell behind there goes on, and whose
    timeout was the next goes on: however long it is, another can be slower.
    """

    eager = True

    def __init__(
        self, seed: int, n_cores: int, depth: int, shared: SharedWords | None = None, *, late: bool = False
    ) -> None:
        self._late = random.Random(f"late/{seed}") if late else None
        #: Time is to pass; the tasks that could run before it did; those before which it is to pass.
        self._passes, self._before, self._slow = False, frozenset[int](), set[int]()
        self._random = random.Random(f"pct/{seed}")
        order = list(range(n_cores))
        self._random.shuffle(order)
        self._priority: dict[int, float] = {core: (place + 0.5) / n_cores for core, place in enumerate(order)}
        self._changes: list[int] = []
        #: Of each task the numbers of its events before which it falls behind, ascending; those it has made.
        self._points: dict[int, list[int]] = {}
        self._made: dict[int, int] = {}
        known = shared is not None and len(shared.events) > 0
        self._patience = 1 << self._random.randint(*_PATIENCE_BITS) if known else _PATIENCE
        self._by_events = known and self._random.randrange(_BY_INSTRUCTIONS) > 0
        if shared is not None and self._by_events:
            self._draw_points(shared, seed, depth - 1)
        else:
            # The run's length is not known: each seed guesses another order of magnitude.
            horizon = 1 << self._random.randint(*_HORIZON_BITS)
            self._changes = sorted(self._random.randrange(1, horizon) for _ in range(depth - 1))
        self._lowest, self._highest = -1, 1
        self._done = self._events = 0
        self._last: tuple[int, int, int] | None = None
        self._alone = 0

    def _draw_points(self, shared: SharedWords, seed: int, n: int) -> None:
        """The first change points of successive seeds are spread evenly, so that few runs try them all."""
        for k in range(n):
            who, number = shared.draw(self._random, None if k else seed * _GOLDEN % 1.0)
            self._points.setdefault(who, []).append(number)
        for numbers in self._points.values():
            numbers.sort()

    def rank(self, who: int) -> float:
        """Its priority."""
        if who not in self._priority:
            self._priority[who] = self._random.random()
        return self._priority[who]

    def yielded(self, who: int) -> None:
        """It falls behind: it waits for what another does."""
        self._fall_behind(who)

    def _fall_behind(self, who: int) -> None:
        self._priority[who] = self._lowest
        self._lowest -= 1
        self._alone = 0

    def _let_time_pass(self, who: int) -> None:
        """At once, or as soon as nobody else can run."""
        if self._late is None:
            return
        if self._late.getrandbits(1):
            self._passes = True
        else:
            self._slow.add(who)

    def _go_first(self, woken: frozenset[int]) -> None:
        self._before = frozenset()
        for who in sorted(woken):
            self._highest += 1
            self._priority[who] = self._highest

    def _account(self, counts: Sequence[int], events: int) -> None:
        if self._last is None:
            return
        core, who, before = self._last
        ran = counts[core] - before
        self._alone += ran
        self._done += ran
        self._made[who] = made = self._made.get(who, 0) + events - self._events
        self._events = events
        points = self._points.get(who, [])
        if (points and made >= points[0]) or (self._changes and self._done >= self._changes[0]):
            self._points[who] = [number for number in points if number > made]
            self._changes = [count for count in self._changes if count > self._done]
            self._fall_behind(who)
            self._let_time_pass(who)
        elif self._alone >= self._patience:
            self._fall_behind(who)

    def next(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> Slice:
        """The runnable task of highest priority, up to the next change point."""
        names = range(len(counts)) if who is None else who
        self._account(counts, events)
        if self._before:
            self._go_first(frozenset(names[k] for k in runnable) - self._before)
        core = max(runnable, key=lambda k: self.rank(names[k]))
        name = names[core]
        if self._passes or name in self._slow:
            self._passes, self._before = False, frozenset(names[k] for k in runnable)
            self._slow.discard(name)
            return Slice(TIME, 0)
        if self._last is not None and self._last[1] != name:
            self._alone = 0
        self._last = (core, name, counts[core])
        if self._by_events:
            points = self._points.get(name)
            until = points[0] - self._made.get(name, 0) if points else 0
            return Slice(core, max(1, self._patience - self._alone), events=until)
        length = max(1, min(_STEP, self._changes[0] - self._done)) if self._changes else _STEP
        return Slice(core, length)
