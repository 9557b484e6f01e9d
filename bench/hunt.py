"""How many runs a hunt needs to find each seeded bug, and whether it ever complains about a bug's twin."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from bench.report import Column, Table, publish
from corebraid.base.memory import ADDRESS_SPACE
from corebraid.study.attempts import COVER, MIXED, attempts
from corebraid.study.conditions import DEFAULT, Condition
from corebraid.study.covering.planning import Planner
from corebraid.study.forked_runs import Machines
from corebraid.study.hunting import hunt_in, prepare
from corebraid.study.replays.in_processes import usable_processors
from corebraid.study.subjects import Subject
from recorder.capture.guest import LinuxOptions, guest_spec
from recorder.capture.options import RecordOptions

GUESTS = Path(__file__).resolve().parent.parent / "firmware" / "linux" / "x86_64"
#: A bug and its twin.
BUGS = {
    "bug_lost_update": "good_counter",
    "bug_lock_order": "good_lock_order",
    "bug_atomicity": "good_atomicity",
    "bug_use_after_free": "good_use_after_free",
    "bug_missed_wakeup": "good_missed_wakeup",
    "bug_publication": "good_publication",
    "bug_aba": "good_aba",
}
SCHEDULES = (MIXED, COVER, "chaos", "pct:3", "random")
RUNS, HUNTS, APART = 200, 10, 1000
#: Hunts with slices of random length, which mostly go on to the last run.
_RANDOM_HUNTS = 1


def subject_of(name: str) -> Subject:
    """A guest program on four cores, with what it shares."""
    path = GUESTS / name
    options = RecordOptions(cores=4, schedule="chaos", memory_bytes=ADDRESS_SPACE)
    spec = guest_spec(path, str(path), (), None, b"", LinuxOptions())
    return prepare(Subject(path, options, spec, {}, None))


def needed(subject: Subject, schedule: str, hunts: int) -> Iterator[int | None]:
    """Runs until the first failing one, for seeds that begin far apart; None: more than `RUNS`."""
    conditions = tuple(Condition.parse(text) for text in DEFAULT)
    for number in range(hunts):
        machines = Machines(usable_processors())
        with TemporaryDirectory(prefix="corebraid-") as place, closing(machines):
            seed = number * APART
            tries = Planner(RUNS, seed) if schedule == COVER else partial(attempts, RUNS, seed, schedule)
            run, _ = hunt_in(Path(place), subject, tries, conditions, machines, lambda _: None)
        yield None if run is None or not run.held else run.attempt.number + 1


def _median(runs: list[int | None]) -> str:
    """The median, those that were not found being more than all others."""
    middle = statistics.median([RUNS + 1 if n is None else n for n in runs])
    return f"more than {RUNS}" if middle > RUNS else f"{middle:g}"


def main(console: Console) -> None:
    """Measure, print and keep the tables."""
    notes = [
        f"{HUNTS} hunts of at most {RUNS} runs for each bug and schedule ({_RANDOM_HUNTS} for random), "
        f"4 cores, seeds that begin {APART} apart",
        "mixed: chaos and pct:2 to pct:4 in turn, what hunt does unless told otherwise; random: slices of "
        "random length up to 10,000 instructions, as record has them; cover: every second run is of mixed, "
        "the others try orders that no run before has shown",
        "false alarms: hunts of the program without its bug that found something",
    ]
    columns = [Column("program"), Column("schedule"), Column("found"), Column("median"), Column("most")]
    table = Table("hunt", "Runs until the failing one", [*columns, Column("false alarms")], notes)
    for bug, twin in BUGS.items():
        subject, other = subject_of(bug), subject_of(twin)
        for schedule in SCHEDULES:
            hunts = _RANDOM_HUNTS if schedule == "random" else HUNTS
            runs = list(needed(subject, schedule, hunts))
            found = [n for n in runs if n is not None]
            alarms = (
                [n for n in needed(other, schedule, 1) if n is not None]
                if schedule in (MIXED, COVER)
                else None
            )
            table.add(
                bug,
                schedule,
                f"{len(found)} of {hunts}",
                _median(runs),
                str(max(found)) if found else "",
                None if alarms is None else f"{len(alarms)} of 1",
            )
            console.print(f"{bug} {schedule}: {runs}")
    publish("hunt", [table], console)
