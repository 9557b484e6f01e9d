"""The table of what is judged of Linux programs: it adds up, has `-` for nothing, and trusts no engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.judged import add_row, judged, judged_table, programs
from corebraid.study.crosschecks import CrossChecked
from solver.evidence.opr.engine import OprEngine
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.regions.region import Region


@pytest.fixture(scope="module")
def spinlocks(tmp_path_factory: pytest.TempPathFactory) -> CrossChecked:
    return judged(("spinlocks", (), 2), 1, 50, tmp_path_factory.mktemp("judged") / "rec")


def test_twelve_programs_with_two_to_eight_threads() -> None:
    assert len({name for name, _, _ in programs()}) >= 12
    assert {cores for _, _, cores in programs()} == {2, 4, 8}


def test_recordings_of_a_program_add_up(spinlocks: CrossChecked) -> None:
    table = judged_table()
    add_row(table, "spinlocks", 2, [spinlocks])
    add_row(table, "spinlocks", 2, [spinlocks, spinlocks])
    once, twice = (dict(zip((c.name for c in table.columns), row, strict=True)) for row in table.rows)
    within = spinlocks.scores["opr"].within
    assert within is not None
    assert once["reads: contended"] == within.reads.contended > 300
    assert once["reads: wrong"] == once["writes: wrong"] == once["disagreements"] == 0
    for name, cell in once.items():
        if isinstance(cell, int):
            assert twice[name] == 2 * cell
        elif name.endswith("%"):
            assert twice[name] == pytest.approx(cell)


def test_nothing_has_no_share(spinlocks: CrossChecked) -> None:
    table = judged_table()
    add_row(table, "none", "", [])
    told = dict(zip((c.name for c in table.columns), table.texts()[0], strict=True))
    assert (told["reads: judged %"], told["writes: judged %"]) == ("-", "-")


def test_an_engine_whose_order_was_refused_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Program order alone, the last core first."""

    class Backwards:
        name = "opr"

        def solve(self, region: Region, problem: Problem) -> Solution:
            order = problem.op_stream.argsort(kind="stable")[::-1] if problem.n_ops else no_order()
            return Solution(Verdict.LEGAL, self.name, 0.0, order.copy())

    monkeypatch.setattr(OprEngine, "of", lambda *_: Backwards())
    found = judged(("spinlocks", (), 2), 1, 50, tmp_path / "rec")
    with pytest.raises(RuntimeError, match="region"):
        add_row(judged_table(), "spinlocks", 2, [found])
