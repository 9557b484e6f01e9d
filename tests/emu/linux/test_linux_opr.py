"""OPR on Linux programs: data are data, who wrote what is inferred; code is replayed where it comes to be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_factory import ROOT, run

from corebraid.study.opr_score import Score

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"


@pytest.mark.parametrize(("program", "least"), [("mutexes", 500), ("jit", 50)])
def test_what_members_wrote_is_inferred(program: str, least: int, tmp_path: Path) -> None:
    rec = tmp_path / "rec"
    recorded = run("record", "-o", rec, "--evidence", "opr", "--cores", 4, PROGRAMS / program)
    assert recorded.code == 0, recorded.err
    ran = run("opr", rec, "--score", "--json")
    assert ran.code == 0, ran.err
    score = json.loads(ran.out)["score"]
    assert score["claimed"] > least
    assert score["within"] > least
    assert score["precision"] > 0.9
    assert score["recall"] > 0.9
    crossed = run("crosscheck", rec, "--engines", "opr")
    assert crossed.code == 0, crossed.out


def test_nothing_out_of_nothing_is_no_share() -> None:
    nothing = Score(values=3, own=0, within=0, claimed=0, right=0, outside_right=3)
    assert nothing.precision is None
    assert nothing.recall is None
