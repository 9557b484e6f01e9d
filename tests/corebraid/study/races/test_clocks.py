"""Vector clocks against a graph, on random histories."""

import history_twin
import numpy as np
import pytest

from corebraid.study.races import clocks
from corebraid.study.races.clocks import ACCESS, ACQUIRE, READS, RELEASE, UPDATES, WRITES, History


def found(h: History) -> tuple[set[int], set[tuple[int, int]]]:
    pairs = {(int(a), int(b)) for piece, _ in clocks.racing_pairs(h) for a, b in piece}
    return set(np.flatnonzero(clocks.racing_bytes(h)).tolist()), pairs


def test_random_histories() -> None:
    racy = 0
    for seed in range(150):
        h = history_twin.random_history(seed)
        expected = history_twin.races(h)
        assert found(h) == expected, seed
        racy += 0 < len(expected[0]) < 4
    assert racy > 10


def test_a_piece_of_pairs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # Room for the pairs of a few operations: more of them than fit are listed in several pieces.
    n = 5000
    ones = np.ones(n, np.int64)
    h = History(
        (0 * ones).astype(np.int8), (np.arange(n) % 8).astype(np.int32), (WRITES * ones).astype(np.int8),
        np.arange(n) % 3, 0 * ones, ones.astype(np.int8), np.zeros(1, np.bool_), 8, 1,
    )  # fmt: skip
    pieces = [piece for piece, _ in clocks.racing_pairs(h)]
    assert len(pieces) > 1
    assert {tuple(one) for piece in pieces for one in piece.tolist()} == history_twin.races(h)[1]


def test_who_reads_a_synchronising_byte_follows_who_wrote_it() -> None:
    """Data at byte 0, a lock at byte 1."""
    steps = [(ACCESS, 0, WRITES, 0), (ACCESS, 0, WRITES, 1), (ACCESS, 1, UPDATES, 1), (ACCESS, 1, READS, 0)]
    assert found(history(steps, synchronises=[False, True])) == (set(), set())
    assert found(history(steps, synchronises=[False, False])) == ({0, 1}, {(0, 3), (1, 2)})
    # An update that fails tells nothing of who made it.
    failed = [(ACCESS, 0, WRITES, 0), (ACCESS, 0, UPDATES | clocks.FAILED, 1), *steps[2:]]
    assert found(history(failed, synchronises=[False, True]))[0] == {0}


def test_an_acquire_follows_releases_alone() -> None:
    steps = [(ACCESS, 0, WRITES, 0), (RELEASE, 0, 0, 1), (ACQUIRE, 1, 0, 1), (ACCESS, 1, READS, 0)]
    assert found(history(steps, synchronises=[False])) == (set(), set())
    other = [*steps[:2], (ACQUIRE, 1, 0, 0), steps[3]]
    assert found(history(other, synchronises=[False]))[1] == {(0, 3)}


def history(steps: list[tuple[int, int, int, int]], synchronises: list[bool]) -> History:
    what, who, does, cell = (np.array(column) for column in zip(*steps, strict=True))
    n = len(steps)
    return History(
        what.astype(np.int8), who.astype(np.int32), does.astype(np.int8), np.arange(n), cell.astype(np.int64),
        np.ones(n, np.int8), np.array(synchronises), 2, 2,
    )  # fmt: skip
