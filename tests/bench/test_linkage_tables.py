"""Stride's tables that record for themselves: what locks protect, edges, speed of the replayer."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import linkage_edges, linkage_protected, linkage_replay
from bench.linux_programs import OURS
from bench.programs import image


def test_bytes_with_and_without_what_locks_protect(tmp_path: Path) -> None:
    table = linkage_protected.protected_table()
    run = linkage_protected.measured(OURS / "mutexes", (), tmp_path, cores=3)
    linkage_protected.add(table, "mutexes", "Linux", run)
    assert run.opened <= run.guarded <= run.shared
    assert 0 < run.skipped < run.accesses
    assert max(run.stored[1:]) < run.stored[0]
    assert 0 < run.still_loose <= run.loose
    assert run.loose_skipped > run.skipped
    assert len(table.texts()[0]) == len(table.columns)


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
