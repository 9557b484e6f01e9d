"""The benchmark page: what a command costs, arithmetic by hand, and the whole page on tiny input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bench import report
from bench.linux_tools import TOOLS
from bench.page.cost import Cost, cost_of
from bench.page.page import WIDTH, Scale, main
from bench.page.stages import Measured
from bench.page.subjects import firmware, rays


def test_memory_is_that_of_the_command_alone() -> None:
    """Not of the process that asks, which is larger here."""
    held = bytearray(300 << 20)
    held[::4096] = bytes(len(held) // 4096)
    assert cost_of(["/bin/true"]).memory < 60 << 20
    grown = cost_of([sys.executable, "-c", "x = bytearray(200 << 20); x[::4096] = bytes(len(x) // 4096)"])
    assert 200 << 20 < grown.memory < 300 << 20


def test_what_does_not_end_is_ended_and_told(tmp_path: Path) -> None:
    assert cost_of(["/bin/sleep", "100"], 0.2).why == "> 0.2 s"
    assert cost_of(["/bin/false"]).why == "exit 1"
    said = tmp_path / "said"
    assert cost_of(["/usr/bin/env"], environment={"A": "b"}, output=said).why == ""
    assert "A=b\n" in said.read_text()


def test_medians_are_of_rounds() -> None:
    one = Measured(rays(10))
    for order, replay in ((3, 1), (8, 4), (10, 2)):
        one.add("order", Cost(cpu=order, memory=order * 10**6))
        one.add("replay", Cost(cpu=replay))
    assert (one.seconds("order"), one.megabytes("order"), one.ratio("order", "replay")) == (8, 8, 3)
    assert (one.seconds("verify"), one.ratio("verify", "replay")) == (None, None)
    one.add("order", Cost(why="> 5 s"))
    assert (one.seconds("order"), one.ratio("order", "replay")) == ("> 5 s", 3)


@pytest.mark.soak
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table has what it says, the text fits into its width, plots are there."""
    monkeypatch.setattr(report, "OUT", tmp_path / "out")
    scale = Scale(
        firmware=("nqueens",), size="", text=2, programs=("rays 12",), cores=(1, 3), sides=(8, 12),
        tools=("native",), limit=100.0, gdb=False,
    )  # fmt: skip
    tables = {table.key: table for table in main(Console(file=io.StringIO(), width=200), 1, scale=scale)}
    assert [row[0] for row in tables["stages-page"].rows] == ["rays 12"]
    assert [row[0] for row in tables["cores"].rows] == [1, 3]
    assert [row[0] for row in tables["length"].rows] == [0.064, 0.144]
    for key in ("emulator", "stages-page", "stages-mesi", "memory-page", "logs-page", "logs-mesi", "cores"):
        assert all(isinstance(cell, (int, float)) for row in tables[key].rows for cell in row[1:]), key
    (tools,) = tables["tools"].rows
    assert tools[0] == "rays 12"
    assert set(tools[2:5]) == {None}
    text = (report.OUT / "page.txt").read_text()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert all(table.title in text for table in tables.values())
    assert json.loads((report.OUT / "page.json").read_text())["logs-page"]["rows"]
    assert {path.name for path in report.OUT.glob("*.svg")} == {
        "page-tools.svg", "page-stages.svg", "page-cores.svg", "page-length.svg"
    }  # fmt: skip


def test_what_is_not_done_in_time_is_said(tmp_path: Path) -> None:
    """A recording that was ended has no stages."""
    from bench.page.stages import measure

    one = Measured(firmware("uts", 2, "large"))
    measure(one, tmp_path / "rec", limit=0.05)
    assert (one.seconds("record"), one.seconds("replay"), one.logs) == ("> 0.05 s", None, None)


def test_every_tool_has_a_column() -> None:
    from bench.page.tables import TOOL_HEADS

    assert set(TOOL_HEADS) == set(TOOLS)
