"""Two accesses exchanged, with nothing else changed that a read could see."""

import numpy as np
import pytest

from corebraid.base.rows.event import EVENT, READ, RMW, WRITE
from corebraid.study.races.accesses import NOBODY, Rows, Shared
from corebraid.study.races.clocks import RELEASE
from corebraid.study.races.histories import braided
from corebraid.study.races.steps import Step
from corebraid.study.races.swapping import exchanged
from corebraid.study.races.turning import Turn, Turning
from emu.bus.sync_points import ENTER, LEAVE, SYNC_POINT
from solver.freedom.freedom import Limits

X, Y = 0x1000, 0x1008
#: who, address, kind, old, new.
Told = list[tuple[int, int, int, int, int]]


def rows_of(told: Told) -> tuple[Rows, np.ndarray]:
    rows = np.zeros(len(told), EVENT)
    for n, (who, address, kind, old, new) in enumerate(told):
        rows[n]["addr"], rows[n]["kind"], rows[n]["old"], rows[n]["new"] = address, kind, old, new
        rows[n]["size"], rows[n]["core"], rows[n]["count"] = 8, max(who, 0), 10 * n
    return rows, np.array([one[0] for one in told])


CASES = {
    "a store that is read": ([(0, X, WRITE, 0, 1), (1, X, READ, 1, 1)], Turn.HELD),
    "a store that is read too late": ([(0, X, READ, 0, 0), (1, X, WRITE, 0, 1)], Turn.HELD),
    "stores of one value": ([(0, X, WRITE, 0, 1), (1, X, WRITE, 1, 1), (0, X, READ, 1, 1)], Turn.FREE),
    "a store that stays": ([(0, X, WRITE, 0, 1), (1, X, WRITE, 1, 2)], Turn.HELD),
    "a store that does not": ([(0, X, WRITE, 0, 1), (1, X, WRITE, 1, 2), (1, X, WRITE, 2, 3)], Turn.FREE),
    "the same, and read behind": (
        [(0, X, WRITE, 0, 1), (1, X, WRITE, 1, 2), (0, X, WRITE, 2, 4), (1, X, READ, 4, 4)], Turn.FREE
    ),
    "updates": ([(0, X, RMW, 0, 1), (1, X, RMW, 1, 2)], Turn.HELD),
    "a value that came back": (
        [(0, X, WRITE, 0, 0), (0, X, WRITE, 0, 5), (0, X, WRITE, 5, 0), (1, X, READ, 0, 0)], Turn.FREE
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_turns(name: str) -> None:
    told, expected = CASES[name]
    pair = (len(told) - 2, len(told) - 1) if name == "a value that came back" else (0, 1)
    assert turning(told).of(*pair).turn is expected


def turning(told: Told, steps: tuple[Step, ...] = (), buffered: bool = False) -> Turning:
    rows, who = rows_of(told)
    none = np.zeros(0, np.int64)
    shared = Shared(rows, who, rows[:0], none, none, False)
    points = np.zeros(2, SYNC_POINT)
    points["way"] = ENTER | LEAVE
    points["core"], points["count"] = (0, 1), (1, 10)
    words = np.unique(rows["addr"] // np.uint64(8))
    whole = braided(shared, points, steps, words, np.zeros(8 * len(words), np.bool_), 3)
    return Turning(shared, whole, words, Limits(1000, 5.0), buffered=buffered)


#: A store that nobody needs to have happened before the other thread's read.
EITHER: Told = [(0, X, WRITE, 7, 7), (1, X, READ, 7, 7), (0, X, WRITE, 7, 8), (0, X, READ, 8, 8)]


def test_what_steps_put_in_order_stays_so() -> None:
    told: Told = [(0, Y, WRITE, 0, 3), (1, Y, WRITE, 3, 4), (0, Y, WRITE, 4, 5)]
    assert turning(told).of(0, 1).turn is Turn.FREE
    steps = Step(0, 0, True, ("x",)), Step(1, 1, False, ("x",))
    held = turning(told, steps)
    assert RELEASE in held._whole.history.what
    assert held.of(0, 1).turn is Turn.HELD


def test_neither_changes_anything() -> None:
    assert turning(EITHER).of(0, 1).turn is Turn.SAME


def test_a_page_made_present_ends_what_is_looked_at() -> None:
    told: Told = [(0, X, WRITE, 0, 1), (NOBODY, X, WRITE, 1, 0), (1, X, WRITE, 0, 2), (0, X, WRITE, 2, 2)]
    assert turning(told).of(0, 2).turn is Turn.UNDECIDED


def test_nothing_is_said_of_buffered_stores() -> None:
    told: Told = [(0, X, WRITE, 0, 1), (1, X, READ, 1, 1)]
    assert turning(told, buffered=True).of(0, 1).turn is Turn.UNDECIDED


def test_random_exchanges_are_orders() -> None:
    """What is called free is an order of all rows that a brute search finds too."""
    draw, free = np.random.default_rng(3), 0
    for _ in range(200):
        told, holds = [], {X: 0, Y: 0}
        for _ in range(6):
            who, address, kind = (
                int(draw.integers(2)),
                int(draw.choice([X, Y])),
                int(draw.choice([READ, WRITE])),
            )
            new = holds[address] if kind == READ else int(draw.integers(2))
            told.append((who, address, kind, holds[address], new))
            holds[address] = new
        rows, who = rows_of(told)
        pairs = [(a, b) for a in range(6) for b in range(a + 1, 6) if who[a] != who[b]]
        for pair in pairs:
            said = exchanged(rows, who, [], pair)
            assert not said or pair in reorderable(told), (told, pair)
            free += said
    assert free > 100


def reorderable(told: Told) -> set[tuple[int, int]]:
    """Pairs that some order of both threads has the other way round, every read finding what it found and
    memory ending as it ended: all orders are tried."""
    threads = [[n for n, one in enumerate(told) if one[0] == who] for who in (0, 1)]
    ends = {one[1]: one[4] for one in told}
    found = set[tuple[int, int]]()

    def go_on(done: list[int], at: tuple[int, int], holds: dict[int, int]) -> None:
        if len(done) == len(told):
            if all(holds[address] == value for address, value in ends.items()):
                found.update((a, b) for k, b in enumerate(done) for a in done[k + 1 :] if a < b)
            return
        for t in (0, 1):
            if at[t] == len(threads[t]):
                continue
            n = threads[t][at[t]]
            _, address, kind, old, new = told[n]
            if kind != WRITE and holds[address] != old:
                continue
            go_on([*done, n], (at[0] + (t == 0), at[1] + (t == 1)), {**holds, address: new})

    begin = {one[1]: one[3] for one in reversed(told)}
    go_on([], (0, 0), begin)
    return found
