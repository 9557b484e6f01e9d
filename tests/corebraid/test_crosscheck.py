"""Cross-check: engines agree on what they should, and a planted fault in one is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE, run
from evidence_factory import record_with
from problem_factory import random_problem

from recorder.capture.strata_policy import StrataPolicy
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.cuts.search import solve_cut
from solver.evidence.linkage.engine import LinkageEngine
from solver.evidence.linkage.log import read_linkage
from solver.passes.answers import Options
from solver.passes.crosscheck import Contender, CrossCheck, crosscheck
from solver.passes.reads_from import compare, reads_from
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.regions.region import Region


@pytest.fixture(scope="module")
def racy(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A recording of several regions with races."""
    return record_with(
        FIRMWARE / "bug_lost_update.elf",
        tmp_path_factory.mktemp("crosscheck") / "rec",
        cores=3,
        seed=6,
        longest_slice=40,
        evidence=("linkage",),
        evidence_options={"group": "word"},
        strata=StrataPolicy(cycles=3000),
    )


def against_auto(recording: Recording, engine: object) -> CrossCheck:
    """The engine against the pipeline."""
    contenders = [Contender("auto", Options()), Contender("linkage", Options("linkage", evidence=engine))]  # type: ignore[arg-type]
    return crosscheck(RecordingTraces(recording), contenders)


def test_engines_agree(racy: Recording) -> None:
    found = against_auto(racy, LinkageEngine.of(racy))
    assert found.disagreements == []
    assert len(found.rows) == 2 * (len(RecordingTraces(racy).strata) + 1)
    assert all(row.checked and row.verdict is Verdict.LEGAL for row in found.rows)
    some = [row for row in found.rows if row.events]
    assert {row.agrees for row in some if row.engine == "linkage"} <= {"identical", "equivalent"}
    assert {row.agrees for row in some if row.engine == "auto"} == {"first"}
    assert {row.agrees for row in found.rows if not row.events} <= {"empty"}


class Planted:
    """An engine that spoils what another one found, in the first region where there is something to."""

    name = "linkage"

    def __init__(self, recording: Recording, how: str) -> None:
        self._engine, self._how, self.at = LinkageEngine.of(recording), how, -1

    def solve(self, region: Region, problem: Problem) -> Solution:
        found = self._engine.solve(region, problem)
        if self.at >= 0 or problem.n_ops < 4:
            return found
        if self._how == "illegal":
            self.at = region.index
            return Solution(Verdict.ILLEGAL, "planted", 0.0, no_order(), "as planted")
        order = found.order.copy()
        written, stream = problem.new != problem.old, problem.op_stream
        for k in range(len(order) - 1):
            pair = order[k : k + 2]
            parts = [slice(problem.part_ptr[op], problem.part_ptr[op + 1]) for op in pair]
            shared = np.intersect1d(problem.granule[parts[0]], problem.granule[parts[1]])
            if (
                stream[pair[0]] != stream[pair[1]]
                and len(shared)
                and (written[parts[0]].any() or written[parts[1]].any())
            ):
                order[k : k + 2] = pair[::-1]
                self.at = region.index
                return Solution(Verdict.LEGAL, "planted", 0.0, order)
        return found


@pytest.mark.parametrize("how", ["illegal", "swapped"])
def test_a_planted_fault_is_named(racy: Recording, how: str) -> None:
    planted = Planted(racy, how)
    found = against_auto(racy, planted)
    assert planted.at >= 0
    assert found.disagreements
    assert f"region {planted.at}" in found.disagreements[0]
    if how == "swapped":
        # The checker, or the look at the first value of each granule before it, says which event.
        assert "address" in found.disagreements[0]
        later = [row for row in found.rows if row.engine == "linkage" and row.region > planted.at]
        assert all(not row.checked for row in later)


