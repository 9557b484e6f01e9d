"""Stride's tables that record for themselves: what locks protect, edges, speed of the replayer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import linkage_edges, linkage_protected, linkage_replay
from bench.linkage_lock_log import LockLog
from bench.linux_programs import OURS
from bench.programs import image
from corebraid.base.rows.event import EVENT, READ, RMW, WRITE


def test_bytes_with_and_without_what_locks_protect(tmp_path: Path) -> None:
    tables = [
        linkage_protected.protected_table(),
        linkage_protected.writes_table(),
        linkage_protected.locks_table(),
    ]
    run = linkage_protected.measured(OURS / "mutexes", (), tmp_path, cores=3)
    linkage_protected.add(tables, "mutexes", "Linux", run)
    assert run.opened <= run.guarded <= run.shared
    assert 0 < run.skipped < run.accesses
    assert max(run.stored[1:]) < run.stored[0]
    assert 0 < run.still_loose <= run.loose
    assert run.loose_skipped > run.skipped
    locks, taken, *sizes = run.lock_log
    assert 0 < locks < taken
    assert all(size > 0 for size in sizes)
    assert all(len(table.texts()[0]) == len(table.columns) for table in tables)


def test_who_took_a_lock_and_who_else_wrote_to_it() -> None:
    """Two pass, one marks, the last makes a lock of it no more."""
    log = LockLog()
    for stream, kind, old, new in (
        (0, RMW, 0, 1), (1, RMW, 1, 2), (0, WRITE, 2, 0), (1, RMW, 0, 2), (1, READ, 2, 2), (1, WRITE, 2, 0),
    ):  # fmt: skip
        rows = np.zeros(1, EVENT)
        rows["addr"], rows["size"], rows["kind"], rows["old"], rows["new"] = 0x1004, 4, kind, old, new
        log.take(stream, rows)
    assert log.locks[0x200].takers == [0, 1]
    assert log.writers[0x200] == [0, 1, 0, 1, 1]
    assert log.others[0x200] == [1]
    assert log.sizes()[:2] == (1, 2)
    rows["kind"], rows["old"], rows["new"] = RMW, 0, 1
    log.take(0, rows)
    rows["kind"], rows["old"], rows["new"] = WRITE, 1, 0
    log.take(1, rows)
    assert log.locks[0x200].broken
    assert log.sizes()[:2] == (0, 0)


@pytest.mark.soak
def test_what_edges_decide() -> None:
    table = linkage_edges.edges_table()
    linkage_edges.add(table, OURS / "condvars", 300)
    (row,) = table.rows
    told = dict(zip((column.name for column in table.columns), row, strict=True))
    assert told["undecided, with"] == 0 < told["undecided, without"]  # type: ignore[operator]
    assert told["reads undetermined, with"] == 0 < told["reads undetermined, without"]  # type: ignore[operator]


@pytest.mark.soak
def test_the_replayers_speed(tmp_path: Path) -> None:
    table = linkage_replay.replayer_table()
    measured = linkage_replay.measure(image("fig1"), (), 100, tmp_path, rounds=1)
    linkage_replay.add(table, ("fig1", "firmware", 100), *measured)
    assert len(measured[2]) == 5
    assert min(measured[2]) > 0
    assert measured[1].turns > 0
