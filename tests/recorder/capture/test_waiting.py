"""What waits to be written comes out as it went in."""

from __future__ import annotations

import random

import numpy as np
import pytest

from recorder.capture.waiting import AgentRows, Slices, slices_of_commits
from recorder.files.agent_codec import AGENT_OP, MARK
from recorder.files.truth import TRUTH


def test_slices_one_by_one_and_many_at_once() -> None:
    draw, waiting, expected = random.Random(4), Slices(), []
    for _ in range(200):
        some = [(draw.randrange(5), draw.randrange(1 << 50)) for _ in range(draw.choice((0, 1, 7)))]
        if draw.random() < 0.5:
            waiting.append_all(np.array(some, np.uint64).reshape(-1, 2))
        else:
            for stream, end in some:
                waiting.append(stream, end)
        expected += some
        assert waiting.n == len(expected)
        if draw.random() < 0.1:
            assert waiting.take().tolist() == expected
            expected = []
    assert waiting.take().dtype == TRUTH
    assert waiting.n == 0
    assert not len(waiting.take())


def test_rows_of_agents_and_marks() -> None:
    waiting = AgentRows()
    rows = np.zeros(3, AGENT_OP)
    rows["number"], rows["kind"] = range(3), 1
    assert not waiting.append(rows)
    assert not waiting.mark(3, 7)
    assert not waiting.append(rows[:0])
    found = waiting.take()
    assert (found[:3] == rows).all()
    assert (found["number"][3], found["stratum"][3], found["kind"][3]) == (3, 7, MARK)
    assert not len(waiting.take())
    assert waiting.append(np.zeros(1 << 14, AGENT_OP))


@pytest.mark.parametrize("seed", range(20))
def test_slices_of_commits_are_those_of_their_twin(seed: int) -> None:
    """One by one: the core as far as it was not told yet, then its stores."""
    draw = random.Random(seed)
    stood, n = draw.randrange(30), draw.randrange(1, 12)
    counts = sorted(draw.choices(range(40), k=n))
    commits = [(count, 7 + k) for k, count in enumerate(counts)]
    expected, told = list[tuple[int, int]](), stood
    for count, committed in commits:
        if count > told:
            expected.append((2, count))
            told = count
        expected.append((9, committed))
    found = slices_of_commits(np.array(commits, np.uint64), 2, 9, stood)
    assert [tuple(row) for row in found.tolist()] == expected
