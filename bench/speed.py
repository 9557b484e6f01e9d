"""Speed as ratios against the bare emulator, measured side by side in one run.

All times are processor seconds of this process, so that other work on the machine disturbs them little.
Every round runs each configuration once, one after the other; a ratio is taken within a round.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.bare import run_bare
from bench.programs import image, recorded, total_of
from bench.report import Column, Table, publish
from emu.bus.cache import CacheGeometry
from emu.bus.names import MESI
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, RecordOptions
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay

PROGRAMS = ("uts", "matmul", "radix", "nqueens", "laplace")
CACHES = ("unbounded", "32k:4:32")
#: The project's own targets, as multiples of the bare emulator's time.
RECORD_TARGET, REPLAY_TARGET, COMMAND_TARGET_S = 8.0, 2.0, 0.3
#: The yardsticks: the one that the targets are about, and the one with pages as the recorder's.
BARE, BARE_PAGES = "bare", "bare with own pages"
_MANY_CORES, _MANY_LIMIT = 4, 40_000_000
_COMMAND_RUNS = 7


@dataclass(frozen=True)
class Seconds:
    """Processor seconds: the whole call, and the run alone without set-up and the end's images."""

    call: float
    run: float


@dataclass
class Measured:
    """One program: seconds by configuration, one entry a round; counts of the run."""

    seconds: dict[str, list[Seconds]]
    instructions: int = 0
    accesses: int = 0


def time_record(program: Path, folder: Path, options: RecordOptions) -> tuple[Seconds, int, int]:
    """Record into `folder`: seconds, instructions over all cores, data accesses (0 where nobody counts)."""
    times: list[float] = []
    began = time.process_time()
    capture = Capture(program, folder, X86_64, options, lambda _: None)
    with capture.writer:
        outcome = capture.run(lambda _: times.append(time.process_time()))
    call = time.process_time() - began
    return (
        Seconds(call, times[-1] - times[0]),
        sum(outcome.manifest.instructions),
        total_of(outcome.manifest, "accesses") if outcome.manifest.bus == MESI else 0,
    )


def time_replay(folder: Path, *, traced: bool) -> Seconds:
    """Replay every core alone, one after the other."""
    call = run = 0.0
    recording = Recording.open(folder)
    for core in range(recording.manifest.n_cores):
        began = time.process_time()
        replay = CoreReplay(recording, core, traced=traced)
        started = time.process_time()
        for _ in replay.run():
            pass
        ended = time.process_time()
        call, run = call + ended - began, run + ended - started
    return Seconds(call, run)


def measure_round(program: Path, measured: Measured) -> None:
    """Run every configuration once, and add its times."""

    def add(name: str, seconds: Seconds) -> None:
        measured.seconds.setdefault(name, []).append(seconds)

    for name, own_pages in ((BARE, False), (BARE_PAGES, True)):
        bare = run_bare(program, own_pages=own_pages)
        if bare.exit_code:
            raise RuntimeError(f"{program.name} gives a wrong result on the {name} emulator")
        add(name, Seconds(bare.call, bare.run))
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        for cache in CACHES:
            options = RecordOptions(cores=1, seed=1, cache=CacheGeometry.parse(cache))
            folder = Path(scratch) / cache.replace(":", "-")
            seconds, measured.instructions, measured.accesses = time_record(program, folder, options)
            add(f"record {cache}", seconds)
        add("replay", time_replay(Path(scratch) / CACHES[0], traced=False))
        add("traced replay", time_replay(Path(scratch) / CACHES[0], traced=True))
        folder = Path(scratch) / "tso"
        add("record tso", time_record(program, folder, RecordOptions(cores=1, seed=1, model="tso"))[0])
        add("replay tso", time_replay(folder, traced=False))
        add("traced replay tso", time_replay(folder, traced=True))


def measure(programs: dict[str, Path], rounds: int, say: Callable[[str], None]) -> dict[str, Measured]:
    """All programs, `rounds` times each, round by round."""
    results = {name: Measured({}) for name in programs}
    for number in range(rounds):
        for name, program in programs.items():
            say(f"round {number + 1} of {rounds}: {name}")
            measure_round(program, results[name])
    return results


def ratios(
    measured: Measured, name: str, part: Callable[[Seconds], float], yardstick: str = BARE
) -> list[float]:
    """A configuration's time over a yardstick's, round by round."""
    pairs = zip(measured.seconds[name], measured.seconds[yardstick], strict=True)
    return [part(seconds) / part(bare) for seconds, bare in pairs]


