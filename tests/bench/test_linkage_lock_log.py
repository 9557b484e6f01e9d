"""The paper's lock log (ICSE 2012, section III-A, LA_l) is read out of the orders of writers: for each lock
who took it, one after the other, by the evidence and what each stream does by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import ROOT, run
from evidence_factory import Spy

import corebraid
from bench.linkage_lock_log import LockLog
from bench.systems.logs import watch_again
from corebraid.base.rows.event import READ, UNCACHED
from recorder.files.reader import Recording
from solver.evidence.linkage.log import LinkageLog, read_linkage

LINUX = ROOT / "firmware" / "linux" / "x86_64"


def versions_of(log: LinkageLog, slot: int, stream: int) -> list[int]:
    """The versions that a stream's writes to a variable made, ascending, as the evidence has it."""
    shares, runs = log.shares, log.runs
    alone = range(1, int(shares.writes[slot]) + 1) if shares.owner[slot] == stream else ()
    key = slot * log.streams + stream
    rows = range(int(runs.first[key]), int(runs.first[key + 1]))
    return [*alone, *(v for k in rows for v in range(int(runs.version[k]), int(runs.version[k] + runs.n[k])))]


def writes_to(rows: Any, word: int) -> list[Any]:
    """A stream's rows that write to a word, in program order."""
    there = (
        (rows["addr"] >> np.uint64(3) == word) & (rows["kind"] != READ) & ((rows["flags"] & UNCACHED) == 0)
    )
    return [rows[k : k + 1] for k in np.flatnonzero(there)]


@pytest.mark.parametrize("program", ["mutexes", "condvars"])
def test_who_took_each_lock(program: str, tmp_path: Path) -> None:
    path = tmp_path / "rec"
    corebraid.record(LINUX / program, path, cores=3, seed=2, evidence="linkage", slice=300)
    recording, truth, spy = Recording.open(path), LockLog(), Spy()
    watch_again(recording, [truth, spy])
    log, told = read_linkage(recording), 0
    each = [spy.rows(stream) for stream in range(log.streams)]
    for word, lock in truth.locks.items():
        slot = int(log.shares.slot_of[word]) - 1
        if slot < 0:
            continue
        made = []
        for stream, rows in enumerate(each):
            mine = writes_to(rows, word)
            made += list(zip(versions_of(log, slot, stream), [stream] * len(mine), mine, strict=True))
        assert [version for version, _, _ in sorted(made, key=lambda one: one[0])] == list(
            range(1, len(made) + 1)
        )
        found = LockLog()
        for _, stream, rows in sorted(made, key=lambda one: one[0]):
            found.take(stream, rows)
        assert found.locks[word].takers == lock.takers
        assert found.others[word] == truth.others[word]
        told += len(set(lock.takers)) > 1
    assert told > 2


def test_a_run_into_a_deadlock_is_replayed_by_it(tmp_path: Path) -> None:
    """What the paper has its lock log for. Who waits for whom is the order in which the locks were taken."""
    path = tmp_path / "rec"
    corebraid.record(LINUX / "deadlock_sure", path, cores=3, evidence="linkage", protected="skip", slice=200)
    end = Recording.open(path).manifest.end
    assert end is not None
    assert end.reason == "deadlock"
    for name in path.glob("*.log"):
        if name.name.startswith(("truth", "evidence-losses")):
            name.unlink()
    ran = run("linkage", path, "--replay")
    assert ran.code == 0
    assert "bit-exact" in ran.out
