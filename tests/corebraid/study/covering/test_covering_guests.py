"""Hunts whose later runs try what earlier ones have not shown, of guest programs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_factory import ROOT, run

import corebraid
from corebraid.base.errors import UsageError
from corebraid.study.attempts import Attempt, Run
from corebraid.study.conditions import DEFAULT, Condition
from corebraid.study.covering.planning import Base
from corebraid.study.findings import Finding
from corebraid.study.forked_runs import ForkedRuns
from corebraid.study.hunting import prepare
from corebraid.study.subjects import Asked, Subject, subject_of
from emu.schedule.switches import PREFIX, schedule_of

LINUX, FIRMWARE = ROOT / "firmware" / "linux" / "x86_64", ROOT / "firmware" / "x86_64"
CONDITIONS = tuple(map(Condition.parse, DEFAULT))


def subject(name: str) -> Subject:
    return prepare(subject_of(Asked(str(LINUX / name), schedule="chaos")))


def made(of: Subject, schedules: list[str], **noted: bool) -> list[Run]:
    """Runs of a program under these schedules."""
    # Tasks have ranks only where the first run's schedule gives them.
    tries = [Attempt(n, 0, one, 0, **noted) for n, one in enumerate(["chaos", *schedules])]
    with closing(ForkedRuns(of, CONDITIONS, 1)) as forked, closing(forked.each(iter(tries))) as runs:
        return list(runs)[1:]


def hunted(place: Path, name: str = "bug_use_after_free", **options: Any) -> Finding:
    options = {"explain": False, "reduce": False, "schedule": "cover"} | options
    finding = corebraid.hunt(LINUX / name, place, **options).finding
    assert finding is not None
    return finding


def test_which_run_is_found_does_not_depend_on_processes_and_it_is_recorded_again(tmp_path: Path) -> None:
    one, three = (hunted(tmp_path / str(jobs), jobs=jobs) for jobs in (1, 3))
    assert one.run.attempt == three.run.attempt
    tried = one.run.attempt
    # By a schedule of this hunt's own.
    assert tried.schedule.startswith(PREFIX)
    again = corebraid.record(
        LINUX / "bug_use_after_free", tmp_path / "again", schedule=tried.schedule, seed=tried.seed,
        schedule_seed=tried.schedule_seed, limit=one.limit,
    )  # fmt: skip
    assert again.manifest.end == one.run.manifest.end
    for path in sorted((tmp_path / "1").rglob("*")):
        name = path.relative_to(tmp_path / "1")
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "3" / name).read_bytes(), name
            assert path.read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_looking_on_changes_no_run() -> None:
    of = subject("bug_lock_order")
    schedules = ["chaos", "pct:2", f"{PREFIX}none"]
    plain, seen = made(of, schedules), made(of, schedules, noted=True, seeing=True)
    for one, other in zip(plain, seen, strict=True):
        assert (one.manifest, one.held, one.printed) == (other.manifest, other.held, other.printed)
        assert one.encounters is None
        assert other.encounters is not None
        assert other.encounters.seen


def test_orders_that_are_tried_come_about(tmp_path: Path) -> None:
    """Most do; one reads what is not yet written, which fails."""
    of = subject("bug_publication")
    (base,) = made(of, [f"{PREFIX}none"], noted=True, seeing=True)
    assert base.course is not None
    assert base.encounters is not None
    assert not base.held
    way = Base(base.course, 0)
    wanted = [
        (sites, chance) for sites, places in base.encounters.chances.items() for chance in places[:1]
        if not chance.guarded
    ]  # fmt: skip
    schedules = [schedule_of(way.turned(chance, returns=True)) for _, chance in wanted]
    runs = made(of, schedules, noted=True, seeing=True)
    came = [
        run.encounters is not None and sites in run.encounters.seen
        for (sites, _), run in zip(wanted, runs, strict=True)
    ]
    assert sum(came) > len(came) / 2, list(zip(schedules, came, strict=True))
    assert any(run.held == "exit!=0" for run in runs)


@pytest.mark.parametrize(
    ("program", "options"),
    [
        (FIRMWARE / "bug_dcl.elf", {}),
        (LINUX / "static_hello", {}),
        (LINUX / "bug_aba", {"clock": "host"}),
        (LINUX / "bug_aba", {"time_limit": 9.0}),
    ],
)
def test_what_has_no_runs_that_see_each_other_is_refused(
    program: Path, options: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="see each other's"):
        corebraid.hunt(program, tmp_path / "rec", schedule="cover", runs=4, **options)
    assert not (tmp_path / "rec").exists()


def test_the_command_that_is_printed_names_the_switches(tmp_path: Path) -> None:
    place, program = tmp_path / "rec", str(LINUX / "bug_use_after_free")
    done = run("hunt", "--schedule", "cover", "--no-reduce", "--no-explain", "-o", str(place), "--", program)
    assert done.code == 0, done.err
    once_more = next(line for line in done.out.splitlines() if line.startswith("once more: "))
    assert f"--schedule {PREFIX}" in once_more or f"--schedule '{PREFIX}" in once_more
