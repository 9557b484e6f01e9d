"""An agent log that was altered, its checksums made anew: `verify` says in one line what is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cli_factory import run

from bench import linux_soak
from bench.order_soak import make
from emu.bus.sync_points import ENTER, LEAVE
from recorder.files.agent_codec import SYNC
from recorder.files.manifest import AGENT_LOG, MANIFEST
from recorder.files.reader import Recording, iter_agent_rows
from recorder.files.writer import RecordingWriter

Rows = np.ndarray


def altered(path: Path, to: Path, change: Callable[[Rows], Rows]) -> Path:
    """A copy of a recording with another agent log."""
    recording = Recording.open(path)
    shutil.copytree(path, to)
    rows = change(np.concatenate(list(iter_agent_rows(recording))))
    with RecordingWriter.create(to / "again", recording.manifest) as writer:
        writer.append_agent(rows)
    facts = writer._logs[AGENT_LOG].facts()
    shutil.copy(to / "again" / AGENT_LOG, to / AGENT_LOG)
    shutil.rmtree(to / "again")
    manifest = replace(recording.manifest, files={**recording.manifest.files, AGENT_LOG: facts})
    (to / MANIFEST).write_bytes(manifest.render())
    return to


def _points(rows: Rows) -> Rows:
    return np.flatnonzero(rows["kind"] == SYNC)


def no_sync_of_a_call(rows: Rows) -> Rows:
    return np.delete(rows, _points(rows)[200])


def two_at_once(rows: Rows) -> Rows:
    """Where another thread is put on a core it is one that runs on the other core already."""
    running: dict[int, int] = {}
    for at in _points(rows):
        core, who = int(rows["cause"][at]), int(rows["old"][at])
        others = [one for k, one in running.items() if k != core]
        if rows["flags"][at] == LEAVE and others and core not in running:
            rows["old"][at] = others[0]
            return rows
        if rows["flags"][at] & ENTER:
            running.pop(core, None)
        if rows["flags"][at] & LEAVE:
            running[core] = who
    raise AssertionError


def outside_its_region(rows: Rows) -> Rows:
    """A sync point lies where its core was two strata earlier."""
    mine = [k for k in _points(rows) if rows["cause"][k] == 0]
    before, at = next((a, b) for a, b in pairwise(mine) if rows["stratum"][b] >= rows["stratum"][a] + 2)
    rows["addr"][at] = rows["addr"][before]
    return rows


def another_thread(rows: Rows) -> Rows:
    rows["old"][_points(rows)[150]] += 1
    return rows


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "rec"
    with linux_soak.place():
        make(linux_soak.Plan("semaphores", 2, 1, strata="cycles:20000"), path)
    return path


@pytest.mark.parametrize("change", [no_sync_of_a_call, two_at_once, outside_its_region, another_thread])
def test_an_altered_agent_log_is_found(change: Callable[[Rows], Rows], sound: Path, tmp_path: Path) -> None:
    done = run("verify", altered(sound, tmp_path / "rec", change))
    assert done.code == 1
    assert len(done.lines) == 1, done.lines
    # Without the point at which a core asks, the kernel's accesses that follow are nobody's.
    assert any(what in done.err for what in ("sync point", "thread", "no core had asked for it")), done.err
    ordered = run("order", tmp_path / "rec")
    assert ordered.code in (0, 1, 2)


def test_the_same_log_again_is_sound(sound: Path, tmp_path: Path) -> None:
    assert run("verify", altered(sound, tmp_path / "rec", lambda rows: rows)).code == 0
