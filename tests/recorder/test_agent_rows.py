"""The kernels that read rows of the agent log, against plain Python."""

from __future__ import annotations

import numpy as np
from engine_suite import SOAK

from corebraid.base.rows.event import EVENT
from recorder.files.agent_codec import AGENT_OP, MARK, SYNC
from recorder.files.agent_log import count_rows, fill_events, is_access


def random_rows(rng: np.random.Generator) -> np.ndarray:
    """Rows of every kind."""
    rows = np.zeros(rng.integers(0, 12), AGENT_OP)
    for name in AGENT_OP.names:
        rows[name] = rng.integers(0, 4, len(rows))
    rows["kind"] = rng.choice([0, 1, 2, MARK, SYNC], len(rows))
    return rows


def test_accesses_become_events() -> None:
    for seed in range(50 * SOAK):
        rows = random_rows(np.random.default_rng(seed))
        kept = rows[is_access(rows)]
        expected = np.zeros(len(kept), EVENT)
        for name in ("addr", "old", "new", "stratum", "size", "kind", "flags"):
            expected[name] = kept[name]
        expected["seq"] = expected["count"] = kept["number"]
        expected["pc"], expected["core"] = kept["cause"], 7
        events = np.zeros(len(rows), EVENT)
        assert fill_events(rows, 7, events) == len(kept)
        assert events[: len(kept)].tolist() == expected.tolist()


def test_sync_points_that_go_back_are_found_from_frame_to_frame() -> None:
    bad = 0
    for seed in range(100 * SOAK):
        rng = np.random.default_rng(seed)
        met, known = np.zeros(4, np.uint64), [0] * 4
        for _ in range(3):
            rows = random_rows(rng)
            rows["addr"] += np.uint64(bool(seed % 2)) * np.arange(len(rows), dtype=np.uint64)
            back = -1
            for i, row in enumerate(rows.tolist()):
                named = dict(zip(AGENT_OP.names, row, strict=True))
                if named["kind"] != SYNC:
                    continue
                if named["addr"] < known[named["cause"]]:
                    back = i
                    break
                known[named["cause"]] = named["addr"]
            found, marks, points = count_rows(rows, met)
            assert found == back, f"seed {seed}"
            if back >= 0:
                bad += 1
                break
            assert met.tolist() == known
            assert (marks, points) == ((rows["kind"] == MARK).sum(), (rows["kind"] == SYNC).sum())
    assert bad > 20
