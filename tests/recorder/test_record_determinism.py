"""One seed, one recording, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import IMAGES, Plan, expectations
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import record


def recorded(plan: Plan, path: Path) -> dict[str, bytes]:
    """Record as planned; the files of the recording."""
    stdin = expectations().expectation(plan.program, plan.cores).stdin
    record(IMAGES / f"{plan.program}.elf", path, X86_64, plan.options(stdin), lambda text: None)
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


PLANS = [
    Plan("uts", 4, 3, longest_slice=200),
    Plan("timer", 3, 5, strata="downgrades:5"),
    Plan("dma_race", 3, 5, cache="1k:2:32", longest_slice=50),
    Plan("primitives", 2, 9, schedule="pct:3"),
    Plan("input_echo", 1, 2),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.program)
def test_same_options_same_bytes(plan: Plan, tmp_path: Path) -> None:
    assert recorded(plan, tmp_path / "one") == recorded(plan, tmp_path / "two")


@pytest.mark.parametrize("plan", PLANS[:4], ids=lambda plan: plan.program)
def test_another_seed_another_recording(plan: Plan, tmp_path: Path) -> None:
    one = recorded(plan, tmp_path / "one")
    two = recorded(Plan(**{**plan.__dict__, "seed": plan.seed + 1}), tmp_path / "two")
    assert one["truth.log" if "truth.log" in one else "manifest.json"] != two.get(
        "truth.log", two["manifest.json"]
    )
    assert any(one[name] != two[name] for name in one if name.startswith("core-"))
