"""Loops that wait: iterations that leave nothing behind.

A task that comes back to where it was, with the registers that it had, and has changed nothing meanwhile, has
made an iteration that can be left out of the run: what everybody does before and after is the same without
it. So its task need not go on in this run. Runs in which it saw something else are runs of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from corebraid.base.rows.event import READ
from corebraid.study.exhaustive.steps import Footprint, Key
from recorder.files.collectors import Rows


@dataclass
class _Way:
    """A task since it last changed something. places: by pc and registers, how many steps it had made when
    it was there. writes: what it has written since, to its own memory, by step. reads: what each step has
    used of others', with the step's number in the run."""

    places: dict[tuple[int, bytes], int] = field(default_factory=dict)
    writes: list[Rows] = field(default_factory=list)
    reads: list[tuple[int, tuple[Key, ...]]] = field(default_factory=list)


class Spins:
    """Which tasks have gone round in a circle."""

    def __init__(self) -> None:
        self._ways: dict[int, _Way] = {}
        #: Where a task was in the step under way, since it last changed something.
        self._within: dict[int, set[tuple[int, bytes]]] = {}
        #: Those whose step has no end.
        self._alone: set[int] = set()
        #: Where a task stood on its way round: it, and a pc.
        self.places: set[tuple[int, int]] = set()
        #: Of each that has: what it read on its way, with the number of the step that did.
        self.stuck: dict[int, list[tuple[int, tuple[Key, ...]]]] = {}

    def step(self, task: int, index: int, footprint: Footprint, rows: Rows, *, quiet: bool) -> bool:
        """A task has made a step. rows: its accesses, EVENT[n]. quiet: besides memory it has touched nothing
        of anybody's. Returns whether `stands` must be asked."""
        self._within.pop(task, None)
        if not quiet or any(footprint.uses.get(key) for key in footprint.uses if isinstance(key, int)):
            self._ways.pop(task, None)
            return False
        way = self._ways.setdefault(task, _Way())
        way.writes.append(rows[rows["kind"] != READ])
        way.reads.append((index, tuple(key for key in footprint.uses if isinstance(key, int))))
        return True

    def goes_on(self, task: int, pc: int, registers: bytes, *, changed: bool) -> bool:
        """A task is still in its step, and stands there. changed: it has changed something since this was
        last asked. Returns whether it goes round in a circle without an event: its step has no end."""
        if changed:
            self._within.pop(task, None)
        places = self._within.setdefault(task, set())
        if (pc, registers) in places:
            self._alone.add(task)
            return True
        places.add((pc, registers))
        return False

    @property
    def waiting(self) -> set[int]:
        """Tasks that have gone round in a circle, within a step or not."""
        return self._alone | set(self.stuck)

    def stands(self, task: int, pc: int, registers: bytes) -> bool:
        """Where a task stands now, after a step. registers: whatever else decides what it does next. Returns
        whether it has gone round in a circle."""
        way = self._ways[task]
        before = way.places.get((pc, registers))
        if before is not None and not _left(way.writes[before:]):
            self.stuck[task] = way.reads[before:]
            self.places |= {(task, place) for (place, _), made in way.places.items() if made >= before}
            return True
        way.places[pc, registers] = len(way.writes)
        return False

    def waits_in_vain(self, footprints: list[Footprint]) -> bool:
        """Whether those that have gone round will do so for ever: nobody has changed since what they read.
        footprints: of all steps of the run."""
        for reads in self.stuck.values():
            for index, keys in reads:
                if any(later.uses.get(key) for later in footprints[index + 1 :] for key in keys):
                    return False
        return True


def _left(pieces: list[Rows]) -> bool:
    """Whether these writes, one after the other, have left any byte other than it was."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for address, size, old, new in np.concatenate(pieces)[["addr", "size", "old", "new"]].tolist():
        for k in range(size):
            first.setdefault(address + k, old >> 8 * k & 0xFF)
            last[address + k] = new >> 8 * k & 0xFF
    return first != last
