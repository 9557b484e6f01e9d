"""What a line holds is not known of pages of which holds were rows for a time: a later record says only what
is other than what came meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import corebraid
from corebraid.base.hold_places import WITH_AGENTS
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording
from recorder.replay.contested import CONTESTED
from recorder.replay.traces import RecordingTraces
from solver.sifting.strata import iter_regions

LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"


def contradictions(recording: Recording) -> list[int]:
    traces = RecordingTraces(recording, constraints=LOSSES, rows=CONTESTED, holds=WITH_AGENTS)
    assert len(traces.pages.spells.page)
    found = []
    for region in iter_regions(traces):
        assert region.tenures is not None
        deduced = region.tenures.deduced(region)
        found += [region.index] if deduced is not None and deduced.contradiction else []
    return found


def test_rules_contradict_nothing_that_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corebraid.record(LINUX / "sockets", tmp_path / "rec", cores=3, seed=1, strata="cycles:20000")
    recording = Recording.open(tmp_path / "rec")
    assert contradictions(recording) == []
    monkeypatch.setattr(RecordingTraces, "untold", np.zeros(0, np.uint64))
    assert contradictions(recording)
