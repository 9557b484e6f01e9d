"""A core replays bit-exactly from the manifest and its own log, everything else deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.soak import IMAGES, Plan
from corebraid.base.errors import UsageError
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import record
from recorder.files.manifest import MANIFEST, core_log
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay, replay_core

PLANS = [
    Plan("uts", 4, 1, longest_slice=300),
    Plan("dma_race", 4, 2, strata="downgrades:5"),
    Plan("timer", 3, 1, longest_slice=100),
    Plan("smc", 2, 4, cache="512:1:16", longest_slice=30),
    Plan("fault_null", 2, 1),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.program)
def test_replay_needs_no_other_file(plan: Plan, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    record(IMAGES / f"{plan.program}.elf", whole, X86_64, plan.options(b""), lambda text: None)
    manifest = Recording.open(whole).manifest
    for core in range(plan.cores):
        alone = tmp_path / f"alone-{core}"
        alone.mkdir()
        for name in (MANIFEST, core_log(core)):
            shutil.copy(whole / name, alone / name)
        result = replay_core(Recording.open(alone), core)
        assert result.complete
        assert result.count == manifest.instructions[core]
        assert result.digests == result.strata + 1
        traced = CoreReplay(Recording.open(alone), core, traced=True)
        assert sum(map(len, traced.run())) > 0
        assert traced.result == result


def test_no_such_core(tmp_path: Path) -> None:
    record(IMAGES / "fig1.elf", tmp_path / "rec", X86_64, Plan("fig1", 2, 0).options(b""), lambda text: None)
    for core in (-1, 2):
        with pytest.raises(UsageError):
            replay_core(Recording.open(tmp_path / "rec"), core)
