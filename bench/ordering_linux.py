"""How fast Linux programs with contended locks are ordered: worst regions, and the path over its replay."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.linux_programs import OURS
from bench.ordering_path import measure, threads_over_replay
from bench.report import Column, Table, publish
from recorder.files.constraints import LOSSES, VALUES
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.passes.answers import Options, solve
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Problem

#: Programs and their arguments: locks that are fought for, maps of files, a queue of work.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "histogram": ("1792",),
    "linear_regression": ("1536",),
    "rwlock_table": ("600",),
    "ray_tracer": ("400", "300"),
    "mutexes": (),
    "rwlocks": (),
    "condvars": (),
    "semaphores": (),
    "bug_aba": (),
}
#: No region should take longer, milliseconds; and the path no more than this many times the traced replay.
REGION_GOAL_MS, PATH_GOAL = 50, 2.0
_ROUNDS = 3


@dataclass(frozen=True)
class Worst:
    """The region of a recording that takes longest. ms: processor time, the least of three."""

    ms: float
    operations: int
    engine: str


def record(name: str, arguments: tuple[str, ...], cores: int, folder: Path) -> Recording:
    """A recording of one of our programs, with the recorder's defaults."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    command = [sys.executable, "-m", "corebraid", "record", "-o", str(path), "--cores", str(cores)]
    subprocess.run([*command, "--", str(OURS / name), *arguments], check=True, capture_output=True)
    return Recording.open(path)


def solving_ms(problem: Problem, rounds: int) -> tuple[float, str]:
    """(least processor time, engine) of solving a region so many times."""
    least, engine = float("inf"), ""
    for _ in range(rounds):
        began = time.process_time()
        engine = solve(problem, Options()).engine
        least = min(least, 1000 * (time.process_time() - began))
    return least, engine


def worst_region(recording: Recording, *, tenures: bool) -> tuple[Worst, int, int]:
    """(the worst region, how many regions take longer than the goal, unfiltered operations). tenures: whether
    what miss records prove is used, as `order` does by default."""
    worst, slow, operations = Worst(0.0, 0, ""), 0, 0
    for _, problem in iter_problems(RecordingTraces(recording, constraints=LOSSES if tenures else VALUES)):
        if not problem.n_ops:
            continue
        operations += problem.n_ops
        ms, engine = solving_ms(problem, 1)
        if ms > min(worst.ms, REGION_GOAL_MS):
            ms, engine = solving_ms(problem, _ROUNDS)
        slow += ms > REGION_GOAL_MS
        if ms > worst.ms:
            worst = Worst(ms, problem.n_ops, engine)
    return worst, slow, operations


def empty_table() -> Table:
    """Columns and notes."""
    return Table(
        "locks",
        "Ordering Linux programs with contended locks, 4 cores",
        [
            Column("program"), Column("instructions", ",d"), Column("events", ",d"),
            Column("unfiltered", ",d"), Column("worst region, ms", ".1f"), Column("its events", ",d"),
            Column("by"), Column("regions > 50 ms", "d"), Column("by values: worst, ms", ".1f"),
            Column("regions > 50 ms ", "d"), Column("solving, s", ".2f"), Column("path, s", ".2f"),
            Column("path / replay", ".2f"), Column("wall / replay", ".2f"), Column("at best", ".2f"),
        ],
        [
            f"Processor time. Goals: no region over {REGION_GOAL_MS} ms, path / replay up to {PATH_GOAL:g}.",
            "path: from logs to certificate in one process and one thread, a traced replay included; replay: "
            "the traced replay alone. unfiltered: events that are left to order, repeated reads as one.",
            "by values: as with `order --constraints values`; all else is with tenures, as `order` does it.",
            "wall / replay: wall seconds of `order --jobs 1`, which has a thread for the replay, over the "
            "replay's processor seconds; at best: on two idle processors, that is the busier thread's.",
        ],
    )  # fmt: skip


def main(
    console: Console, programs: dict[str, tuple[str, ...]] = PROGRAMS, cores: int = 4, warm: str = "mutexes"
) -> list[Table]:
    """Measure and publish. warm: a program that is ordered first, so that kernels are loaded."""
    table = empty_table()
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        measure(record(warm, (), cores, Path(folder) / "warm"))
        for name, arguments in programs.items():
            recording = record(name, arguments, cores, Path(folder))
            events, seconds = measure(recording)
            path = sum(seconds.values()) - seconds["replay"]
            worst, slow, operations = worst_region(recording, tenures=True)
            by_values, slow_by_values, _ = worst_region(recording, tenures=False)
            table.add(
                " ".join((name, *arguments)), sum(recording.manifest.instructions), events, operations,
                worst.ms, worst.operations, worst.engine, slow, by_values.ms, slow_by_values,
                seconds["solving"], path, path / seconds["replay"],
                *threads_over_replay(recording, seconds["replay"]),
            )  # fmt: skip
    publish("locks", [table], console)
    return [table]
