"""OPR's kernels against naive twins: hash table, shadow memory, vector clocks, write checks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from corebraid.base.hash_table import find, find_or_insert, grow, has_room, new_table
from corebraid.base.rows.event import EVENT, READ, RMW, UNCACHED, WRITE
from recorder.evidence.opr.accesses import ACCESS, GOT, LOAD, MOST_GETS, STORE, AccessStream
from recorder.evidence.opr.clocks import Affinities, ExactClocks, RelaxedClocks
from recorder.evidence.opr.rows import CODE, EXACT, RELAXED, VALUE
from recorder.evidence.opr.shadow import CodePages, ValueLogger, follow_stores
from solver.evidence.opr.order_log import WAIT, OrderLog, write_checks

MEMORY = 1 << 16
CODE_PAGE = 3


def test_hash_table() -> None:
    draw, table, twin = random.Random(4), new_table(8), {}
    for _ in range(3000):
        key = draw.choice([draw.randrange(64), draw.getrandbits(63), (1 << 64) - 2])
        assert find(table, np.uint64(key)) == twin.get(key, -1)
        if not has_room(table, 1):
            table = grow(table, 2 * len(twin) + 1)
        assert find_or_insert(table, np.uint64(key)) == twin.setdefault(key, len(twin))
    assert table.used[0] == len(twin)


class NaiveShadow:
    """Algorithm 1 byte by byte, over a memory that everybody writes."""

    def __init__(self, unit: int) -> None:
        self.unit, self.memory, self.known = unit, bytearray(MEMORY), {}
        self.sn, self.log = 0, []
        self.code, self.owed = {CODE_PAGE}, []

    def units(self, addr: int, size: int) -> range:
        first = addr // self.unit * self.unit
        return range(first, addr + size, self.unit)

    def take_unit(self, start: int, count: int) -> None:
        """Log the words of a unit that the member does not know as they are, for the instructions from
        `count` on."""
        for word in range(start, start + self.unit, 8):
            value = bytes(self.memory[word : word + 8])
            if [self.known.get(word + k) for k in range(8)] != list(value):
                late = any(word + k in self.known for k in range(8))
                self.log.append((CODE, count, int.from_bytes(value, "little"), word, late))
                self.known.update({word + k: value[k] for k in range(8)})

    def come_to_hold_code(self, page: int) -> None:
        """A page may be executed from now on: what the member has of it as data it will not fetch."""
        self.code.add(page)
        self.owed.append(page)

    def settle(self, before: int) -> None:
        """The member's next event is at the count `before`, its last one was the one before `100 + sn`: units
        of pages that are owed, if it knows a byte of them."""
        count = min(101 + self.sn if self.sn else 0, before)
        for page in self.owed:
            for start in range(page * 4096, (page + 1) * 4096, self.unit):
                if any(at in self.known for at in range(start, start + self.unit)):
                    self.take_unit(start, count)
        self.owed = []

    def access(self, kind: int, addr: int, size: int, new: int) -> int:
        self.sn += 1
        old = int.from_bytes(self.memory[addr : addr + size], "little")
        for start in self.units(addr, size):
            if start // 4096 in self.code:
                self.take_unit(start, 100 + self.sn)
        span = range(addr, addr + size)
        if kind != WRITE and any(self.known.get(at) != self.memory[at] for at in span):
            self.log.append((VALUE, self.sn, old, 0, size))
            self.known.update({at: self.memory[at] for at in span})
        if kind != READ:
            self.memory[addr : addr + size] = new.to_bytes(size, "little")
            self.known.update({at: self.memory[at] for at in span})
        return old


@pytest.mark.parametrize("unit", [64, 256])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(5)
def test_shadow_memory(seed: int, unit: int) -> None:
    draw = random.Random(f"{seed}/{unit}")
    page = np.zeros(MEMORY >> 12, np.uint8)
    page[CODE_PAGE] = 1
    code = CodePages(page, np.zeros(MEMORY, np.uint8), np.uint64(unit), False)
    logger, twin, rows = ValueLogger(0, code), NaiveShadow(unit), np.zeros(2000, EVENT)
    logged: list[Any] = []
    for k, row in enumerate(rows):
        if draw.random() < 0.3:
            # Somebody else writes, unseen but for code.
            at = draw.randrange(MEMORY // 8) * 8 if draw.random() < 0.5 else draw.randrange(64) * 8 + 0x2FE0
            twin.memory[at : at + 8] = bytes([draw.randrange(4)] * 8)
            code.image[at : at + 8] = bytearray(twin.memory[at : at + 8])
        size = draw.choice([1, 2, 4, 8, 8, 3])
        addr = draw.choice(
            [draw.randrange(0x2FE0, 0x3100), draw.randrange(0x800), draw.randrange(MEMORY - 8)]
        )
        kind, new = draw.choice([READ, READ, WRITE, RMW]), draw.getrandbits(8 * size)
        old = twin.access(kind, addr, size, new)
        row["kind"], row["addr"], row["size"], row["count"] = kind, addr, size, 100 + twin.sn
        row["old"], row["new"] = old, (old if kind == READ else new)
        got, _ = logger.take(rows[k : k + 1])
        logged += [
            (int(r["kind"]), int(r["sn"]), int(r["value"]), int(r["place"]), int(r["size"])) for r in got
        ]
    assert logged == [tuple(map(int, row)) for row in twin.log]
    assert logger.sn == len(rows)


@pytest.mark.parametrize("unit", [64, 128, 256])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(8)
def test_pages_that_come_to_hold_code_when_they_hold_data(seed: int, unit: int) -> None:
    """Against the twin: several pages become code one after the other, some twice in a row, between accesses
    of the member's and stores of others."""
    draw = random.Random(f"late/{seed}/{unit}")
    page = np.zeros(MEMORY >> 12, np.uint8)
    page[CODE_PAGE] = 1
    code = CodePages(page, np.zeros(MEMORY, np.uint8), np.uint64(unit), True)
    logger, twin, rows = ValueLogger(0, code), NaiveShadow(unit), np.zeros(600, EVENT)
    later = draw.sample([number for number in range(MEMORY >> 12) if number != CODE_PAGE], 8)
    logged: list[Any] = []
    for k, row in enumerate(rows):
        if draw.random() < 0.4:
            at = draw.choice(later) * 4096 + draw.randrange(512) * 8
            stores = np.zeros(1, EVENT)
            stores["kind"], stores["addr"], stores["size"] = WRITE, at, 8
            stores["new"] = draw.getrandbits(64)
            twin.memory[at : at + 8] = int(stores["new"][0]).to_bytes(8, "little")
            follow_stores(stores, code)
        while later and draw.random() < 0.02:
            number = later.pop()
            page[number] = 1
            logger.come_to_hold_code([number])
            twin.come_to_hold_code(number)
            later = later or [number]
            if later == [number]:
                break
        size = draw.choice([1, 2, 4, 8, 8, 3])
        addr = draw.choice(later) * 4096 + draw.choice([draw.randrange(4088), draw.randrange(40)])
        kind, new = draw.choice([READ, READ, WRITE, RMW]), draw.getrandbits(8 * size)
        twin.settle(101 + twin.sn)
        old = twin.access(kind, addr, size, new)
        row["kind"], row["addr"], row["size"], row["count"] = kind, addr, size, 100 + twin.sn
        row["old"], row["new"] = old, (old if kind == READ else new)
        logged += _as_tuples(logger.take(rows[k : k + 1])[0])
    page[later[0]] = 1
    logger.come_to_hold_code(later[:1])
    twin.come_to_hold_code(later[0])
    twin.settle(1 << 63)
    logged += _as_tuples(logger.settle((1 << 64) - 1))
    assert logged == [tuple(map(int, row)) for row in twin.log]
    late = [row for row in logged if row[0] == CODE and row[3] >> 12 != CODE_PAGE]
    assert late


