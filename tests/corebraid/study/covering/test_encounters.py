"""Pairs of accesses of two tasks, from the log of a run and who ran when, beside a naive twin."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from corebraid.study.covering.encounters import Chance, Encounters, Sites, encounters
from emu.hooks.shared_access import NOTED_AGAIN, NOTED_CORE, NOTED_WRITE
from emu.schedule.noting import Stay

#: Of accesses to one word so many that follow are looked at.
NEAR = 6


class Access(NamedTuple):
    """kind: "R", "W", or "U", which reads and writes."""

    who: int
    place: int
    address: int
    kind: str


class Machine:
    """Runs tasks, one access after the other, and keeps what a machine would. happened: (task, number of its
    event, access), in order; met: see `encounters`; moment: accesses that had happened when a task could
    first run."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.stays: list[Stay] = []
        self.begins: list[int] = []
        self.happened: list[tuple[int, int, Access]] = []
        self.met: dict[int, int] = {}
        self.moment: dict[int, int] = {}
        self._events = 0
        self._made: dict[int, int] = {}
        self._held: dict[int, Access] = {}

    def meet(self, who: int) -> None:
        """From here on it can run."""
        self.met[who], self.moment[who] = len(self.stays), len(self.happened)

    def slice(self, who: int, accesses: list[Access | None], before: Access | None = None) -> None:
        """A task makes accesses, None being system calls; then the slice ends before another one."""
        self.begins.append(self._events)
        if who in self._held:
            one = self._held.pop(who)
            self.happened.append((who, self._made[who], one))
            if one.kind != "R":
                self._log(one, NOTED_AGAIN | NOTED_WRITE)
        for each in accesses:
            self._count(who)
            if each is None:
                continue
            self.happened.append((who, self._made[who], each))
            self._take(each)
        if before is not None:
            self._count(who)
            self._take(before, held=True)
            self._held[who] = before
        made = self._made.get(who, 0)
        self.stays.append(Stay(who, 0, 0, 0, made, 0, before is not None, True))

    def _count(self, who: int) -> None:
        self._events += 1
        self._made[who] = self._made.get(who, 0) + 1

    def _take(self, one: Access, *, held: bool = False) -> None:
        self._log(one, NOTED_WRITE if one.kind == "W" else 0)
        if one.kind == "U" and not held:
            self._log(one, NOTED_AGAIN | NOTED_WRITE)

    def _log(self, one: Access, flags: int) -> None:
        self.rows.append([one.address, one.place, self._events, flags | one.who << NOTED_CORE])

    @property
    def log(self) -> NDArray[np.uint64]:
        return np.array(self.rows, np.uint64).reshape(-1, 4)

    def encounters(self) -> Encounters:
        return encounters(self.log, self.stays, self.begins, self.met)


def twin(machine: Machine) -> Encounters:
    """Access by access. What a task reads and writes once it holds, and the second time no more."""
    known = []
    last: dict[int, int] = {}
    locks: dict[int, set[int]] = {}
    for moment, (who, number, one) in enumerate(machine.happened):
        mine = locks.setdefault(who, set())
        known.append((moment, who, number, one, (last.get(who, 0), one.place), frozenset(mine)))
        last[who] = one.place
        if one.kind == "U":
            mine.symmetric_difference_update({one.address >> 3})
    seen, chances = set[Sites](), dict[Sites, list[Chance]]()
    for word in sorted({one.address >> 3 for _, _, one in machine.happened}):
        of_it = [row for row in known if row[3].address >> 3 == word]
        for apart in range(1, NEAR + 1):
            for one, other in zip(of_it, of_it[apart:], strict=False):
                if one[1] == other[1] or one[3].kind == other[3].kind == "R":
                    continue
                if apart == 1:
                    seen.add((*one[4], *other[4]))
                if machine.moment[other[1]] <= one[0]:
                    chance = Chance(bool(one[5] & other[5]), one[1], one[2], other[1], other[2])
                    chances.setdefault((*other[4], *one[4]), []).append(chance)
    return Encounters(frozenset(seen), {key: found for key, found in chances.items() if key not in seen})


