"""Stores that later loads overtake: which tasks store and load crosswise, against all pairs of accesses."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from corebraid.base.rows.event import READ, RMW, WRITE
from emu.bus.store_buffer import OLDEST
from recorder.capture import overtaking
from recorder.capture.overtaking import MOST_HELD
from recorder.capture.turns import CALL, Done

X, Y, Z = 100, 200, 300
Step = tuple[int, int, int]
Turn = tuple[int, NDArray[np.uint64], NDArray[np.uint8]]


def turn(who: int, *steps: Step, begin: int = 0, places: int = 0) -> Turn:
    """steps: kind, word, instructions since the one before. Places are counts from `places` on."""
    counts = begin + np.cumsum([apart for *_, apart in steps])
    rows = np.array(
        [
            (word, word, count, places + count, word * 8)
            for (_, word, _), count in zip(steps, counts, strict=True)
        ],
        np.uint64,
    )
    return who, rows, np.array([kind for kind, *_ in steps], np.uint8)


def overtaken(turns: list[Turn], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of turns one after the other."""
    whos = np.repeat(np.array([0, *(who for who, *_ in turns)]), [0, *(len(rows) for _, rows, _ in turns)])
    rows = np.concatenate([np.zeros((0, 5), np.uint64), *(rows for _, rows, _ in turns)])
    kinds = np.concatenate([np.zeros(0, np.uint8), *(kinds for *_, kinds in turns)])
    return overtaking.overtaken(Done(whos, rows, kinds), words)


ONE = turn(1, (WRITE, X, 1), (READ, Y, 1), places=1000)
SHARED = np.array([X, Y], np.uint64)


def test_stores_and_loads_crosswise() -> None:
    other = turn(2, (WRITE, Y, 1), (READ, X, 1), places=2000)
    assert overtaken([ONE, other], SHARED).tolist() == [[1001, 1002, 2001, 2002]]
    assert overtaken([other, ONE], SHARED).tolist() == [[1001, 1002, 2001, 2002]]


@pytest.mark.parametrize(
    "steps",
    [
        ((READ, X, 1), (WRITE, Y, 1)),
        ((WRITE, X, 1), (READ, Y, 1)),
        ((WRITE, Y, 1), (RMW, Z, 1), (READ, X, 1)),
        ((RMW, Y, 1), (READ, X, 1)),
        ((WRITE, Y, 1), (CALL, Z, 1), (READ, X, 1)),
        ((WRITE, Y, 1), (READ, X, int(OLDEST))),
        ((WRITE, Z, 1), (READ, X, 1)),
        ((WRITE, Y, 1), (READ, Y, 1)),
    ],
)
def test_what_is_ordered_or_not_crosswise(steps: tuple[Step, ...]) -> None:
    assert overtaken([ONE, turn(2, *steps)], SHARED).tolist() == []


def test_words_are_told_apart_by_their_bytes() -> None:
    """Two variables may lie in one word."""
    one, other = (turn(who, (WRITE, X, 1), (READ, X, 1)) for who in (1, 2))
    one[1][1, 4] += 4
    other[1][0, 4] += 4
    assert overtaken([one, other], SHARED).size
    assert not overtaken([one, one], SHARED).size


def test_a_task_that_goes_on_elsewhere_has_nothing_buffered() -> None:
    turns = [ONE, turn(2, (WRITE, Y, 1), begin=500), turn(2, (READ, X, 1))]
    assert overtaken(turns, SHARED).tolist() == []
    assert overtaken([ONE, turn(2, (WRITE, Y, 1)), turn(2, (READ, X, 1), begin=1)], SHARED).size
    assert overtaken([], SHARED).shape == (0, 4)


def test_a_full_buffer_lets_its_oldest_store_go() -> None:
    words = np.arange(100, 300, dtype=np.uint64)
    other = turn(2, (WRITE, Y, 1), (READ, X, 1))
    for more in (MOST_HELD - 1, MOST_HELD):
        stores = [(WRITE, X + 1 + k, 1) for k in range(more)]
        # One that is written again is the newest.
        for first, held in (([X], more < MOST_HELD), ([X, X + 99, X], True)):
            one = turn(1, *((WRITE, word, 1) for word in first), *stores[len(first) - 1 :], (READ, Y, 1))
            words = np.arange(100, 301, dtype=np.uint64)
            assert (len(overtaken([one, other], words)) > 0) is held


def test_of_large_arrays_not_all_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pairs of one place; what other places show does not suffer."""
    monkeypatch.setattr(overtaking, "MOST_PAIRS", 5)
    words = np.arange(0, 2000, dtype=np.uint64)
    copied = [step for k in range(500, 600) for step in ((WRITE, k, 1), (READ, k + 300, 1))]
    many = turn(1, *copied)
    many[1][:, 3] = 7
    assert len(overtaken([many, ONE, turn(2, (WRITE, Y, 1), (READ, X, 1))], words)) == 1
    task = overtaking._Task()
    for k in range(100):
        task.store(k, k, 1)
        task.load(k + 300, k, 2)
    assert len(task.pairs) <= 5 + MOST_HELD


def naive(turns: list[Turn], words: set[int]) -> set[tuple[int, int, int, int]]:
    """Words of tasks: who, stored, other, loaded; from all pairs of a task's accesses."""
    made: dict[int, list[tuple[int, int, int]]] = {}
    for who, rows, kinds in turns:
        steps = zip(kinds.tolist(), rows[:, 0].tolist(), rows[:, 2].tolist(), strict=True)
        made.setdefault(who, []).extend(steps)
    pairs = set[tuple[int, int, int]]()
    for who, steps_of in made.items():
        for i, (first, store, then) in enumerate(steps_of):
            for j in range(i + 1, len(steps_of)):
                kind, load, now = steps_of[j]
                if kind in (RMW, CALL):
                    break
                meets = first == WRITE and kind == READ and {store, load} <= words and store != load
                if meets and now - then < int(OLDEST):
                    pairs.add((who, store, load))
    return {(a, s, b, r) for a, s, r in pairs for b, s2, r2 in pairs if a < b and (s2, r2) == (r, s)}


def test_as_all_pairs_have_it() -> None:
    some = 0
    for seed in range(200):
        draw = random.Random(seed)
        turns, at = list[Turn](), {1: 0, 2: 0, 3: 0}
        for _ in range(6):
            who = draw.choice([1, 2, 3])
            kinds, words = [READ, READ, WRITE, WRITE, RMW, CALL], [X, Y, Z]
            steps = [(draw.choice(kinds), draw.choice(words), draw.choice([1, 300])) for _ in range(7)]
            # Places say which task and which word.
            rows = turn(who, *steps, begin=at[who])
            rows[1][:, 3] = who * 1000 + rows[1][:, 0]
            at[who] += sum(apart for *_, apart in steps)
            turns.append(rows)
        turns.sort(key=lambda one: one[0])
        found = overtaken(turns, SHARED)
        told = {(a // 1000, a % 1000, b // 1000, b % 1000) for a, _, b, _ in found.tolist()}
        assert told == naive(turns, {X, Y}), f"seed {seed}"
        some += len(told) > 0
    assert 20 < some < 180
