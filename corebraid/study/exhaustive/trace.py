"""What of a run came before what: vector clocks, and races that could come the other way round.

Source: Abdulla, Aronis, Jonsson, Sagonas, "Optimal dynamic partial order reduction" (POPL 2014), section 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from corebraid.study.exhaustive.steps import Footprint, Key, Step, conflict, overlap, within

Clock = dict[int, int]


class Trace:
    """The happens-before order of a run's steps.

    clocks: of each step, how many steps of each task come before it or are it. numbers: of each step, its
    number among its task's, from 1. races: (i, j): step i conflicts with j, nothing is ordered between them,
    and j's task could have made its step before i.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.clocks: list[Clock] = []
        self.numbers: list[int] = []
        self.races: list[tuple[int, int]] = []
        self._made: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._changes: dict[Key, int] = {}
        self._users: dict[Key, dict[int, int]] = {}
        self._ranges: list[int] = []
        for index, step in enumerate(steps):
            self._add(index, step)

    def before(self, one: int, other: int) -> bool:
        """Whether step `one` comes before step `other`, or is it."""
        return self.clocks[other].get(self.steps[one].task, 0) >= self.numbers[one]

    def _add(self, index: int, step: Step) -> None:
        clock: Clock = {}
        last = self._last.get(step.task)
        ordered = [step.enabled_by, -1 if last is None else last]
        for other in self._last.values() if step.after_all else ordered:
            if other >= 0:
                _join(clock, self.clocks[other])
        for other in sorted(self._conflicting(index, step), reverse=True):
            task = self.steps[other].task
            if clock.get(task, 0) < self.numbers[other]:
                self.races.append((other, index))
                _join(clock, self.clocks[other])
        self._made[step.task] = clock[step.task] = self._made.get(step.task, 0) + 1
        self.clocks.append(clock)
        self.numbers.append(clock[step.task])
        self._note(index, step)

    def _conflicting(self, index: int, step: Step) -> set[int]:
        """The last steps of others with which it conflicts: those before them come before them."""
        footprint = step.footprint
        if footprint.ends:
            return set(self._last.values())
        found: set[int] = set()
        for key, changed in footprint.uses.items():
            if (change := self._changes.get(key)) is not None:
                found.add(change)
            if changed:
                found.update(self._users.get(key, {}).values())
        for key in within(footprint.ranges, self._changes.keys() | self._users.keys()):
            found.update(self._users.get(key, {}).values())
            if (change := self._changes.get(key)) is not None:
                found.add(change)
        found.update(k for k in self._ranges if self._meets(k, footprint))
        return found

    def _meets(self, index: int, footprint: Footprint) -> bool:
        """Whether a step uses memory whose mapping step `index` has changed."""
        ranges = self.steps[index].footprint.ranges
        return overlap(ranges, footprint.ranges) or bool(within(ranges, footprint.uses))

    def _note(self, index: int, step: Step) -> None:
        self._last[step.task] = index
        for key, changed in step.footprint.uses.items():
            if changed:
                self._changes[key] = index
                self._users[key] = {}
            else:
                self._users.setdefault(key, {})[step.task] = index
        if step.footprint.ranges:
            self._ranges.append(index)

    def signature(self) -> int:
        """A number of 128 bits that is the same for runs which differ only in the order of steps that
        commute."""
        return sum(self.parts()) % (1 << 128)

    def parts(self) -> list[int]:
        """Of each step its part of the signature, which is their sum modulo 2**128."""
        return [
            _digest((step.task, *sorted(clock.items())))
            for step, clock in zip(self.steps, self.clocks, strict=True)
        ]

    def not_after(self, index: int) -> list[int]:
        """The steps behind step `index` that do not come after it."""
        task, number = self.steps[index].task, self.numbers[index]
        return [k for k in range(index + 1, len(self.steps)) if self.clocks[k].get(task, 0) < number]


def _join(clock: Clock, other: Clock) -> None:
    for task, count in other.items():
        if clock.get(task, 0) < count:
            clock[task] = count


def _digest(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=16).digest(), "little")


def asleep_after(sleep: dict[int, Footprint], step: Step) -> dict[int, Footprint]:
    """Who sleeps on when a step is made."""
    return {
        task: footprint
        for task, footprint in sleep.items()
        if task != step.task and not conflict(footprint, step.footprint)
    }
