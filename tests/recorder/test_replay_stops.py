"""One replay that stops at several instruction counts sees what a replay up to each of them sees."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from cli_factory import record

from corebraid.base.errors import UsageError
from corebraid.base.rows.record import MISS, RECORD
from recorder.files.reader import Recording
from recorder.replay.driver import STOP, Piece, with_stops
from recorder.replay.pause import PausedReplay, states_at


@pytest.mark.parametrize("model", ["sc", "tso"])
def test_states_at_several_counts_are_those_of_single_replays(model: str, tmp_path: Path) -> None:
    assert record(tmp_path / "rec", "timer", "--cores", 2, "--model", model, "--slice", 300).code == 0
    opened = Recording.open(tmp_path / "rec")
    last = opened.manifest.instructions[1]
    counts = [*sorted(random.Random(7).sample(range(1, last), 12)), last + 1]
    together = states_at(opened, 1, [*reversed(counts), counts[3]])
    assert sorted(together) == counts[:-1]
    assert len({state.pc for state in together.values()}) > 3
    for count in counts[:-1]:
        alone = PausedReplay(opened, 1, (count,))
        for _ in alone.run():
            pass
        assert alone.state(count) == together[count]
        assert alone.result.count == count
    with pytest.raises(UsageError, match="never comes so far"):
        alone.state(last + 1)


@pytest.mark.parametrize("seed", range(40))
def test_stops_among_rows_are_where_a_naive_merge_has_them(seed: int) -> None:
    rng = random.Random(seed)
    counts = sorted(rng.randrange(30) for _ in range(rng.randint(1, 25)))
    stops = sorted(rng.sample(range(40), rng.randint(0, 8)))
    pieces: list[Piece] = []
    left = list(counts)
    while left:
        size = rng.randint(1, len(left))
        rows = np.zeros(size, RECORD)
        rows["count"], rows["kind"] = left[:size], MISS
        pieces.append((rows, np.zeros(0, np.uint8)))
        left = left[size:]
    merged = [(int(r["count"]), int(r["kind"])) for rows, _ in with_stops(pieces, stops) for r in rows]
    expected: list[tuple[int, int]] = []
    due = [count for count in stops if count <= counts[-1]]
    for count in counts:
        while due and due[0] <= count:
            expected.append((due.pop(0), STOP))
        expected.append((count, MISS))
    assert merged == expected
