"""The measurement of receipt histories: its arithmetic on cases done by hand, and once through."""

from __future__ import annotations

import sys
from itertools import cycle
from pathlib import Path

import pytest

from bench.precision import in_turns, mean_of, student
from bench.rpc import Point, control_table, measure, overhead_table, plot, work_for


@pytest.mark.parametrize(
    ("freedom", "value"), [(5, 2.571), (6, 2.447), (10, 2.228), (30, 2.042), (59, 2.001)]
)
def test_student_is_the_table(freedom: int, value: float) -> None:
    assert student(0.975, freedom) == pytest.approx(value, abs=2e-3)
    assert student(0.025, freedom) == pytest.approx(-value, abs=2e-3)


def test_mean_of_measurements_done_by_hand() -> None:
    mean = mean_of([9.0, 10.0, 11.0, 9.0, 10.0, 11.0])
    assert mean.value == 10
    assert mean.half == pytest.approx(2.571 * 0.8944 / 6**0.5, rel=1e-3)
    assert mean.width == pytest.approx(2 * mean.half / 10)


def test_measuring_in_turns_ends_when_both_means_are_known() -> None:
    exact = in_turns(lambda: 2.0, lambda: 2.1)
    assert exact.first.runs == exact.second.runs == 6
    assert exact.overhead == pytest.approx(0.05)
    assert exact.span == pytest.approx((0.05, 0.05))
    noise, order = cycle([0.8, 1.2]), []
    noisy = in_turns(lambda: order.append(1) or next(noise), lambda: order.append(2) or 1.0, most=9)
    assert noisy.first.runs == 9
    assert noisy.first.width > 0.03
    least, most = noisy.span
    assert least < noisy.overhead < most
    assert order[:6] == [2, 1, 1, 2, 2, 1], "the first is not always the first"


def test_work_makes_the_ratio() -> None:
    for ratio in (0.5, 2.0):
        _, came_out = work_for("rpc_divide", ratio, 2)
        assert came_out == pytest.approx(ratio, rel=0.05)


@pytest.mark.soak
def test_once_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [measure("rpc_iterate", 1.0, seconds=0.02, cores=2, most=6)]
    table = overhead_table(points)
    assert table.rows[0][0] == "Regular Iteration"
    assert points[0].receipts % 60 == 0
    assert points[0].receipts
    control = control_table((2,), 2)
    by_name = {row[0]: row for row in control.rows}
    assert all(row[5:7] == ["2 of 2", "2 of 2"] for row in control.rows)
    assert by_name["rpc_queens"][7:] == ["0 of 2", "0 of 2"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not plot(points, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pair = in_turns(lambda: 2.0, lambda: 2.1)
    points = [
        Point("Regular Iteration", ratio, 1000, pair, mean_of([0.1, 0.2]), 60, 100) for ratio in (0.1, 1)
    ]
    for name in ("first.png", "second.png"):
        assert plot(points, tmp_path / name)
    drawn = (tmp_path / "first.png").read_bytes()
    assert drawn[:4] == b"\x89PNG"
    assert drawn == (tmp_path / "second.png").read_bytes()