def test_a_bound_that_is_one_too_low_is_named_by_the_command(
    racy: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read_linkage(racy)
    log.bounds.version[:] = np.maximum(log.bounds.version - 2, 0)
    monkeypatch.setattr(LinkageEngine, "of", lambda *_, **__: LinkageEngine(log))
    ran = run("crosscheck", racy.path)
    assert ran.code == 1
    assert "disagreement: region" in ran.out
    assert "the evidence contradicts the replay" in ran.out
    assert "event" in ran.out
    assert "up to its bound" in ran.out


def test_the_command_shows_and_counts(racy: Recording) -> None:
    ran = run("crosscheck", racy.path, "--json")
    assert ran.code == 0
    facts = json.loads(ran.out)
    assert set(facts["engines"]) == {"auto", "linkage"}
    regions = len(RecordingTraces(racy).strata) + 1
    for sums in facts["engines"].values():
        assert sums["regions"] == regions
        assert 0 < sums["to_order"] == sums["checked"] == sums["legal"]
        assert sums["bytes"] > 0
    sums = facts["engines"]["linkage"]
    assert sums["identical"] + sums["equivalent"] == sums["to_order"] == facts["compared"] > 0
    assert facts["disagreements"] == []
    shown = run("crosscheck", racy.path, "--engines", "cut,smt,linkage")
    assert shown.code == 0
    assert "no disagreement" in shown.out


def test_a_recording_without_evidence_has_the_pipeline_alone(tmp_path: Path) -> None:
    record_with(FIRMWARE / "fig1.elf", tmp_path / "rec", cores=2)
    ran = run("crosscheck", tmp_path / "rec")
    assert ran.code == 0
    assert "linkage" not in ran.out


class Idle:
    """An engine that does nothing."""

    name = "linkage"

    def solve(self, region: Region, problem: Problem) -> Solution:
        verdict = Verdict.UNDECIDED if problem.n_ops else Verdict.LEGAL
        return Solution(verdict, "idle", 0.0, no_order(), "gave up" if problem.n_ops else "")


class Blind:
    """An engine that does not look at its evidence: its order is legal, but its sources are a search's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def solve(self, region: Region, problem: Problem) -> Solution:
        if not problem.n_ops:
            return Solution(Verdict.LEGAL, self.name, 0.0, no_order())
        return solve_cut(problem, timeout_s=20.0, nodes=1_000_000)


def test_an_engine_that_does_nothing_shows(racy: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkageEngine, "of", lambda *_, **__: Idle())
    ran = run("crosscheck", racy.path, "--truth")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].endswith("no order was compared with another; linkage decided nothing")
    facts = json.loads(run("crosscheck", racy.path, "--truth", "--json").out)
    told = facts["engines"]["linkage"]
    assert told["decided_nothing"]
    assert not facts["engines"]["auto"]["decided_nothing"]
    assert facts["compared"] == 0
    assert told["against_truth"]["right"] < told["against_truth"]["undetermined"]


def test_an_engine_that_ignores_its_evidence_is_no_nearer_to_the_truth(
    racy: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = json.loads(run("crosscheck", racy.path, "--truth", "--json", "--engines", "cut,linkage").out)
    monkeypatch.setattr(LinkageEngine, "of", lambda *_, **__: Blind("linkage"))
    asked = ("crosscheck", racy.path, "--truth", "--engines", "cut,linkage")
    blind = json.loads(run(*asked, "--json").out)
    assert honest["engines"]["linkage"]["against_truth"]["nearer_than_first"] > 0
    assert blind["engines"]["linkage"]["against_truth"]["nearer_than_first"] <= 0
    ran = run(*asked)
    assert ", 0 undetermined; no nearer than cut" in ran.out


def test_the_truth_is_opened_only_when_asked_for(racy: Recording, tmp_path: Path) -> None:
    copy = tmp_path / "rec"
    shutil.copytree(racy.path, copy)
    (copy / "truth.log").unlink()
    assert run("crosscheck", copy).code == 0
    ran = run("crosscheck", copy, "--truth")
    assert ran.code == 2
    assert len(ran.lines) == 1


def test_nothing_to_order_is_no_agreement(tmp_path: Path) -> None:
    record_with(
        FIRMWARE / "fig1.elf", tmp_path / "rec", cores=1, evidence=("linkage",),
        evidence_options={"group": "word"},
    )  # fmt: skip
    ran = run("crosscheck", tmp_path / "rec")
    assert ran.code == 0
    assert "0 of 0 decided" in ran.out
    assert ran.out.splitlines()[-1] == (
        "no disagreement; no region has anything to order: no engine was put to the test"
    )
    assert json.loads(run("crosscheck", tmp_path / "rec", "--json").out)["to_order"] == 0


@pytest.mark.parametrize("engines", ["", "auto,auto", "axe", "auto,linkage"])
def test_engines_that_cannot_be(tmp_path: Path, engines: str) -> None:
    record_with(FIRMWARE / "fig1.elf", tmp_path / "rec", cores=2)
    ran = run("crosscheck", tmp_path / "rec", "--engines", engines)
    assert ran.code == 2
    assert len(ran.lines) == 1


def test_reads_from_is_what_walking_by_hand_gives() -> None:
    compared = other = 0
    for seed in range(40):
        problem = random_problem(seed, damaged=False)
        found = solve_cut(problem, timeout_s=5.0, nodes=100_000)
        if found.verdict is not Verdict.LEGAL:
            continue
        last: dict[int, int] = {}
        by_hand = {}
        for op in found.order.tolist():
            parts = range(problem.part_ptr[op], problem.part_ptr[op + 1])
            for part in parts:
                by_hand[part] = last.get(int(problem.granule[part]), -1)
            for part in parts:
                if problem.new[part] != problem.old[part]:
                    last[int(problem.granule[part])] = part
        source = reads_from(problem, found.order)
        assert source.tolist() == [by_hand[part] for part in range(len(source))], seed
        assert compare(problem, source, source).other == 0
        changed = source.copy()
        if len(changed) and (changed >= 0).any():
            part = int(np.flatnonzero(changed >= 0)[0])
            changed[part] = -1
            found_difference = compare(problem, source, changed)
            assert (found_difference.part, found_difference.other) == (part, 1)
            begin = problem.initial[problem.granule[part]]
            assert found_difference.same_values == (problem.new[source[part]] == begin)
            other += 1
        compared += 1
    assert compared > 10
    assert other > 5
