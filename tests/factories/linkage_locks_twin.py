"""What locks protect, as Stride's recorder takes it, in plain Python: the twin of
recorder/evidence/linkage/locks.py; and turns of streams that take locks, mostly as they should."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from linkage_factory import MEMORY
from linkage_twin import Twin

from corebraid.base.rows.event import EVENT, READ, RMW, WRITE
from recorder.evidence.linkage.codec import LOOSE
from recorder.evidence.linkage.locks import ENOUGH, HELD

#: Where locks are, one a line, and the words that each is to protect.
LOCKS = (0x2000, 0x2044, 0x2080)
WORDS = tuple(tuple(0x3000 + 0x100 * lock + 8 * k for k in range(4)) for lock in range(len(LOCKS)))


@dataclass
class Lock:
    """A lock of a word."""

    address: int
    size: int
    variable: int
    holder: int | None = None
    broken: bool = False


class LockTwin(Twin):
    """Also guards: variable -> its lock, while it is guarded; guarded_by: variable -> the lock's variable,
    ever; opened: variable -> (writes, events of each stream); loosened: variable -> (1 + its lock's variable
    if it is loose from the begin, events of each stream); skipped: accesses, writes among them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.guards: dict[int, Lock] = {}
        self.guarded_by: dict[int, int] = {}
        self.opened: dict[int, tuple[int, ...]] = {}
        self.loosened: dict[int, tuple[int, ...]] = {}
        self._unwritten: set[int] = set()
        self._writes: dict[int, int] = {}
        self._touched: dict[int, set[int]] = {}
        self.skipped = [0, 0]
        self._locks: dict[int, Lock] = {}
        self._held: dict[int, list[Lock]] = {stream: [] for stream in range(self.agents + 1)}
        self._plain, self._number, self._kind = False, 0, READ

    def is_guarded(self, variable: int) -> bool:
        """See `Twin`."""
        return variable in self.guards

    def sees_its_write(self, variable: int) -> bool:
        """See `Twin`."""
        return variable in self.guards and variable in self.loosened

    def _is_shared(self, variable: int, stream: int) -> bool:
        new = variable not in self.shares
        if not super()._is_shared(variable, stream):
            return False
        self._touched.setdefault(variable, set()).add(stream)
        if new:
            return not self._begins(variable, stream)
        if variable in self._unwritten and self._kind != READ:
            self._unwritten.discard(variable)
            if self._plain and self._held[stream]:
                self._guard(variable, stream)
                self.loosened[variable] = (self.guarded_by[variable] + 1, *[0] * (self.agents + 1))
        if variable not in self.guards:
            return True
        if self._kind == READ and variable in self.loosened:
            return True
        if self._plain and self.guards[variable].holder == stream:
            self._writes[variable] = self._writes.get(variable, 0) + (self._kind != READ)
            return False
        touched = self._touched[variable]
        events = [self._reached[other] if other in touched else 0 for other in range(self.agents + 1)]
        events[stream] = self._number
        if self._kind == READ and self.compressions & LOOSE and self._writes.get(variable, 0) >= ENOUGH:
            self.loosened[variable] = (0, *events)
            return True
        del self.guards[variable]
        self.opened[variable] = (self._written[variable], *events)
        return True

    def _begins(self, variable: int, stream: int) -> bool:
        """Whether a lock protects what a second stream touches."""
        if any(lock.variable == variable for lock in self._locks.values()):
            return False
        if self._plain and self._held[stream]:
            self._guard(variable, stream)
            self._writes[variable] = int(self._kind != READ)
            return True
        if self.compressions & LOOSE and self._kind == READ:
            self._unwritten.add(variable)
        return False

    def _guard(self, variable: int, stream: int) -> None:
        self.guards[variable] = self._held[stream][-1]
        self.guarded_by[variable] = self.guards[variable].variable

    def _event(self, stream: int, row: Any, at_end: bool) -> None:
        address, last = int(row["addr"]), int(row["addr"]) + int(row["size"]) - 1
        self._plain = row["kind"] != RMW and self.variable(address) == self.variable(last)
        self._number, self._kind = int(row["seq"]), int(row["kind"])
        super()._event(stream, row, at_end)
        if self.variable(address) in self.shares and self.variable(address) not in self.logged:
            self.skipped[0] += 1
            self.skipped[1] += row["kind"] != READ
        if row["kind"] == READ:
            return
        for word in dict.fromkeys((address >> 3, last >> 3)):
            if word in self._locks:
                self._meet_lock(stream, row, self._locks[word])
        whole = row["kind"] == RMW and not self.joined and address >> 3 == last >> 3
        if whole and row["old"] == 0 and row["new"] != 0:
            self._take_lock(stream, address, int(row["size"]))

    def _meet_lock(self, stream: int, row: Any, lock: Lock) -> None:
        begin, end = int(row["addr"]), int(row["addr"]) + int(row["size"])
        if lock.holder is None or end <= lock.address or lock.address + lock.size <= begin:
            return
        if (begin, end - begin) == (lock.address, lock.size) and row["new"] != 0:
            return
        lock.broken |= lock.holder != stream
        self._held[lock.holder] = [one for one in self._held[lock.holder] if one is not lock]
        lock.holder = None

    def _take_lock(self, stream: int, address: int, size: int) -> None:
        lock = self._locks.setdefault(address >> 3, Lock(address, size, self.variable(address)))
        if lock.broken or (lock.address, lock.size) != (address, size):
            return
        assert lock.holder is None
        lock.holder = stream
        self._held[stream] = [*self._held[stream], lock][-HELD:]