def spread(values: list[float]) -> str:
    """Median, and least to most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


CONFIGURATIONS = (*(f"record {cache}" for cache in CACHES), "replay", "traced replay")


def ratio_table(results: dict[str, Measured]) -> Table:
    """The ratios of the run alone, and of the whole call."""
    names = CONFIGURATIONS
    table = Table(
        "ratios",
        "Time over the bare emulator's, 1 core: median (least-most)",
        [
            Column("program"),
            Column("M instr.", ".0f"),
            Column("acc./instr.", ".2f"),
            Column("bare M/s", ".0f"),
        ]
        + [Column(name, ">") for name in names]
        + [Column("whole call: record", ".2f"), Column("replay", ".2f")],
        [
            f"Targets: record at most {RECORD_TARGET:g}, replay at most {REPLAY_TARGET:g}.",
            "Ratios are of the run alone; the last two columns are medians of the whole call, "
            "set-up, files and images included.",
        ],
    )
    for program, measured in results.items():
        table.add(
            program,
            measured.instructions / 1e6,
            measured.accesses / measured.instructions,
            mega_per_second(measured, BARE),
            *(spread(ratios(measured, name, lambda seconds: seconds.run)) for name in names),
            *(
                statistics.median(ratios(measured, name, lambda seconds: seconds.call))
                for name in (names[0], "replay")
            ),
        )
    return table


def mega_per_second(measured: Measured, name: str) -> float:
    """A configuration's million instructions a second: of the median run."""
    return measured.instructions / statistics.median(run.run for run in measured.seconds[name]) / 1e6


def own_pages_table(results: dict[str, Measured]) -> Table:
    """The same runs against the second yardstick."""
    table = Table(
        "ratios-own-pages",
        "Time over that of the bare emulator with its page table replaced, 1 core: median (least-most)",
        [Column("program"), Column("M/s", ".0f"), Column("over the bare one's time", ">")]
        + [Column(name, ">") for name in CONFIGURATIONS],
        ["Pages by a native hook that maps one to one, as the recorder's do; no other hook. No target."],
    )
    for program, measured in results.items():
        table.add(
            program,
            mega_per_second(measured, BARE_PAGES),
            spread(ratios(measured, BARE_PAGES, lambda seconds: seconds.run)),
            *(
                spread(ratios(measured, name, lambda seconds: seconds.run, BARE_PAGES))
                for name in CONFIGURATIONS
            ),
        )
    return table


def tso_table(results: dict[str, Measured]) -> Table:
    """Store buffers, against the same without."""
    table = Table(
        "ratios-tso",
        "Under TSO, time over that under SC, 1 core, unbounded caches: median (least-most)",
        [Column("program"), *(Column(name, ">") for name in ("record", "replay", "traced replay"))],
        ["Store buffers of 16 stores. No target."],
    )
    pairs = (
        ("record tso", "record unbounded"),
        ("replay tso", "replay"),
        ("traced replay tso", "traced replay"),
    )
    for program, measured in results.items():
        table.add(program, *(spread(ratios(measured, a, lambda seconds: seconds.run, b)) for a, b in pairs))
    return table


def many_core_table(programs: dict[str, Path], cores: int, limit: int) -> Table:
    """Millions of instructions a second, all cores together, on one host thread."""
    table = Table(
        "many-core",
        f"{cores} cores on one host thread: million instructions a second, all cores together",
        [Column("program"), Column("M instr.", ".0f"), Column("acc./instr.", ".2f")]
        + [Column(name, ".1f") for name in ("record", "replay", "traced replay")],
        [f"The first {limit / 1e6:g} million instructions; replay is of every core, one after the other."],
    )
    for name, program in programs.items():
        with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
            folder = Path(scratch) / "rec"
            options = RecordOptions(cores=cores, seed=1, limit=limit)
            seconds, instructions, accesses = time_record(program, folder, options)
            speeds = [seconds, time_replay(folder, traced=False), time_replay(folder, traced=True)]
        mega = instructions / 1e6
        table.add(name, mega, accesses / instructions, *(mega / speed.run for speed in speeds))
    return table


def command_table(recording: Path, runs: int) -> Table:
    """Wall seconds of the commands that must answer at once."""
    table = Table(
        "commands",
        "Commands that answer at once: wall seconds",
        [Column("command"), *(Column(name, ".3f") for name in ("least", "median", "most"))],
        [f"Target: under {COMMAND_TARGET_S:g} s."],
    )
    for arguments in (["--help"], ["info", str(recording)]):
        times = []
        for _ in range(runs):
            began = time.perf_counter()
            command = [sys.executable, "-m", "corebraid", *arguments]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - began)
        shown = f"corebraid {arguments[0]}" + (" REC" if len(arguments) > 1 else "")
        table.add(shown, min(times), statistics.median(times), max(times))
    return table


def warm_up(program: Path) -> None:
    """Compile, or load, every kernel that the measurements use."""
    measure_round(program, Measured({}))


def main(
    console: Console, rounds: int = 3, size: str = "large", programs: tuple[str, ...] = PROGRAMS
) -> list[Table]:
    """Measure and publish. size: of the images, see `bench.programs.image`."""
    images = {name: image(name, size) for name in programs}
    with console.status("kernels are being loaded") as status:
        warm_up(image("uts"))
        results = measure(images, rounds, status.update)
        tables = [
            ratio_table(results),
            own_pages_table(results),
            tso_table(results),
            many_core_table(images, _MANY_CORES, _MANY_LIMIT),
        ]
        status.update("commands")
        with recorded(image("uts"), RecordOptions(cores=4, seed=1)) as small:
            tables.append(command_table(small.recording.path, _COMMAND_RUNS))
    publish("speed", tables, console)
    return tables
