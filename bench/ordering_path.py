"""The whole path from a recording's logs to its certificate: speed of every stage, and of two processes.

Stages are in processor seconds of this process, one after the other. Processes are in wall seconds, and in
processor seconds of all of them: on a machine that does other work too, half of the latter is what two
processes could do at best.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from bench.programs import image, recorded
from bench.report import Column, Table, publish
from recorder.capture.firmware import RecordOptions
from recorder.files.constraints import LOSSES
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.check.checker import check_certificate
from solver.passes.answers import Options, answer
from solver.passes.ledger import Ledger
from solver.passes.order import order_recording
from solver.passes.stages import Walks, sift_region
from solver.sifting.strata import iter_regions
from solver.sifting.words import WordTable

PROGRAMS = ("uts", "radix", "nqueens")
STAGES = ("replay", "extraction", "sifting", "composing", "solving", "checking", "writing")
#: `order --jobs 2` should be at least this much faster where `--jobs 1` takes over 20 s.
JOBS_TARGET = 1.7
#: The whole path should take this many times the traced replay.
PATH_TARGET = 1.1
_Result = TypeVar("_Result")


class Stopwatch:
    """Processor seconds by stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def time(self, stage: str, call: Callable[[], _Result]) -> _Result:
        """Call, and add what it took to a stage."""
        began = time.process_time()
        result = call()
        self.seconds[stage] += time.process_time() - began
        return result


def replay(traces: RecordingTraces) -> int:
    """A traced replay of all streams and nothing else; how many events there are."""
    return sum(len(chunk) for stream in range(traces.n_streams) for chunk in traces.chunks(stream))


def measure(recording: Recording) -> tuple[int, dict[str, float]]:
    """Order a recording as `order --jobs 1` does, stage by stage: events, and processor seconds."""
    watch, traces = Stopwatch(), RecordingTraces(recording, constraints=LOSSES)
    events = watch.time("replay", lambda: replay(traces))
    ledger, walks, words, options = Ledger(traces), Walks(traces), WordTable(), Options()
    regions = iter_regions(traces)
    while (region := watch.time("extraction", lambda: next(regions, None))) is not None:
        sifted = watch.time("sifting", lambda region=region: sift_region(region, words))
        problem = watch.time("composing", lambda region=region, s=sifted: ledger.compose(region, s))
        got = watch.time("solving", lambda problem=problem: answer(problem, options))
        if ledger.answer(region.index, got):
            runs = ledger.runs(region.index)
            seam = watch.time("checking", lambda region=region, runs=runs: walks.walk(region, *runs))
            watch.time("checking", lambda seam=seam: ledger.walked(seam))
    path = recording.path / ORDER_CERT
    watch.time("writing", lambda: ledger.certify(path, recording.manifest.id, options.engine))
    ledger.close()
    return events, watch.seconds


def threads_over_replay(recording: Recording, replay_s: float) -> tuple[float, float]:
    """`order --jobs 1`, whose replay has a thread of its own: wall seconds over the traced replay's processor
    seconds, and what that would be on two idle processors: the busier thread's processor seconds."""
    began, used, mine = time.perf_counter(), time.process_time(), time.thread_time()
    order_recording(
        RecordingTraces(recording, constraints=LOSSES), recording.path / ORDER_CERT, recording.manifest.id
    )
    wall, used, mine = time.perf_counter() - began, time.process_time() - used, time.thread_time() - mine
    return wall / replay_s, max(mine, used - mine) / replay_s


def command_seconds(folder: Path, jobs: int) -> tuple[float, float]:
    """(wall, processor) seconds of `corebraid order --jobs N`, its processes included."""
    began, before = time.perf_counter(), os.times()
    command = [sys.executable, "-m", "corebraid", "order", str(folder), "--fresh", "--jobs", str(jobs)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, used


def stage_table() -> Table:
    """Empty: million events a second, by stage."""
    return Table(
        "stages",
        "From logs to certificate, one process: million events a second",
        [Column("program"), Column("M events", ".1f")]
        + [Column(stage, ".1f") for stage in STAGES]
        + [Column("old checker", ".1f"), Column("whole path", ".2f"), Column("over replay", ".2f")]
        + [Column("wall", ".2f"), Column("at best", ".2f")],
        [
            "Processor time. replay: traced, alone; extraction: the same as part of the path. old checker: "
            "check-order, its own replay included.",
            f"over replay: time of the whole path over the replay's alone; the goal is {PATH_TARGET:g}.",
            "wall: as over replay, in wall seconds of `order --jobs 1`, whose replay has its own thread; "
            "at best: on two idle processors, that is the busier thread's processor time.",
        ],
    )


def jobs_table() -> Table:
    """Empty: one process and two."""
    return Table(
        "jobs",
        "corebraid order --jobs: seconds",
        [Column("program")]
        + [Column(name, ".1f") for name in ("wall, 1", "wall, 2", "processor, 1", "processor, 2")]
        + [Column("wall 1/2", ".2f"), Column("at best", ".2f")],
        [
            f"Goal: {JOBS_TARGET:g} where one process takes over 20 s.",
            "at best: what two idle processors would give, from processor times.",
        ],
    )


def main(
    console: Console, programs: tuple[str, ...] = PROGRAMS, size: str = "large", cores: int = 4
) -> list[Table]:
    """Measure and publish. size: of the images, see `bench.programs.image`."""
    stages, jobs = stage_table(), jobs_table()
    with console.status("kernels are being loaded") as status:
        with recorded(image("uts"), RecordOptions(cores=2, seed=1)) as small:
            measure(small.recording)
        for name in programs:
            status.update(f"ordering {name}")
            with recorded(image(name, size), RecordOptions(cores=cores, seed=1)) as made:
                add(made.recording, name, stages, jobs)
    publish("path", [stages, jobs], console)
    return [stages, jobs]


def add(recording: Recording, name: str, stages: Table, jobs: Table) -> None:
    """Measure one recording."""
    events, seconds = measure(recording)
    began = time.process_time()
    check_certificate(
        RecordingTraces(recording), Certificate(recording.path / ORDER_CERT, recording.manifest.id)
    )
    checker = time.process_time() - began
    mega, path = events / 1e6, sum(seconds.values()) - seconds["replay"]
    stages.add(
        name,
        mega,
        *(mega / max(seconds[stage], 1e-6) for stage in STAGES),
        mega / checker,
        mega / path,
        path / seconds["replay"],
        *threads_over_replay(recording, seconds["replay"]),
    )
    (wall1, used1), (wall2, used2) = (command_seconds(recording.path, n) for n in (1, 2))
    jobs.add(name, wall1, wall2, used1, used2, wall1 / wall2, 2 * used1 / used2)