class LockedTurns:
    """Streams that take locks, touch what these protect, and let them go. wrong: how likely a step is one
    that breaks the rules. plain: then only by loads and stores of whole words that a lock is to protect.
    peeks: how likely a step reads such a word without its lock."""

    def __init__(
        self, seed: int, wrong: float, n_cores: int = 3, *, plain: bool = False, peeks: float = 0.0
    ) -> None:
        self._draw, self._wrong, self._plain, self._peeks = random.Random(seed), wrong, plain, peeks
        self._memory, self._numbers = bytearray(MEMORY), [0] * (n_cores + 1)
        self._holds: list[list[int]] = [[] for _ in range(n_cores + 1)]
        self._agents = n_cores

    def turns(self, n: int = 80) -> list[tuple[int, Any]]:
        """So many turns, in the order in which they ran; values follow from memory."""
        made = []
        for _ in range(n):
            stream = self._draw.randrange(self._agents + (self._draw.random() < self._wrong))
            rows = [self._step(stream) for _ in range(self._draw.randint(1, 9))]
            made.append((stream, np.array(rows, EVENT)))
        return made

    def _step(self, stream: int) -> Any:
        draw, held = self._draw, self._holds[stream]
        if draw.random() < self._wrong:
            return self._any(stream)
        if self._peeks and draw.random() < self._peeks:
            return self._row(stream, draw.choice(draw.choice(WORDS)), draw.choice((4, 8)), READ, None)
        choice = draw.random()
        if len(held) < 2 and choice < (0.3 if held else 0.8):
            lock = draw.randrange(len(LOCKS))
            free = self._value(LOCKS[lock], 4) == 0
            if free:
                held.append(lock)
            return self._row(stream, LOCKS[lock], 4, RMW, draw.choice((1, 2)) if free else 2)
        if held and choice < 0.6:
            return self._row(stream, draw.choice(WORDS[held[-1]]), draw.choice((4, 8)), READ, None)
        if held and choice < 0.85:
            value = draw.randrange(5)
            return self._row(stream, draw.choice(WORDS[held[-1]]), draw.choice((1, 8)), WRITE, value)
        if held:
            return self._row(stream, LOCKS[held.pop()], 4, draw.choice((WRITE, RMW)), 0)
        return self._row(stream, 0x4000 + 64 * stream, 8, WRITE, draw.randrange(5))

    def _any(self, stream: int) -> Any:
        draw = self._draw
        if self._plain:
            place = draw.choice(draw.choice(WORDS))
            return self._row(stream, place, 8, draw.choice((READ, WRITE)), draw.randrange(100))
        address = draw.choice((*LOCKS, *(word for words in WORDS for word in words)))
        address += draw.choice((0, 0, 0, 2, 6))
        kind = draw.choice((READ, WRITE, WRITE, RMW))
        return self._row(stream, address, draw.choice((1, 4, 8)), kind, draw.randrange(3))

    def _value(self, address: int, size: int) -> int:
        return int.from_bytes(self._memory[address : address + size], "little")

    def _row(self, stream: int, address: int, size: int, kind: int, new: int | None) -> Any:
        row = np.zeros(1, EVENT)[0]
        row["seq"] = row["count"] = self._numbers[stream]
        row["core"], row["addr"], row["size"], row["kind"] = stream, address, size, kind
        row["old"] = old = self._value(address, size)
        row["new"] = new = old if new is None or kind == READ else new
        self._memory[address : address + size] = int(new).to_bytes(8, "little")[:size]
        self._numbers[stream] += 1
        return row
