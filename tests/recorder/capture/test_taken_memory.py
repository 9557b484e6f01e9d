"""Words that tasks took away from others, against a look at all uses."""

from __future__ import annotations

import random

import numpy as np

from recorder.capture.taken_memory import Taken, taken_from_others

#: A use: the word, who, in which turn.
Use = tuple[int, int, int]


def found(taken: list[Taken], uses: list[Use]) -> set[tuple[int, int, int]]:
    columns = np.array(sorted(uses), np.uint64).reshape(-1, 3).T
    return set(map(tuple, taken_from_others(taken, *columns).tolist()))


def by_hand(taken: list[Taken], uses: list[Use]) -> set[tuple[int, int, int]]:
    told = set()
    for k, one in enumerate(taken):
        overlapping = [it for it in taken[:k] if it.first < one.end and one.first < it.end]
        since = max([it.turn for it in overlapping], default=0)
        for word, who, turn in uses:
            if one.first <= word < one.end and who != one.who and since < turn <= one.turn:
                told.add((word, one.who, one.turn))
    return told


def test_what_others_had_used() -> None:
    taken = [Taken(5, 1, 10, 20)]
    assert found(taken, [(10, 2, 5), (19, 3, 1), (20, 2, 1), (9, 2, 1)]) == {(10, 1, 5), (19, 1, 5)}
    # Its own uses, and those of what stands there later.
    assert found(taken, [(10, 1, 4), (11, 2, 6)]) == set()
    # What each takes that it alone had used since the last time.
    assert found([*taken, Taken(9, 2, 0, 30)], [(10, 1, 4), (10, 2, 8)]) == set()
    assert found([], [(10, 1, 4)]) == set()


def test_against_a_look_at_all() -> None:
    draw = random.Random(0)
    seen = 0
    for _ in range(200):
        turns = sorted(draw.sample(range(1, 30), 4))
        taken = [
            Taken(turn, draw.randint(1, 3), first := draw.randint(0, 20), first + draw.randint(1, 10))
            for turn in turns
        ]
        uses = [(draw.randint(0, 30), draw.randint(1, 3), draw.randint(1, 30)) for _ in range(20)]
        expected = by_hand(taken, uses)
        assert found(taken, uses) == expected
        seen += len(expected)
    assert seen > 100


def test_the_last_times_are_looked_at() -> None:
    taken = [Taken(turn, 1, turn, turn + 1) for turn in range(1, 1202)]
    uses = [(turn, 2, 1) for turn in range(1, 1202)]
    assert {word for word, _, _ in found(taken, uses)} == set(range(202, 1202))
