"""Where libraries were called from, against a stack that is kept as the calls are made."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, READ, WRITE
from corebraid.study.causes.callers import NONE, Callers, LastOwn, turns_of_calls

#: Where own code, libraries and data are.
OWN, LIBRARY, DATA, TOP = 0x1000, 0x7000_0000, 0x4000, 0x7FFF_0000
#: The last digit of a return's pc.
RETURN = 8
THREAD = 7


@dataclass
class Frame:
    """own: whose code runs in it. slot: where its return is stored. call: the call's pc, 0 if a library has
    called it."""

    own: bool
    slot: int
    call: int


@dataclass
class Guest:
    """A thread that begins in a library. rows: its accesses. true: of each the caller."""

    draw: random.Random
    stack: list[Frame] = field(default_factory=lambda: [Frame(False, TOP, 0)])
    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    true: list[int] = field(default_factory=list)

    def pc(self, returns: bool = False) -> int:
        """Somewhere in the code that runs, or a return there."""
        at = self.draw.randrange(0, 0x800, 16) + (RETURN if returns else 0)
        return (OWN if self.stack[-1].own else LIBRARY) + at

    def note(self, pc: int, address: int, kind: int, value: int = 0, size: int = 8) -> None:
        """An access."""
        self.rows.append((pc, address, kind, value, size))
        calls = [frame.call for frame in self.stack if frame.call]
        self.true.append(NONE if pc < LIBRARY or not calls else calls[-1])

    def access(self) -> None:
        """To data, or to what is on the stack; a library may look at where it would return to."""
        place, kind = self.draw.choice([DATA, self.stack[-1].slot - 0x18]), self.draw.choice([READ, WRITE])
        if not self.stack[-1].own and kind == READ and self.draw.random() < 0.3:
            self.note(self.pc(), self.stack[-1].slot, READ)
            self.note(self.pc(), DATA, READ)
        else:
            self.note(self.pc(), place, kind, size=self.draw.choice([4, 8]))

    def call(self) -> None:
        """A function; one of a library through a stub, which no code of the program's own is."""
        own, mine, pc = self.draw.random() < 0.5, self.stack[-1].own, self.pc()
        slot = self.stack[-1].slot - self.draw.randrange(0x20, 0x100, 8)
        self.note(pc, slot, WRITE, pc + 5)
        self.stack.append(Frame(own, slot, pc if mine else 0))
        if mine and not own and self.draw.random() < 0.5:
            self.note(LIBRARY + 0x900, DATA + 0x100, READ)

    def jump(self) -> None:
        """From an own function to one of a library, which returns in its place."""
        if self.stack[-1].own:
            if self.draw.random() < 0.5:
                self.note(self.pc(), self.stack[-1].slot - 0x10, READ)
            self.stack[-1].own = False
            self.note(LIBRARY + 0x900, DATA + 0x100, READ)

    def back(self) -> None:
        """Return."""
        if len(self.stack) > 1:
            self.note(self.pc(returns=True), self.stack[-1].slot, READ)
            self.stack.pop()

    def run(self, steps: int) -> None:
        """Some of all that."""
        for _ in range(steps):
            self.draw.choice([self.access, self.access, self.call, self.call, self.back, self.jump])()

    def events(self) -> NDArray[np.void]:
        """EVENT[n]."""
        rows = np.zeros(len(self.rows), EVENT)
        for name, column in zip(
            ("pc", "addr", "kind", "new", "size"), zip(*self.rows, strict=True), strict=True
        ):
            rows[name] = column
        return rows


class Known:
    """See `callers.Code`."""

    def own(self, pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """By where it is."""
        return np.asarray(pcs < LIBRARY)

    def returns(self, pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """By the last digit."""
        return np.asarray(pcs % 16 == RETURN)


def of_one(callers: Callers, rows: NDArray[np.void]) -> list[int]:
    """Of a thread."""
    return callers.of(rows, np.full(len(rows), THREAD)).tolist()


@pytest.mark.parametrize("seed", range(40))
def test_callers_are_those_of_the_calls(seed: int) -> None:
    guest = Guest(random.Random(seed))
    guest.run(400)
    rows, callers, found = guest.events(), Callers(Known()), list[int]()
    assert len(set(guest.true)) > 10
    while len(found) < len(rows):
        part = rows[len(found) : len(found) + guest.draw.randrange(1, 40)]
        found += of_one(callers, part)
    assert found == guest.true


def test_threads_are_followed_apart() -> None:
    guests = [Guest(random.Random(seed)) for seed in (101, 102)]
    for guest in guests:
        guest.run(200)
    draw, at, parts = random.Random(1), [0, 0], list[tuple[int, int]]()
    while any(at[k] < len(guests[k].rows) for k in range(2)):
        k = draw.choice([k for k in range(2) if at[k] < len(guests[k].rows)])
        parts.append((k, at[k]))
        at[k] += 1
    events = [guest.events() for guest in guests]
    rows = np.array([events[k][i] for k, i in parts], EVENT)
    found = Callers(Known()).of(rows, np.array([k for k, _ in parts]))
    assert found.tolist() == [guests[k].true[i] for k, i in parts]


def test_a_function_that_has_returned_has_not_called_what_follows() -> None:
    """A thread's function returns to the library, which frees what is the thread's."""
    guest = Guest(random.Random(3))
    guest.note(LIBRARY, TOP - 8, WRITE, LIBRARY + 5)
    guest.stack.append(Frame(True, TOP - 8, 0))
    guest.note(OWN + 0x20, TOP - 0x40, WRITE, OWN + 0x25)
    guest.stack.append(Frame(False, TOP - 0x40, OWN + 0x20))
    guest.access()
    guest.back()
    guest.access()
    guest.back()
    guest.access()
    rows = guest.events()
    assert of_one(Callers(Known()), rows) == guest.true
    assert guest.true[-1] == NONE
    assert of_one(LastOwn(Known()), rows)[-1] == rows["pc"][rows["pc"] < LIBRARY][-1]


def test_what_is_left_out_says_nothing_of_calls() -> None:
    """Of long runs that alone is kept."""
    guest = Guest(random.Random(17))
    guest.run(600)
    rows = guest.events()
    kept, callers = turns_of_calls(rows, Known()), Callers(Known())
    assert 0.2 < kept.mean() < 0.9
    assert of_one(callers, rows[kept]) == [true for true, one in zip(guest.true, kept, strict=True) if one]
