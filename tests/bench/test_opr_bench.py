"""The measurements of OPR run on tiny input."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import opr_log
from bench.opr import measure, members
from bench.opr_campaign import one_run, programs
from bench.opr_log import paper_relation, rank_correlation, ranks


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


@pytest.mark.soak
def test_a_run_of_the_campaign(tmp_path: Path) -> None:
    assert "pgas_ep" in programs()
    assert one_run("ring", 2, 1, tmp_path / "rec") > 100


def test_ranks_and_their_correlation() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [2.5, 0.0, 2.5, 1.0]
    assert rank_correlation([1.0, 2.0, 9.0], [10.0, 20.0, 21.0]) == pytest.approx(1)
    assert rank_correlation([1.0, 2.0, 9.0], [3.0, 2.0, 1.0]) == pytest.approx(-1)
    assert rank_correlation([1.0, 1.0, 1.0], [3.0, 2.0, 1.0]) is None


def test_the_papers_relation() -> None:
    ratio, overhead = paper_relation("pgas_guppie") or (0.0, 0.0)
    assert (ratio, overhead) == (pytest.approx(519 / 64), 4.89)
    assert paper_relation("uts") is None


@pytest.mark.soak
def test_log_against_shadow_memory(tmp_path: Path) -> None:
    table, summary = opr_log.measure(("pgas_ep", "pgas_mcop", "ring"), 3, 2, 1, tmp_path)
    for name, shadow, log, ratio, *_ in table.rows:
        assert isinstance(shadow, float)
        assert isinstance(log, float)
        assert (shadow > 0, ratio) == (True, pytest.approx(log / shadow)), name
    assert [row[2] for row in summary.rows] == [3, 3, 3, 3, 2]
    # Of two programs there is no correlation to speak of.
    assert summary.rows[-1][1] is None
    assert all(isinstance(row[1], float) and -1 <= row[1] <= 1 for row in summary.rows[:-1])
