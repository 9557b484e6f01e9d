"""Runs of which nothing is written take slices one after the other under store buffers too: each is the run
that would have been recorded, where slices are looked at one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import linux_soak
from bench.soak import IMAGES, Plan, expectations
from emu.board import stretch
from emu.board.board import Board
from isa.x86_64.registers import X86_64
from recorder.capture import firmware
from recorder.capture.options import Outcome, RecordOptions

FIRMWARE = [
    Plan("spin_ticket", 4, 3, longest_slice=200, model="tso", store_buffer=8),
    Plan("uts", 3, 4, strata="cycles:9000", longest_slice=60, model="tso", store_buffer=2),
    Plan("timer", 3, 5, schedule="chaos", model="tso"),
    Plan("rpc_queens", 4, 6, schedule="chaos", model="tso", store_buffer=64),
]
LINUX = [
    linux_soak.Plan("threads64", 4, 5, model="tso"),
    linux_soak.Plan("rwlock_table", 3, 6, schedule="chaos", model="tso"),
    linux_soak.Plan("bug_atomicity", 4, 7, schedule="chaos", model="tso", store_buffer=4),
    linux_soak.Plan("good_counter", 4, 8, schedule="chaos", model="tso"),
    linux_soak.Plan("signals", 3, 1, longest_slice=300, strata="cycles:5000", model="tso"),
]


def ran(plan: Plan | linux_soak.Plan, path: Path, *, unwritten: bool, monkeypatch: Any) -> Outcome:
    """Run it, and write it or not."""
    whole = type(plan).options

    def chosen(self: Any, *given: Any) -> RecordOptions:
        return replace(whole(self, *given), unwritten=unwritten)

    with monkeypatch.context() as patched:
        if isinstance(plan, Plan):
            stdin = expectations().expectation(plan.program, plan.cores).stdin
            options = chosen(plan, stdin)
            return firmware.record(IMAGES / f"{plan.program}.elf", path, X86_64, options, lambda text: None)
        patched.setattr(linux_soak.Plan, "options", chosen)
        return linux_soak.record_plan(plan, path).outcome


def facts(outcome: Outcome) -> tuple[Any, ...]:
    """What tells one run from another: how it ended, each core's instructions, and all that was counted."""
    manifest = outcome.manifest
    return manifest.end, manifest.instructions, manifest.totals, outcome.fault


@pytest.mark.parametrize("plan", FIRMWARE + LINUX, ids=lambda plan: f"{plan.program}-{plan.cores}")
def test_an_unwritten_run_is_the_recorded_one(
    plan: Plan | linux_soak.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, slices = Board.take_stretch, [0]

    def counted(self: Board, *arguments: Any) -> int | None:
        one = take(self, *arguments)
        slices[0] += one is not None
        return one

    written = ran(plan, tmp_path / "written", unwritten=False, monkeypatch=monkeypatch)
    monkeypatch.setattr(Board, "take_stretch", counted)
    unwritten = ran(plan, tmp_path / "unwritten", unwritten=True, monkeypatch=monkeypatch)
    assert slices[0] > 0
    assert facts(unwritten) == facts(written)


def test_a_draw_that_is_missed_within_a_stretch_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: other stores commit behind it."""
    plan = FIRMWARE[0]
    written = ran(plan, tmp_path / "written", unwritten=False, monkeypatch=monkeypatch)
    run = stretch.Stretches.run

    def misses(self: Any, *arguments: Any) -> Any:
        found = run(self, *arguments)
        self._rows[0]["buffer_random"] += np.uint64(1)
        return found

    monkeypatch.setattr(stretch.Stretches, "run", misses)
    unwritten = ran(plan, tmp_path / "unwritten", unwritten=True, monkeypatch=monkeypatch)
    assert facts(unwritten) != facts(written)
