"""What hunts find, reduced: it fails the same way, with few preemptions, each of which matters."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import ROOT, run

import corebraid
from corebraid.base.errors import CorebraidError, UsageError
from corebraid.base.rows.event import FETCH, READ, UNCACHED
from corebraid.study.findings import Finding, Hunted
from corebraid.study.smallest import reducing
from corebraid.study.smallest.kept import Reduction
from corebraid.study.smallest.reducing import Claim, Reducing
from corebraid.study.smallest.scheduled_accesses import words_of_several
from corebraid.study.smallest.trials import Trials
from corebraid.study.smallest.ways import Way
from emu.schedule.switches import Switches, switches_of
from recorder.files.reader import Recording
from recorder.replay.seek import accesses

LINUX, FIRMWARE = ROOT / "firmware" / "linux" / "x86_64", ROOT / "firmware" / "x86_64"


def hunted(program: Path, place: Path, **options: Any) -> Hunted:
    """What a hunt finds; not yet reduced."""
    found = corebraid.hunt(program, place, explain=False, reduce=False, jobs=1, **options)
    assert found.finding is not None
    return found


def finding_of(found: Hunted) -> Finding:
    assert found.finding is not None
    return found.finding


def reduction_of(found: Hunted, seconds: float = 60.0) -> Reduction:
    reduction = finding_of(found.reduced(seconds)).reduction
    assert reduction is not None
    return reduction


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Hunted:
    """A lost update, not reduced."""
    return hunted(LINUX / "bug_lost_update", tmp_path_factory.mktemp("small") / "rec")


@pytest.fixture(scope="module")
def small(lost: Hunted) -> Hunted:
    """And reduced."""
    return lost.reduced(60.0)


def test_a_lost_update_is_one_preemption_between_read_and_write(small: Hunted) -> None:
    finding = finding_of(small)
    reduction = finding.reduction
    assert reduction is not None
    facts = reduction.facts()
    assert (facts["preemptions"], facts["claim"]) == (1, "fewest")
    (told,) = reduction.told
    assert told.preempting
    assert told.done.startswith("read 0 of counter (")
    assert "bug_lost_update.c:16" in told.done
    assert told.following.startswith("wrote 1 to counter (")
    assert "wrote 20 to counter" in told.between
    assert told.without == "exit code 0, which is no failure"
    assert all(len(line) <= 110 for line in reduction.lines()[:-2])
    assert json.loads(json.dumps(finding.facts()))["reduction"]["switches"] == facts["switches"]


def test_words_that_several_threads_have_used(small: Hunted) -> None:
    reduction = finding_of(small).reduction
    assert reduction is not None
    assert reduction.recording is not None
    assert reduction.smallest is not None
    recording = Recording.open(reduction.recording)
    course = reduction.smallest.found.run.course
    assert course is not None
    used: dict[int, set[tuple[int, bool]]] = defaultdict(set)
    for stay in course.stays:
        for rows in accesses(recording, stay.core, stay.begin):
            for row in rows[(rows["flags"] & np.uint8(UNCACHED | FETCH)) == 0].tolist():
                one = dict(zip(rows.dtype.names or (), row, strict=True))
                if stay.begin <= one["count"] < stay.end:
                    used[one["addr"] // 8].add((stay.who, one["kind"] != READ))
            if int(rows["count"][-1]) >= stay.end:
                break
    wanted = [
        word
        for word, some in used.items()
        if len({who for who, _ in some}) > 1 and any(wrote for _, wrote in some)
    ]
    found = words_of_several(recording, course)
    assert found.tolist() == sorted(wanted)
    assert 0x100004048 // 8 in found.tolist()


def test_the_command_that_is_printed_fails_the_same_way(small: Hunted, tmp_path: Path) -> None:
    reduction = finding_of(small).reduction
    assert reduction is not None
    assert reduction.recording is not None
    assert reduction.run is not None
    words = ["record", "-o", tmp_path / "again", "--schedule", reduction.tried.schedule]
    words += ["--seed", 0, "--schedule-seed", 0, "--limit", finding_of(small).limit]
    assert run(*words, LINUX / "bug_lost_update").code == 0
    for path in reduction.recording.iterdir():
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    assert run("verify", tmp_path / "again").code == 0


@pytest.mark.parametrize(
    ("program", "most", "options"),
    [
        pytest.param(LINUX / "bug_atomicity", 1, {"seed": 4}, marks=pytest.mark.soak),
        pytest.param(LINUX / "bug_lock_order", 1, {}, marks=pytest.mark.soak),
        pytest.param(FIRMWARE / "bug_dcl.elf", 1, {"cores": 2, "seed": 2}, marks=pytest.mark.soak),
        (FIRMWARE / "bug_lost_update.elf", 1, {"cores": 2, "seed": 1}),
        pytest.param(LINUX / "bug_lost_update", 1, {"cores": 1, "seed": 57}, marks=pytest.mark.soak),
    ],
    ids=lambda one: one.name if isinstance(one, Path) else "",
)
def test_known_bugs(program: Path, most: int, options: dict[str, Any], tmp_path: Path) -> None:
    found = hunted(program, tmp_path / "rec", **options)
    reduction = reduction_of(found)
    smallest = reduction.smallest
    assert smallest is not None
    assert reduction.run is not None
    assert smallest.found.preemptions <= most
    assert smallest.found.preemptions <= smallest.before
    ended, end = finding_of(found).run.manifest.end, reduction.run.manifest.end
    assert ended is not None
    assert end is not None
    assert (reduction.run.held, end.reason, end.exit_code) == (
        finding_of(found).run.held, ended.reason, ended.exit_code,
    )  # fmt: skip
    assert len(smallest.without) == smallest.found.preemptions
    assert all(Way.of(one) != smallest.found.way for one in smallest.without)
    assert [one.preempting for one in reduction.told].count(True) == smallest.found.preemptions


@pytest.mark.soak
def test_a_run_that_always_fails_needs_no_preemption(tmp_path: Path) -> None:
    found = hunted(LINUX / "deadlock_sure", tmp_path / "rec")
    reduction = reduction_of(found)
    assert reduction.smallest is not None
    assert reduction.smallest.claim is Claim.NONE
    assert "it fails without any preemption" in "\n".join(reduction.lines())
    one = reduction_of(hunted(LINUX / "static_hello", tmp_path / "one", until=["exit==0"]))
    assert "never a second thread" in one.lines()[0]


def test_time_and_ctrl_c_leave_what_is_known(
    lost: Hunted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = finding_of(lost)
    beside = replace(lost, finding=replace(finding, recording=tmp_path / "rec"))
    assert reduction_of(beside, 1e-9).lines() == [
        "not reduced: no time is left that makes it fail this way again"
    ]
    plain, times = Trials.first, [0]

    def first(self: Trials, schedules: Any, wanted: Any) -> Any:
        times[0] += 1
        if times[0] > 3:
            raise KeyboardInterrupt
        return plain(self, schedules, wanted)

    monkeypatch.setattr(Trials, "first", first)
    reduction = reduction_of(beside)
    assert reduction.interrupted
    assert reduction.recording is not None
    assert "fewer may be enough" in "\n".join(reduction.lines())
    assert run("verify", reduction.recording).code == 0


def test_ctrl_c_shows_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Reducing) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Reducing, "run", broken)
    ran = run("hunt", "-o", tmp_path / "rec", "--no-explain", "--jobs", 1, LINUX / "bug_lost_update")
    assert ran.code == 130
    assert "found in run" in ran.out
    assert "not reduced" in ran.out
    assert (tmp_path / "rec" / "manifest.json").exists()


def test_a_planted_bug_is_seen(lost: Hunted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches that come one event, or instruction, too late do not make the run."""
    left = Switches._left
    monkeypatch.setattr(Switches, "_left", lambda *which: left(*which) + 1)
    beside = replace(lost, finding=replace(finding_of(lost), recording=tmp_path / "rec"))
    assert "no list of switches" in reduction_of(beside).lines()[0]


