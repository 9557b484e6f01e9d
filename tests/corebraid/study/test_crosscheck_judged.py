"""`crosscheck --truth` of an engine whose evidence tells every order: a wrong one is told, of firmware and of
Linux programs, whose kernel has no clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_factory import FIRMWARE, ROOT, run
from evidence_factory import record_with

from corebraid.study.crosschecks import crosschecked
from recorder.capture.strata_policy import StrataPolicy
from recorder.files.reader import Recording
from solver.evidence.opr.engine import OprEngine
from solver.passes.answers import Options, solve
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.regions.region import Region

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
BY_VALUES = "the kernel's accesses, and fetches, by values"


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record_with(
        FIRMWARE / "bug_lost_update.elf", tmp_path_factory.mktemp("judged") / "rec", cores=3, seed=6,
        longest_slice=40, evidence=("opr",), evidence_options={"rset": "0,1,2"},
        strata=StrataPolicy(cycles=3000),
    )  # fmt: skip


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads that wait for each other's locks, in short turns."""
    rec = tmp_path_factory.mktemp("judged") / "linux"
    options = ("--evidence", "opr", "--cores", 4, "--slice", 40, "--seed", 1, "--strata", "cycles:10000")
    recorded = run("record", "-o", rec, *options, PROGRAMS / "spinlocks")
    assert recorded.code == 0, recorded.err
    return rec


def judged(path: Path, code: int = 0) -> dict[str, Any]:
    """What is said of the engine `opr` alone."""
    ran = run("crosscheck", path, "--truth", "--engines", "opr", "--json")
    assert ran.code == code, ran.out
    facts: dict[str, Any] = json.loads(ran.out)
    return {**facts["engines"]["opr"], "disagreements": facts["disagreements"]}


class Blind:
    """An engine that does not look at its evidence: its order is legal, but its sources are a search's. only:
    the regions in which it is; in others the engine that it stands in for."""

    name = "opr"

    def __init__(self, only: set[int] | None = None, instead: OprEngine | None = None) -> None:
        self._only, self._instead = only, instead

    def solve(self, region: Region, problem: Problem) -> Solution:
        found = None if self._instead is None else self._instead.solve(region, problem)
        if found is not None and self._only is not None and region.index not in self._only:
            return found
        return solve(problem, Options())


class Idle:
    """An engine that does nothing."""

    name = "opr"

    def solve(self, region: Region, problem: Problem) -> Solution:
        verdict = Verdict.UNDECIDED if problem.n_ops else Verdict.LEGAL
        return Solution(verdict, "idle", 0.0, no_order(), "gave up" if problem.n_ops else "")


