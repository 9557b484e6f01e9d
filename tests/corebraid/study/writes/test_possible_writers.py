"""Who may have written bytes last, against every interleaving of the rows of small traces that is legal."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from trace_factory import Made, Shape, make

from corebraid.base.rows.event import GLUED, RMW, UNCACHED, WRITE
from corebraid.names.event_names import EventName
from corebraid.names.selection import AddressRange
from corebraid.study.writes.possible import POSSIBLE, Possible, possible_in
from solver.freedom.freedom import Limits

_MOST = 4000
#: Of a byte that nobody wrote.
_NOBODY = (-1, -1)
Row = Any


def small(seed: int) -> Made:
    rng = random.Random(seed)
    shape = Shape(
        streams=rng.choice((2, 3)), steps=rng.choice((4, 6, 8)), domain=rng.choice((2, 2, 3, 0)),
        hot=rng.choice((8, 16)), strata=rng.choice((0, 0, 0.15)),
        sizes=rng.choice(((8,), (1, 2, 4, 8), (4, 8))), spin=rng.choice((0, 0.2)),
        glued=rng.choice((0, 0.2)), private=0.2, uncached=0, aligned=rng.random() < 0.6,
    )  # fmt: skip
    return make(seed, shape)


def interleavings(made: Made) -> list[list[Row]] | None:
    """Every legal order of all rows, None if there are too many: values, regions and GLUED rows are
    obeyed."""
    traces = made.traces
    chunks = [list(traces.chunks(s)) for s in range(traces.n_streams)]
    streams = [[row for rows in one for row in rows] for one in chunks]
    memory, final = traces.initial().copy(), traces.final()
    at, order, found = [0] * len(streams), list[Row](), list[list[Row]]()

    def put(row: Row, name: str) -> None:
        first, size = int(row["addr"]), int(row["size"])
        memory[first : first + size] = np.frombuffer(int(row[name]).to_bytes(8, "little")[:size], np.uint8)

    def fits(row: Row) -> bool:
        first, size = int(row["addr"]), int(row["size"])
        return memory[first : first + size].tobytes() == int(row["old"]).to_bytes(8, "little")[:size]

    def go() -> bool:
        if all(n == len(rows) for n, rows in zip(at, streams, strict=True)):
            if np.array_equal(memory, final):
                found.append(list(order))
            return len(found) <= _MOST
        heads = [rows[n]["stratum"] for n, rows in zip(at, streams, strict=True) if n < len(rows)]
        locked = bool(order) and bool(order[-1]["flags"] & GLUED)
        for s, rows in enumerate(streams):
            if at[s] == len(rows) or (locked and int(order[-1]["core"]) != s):
                continue
            row = rows[at[s]]
            if row["stratum"] > min(heads) or not fits(row):
                continue
            at[s] += 1
            order.append(row)
            put(row, "new")
            more = go()
            put(row, "old")
            order.pop()
            at[s] -= 1
            if not more:
                return False
        return True

    return found if go() else None


def writer(order: list[Row], event: EventName | None, byte: int) -> tuple[int, int]:
    """(stream, seq) of who wrote a byte last before an event in one order."""
    last = _NOBODY
    for row in order:
        if event is not None and int(row["core"]) == event.stream and int(row["count"]) == event.count:
            break
        covers = int(row["addr"]) <= byte < int(row["addr"]) + int(row["size"])
        writes = row["kind"] == WRITE or (row["kind"] == RMW and row["old"] != row["new"])
        if covers and writes and not row["flags"] & UNCACHED:
            last = int(row["core"]), int(row["seq"])
    return last


def told(found: Possible) -> set[tuple[int, int]]:
    assert all(sure == POSSIBLE for _, sure in found.writers.values())
    writers = {(int(one.row["core"]), int(one.row["seq"])) for one, _ in found.writers.values()}
    return writers | ({_NOBODY} if found.initial else set())


def test_the_possible_writers_are_those_of_all_interleavings() -> None:
    asked, several, begun = 0, 0, 0
    for seed in range(110):
        made, rng = small(seed), random.Random(seed)
        orders = interleavings(made)
        if not orders:
            continue
        rows = orders[0]
        for _ in range(4):
            row, seen = rng.choice(rows), rng.choice(rows)
            event = EventName(int(seen["core"]), int(seen["count"]), None, "") if rng.random() < 0.8 else None
            low = int(row["addr"]) + rng.randrange(int(row["size"]))
            found = possible_in(made.traces, AddressRange(low, low + 1), event, Limits())[0]
            expected = {writer(order, event, low) for order in orders}
            assert found.exact, f"seed {seed}: {found.reason}"
            assert told(found) == expected, f"seed {seed}, byte {low}, {event}"
            asked, several, begun = asked + 1, several + (len(expected) > 1), begun + (_NOBODY in expected)
    print(f"{asked} asked, {several} with several, {begun} with nobody")
    assert asked > 200
    assert several > 20
    assert begun > 30