def test_what_does_not_reproduce_when_it_is_recorded_is_reported(
    lost: Hunted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = reducing.Reducing.result

    def other(self: Reducing) -> Any:
        found = result(self)
        assert found is not None
        return replace(found, found=replace(found.found, switches=()))

    monkeypatch.setattr(Reducing, "result", other)
    beside = replace(lost, finding=replace(finding_of(lost), recording=tmp_path / "rec"))
    with pytest.raises(CorebraidError, match="did not do so again"):
        reduction_of(beside)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--reduce-time", "0"], "seconds above 0"),
        (["--bisect", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be(options: list[str], words: str, tmp_path: Path) -> None:
    ran = run("hunt", "-o", tmp_path / "rec", *options, LINUX / "bug_lost_update")
    assert ran.code == 2
    assert words in ran.err
    assert not (tmp_path / "rec").exists()


def test_the_place_of_the_reduced_recording_is_taken(tmp_path: Path) -> None:
    (tmp_path / "rec.reduced").mkdir()
    ran = run("hunt", "-o", tmp_path / "rec", LINUX / "bug_lost_update")
    assert ran.code == 2
    assert "there is already something here" in ran.err


def test_runs_that_the_hosts_time_decides_are_not_reduced(lost: Hunted) -> None:
    finding = finding_of(lost)
    assert finding.comparison is not None
    timed = replace(finding.comparison, subject=replace(finding.comparison.subject, time_limit=9.0))
    beside = replace(lost, finding=replace(finding, comparison=timed))
    assert "the host's time decides" in reduction_of(beside).lines()[0]


# -- between a run that passes and one that fails ------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "rec"
    corebraid.record(LINUX / "bug_lost_update", path, bus="mesi", schedule_seed=5)
    return path


def test_one_switch_turns_a_passing_run_into_a_failing_one(small: Hunted, good: Path) -> None:
    bisection = finding_of(small.bisected(good, 60.0)).bisection
    assert bisection is not None
    border = bisection.border
    assert border is not None
    assert border.passes.way is None
    assert border.fails.way is not None
    one, other = border.passes.switches, border.fails.switches
    assert one[: border.kept] == other[: border.kept]
    assert other[border.kept] == border.switch
    assert bisection.told is not None
    assert "bug_lost_update.c:16" in bisection.told.done
    (first, then), (late, early) = bisection.order
    assert first.startswith("thread 1001 wrote 1 to counter")
    assert then.startswith("thread 1002 read 20 of counter")
    assert (late.partition(" ")[0], early) == ("thread", first)
    facts = json.loads(json.dumps(bisection.facts()))
    for name, fails in (("passing_schedule", False), ("failing_schedule", True)):
        assert bool(switches_of(facts[name])) or not fails


def test_none_stands_for_the_run_without_preemptions(lost: Hunted) -> None:
    bisection = finding_of(lost.bisected("none", 60.0)).bisection
    assert bisection is not None
    assert bisection.border is not None
    assert bisection.fails == "exit code 1 (exit!=0)"
    assert "exit code 0, which is no failure" in "\n".join(bisection.lines())


def test_what_does_not_pass_or_is_another_program(small: Hunted, good: Path, tmp_path: Path) -> None:
    reduction = finding_of(small).reduction
    assert reduction is not None
    assert reduction.recording is not None
    with pytest.raises(UsageError, match="should pass fails too"):
        small.bisected(reduction.recording, 60.0)
    corebraid.record(LINUX / "bug_atomicity", tmp_path / "other", bus="mesi", schedule_seed=5)
    with pytest.raises(UsageError, match="another program"):
        small.bisected(tmp_path / "other", 60.0)
    corebraid.record(LINUX / "bug_lost_update", tmp_path / "cores", bus="mesi", schedule_seed=5, cores=2)
    with pytest.raises(UsageError, match="cores 2 and 4"):
        small.bisected(tmp_path / "cores", 60.0)
    corebraid.record(LINUX / "bug_lost_update", tmp_path / "plain", bus="mesi")
    ran = run("hunt", "-o", tmp_path / "rec", "--bisect", tmp_path / "plain", LINUX / "bug_lost_update")
    assert ran.code == 2
    assert "record it with --schedule-seed" in ran.err
    assert shlex.split(ran.err)