@pytest.mark.parametrize("seed", range(40))
def test_as_the_naive_twin_finds_them(seed: int) -> None:
    draw, machine = random.Random(seed), Machine()
    places = [(0x100 + 4 * k, draw.choice("RWU")) for k in range(draw.randint(2, 9))]
    tasks = list(range(10, 10 + draw.randint(2, 4)))

    def some(who: int) -> Access:
        place, kind = draw.choice(places)
        return Access(who, place, draw.choice((0x2000, 0x2004, 0x2010)), kind)

    alive = [tasks[0]]
    machine.meet(tasks[0])
    for _ in range(draw.randint(5, 40)):
        if len(alive) < len(tasks) and draw.random() < 0.5:
            alive.append(tasks[len(alive)])
            machine.meet(alive[-1])
        who = draw.choice(alive)
        accesses = [some(who) if draw.random() < 0.8 else None for _ in range(draw.randint(0, 4))]
        machine.slice(who, accesses, some(who) if draw.getrandbits(1) else None)
    for who in alive:
        # What was begun is ended, so that every instruction that writes is seen to.
        machine.slice(who, [])
    found, expected = machine.encounters(), twin(machine)
    assert found.seen == expected.seen, seed
    assert found.chances.keys() == expected.chances.keys()
    for sites, places_of in found.chances.items():
        assert set(places_of) <= set(expected.chances[sites])
        assert len(places_of) == min(2, len(expected.chances[sites]))


def test_what_a_slice_ended_before_happens_when_its_task_goes_on() -> None:
    """A lost update: 7 reads and stands before its write, 8 reads and writes."""
    machine = Machine()
    for who in (7, 8):
        machine.meet(who)
    machine.slice(7, [Access(7, 1, 0x2000, "R")], before=Access(7, 2, 0x2000, "W"))
    machine.slice(8, [Access(8, 1, 0x2000, "R"), Access(8, 2, 0x2000, "W")])
    machine.slice(7, [])
    found = machine.encounters()
    assert found.seen == {(1, 2, 1, 2)}
    # 8 read before 7 wrote, and not next to it; the other way round it could be tried.
    assert found.chances == {
        (1, 2, 0, 1): [Chance(False, 7, 1, 8, 2), Chance(False, 8, 1, 7, 2)],
    }


def test_tasks_that_go_on_one_after_the_other_do_so_in_turn() -> None:
    machine = Machine()
    for who in (7, 8):
        machine.meet(who)
        machine.slice(who, [], before=Access(who, who, 0x2000, "W"))
    for who in (8, 7):
        machine.slice(who, [])
    assert machine.encounters().seen == {(0, 8, 0, 7)}


def test_what_a_lock_keeps_apart_is_told() -> None:
    """Two tasks take a lock, write a word and give the lock back."""
    machine = Machine()
    for who in (7, 8):
        machine.meet(who)
    for who, place in ((7, 1), (8, 4)):
        lock, back = Access(who, place, 0x2000, "U"), Access(who, place + 2, 0x2000, "U")
        machine.slice(who, [lock, Access(who, place + 1, 0x3000, "W"), back])
    found = machine.encounters()
    assert found.chances[4, 5, 1, 2] == [Chance(True, 7, 2, 8, 2)]
    # Who waits for the lock tries to take it while the other has it.
    assert found.chances[0, 4, 2, 3] == [Chance(False, 7, 3, 8, 1)]


def test_what_never_happened_is_no_encounter() -> None:
    machine = Machine()
    for who in (7, 8):
        machine.meet(who)
    machine.slice(7, [], before=Access(7, 2, 0x2000, "W"))
    machine.slice(8, [Access(8, 1, 0x2000, "W")])
    assert machine.encounters() == Encounters(frozenset(), {})


def test_a_run_without_shared_accesses_has_none() -> None:
    assert Machine().encounters() == Encounters(frozenset(), {})
    machine = Machine()
    machine.meet(7)
    machine.slice(7, [None, None])
    assert machine.encounters() == Encounters(frozenset(), {})