def _as_tuples(rows: Any) -> list[tuple[int, ...]]:
    return [(int(r["kind"]), int(r["sn"]), int(r["value"]), int(r["place"]), int(r["size"])) for r in rows]


def test_new_values_are_marked() -> None:
    rows = np.zeros(4, EVENT)
    for row, kind, old in zip(rows, (READ, READ, WRITE, READ), (5, 5, 0, 9), strict=True):
        row["kind"], row["addr"], row["size"], row["old"], row["new"] = (
            kind,
            64,
            8,
            old,
            9 if kind == WRITE else old,
        )
    code = CodePages(np.zeros(MEMORY >> 12, np.uint8), np.zeros(MEMORY, np.uint8), np.uint64(64), False)
    logged, fresh = ValueLogger(2, code).take(rows)
    assert fresh.tolist() == [1, 0, 0, 0]
    assert logged[["kind", "member", "sn", "value"]].tolist() == [(VALUE, 2, 1, 5)]


class NaiveClocks:
    """Algorithm 2 as it is written, with any rule of what a place is. lazy: reads learn only if fresh."""

    def __init__(self, r: int, places: Any, lazy: bool) -> None:
        self.r, self.places, self.lazy = r, places, lazy
        self.mine = [[0] * r for _ in range(r)]
        self.written: dict[Any, list[int]] = {}
        self.accessed: dict[Any, list[int]] = {}

    def step(self, i: int, sn: int, addr: int, size: int, store: bool, fresh: bool) -> list[tuple[int, ...]]:
        zero, clock, before = [0] * self.r, self.mine[i], None
        clock[i] = sn
        before = list(clock)
        places = sorted({self.places(at) for at in range(addr, addr + size)})
        for x in places:
            seen = self.accessed.get(x, zero) if store else self.written.get(x, zero)
            if store or fresh or not self.lazy:
                clock[:] = [max(a, b) for a, b in zip(clock, seen, strict=True)]
        for x in places:
            if store:
                self.written[x] = list(clock)
                self.accessed[x] = list(clock)
            else:
                self.accessed[x] = [max(a, b) for a, b in zip(self.accessed.get(x, zero), clock, strict=True)]
        return [(i, j, sn, clock[j]) for j in range(self.r) if j != i and clock[j] > before[j]]


