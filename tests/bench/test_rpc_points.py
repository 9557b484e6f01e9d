"""`python -m bench points`: counted by hand for a guest, and once through."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from guest import Code, elf, run_guest
from mailbox_code import ping, put
from rich.console import Console

from bench import report, rpc_points
from bench.rpc_points import Points, empty_looks, points_of
from emu.devices.mailbox import MAIL_TAKE


def test_a_ping_has_four_events_a_call(tmp_path: Path) -> None:
    run = run_guest(elf(tmp_path / "ping.elf", ping(9)), tmp_path / "rec", 2, seed=3)
    points = points_of(run.recording)
    assert points == Points(sent=18, requests=9, results=9, tests=0, looks=0)
    assert (points.ours, points.received, points.every) == (9, 18, 36)


def test_looks_that_find_nothing_are_counted(tmp_path: Path) -> None:
    code = Code()
    for _ in range(5):
        code.ask(int(MAIL_TAKE), "rax")
    put(code, MAIL_TAKE, 0)
    run = run_guest(elf(tmp_path / "guest.elf", code.power_off(0)), tmp_path / "rec", 1)
    assert empty_looks(run.recording, 0) == 5


def test_once_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")
    (table,) = rpc_points.main(Console(file=io.StringIO()), programs=("rpc_queens", "rpc_divide"), cores=(2,))
    (_, _, calls, tests, looks, ours, received, every), divide = table.rows
    assert ours == calls + tests  # type: ignore[operator]
    assert tests
    assert looks
    assert received == (2 * calls + looks) / ours  # type: ignore[operator]
    assert every > received  # type: ignore[operator]
    assert divide[3] == 0
    assert divide[7] >= 4  # type: ignore[operator]
