"""What a killed recorder leaves can be ordered up to where a log was written last, not where all were."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_factory import FIRMWARE

import corebraid
from emu.core import recorded
from recorder.capture import base
from recorder.files.reader import Recording, strata

PROGRAM = FIRMWARE.parent / "linux" / "x86_64" / "loop_forever"
NEVER = 1 << 40


class Killed(Exception):
    pass


def _at_half_a_million(instructions: int) -> None:
    if instructions > 500_000:
        raise Killed


@pytest.mark.parametrize(
    ("rows_of_a_core", "slices"), [(1_000, NEVER), (32_768, 1_000)], ids=["a core's log", "the truth"]
)
def test_idle_cores_are_written_with_what_is_full(
    rows_of_a_core: int, slices: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four threads miss on one page again and again, long before all logs are due."""
    monkeypatch.setattr(recorded, "_ROWS", recorded._ROWS_SLACK + rows_of_a_core)
    monkeypatch.setattr(base, "_TRUTH_ROWS", slices)
    monkeypatch.setattr(base, "FLUSH_EVERY", NEVER)
    with pytest.raises(Killed):
        corebraid.record(
            PROGRAM, tmp_path / "rec", slice=100, strata="cycles:5000", progress=_at_half_a_million
        )
    recording = Recording.open(tmp_path / "rec")
    assert recording.killed
    cuts = strata(recording)
    assert len(cuts) > 60
    assert cuts[-1].sum() > 300_000
    corebraid.order(recording, jobs=1)
    assert corebraid.check_order(recording).events
