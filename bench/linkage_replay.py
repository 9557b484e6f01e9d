"""How fast Stride's replayer is (ICSE 2012, section II, Figure 3): all cores together from the evidence,
beside replays of the same recording from miss records.

    python -m bench replayer
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

import corebraid
from bench.linux_programs import OURS
from bench.programs import image
from bench.report import Column, Table, publish
from recorder.files.evidence_names import LINKAGE
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay
from solver.evidence.linkage.replay.group import ReplayedGroup, replay_alone, replay_together

FIRMWARE = ("uts", "radix", "laplace", "ring")
LINUX = {"ocean": ("4", "16"), "water": ("4", "16")}
CORES = 4
#: Instructions of the longest turn when recording.
TURNS = (100, 10_000)
ROUNDS = 2


def replayer_table() -> Table:
    """Speeds, without rows."""
    columns = [Column("program"), Column("guest"), Column("turn", ",d"), Column("M instructions", ".2f")]
    columns += [Column("turns", ",d"), Column("waits", ",d"), Column("record", ".2f")]
    columns += [
        Column("plain", ".2f"),
        Column("traced", ".2f"),
        Column("Stride", ".2f"),
        Column("alone", ".2f"),
    ]
    columns += [Column("M instr./s", ".2f"), Column("/ traced", ".2f")]
    notes = [
        f"{CORES} cores, turns of up to so many instructions when recording. turns, waits: of the replayer, "
        "and accesses of cores that waited for a version.",
        f"Seconds of processor time, the best of {ROUNDS}, one core after the other: record: with the "
        "evidence; plain: replays from miss records without looking at accesses; traced: with; Stride: all "
        "cores together from the evidence, no miss record, digests of registers and accesses compared; "
        "alone: every core from its read log.",
        "M instr./s: of Stride's. It looks at every access, as a traced replay does; what it costs more is "
        "memory with versions, and handing turns on between threads.",
    ]
    return Table("replayer", "Stride: speed of the replayer", columns, notes)


def best(run: Callable[[], object], rounds: int) -> float:
    """Seconds of processor time; once before, so that nothing is compiled or loaded meanwhile."""
    run()
    found = []
    for _ in range(rounds):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found)


def each_core(recording: Recording, *, traced: bool) -> None:
    """Replay every core from its miss records."""
    for core in range(recording.manifest.n_cores):
        for _ in CoreReplay(recording, core, traced=traced).run():
            pass


def measure(
    program: Path, arguments: tuple[str, ...], turn: int, folder: Path, rounds: int = ROUNDS
) -> tuple[int, ReplayedGroup, list[float]]:
    """Instructions, a replay, and seconds: record, plain, traced, Stride, alone."""
    numbers = iter(range(1000))

    def record(values: str | None = None) -> Path:
        path = folder / str(next(numbers))
        corebraid.record(
            program,
            path,
            arguments=arguments,
            cores=CORES,
            seed=1,
            evidence=LINKAGE,
            read_values=values,
            slice=turn,
        )
        return path

    whole, every = Recording.open(record()), Recording.open(record("all"))
    seconds = [
        best(record, rounds),
        best(lambda: each_core(whole, traced=False), rounds),
        best(lambda: each_core(whole, traced=True), rounds),
        best(lambda: replay_together(whole), rounds),
        best(lambda: [replay_alone(every, core) for core in range(CORES)], rounds),
    ]
    return sum(whole.manifest.instructions), replay_together(whole), seconds


def main(console: Console) -> None:
    """Measure, print, and write bench/out/replayer.md and .json."""
    table = replayer_table()
    subjects = [(name, "firmware", image(name), (), turn) for name in FIRMWARE for turn in TURNS]
    subjects += [(name, "Linux", OURS / name, given, TURNS[-1]) for name, given in LINUX.items()]
    for name, guest, program, arguments, turn in subjects:
        with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
            add(table, (name, guest, turn), *measure(program, arguments, turn, Path(folder)))
    publish("replayer", [table], console)


def add(
    table: Table, of: tuple[str, str, int], instructions: int, done: ReplayedGroup, seconds: list[float]
) -> None:
    """A row."""
    waits, stride, traced = sum(core.waits for core in done.cores), seconds[3], seconds[2]
    table.add(
        *of, instructions / 1e6, done.turns, waits, *seconds, instructions / 1e6 / stride, stride / traced
    )
