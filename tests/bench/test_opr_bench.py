"""The measurements of OPR run on tiny input."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.opr import measure, members
from bench.opr_campaign import one_run, programs


def test_members_are_spread() -> None:
    assert members(2, 64) == "0,32"
    assert members(16, 64) == ",".join(str(4 * k) for k in range(16))


@pytest.mark.soak
def test_tables() -> None:
    cost, scores = measure(("pgas_ep",), 4, (1, 2), 3, 1)
    (row,) = cost.rows
    assert row[0] == "pgas_ep"
    assert all(isinstance(cell, float) and cell > 0 for cell in row[1:10])
    assert 0.05 < row[8] < 1.5
    assert [(line[1], line[2], line[3]) for line in scores.rows] == [
        (4, 2, "exact"),
        (4, 2, "relaxed"),
        (3, 3, "exact"),
        (3, 3, "relaxed"),
    ]
    assert all(line[7] > 0.9 for line in scores.rows)


def test_a_run_of_the_campaign(tmp_path: Path) -> None:
    assert "pgas_ep" in programs()
    assert one_run("ring", 2, 1, tmp_path / "rec") > 100
