"""Slices that run one after the other (`emu.board.stretch`): what is recorded is what it would be without."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from bench import linux_soak
from bench.soak import IMAGES, Plan, expectations
from emu.board.board import Board
from emu.bus.names import PAGE
from emu.schedule.scheduler import RandomSlices, RoundRobin
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import record

PLANS = [
    Plan("uts", 4, 3, longest_slice=200),
    Plan("timer", 3, 5, strata="cycles:3000"),
    Plan("dma_race", 3, 5, strata="downgrades:5", longest_slice=50),
    Plan("rpc_queens", 3, 4, strata="cycles:20000"),
    Plan("primitives", 2, 9, strata="none", longest_slice=30),
    Plan("smc", 2, 1),
    Plan("input_echo", 1, 2),
    Plan("fault_null", 2, 7),
    Plan("uts", 3, 6, bus=PAGE),
    Plan("spin_ticket", 4, 6, longest_slice=300, strata="cycles:2000", bus=PAGE),
    Plan("dma_race", 2, 6, longest_slice=100, strata="none", bus=PAGE),
    Plan("timer", 3, 6, bus=PAGE),
    Plan("spin_ticket", 3, 7, longest_slice=300, strata="events:7", bus=PAGE),
    Plan("uts", 4, 8, longest_slice=200, strata="cycles:9000,events:40"),
]
LINUX = [
    linux_soak.Plan("threads64", 4, 5),
    linux_soak.Plan("clocks", 2, 5, longest_slice=300),
    linux_soak.Plan("signals", 3, 1, longest_slice=2000, strata="cycles:5000"),
    linux_soak.Plan("semaphores", 2, 8, strata="downgrades:50"),
    linux_soak.Plan("semaphores", 3, 9, strata="events:100"),
    *(
        linux_soak.Plan(name, 3, 2, evidence=("losses",), bus=PAGE)
        for name in ("histogram", "jit", "signals")
    ),
]


def files(plan: Plan, path: Path) -> dict[str, bytes]:
    """Of a recording."""
    stdin = expectations().expectation(plan.program, plan.cores).stdin
    record(IMAGES / f"{plan.program}.elf", path, X86_64, plan.options(stdin), lambda text: None)
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def linux_files(plan: linux_soak.Plan, path: Path) -> dict[str, bytes]:
    """The same of a Linux guest's."""
    linux_soak.record_plan(plan, path)
    found = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


@pytest.mark.parametrize("plan", PLANS + LINUX, ids=lambda plan: f"{plan.program}-{plan.cores}-{plan.bus}")
@pytest.mark.sampled(8)
def test_stretches_leave_no_trace(
    plan: Plan | linux_soak.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether slices run one after the other or each is chosen, run and looked at by itself."""
    take, taken = Board.take_stretch, []

    def recorded(path: Path) -> dict[str, bytes]:
        return files(plan, path) if isinstance(plan, Plan) else linux_files(plan, path)

    def counted(self: Board, *arguments: object) -> int | None:
        ran = take(self, *arguments)  # type: ignore[arg-type]
        taken.append(ran is not None)
        return ran

    monkeypatch.setattr(Board, "take_stretch", counted)
    one = recorded(tmp_path / "one")
    assert any(taken)
    monkeypatch.setattr(Board, "take_stretch", lambda *arguments: None)
    two = recorded(tmp_path / "two")
    assert [name for name in one if one[name] != two.get(name)] == []


@pytest.mark.parametrize("longest", [1, 127, 10_000, 1 << 40])
def test_slices_are_drawn_together_as_they_were_one_by_one(longest: int) -> None:
    draw, policy = random.Random("schedule/7"), RandomSlices(7, longest)
    for turn in range(400):
        bits, runnable = draw.getrandbits(96), list(range(turn % 5 + 1))
        most = longest if bits & 7 else max(1, longest // 128)
        piece = policy.next(runnable, [])
        assert piece.core == runnable[(bits >> 5 & 0xFFFFFF) % len(runnable)]
        assert piece.length == 1 + (bits >> 32) % most
        assert piece.exact == (not bits >> 3 & 3)


def test_what_was_chosen_ahead_is_taken_once() -> None:
    one, other = RandomSlices(3, 500), RandomSlices(3, 500)
    for turn in range(300):
        ahead = one.ahead()
        taken = ahead.rows[: turn % 3 + 1]
        for number, length, exact in taken.tolist():
            assert other.next([0], []) == (0, length, bool(exact), 0)
            assert number < 1 << 24
        ahead.use(len(taken))
    assert RoundRobin(5).ahead() is None
    assert np.array_equal(one.ahead().rows, other.ahead().rows)
