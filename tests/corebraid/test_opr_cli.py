"""`corebraid record --evidence opr` and `corebraid opr`: what they say, and what they say of bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest import mock

import pytest
from cli_factory import FIRMWARE, record, run
from opr_factory import StaleBlock

from recorder.evidence.opr import collector as opr_collector

EVIDENCE = "evidence-opr.log"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("opr") / "rec"
    ran = run(
        "record", "-o", path, "--cores", 4, "--slice", 200, "--strata", "cycles:5000",
        "--evidence", "opr", "--rset", "2,0", FIRMWARE / "pgas_uts.elf",
    )  # fmt: skip
    assert ran.code == 0
    assert ran.out == "pgas_uts: nodes 613\n"
    return path


def test_replay_of_the_group(recording: Path) -> None:
    ran = run("opr", recording)
    assert ran.code == 0
    assert ran.out.count("bit-exact") == 2
    assert "new values" in ran.out
    facts = json.loads(run("opr", recording, "--json", "--list", "--score").out)
    assert facts["bit_exact"]
    assert facts["clocks"] == "exact"
    assert [member["core"] for member in facts["members"]] == [0, 2]
    assert sum(row["values"] for row in facts["communications"]) == len(facts["values"])
    score = facts["score"]
    assert score["values"] == len(facts["values"])
    assert 0 < score["right"] <= score["claimed"]
    assert score["precision"] > 0.5
    relaxed = json.loads(run("opr", recording, "--json", "--relaxed").out)
    assert relaxed["clocks"] == "relaxed"
    assert relaxed["members"][0]["accesses"] == facts["members"][0]["accesses"]


def test_list_and_score_as_text(recording: Path) -> None:
    ran = run("opr", recording, "--list", "--score", "--rset", "2")
    assert ran.code == 0
    assert "against the sealed truth: precision - (0 of 0)" in ran.out
    assert ran.out.rstrip().endswith("outside the group")


def test_verify_reads_the_stream(recording: Path) -> None:
    assert run("verify", recording).code == 0


@pytest.mark.parametrize(
    ("rset", "what"),
    [
        ("0,4", "0,4"),
        ("", "nothing"),
        ("1,1", "1,1"),
        ("-1", "-1"),
        ("0,x", "0,x"),
        ("0,,1", "0,,1"),
        ("9" * 5000, "9"),
    ],
)
def test_a_replay_set_that_cannot_be(rset: str, what: str, tmp_path: Path) -> None:
    ran = run("record", "-o", tmp_path / "rec", "--evidence", "opr", "--rset", rset, FIRMWARE / "fig1.elf")
    assert ran.code == 2
    assert len(ran.lines) == 1
    assert what in ran.lines[0]
    assert not (tmp_path / "rec").exists()


@pytest.mark.parametrize("rset", ["1", "0,1,2", "", "0,0", "x", "9", "9" * 5000])
def test_a_part_that_was_not_recorded(recording: Path, rset: str) -> None:
    ran = run("opr", recording, "--rset", rset)
    assert ran.code == 2
    assert ran.out == ""
    assert "expected different cores of 0,2" in ran.lines[-1]


def test_no_evidence(tmp_path: Path) -> None:
    assert run("record", "-o", tmp_path / "rec", FIRMWARE / "fig1.elf").code == 0
    ran = run("opr", tmp_path / "rec")
    assert ran.code == 2
    assert "record again with --evidence opr" in ran.lines[-1]


def test_where_the_stream_ends_another_engine_is_advised_and_not_more_time(tmp_path: Path) -> None:
    assert record(tmp_path / "rec", "smc", "--cores", 2, "--evidence", "opr", "--rset", "0,1").code == 0
    ran = run("order", tmp_path / "rec", "--engine", "opr")
    assert ran.code == 0
    assert "(no evidence)" in ran.err
    assert "try another --engine" in ran.err
    assert "region-timeout" not in ran.err


def test_not_under_tso(tmp_path: Path) -> None:
    ran = run("record", "-o", tmp_path / "rec", "--model", "tso", "--evidence", "opr", FIRMWARE / "fig1.elf")
    assert ran.code == 2
    assert len(ran.lines) == 1


def copy_of(recording: Path, folder: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(recording, folder / "copy"))


@pytest.mark.parametrize("place", [0.0, 0.02, 0.3, 0.7, 0.999])
def test_damage(recording: Path, place: float, tmp_path: Path) -> None:
    copy = copy_of(recording, tmp_path)
    data = bytearray((copy / EVIDENCE).read_bytes())
    data[int(place * len(data))] ^= 0x10
    (copy / EVIDENCE).write_bytes(data)
    ran = run("opr", copy)
    assert ran.code == 2
    assert ran.out == ""
    assert EVIDENCE in ran.lines[-1]
    assert run("verify", copy).code == 1


def test_truncated_missing_and_foreign(recording: Path, tmp_path: Path) -> None:
    copy = copy_of(recording, tmp_path)
    whole = (copy / EVIDENCE).read_bytes()
    (copy / EVIDENCE).write_bytes(whole[:-1])
    assert "truncated" in run("opr", copy).lines[-1]
    (copy / EVIDENCE).unlink()
    assert "missing" in run("opr", copy).lines[-1]
    other = tmp_path / "other"
    run("record", "-o", other, "--cores", 4, "--seed", 9, "--evidence", "opr", FIRMWARE / "fig1.elf")
    foreign = (other / EVIDENCE).read_bytes()
    (copy / EVIDENCE).write_bytes((foreign + bytes(len(whole)))[: len(whole)])
    ran = run("opr", copy)
    assert ran.code == 2
    assert "another recording" in ran.lines[-1]


def test_without_rset_all_cores_are_members(tmp_path: Path) -> None:
    assert (
        run("record", "-o", tmp_path / "rec", "--cores", 3, "--evidence", "opr", FIRMWARE / "ring.elf").code
        == 0
    )
    facts = json.loads(run("opr", tmp_path / "rec", "--json", "--score").out)
    assert [member["core"] for member in facts["members"]] == [0, 1, 2]
    assert facts["score"]["precision"] == facts["score"]["recall"] == 1.0


def test_crosscheck_names_a_stale_shadow_block(tmp_path: Path) -> None:
    with mock.patch.object(opr_collector, "ValueLogger", StaleBlock):
        ran = run(
            "record", "-o", tmp_path / "rec", "--cores", 3, "--slice", 200, "--evidence", "opr",
            FIRMWARE / "ring.elf",
        )  # fmt: skip
    assert ran.code == 0
    ran = run("crosscheck", tmp_path / "rec")
    assert ran.code == 1
    assert "disagreement: engine opr: evidence opr, stream " in ran.out
    assert "the evidence contradicts the replay: found core " in ran.out
    ran = run("opr", tmp_path / "rec")
    assert ran.code == 1
    assert "partial replay diverged" in ran.lines[-1]


def test_crosscheck_of_a_sound_recording(recording: Path) -> None:
    ran = run("crosscheck", recording, "--json")
    assert ran.code == 0
    facts = json.loads(ran.out)
    assert facts["disagreements"] == []
    assert facts["whole_runs"]["opr"]["members"] == [0, 2]
    assert facts["whole_runs"]["opr"]["accesses_compared"] > 1000