def test_a_wrong_order_of_firmware_is_told(firmware: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(firmware.path)
    truth = found["against_truth"]
    assert found["disagreements"] == []
    assert truth["wrong_change"] == 0
    reads, writes = (truth["within_regions"][kind] for kind in ("reads", "writes"))
    assert reads["judged"] == reads["contended"] > 100
    assert writes["judged"] == writes["contended"]
    monkeypatch.setattr(OprEngine, "of", lambda *_: Blind())
    ran = run("crosscheck", firmware.path, "--truth")
    assert ran.code == 1
    assert "disagreement: region " in ran.out
    assert ", engine opr: " in ran.out
    assert "after another change than in the sealed truth" in ran.out
    truth = judged(firmware.path, 1)["against_truth"]
    assert truth["wrong_change"] > 0
    assert truth["within_regions"]["reads"]["wrong"] > 0
    # Without the truth it cannot be told: the order is legal.
    assert run("crosscheck", firmware.path).code == 0


def test_of_a_linux_program_the_members_are_judged(linux: Path) -> None:
    found = judged(linux)
    assert found["disagreements"] == []
    truth, within = found["against_truth"], found["against_truth"]["within_regions"]
    assert within["regions_wrong"] == []
    for kind, least in (("reads", 1000), ("writes", 300)):
        told = within[kind]
        assert told["judged"] > least
        assert told["left_out"] > told["left_out_unclocked"] > 0
        assert told["contended"] == told["judged"] + told["left_out"]
        assert told["share_judged"] == pytest.approx(100 * told["judged"] / told["contended"])
    assert within["reads"]["contended"] < truth["shared"]
    shown = run("crosscheck", linux, "--truth").out
    reads = within["reads"]
    assert (
        f"{reads['contended']:,} contended in their region: {reads['judged']:,} judged "
        f"({reads['share_judged']:.1f}%), 0 wrong, {reads['left_out']:,} left out for the kernel "
        f"({reads['left_out_unclocked']:,} its own or fetched), 0 undetermined"
    ) in shown


def test_a_wrong_order_of_a_linux_program_is_told(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OprEngine, "of", lambda *_: Blind())
    found = judged(linux, 1)
    wrong = found["against_truth"]["within_regions"]["regions_wrong"]
    assert len(wrong) > 2
    assert [line.split(":")[0] for line in found["disagreements"]] == [
        f"region {region}, engine opr" for region in wrong
    ]
    assert "; stream " in found["disagreements"][0]
    assert found["checked"] == found["to_order"]


@pytest.mark.parametrize("beside_kernel", [False, True])
@pytest.mark.sampled(1)
def test_one_wrong_region_is_named_and_no_later_one(
    linux: Path, beside_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the kernel takes part in it or not."""
    recording = Recording.open(linux)
    monkeypatch.setattr(OprEngine, "of", lambda *_: Blind())
    wrong = judged(linux, 1)["against_truth"]["within_regions"]["regions_wrong"]
    monkeypatch.undo()
    rows = crosschecked(recording, "opr", 20.0, lambda _: None).found.rows
    chosen = next(
        row.region for row in rows if row.region in wrong and (row.why == BY_VALUES) == beside_kernel
    )
    truly = OprEngine.of(recording)
    monkeypatch.setattr(OprEngine, "of", lambda *_: Blind({chosen}, truly))
    found = judged(linux, 1)
    assert found["against_truth"]["within_regions"]["regions_wrong"] == [chosen]
    assert [line.split(":")[0] for line in found["disagreements"]] == [f"region {chosen}, engine opr"]


def test_an_engine_that_does_nothing_is_judged_by_nothing(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OprEngine, "of", lambda *_: Idle())
    reads = judged(linux)["against_truth"]["within_regions"]["reads"]
    assert reads["judged"] == reads["left_out"] == 0
    assert reads["share_judged"] == 0
    assert reads["undetermined"] == reads["contended"] > 1000
    shown = run("crosscheck", linux, "--truth")
    assert shown.code == 0
    assert "0 judged (0.0%)" in shown.out
    assert "opr decided nothing" in shown.out.splitlines()[-1]


def test_one_core_leaves_nothing_to_be_judged(tmp_path: Path) -> None:
    rec = tmp_path / "rec"
    assert run("record", "-o", rec, "--evidence", "opr", "--cores", 1, FIRMWARE / "fig1.elf").code == 0
    shown = run("crosscheck", rec, "--truth", "--engines", "opr").out
    assert "0 contended in their region: 0 judged (-), 0 wrong, 0 undetermined" in shown
    assert judged(rec)["against_truth"]["within_regions"]["reads"]["share_judged"] is None
    assert shown.splitlines()[-1].endswith("; of opr nothing could be judged by the truth")


def test_engines_whose_evidence_leaves_orders_open_are_not_judged(tmp_path: Path) -> None:
    rec = tmp_path / "rec"
    options = ("--evidence", "linkage", "--cores", 2, "--slice", 40)
    assert run("record", "-o", rec, *options, FIRMWARE / "bug_lost_update.elf").code == 0
    facts = json.loads(run("crosscheck", rec, "--truth", "--json").out)
    assert all(told["against_truth"]["within_regions"] is None for told in facts["engines"].values())
    assert "contended" not in run("crosscheck", rec, "--truth").out