def _accesses(draw: random.Random, sn: int, n: int, places: int) -> np.ndarray[Any, Any]:
    accesses = np.zeros(n, ACCESS)
    for k, access in enumerate(accesses):
        access["sn"], access["fresh"] = sn + k + 1, draw.random() < 0.3
        access["kind"] = draw.choice([LOAD, LOAD, STORE, GOT])
        access["addr"] = draw.randrange(places) * 8 + draw.choice([0, 0, 4])
        access["size"] = draw.choice([1, 4, 8, 8, 24])
    return accesses


def _tuples(rows: Any) -> list[tuple[int, ...]]:
    return [(int(r["member"]), int(r["peer"]), int(r["sn"]), int(r["place"])) for r in rows]


def test_figure_2() -> None:
    """The example of section 4.2, as far as the text tells it: T1's second access comes after w(x) in T2,
    and after w(y) in T3, of which it knows by T2's r(y)."""
    x, y, sns, clocks = 0x100, 0x200, [0, 0, 0], ExactClocks(3, 1 << 20)

    def orders(member: int, kind: int, address: int) -> list[tuple[int, ...]]:
        sns[member] += 1
        access = np.zeros(1, ACCESS)
        access["sn"], access["kind"], access["addr"], access["size"] = sns[member], kind, address, 8
        return _tuples(clocks.take(member, access))

    assert orders(0, LOAD, x) == []
    assert orders(2, STORE, y) == []
    assert orders(1, LOAD, y) == [(1, 2, 1, 1)]
    assert orders(1, STORE, x) == [(1, 0, 2, 1)]
    # V1 becomes [2,2,1].
    assert orders(0, LOAD, x) == [(0, 1, 2, 2), (0, 2, 2, 1)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.sampled(5)
def test_exact_clocks(seed: int) -> None:
    draw, r = random.Random(seed), 4
    ours, twin, sns = ExactClocks(r, 1 << 20), NaiveClocks(r, lambda at: at // 8, False), [0] * r
    for _ in range(250):
        i = draw.randrange(r)
        accesses = _accesses(draw, sns[i], draw.randint(1, 12), 12 if draw.random() < 0.7 else 3000)
        sns[i] += len(accesses)
        rows = ours.take(i, accesses)
        assert (rows["kind"] == EXACT).all()
        expected = []
        for a in accesses:
            expected += twin.step(
                i, int(a["sn"]), int(a["addr"]), int(a["size"]), a["kind"] == STORE, bool(a["fresh"])
            )
        assert _tuples(rows) == expected, f"seed {seed}"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.sampled(5)
def test_relaxed_clocks(seed: int) -> None:
    """One clock for each affinity; the last event of a turn is dealt with when its core comes again."""
    draw, r, cores = random.Random(seed), 3, 5
    affinities = Affinities(MEMORY, cores)
    ours, twin = RelaxedClocks(r, affinities), NaiveClocks(r, lambda at: (at >> 12) % cores, True)
    sns, late = [0] * r, [np.zeros(0, ACCESS)] * r
    for _ in range(250):
        i = draw.randrange(r)
        accesses = _accesses(draw, sns[i], draw.randint(1, 8), 6000)
        sns[i] += len(accesses)
        rows = ours.take(i, accesses)
        assert (rows["kind"] == RELAXED).all()
        due = np.concatenate([late[i], accesses[:-1]])
        late[i] = accesses[-1:]
        expected = []
        for a in due:
            # Page by page, as an access of two partitions goes.
            expected += twin.step(
                i, int(a["sn"]), int(a["addr"]), int(a["size"]), a["kind"] == STORE, bool(a["fresh"])
            )
        assert _tuples(rows) == expected, f"seed {seed}"
    for i in range(r):
        assert _tuples(ours.settle(i)) == [
            order
            for a in late[i]
            for order in twin.step(
                i, int(a["sn"]), int(a["addr"]), int(a["size"]), a["kind"] == STORE, bool(a["fresh"])
            )
        ]


def test_affinities_follow_the_segment_registers() -> None:
    affinities = Affinities(MEMORY, 2)
    rows = np.zeros(2, EVENT)
    rows["kind"], rows["flags"], rows["size"] = WRITE, UNCACHED, 8
    rows["addr"], rows["new"] = [0xF0000230, 0xF0000238], [0x4000, 1 << 63]
    affinities.take(1, rows)
    assert affinities.of_page[:4].tolist() == [0, 1, 0, 1]
    assert (affinities.of_page[4:] == 1).all()


def _device(register: int, value: int, kind: int = WRITE) -> tuple[int, ...]:
    return (kind, 0xF0000000 + register, value, UNCACHED)


def test_puts_and_gets_are_accesses() -> None:
    steps = [
        _device(0x200, 0x100), _device(0x208, 0x800), _device(0x210, 24), _device(0x220, 1),
        (READ, 0x40, 7, 0), _device(0x208, 0x900), _device(0x218, 1), _device(0x228, 1, READ),
        _device(0x228, 0, READ), _device(0x228, 0, READ), _device(0x200, 0x101), _device(0x218, 1),
    ]  # fmt: skip
    rows = np.zeros(len(steps), EVENT)
    for row, (kind, addr, value, flags) in zip(rows, steps, strict=True):
        row["kind"], row["addr"], row["size"], row["flags"] = kind, addr, 8, flags
        row["old"], row["new"] = (value, value) if kind == READ else (0, value)
    stream, found = AccessStream(MEMORY), []
    for part in (rows[:5], rows[5:]):
        found.append(stream.take(part, np.zeros(len(part), np.uint8)))
    accesses = np.concatenate(found)
    assert accesses[["sn", "kind", "addr", "size", "local", "put"]].tolist() == [
        (5, LOAD, 0x40, 8, 0, 0),
        (7, STORE, 0x900, 24, 0x100, 1),
        (9, GOT, 0x800, 24, 0x100, 0),
    ]


def test_more_gets_than_are_remembered() -> None:
    """The oldest count as complete; none is lost."""
    steps = [_device(0x210, 8)]
    for k in range(MOST_GETS + 3):
        steps += [_device(0x200, 0x100 + 8 * k), _device(0x208, 0x4000 + 8 * k), _device(0x220, 1)]
    steps.append(_device(0x228, 0, READ))
    rows = np.zeros(len(steps), EVENT)
    for row, (kind, addr, value, flags) in zip(rows, steps, strict=True):
        row["kind"], row["addr"], row["size"], row["flags"], row["new"] = kind, addr, 8, flags, value
    accesses = AccessStream(MEMORY).take(rows, np.zeros(len(rows), np.uint8))
    assert accesses["addr"].tolist() == [0x4000 + 8 * k for k in range(MOST_GETS + 3)]
    assert accesses["local"].tolist() == [0x100 + 8 * k for k in range(MOST_GETS + 3)]
    assert (accesses["sn"][:3] < len(steps)).all()
    assert (accesses["sn"][3:] == len(steps)).all()


@pytest.mark.parametrize("seed", range(4))
def test_write_checks(seed: int) -> None:
    """Algorithm 3 as it is written: VCL_j[V_val[j]] = V_val[i] for each new value, from the one after the
    last."""
    draw, r = random.Random(seed), 3
    waits, values = [], []
    for member in range(r):
        rows, clock = [], [0] * r
        for sn in sorted(draw.sample(range(1, 200), 40)):
            peer = draw.choice([k for k in range(r) if k != member])
            clock[peer] += draw.randint(1, 9)
            rows.append((sn, clock[peer], peer))
        waits.append(np.array(rows, WAIT))
        mine = np.zeros(30, [("sn", "<u8")])
        mine["sn"] = sorted(draw.sample(range(1, 220), 30))
        values.append(mine)
    orders = OrderLog(waits)
    found = {
        (j, int(row["reader"]), k): int(row["sn"])
        for j, rows in enumerate(write_checks(orders, values))
        for row in rows
        for k in range(row["first"], row["last"])
    }
    expected = {}
    for i in range(r):
        for k, sn in enumerate(values[i]["sn"].tolist()):
            for j in range(r):
                heard = [int(w["place"]) for w in waits[i] if w["peer"] == j and w["sn"] <= sn]
                if j != i and heard:
                    expected[j, i, k] = max(heard)
    assert found == expected
