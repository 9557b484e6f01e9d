"""`verify` holds what agents say of cores (OWNED) against the cores' logs and losses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_factory import run
from losses_factory import firmware, linux
from test_sync_damage import altered

from corebraid.base.rows.event import OWNED, READ
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.integrity import integrity
from recorder.evidence.owned_integrity import owned_fault
from recorder.files.agent_log import is_access
from recorder.files.manifest import AGENT_LOG
from recorder.files.reader import Recording, iter_agent_rows, strata

CASES = {
    "sc": ("pgas_uts", {"strata": StrataPolicy.parse("cycles:50000"), "longest_slice": 500}),
    "tso": ("pgas_uts", {"model": "tso", "longest_slice": 500}),
    "finite": ("pgas_uts", {"cache": "4k:2:64", "longest_slice": 500}),
}


@pytest.fixture(scope="module", params=[*CASES, "linux"])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("owned") / "rec"
    if request.param == "linux":
        return linux(folder, "mutexes", limit=400_000)
    name, options = CASES[request.param]
    return firmware(folder, name, **{"limit": 6_000_000, **options})


def fault_of(recording: Recording) -> str:
    return owned_fault(recording, strata(recording))


def turned(recording: Recording, to: Path, at: int) -> Recording:
    """A copy in which one of the agents' accesses says the contrary."""

    def change(rows: np.ndarray) -> np.ndarray:
        rows["flags"][np.flatnonzero(is_access(rows))[at]] ^= OWNED
        return rows

    return Recording.open(altered(recording.path, to, change))


@pytest.mark.sampled(2)
def test_a_turned_mark_is_found(sound: Recording, tmp_path: Path) -> None:
    """All reads' where caches are unbounded; elsewhere, and of writes, such as say more than there are
    losses: a write takes a line from cores that share it too, so that fewer say nothing."""
    assert integrity(sound) == []
    rows = np.concatenate(list(iter_agent_rows(sound)))
    rows = rows[is_access(rows)]
    exact = sound.manifest.cache == "unbounded"
    found: dict[tuple[bool, bool], list[bool]] = {}
    for at in np.random.default_rng(1).choice(len(rows), min(60, len(rows)), replace=False).tolist():
        fault = fault_of(turned(sound, tmp_path / str(at), at))
        read, said = rows["kind"][at] == READ, rows["flags"][at] & OWNED != 0
        assert fault or not (read and exact), f"access {at}"
        found.setdefault((bool(read), bool(said)), []).append(bool(fault))
    print({key: f"{sum(value)} of {len(value)}" for key, value in found.items()})
    assert any(map(any, found.values()))


def test_it_is_one_line_and_exit_code_1(sound: Recording, tmp_path: Path) -> None:
    rows = np.concatenate(list(iter_agent_rows(sound)))
    rows = rows[is_access(rows)]
    at = next(
        at
        for at in np.flatnonzero((rows["kind"] == READ) & ((rows["flags"] & OWNED) == 0)).tolist()
        if fault_of(turned(sound, tmp_path / str(at), at))
    )
    ran = run("verify", tmp_path / str(at))
    assert ran.code == 1
    assert len([line for line in ran.lines if AGENT_LOG in line and "had it alone" in line]) == 1
