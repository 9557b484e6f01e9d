"""Runs of a hunt that are forked from one machine: they are the runs that would be recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import run

import corebraid
from corebraid.base.errors import CorebraidError, UsageError
from corebraid.study import forked_runs, hunting
from corebraid.study.attempts import Attempt, Ended, Run, attempts
from corebraid.study.conditions import DEFAULT, Condition
from corebraid.study.findings import Speed
from corebraid.study.forked_runs import ForkedRuns, NothingToChooseError, can_fork
from corebraid.study.hunting import attempt, prepare
from corebraid.study.subjects import Asked, Subject, subject_of
from emu.schedule.chaos import Chaos
from emu.schedule.deferred import Deferred
from emu.schedule.policy import Runner, Slice
from recorder.capture.guest import LinuxOptions
from recorder.files.frame import iter_frames
from recorder.files.reader import Recording, iter_core_records, iter_sealed_truth

LINUX = Path(__file__).parents[2] / "firmware" / "linux" / "x86_64"
CONDITIONS = tuple(map(Condition.parse, DEFAULT))


def subject(name: str, **options: Any) -> Subject:
    return prepare(subject_of(Asked(str(LINUX / name), schedule="chaos", **options)))


def forked(of: Subject, tries: list[Attempt], jobs: int = 1) -> dict[int, Run]:
    """What becomes of all these runs, by their numbers."""
    found: dict[int, Run] = {}
    plain = forked_runs._heard

    def heard(connection: Any) -> Run:
        run = plain(connection)
        found[run.attempt.number] = run
        return replace(run, held="", refused="")

    with pytest.MonkeyPatch.context() as patched, closing(ForkedRuns(of, CONDITIONS, jobs)) as runs:
        patched.setattr(forked_runs, "_heard", heard)
        assert runs.hunt(iter(tries), lambda _: None) == (None, Ended(len(tries)))
    return found


WAYS = [
    ("bug_publication", "mixed", {}),
    *(
        pytest.param(*one, marks=pytest.mark.soak)
        for one in (
            ("bug_atomicity", "mixed", {"seed": 7}),
            ("bug_missed_wakeup", "mixed", {"cores": 2}),
            ("bug_lost_update", "random", {"cores": 2}),
            ("bug_lock_order", "mixed", {"cores": 1}),
            ("pipes_poll", "mixed", {}),
        )
    ),
    ("rwlocks", "mixed", {"model": "tso"}),
    ("semaphores", "mixed", {"cache": "1k:2:64"}),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "schedule", "options"), WAYS, ids=lambda one: str(one))
def test_forked_runs_are_those_that_are_recorded(
    name: str, schedule: str, options: dict[str, Any], tmp_path: Path
) -> None:
    options = dict(options)
    seed = options.pop("seed", 3)
    of = subject(name, **options)
    assert can_fork(of)
    tries = list(attempts(3, seed, schedule, apart=True))
    assert [(one.seed, one.schedule_seed) for one in tries] == [(seed, seed + n) for n in range(3)]
    found = forked(of, tries, jobs=2)
    ends = set()
    for tried in tries:
        place = tmp_path / str(tried.number)
        # One that is kept whatever becomes of it.
        printed: list[tuple[bool, bytes]] = []
        outcome = hunting.record_attempt(of, tried, place, printed)
        run = found[tried.number]
        for field in ("end", "instructions", "totals"):
            assert getattr(run.manifest, field) == getattr(outcome.manifest, field), (tried, field)
        if run.held:
            assert list(run.printed) == printed
        ends.add((outcome.manifest.instructions, str(outcome.manifest.totals)))
    assert len(ends) > 1


def test_what_is_kept_is_recorded(tmp_path: Path) -> None:
    """By the command that is printed, bit for bit."""
    hunted = corebraid.hunt(
        LINUX / "bug_publication", tmp_path / "rec", seed=5, explain=False, reduce=False, jobs=2
    )
    assert hunted.finding is not None
    tried = hunted.finding.run.attempt
    assert tried.seed == 5
    assert tried.schedule_seed is not None
    again = corebraid.record(
        LINUX / "bug_publication", tmp_path / "again", schedule=tried.schedule, seed=5,
        schedule_seed=tried.schedule_seed, limit=hunted.finding.limit,
    )  # fmt: skip
    for path in sorted((tmp_path / "rec").iterdir()):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name
    assert again.manifest.options["schedule_seed"] == tried.schedule_seed
    assert corebraid.verify(tmp_path / "again").sound
    told = run("info", tmp_path / "again").out
    assert f"seed 5, schedule seed {tried.schedule_seed}, schedule {tried.schedule}" in told
    facts = hunted.finding.facts()
    assert (facts["seed"], facts["schedule_seed"]) == (5, tried.schedule_seed)


def test_the_answer_does_not_depend_on_processes(tmp_path: Path) -> None:
    found = []
    for jobs in (1, 3):
        hunted = corebraid.hunt(
            LINUX / "bug_atomicity", tmp_path / str(jobs), schedule="pct:3", jobs=jobs, explain=False,
            reduce=False,
        )  # fmt: skip
        assert hunted.finding is not None
        found.append((hunted.finding.run.attempt, hunted.finding.run.manifest))
    assert found[0] == found[1]


def test_a_run_that_does_not_fail_again_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hunting, "attempt", lambda *asked: replace(attempt(*asked), held=""))
    with pytest.raises(CorebraidError, match="did not do so again"):
        corebraid.hunt(LINUX / "bug_publication", tmp_path / "rec", explain=False, reduce=False)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_for_runs_that_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []
    monkeypatch.setattr(hunting, "record_attempt", lambda *asked: recorded.append(asked))
    hunted = corebraid.hunt(LINUX / "good_counter", tmp_path / "rec", runs=8, jobs=1, reduce=False)
    assert (hunted.finding, hunted.speed.runs) == (None, 8)
    assert not recorded
    assert not list(tmp_path.iterdir())


def test_programs_with_one_thread_are_hunted_as_before(tmp_path: Path) -> None:
    of = subject("static_hello")
    with closing(ForkedRuns(of, CONDITIONS, 1)) as runs, pytest.raises(NothingToChooseError):
        runs.hunt(attempts(3, 0, "chaos", apart=True), lambda _: None)
    hunted = corebraid.hunt(
        LINUX / "static_hello", tmp_path / "rec", until=["exit==0"], explain=False, reduce=False
    )
    assert hunted.finding is not None
    tried = hunted.finding.run.attempt
    assert tried.schedule_seed == tried.seed
    assert hunted.alone


def test_what_cannot_be_forked() -> None:
    assert not can_fork(subject_of(Asked(str(LINUX / "static_hello"), linux=LinuxOptions(clock="host"))))
    assert not can_fork(subject_of(Asked(str(LINUX / "static_hello"), linux=LinuxOptions(time_limit=3.0))))


def test_errors_of_a_run_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    of = subject("good_counter")

    def refuse(*_: object) -> Run:
        raise UsageError("no")

    def break_off(*_: object) -> Run:
        raise ValueError("a defect")

    def die(*_: object) -> Run:
        import os

        os.kill(os.getpid(), 9)
        raise AssertionError

    for judge, kind, text in (
        (refuse, UsageError, "no"), (break_off, RuntimeError, "a defect"), (die, CorebraidError, "killed"),
    ):  # fmt: skip
        monkeypatch.setattr(forked_runs, "judged", judge)
        with closing(ForkedRuns(of, CONDITIONS, 1)) as runs, pytest.raises(kind, match=text):
            runs.hunt(attempts(2, 0, "chaos", apart=True), lambda _: None)


# -- seeds apart -----------------------------------------------------------------------------------------


def image_of(recording: Recording) -> list[bytes]:
    path = recording.image_path("initial")
    return [raw for _, raw in iter_frames(path, recording.header_of(path.name))]


def slices(recording: Recording) -> list[tuple[int, int]]:
    return [(int(row["stream"]), int(row["end"])) for rows in iter_sealed_truth(recording) for row in rows]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "options", [{}, {"schedule": "chaos"}, {"schedule": "pct:2"}, {"model": "tso"}], ids=str
)
def test_a_schedule_s_seed_decides_nothing_before_there_is_a_choice(
    options: dict[str, Any], tmp_path: Path
) -> None:
    runs = []
    for number, seeds in enumerate(((1, 1), (1, 2), (2, 1))):
        asked = {"seed": seeds[0], "schedule_seed": seeds[1], "limit": 200_000, **options}
        corebraid.record(LINUX / "mutexes", tmp_path / str(number), **asked)
        runs.append(Recording.open(tmp_path / str(number)))
    both = [slices(run) for run in runs]
    alike = next(k for k, (one, other) in enumerate(zip(both[0], both[1], strict=False)) if one != other)
    first_of_two = next(k for k, (stream, _) in enumerate(both[0]) if 0 < stream < 4)
    assert 0 < alike <= first_of_two + 8
    rows = [next(iter_core_records(run, 0))[0] for run in runs[:2]]
    same = both[0][alike - 1][1] - 1
    early = [part[part["count"] < same].tobytes() for part in rows]
    assert early[0] == early[1]
    # Of the guest's seed it is the other way round.
    images = [image_of(run) for run in runs]
    assert images[0] == images[1]
    assert images[0] != images[2]


@pytest.mark.parametrize("schedule", ["round-robin", "file"])
def test_schedules_without_a_seed_take_none(schedule: str, tmp_path: Path) -> None:
    if schedule == "file":
        (tmp_path / "file").write_text("0 100\n")
        schedule = str(tmp_path / "file")
    with pytest.raises(UsageError, match="no seed decides this schedule"):
        corebraid.record(LINUX / "static_hello", tmp_path / "rec", schedule=schedule, schedule_seed=1)


class _Noted(Runner):
    def __init__(self) -> None:
        self.before: list[int] = []
        self.asked: list[tuple[int, ...]] = []

    def take_over(self, names: Any) -> None:
        self.before += names

    def next(self, runnable: Any, counts: Any, events: int = 0, who: Any = None) -> Slice:
        self.asked.append(tuple(runnable))
        return Slice(runnable[-1], 5)

    def rank(self, who: int) -> float:
        return float(who)


def test_a_policy_begins_where_there_are_two() -> None:
    noted, made = _Noted(), list[int]()

    def make() -> _Noted:
        made.append(1)
        return noted

    policy = Deferred(make)
    assert policy.eager
    assert policy.next([0], [5, 0], 0, [7, 0]).core == 0
    assert policy.rank(7) == 0.0
    assert policy.ahead() is None
    assert not made
    assert policy.next([0, 1], [9, 0], 0, [7, 8]) == Slice(1, 5)
    assert (made, noted.before, noted.asked) == ([1], [7], [(0, 1)])
    assert policy.rank(8) == 8.0
    assert not policy.eager
    assert policy.next([0], [9, 5], 0, [7, 0]) == Slice(0, 5)
    assert made == [1]


def test_cores_of_firmware_are_a_choice_at_once_and_so_are_tasks_that_share_a_core() -> None:
    one = Deferred(_Noted)
    assert one.next([0, 1, 2], [0, 0, 0]) == Slice(2, 5)
    other = Deferred(_Noted)
    assert other.next([0], [0], 0, [7]).core == 0
    assert other.rank(9) == 0.0
    assert other.next([0], [0], 0, [7]) == Slice(0, 5)


def _held(policy: Chaos, begun: list[int]) -> set[int]:
    """Of two tasks those that had to wait until nobody else could run, when the first slice was chosen."""
    policy.take_over(begun)
    policy.next([0, 1], [900, 0], 0, [7, 8])
    return {int(task["who"]) for task in policy.ahead().tasks if task["total"] == 900}


def test_chaos_does_not_hold_who_has_begun() -> None:
    assert all(_held(Chaos(seed), [7]) in (set(), {8}) for seed in range(40))
    assert any(_held(Chaos(seed), []) for seed in range(40))
    assert any(_held(Chaos(seed), [7]) for seed in range(40))


def draws(tries: Iterator[Attempt]) -> list[tuple[int, int | None]]:
    return [(one.seed, one.schedule_seed) for one in tries]


def test_runs_have_seeds_of_their_own() -> None:
    assert draws(attempts(3, 5, "chaos")) == [(5, None), (6, None), (7, None)]
    assert draws(attempts(3, 5, "chaos", apart=True)) == [(5, 5), (5, 6), (5, 7)]
    assert np.unique([one.schedule for one in attempts(9, 0, "mixed", apart=True)]).size == 5
    for timed, number in ((False, 7), (True, 6)):
        mixed = list(attempts(300, 0, "mixed", apart=True, timed=timed))
        assert [one.number for one in mixed if one.schedule == "switches:none"] == [number]
    # Of a program of one thread, and of firmware, each run is as if it stood alone.
    assert "switches:none" not in {one.schedule for one in attempts(300, 0, "mixed")}


def test_runs_a_second_are_those_behind_the_first() -> None:
    """Before it kernels are made and words are learnt, which takes as long as hundreds of runs."""
    assert str(Speed(101, 12.0, 10.0)) == "12.0 s, 50.0 runs/s"
    assert Speed(1, 4.0, 4.0).rate == 0.25
    assert Speed(2, 4.0, 4.0).rate == 0.5
