"""Slices that chaos chooses one after the other in a kernel: what is recorded is what it would be if each
were chosen, run and looked at by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.hunt import GUESTS
from bench.soak import IMAGES
from corebraid import record
from emu.board.board import Board

#: Program, seed, options.
LINUX: list[tuple[str, int, dict[str, Any]]] = [
    *((name, seed, {}) for name in ("rwlock_table", "bug_atomicity", "good_counter") for seed in (1, 2, 3)),
    ("ray_tracer", 4, {"strata": "cycles:2000"}),
    ("semaphores", 5, {"cores": 2, "strata": "events:60"}),
    ("rwlock_table", 6, {"cores": 2}),
    ("ray_tracer", 7, {"limit": 400_000}),
    ("threads64", 8, {"cores": 3}),
    ("mutexes", 9, {}),
]
FIRMWARE: list[tuple[str, int, dict[str, Any]]] = [
    ("spin_ticket", 1, {}),
    ("uts", 2, {"strata": "cycles:9000"}),
    ("timer", 3, {}),
    ("rpc_queens", 4, {}),
]


def recorded(name: str, seed: int, options: dict[str, Any], path: Path) -> dict[str, bytes]:
    """Files of a recording."""
    if name in [one for one, *_ in FIRMWARE]:
        record(IMAGES / f"{name}.elf", path, schedule="chaos", seed=seed, **options)
    else:
        record(GUESTS / name, path, schedule="chaos", schedule_seed=seed, **options)
    found = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


@pytest.mark.parametrize(("name", "seed", "options"), LINUX + FIRMWARE)
@pytest.mark.sampled(8)
def test_chaos_leaves_no_trace_of_stretches(
    name: str, seed: int, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, taken = Board.take_stretch, []

    def counted(self: Board, *arguments: Any) -> int | None:
        ran = take(self, *arguments)
        taken.append(ran is not None)
        return ran

    monkeypatch.setattr(Board, "take_stretch", counted)
    one = recorded(name, seed, options, tmp_path / "one")
    assert any(taken)
    monkeypatch.setattr(Board, "take_stretch", lambda *arguments: None)
    two = recorded(name, seed, options, tmp_path / "two")
    assert [name for name in one if one[name] != two.get(name)] == []


def test_events_that_are_left_after_a_call_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: a slice that stopped for the kernel goes on without its last event."""
    right = recorded("rwlock_table", 1, {}, tmp_path / "right")
    turn = Board.take_stretch

    def forgetful(self: Any, runnable: list[int], total: int, scheduler: Any) -> int | None:
        kept = self.turn
        self.turn = lambda piece, *rest: kept(piece._replace(events=0), *rest)
        try:
            return turn(self, runnable, total, scheduler)
        finally:
            del self.turn

    monkeypatch.setattr(Board, "take_stretch", forgetful)
    wrong = recorded("rwlock_table", 1, {}, tmp_path / "wrong")
    assert wrong != right
