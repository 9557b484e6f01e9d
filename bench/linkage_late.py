"""How many writes slip in between a read and the look at the version (ICSE 2012, section VI-D), where turns
are so short that many do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.linkage_baselines import Counter
from bench.programs import image
from bench.report import Column, Table
from bench.watching import guest_of
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, RecordOptions
from recorder.evidence.linkage.collector import LinkageCollector
from recorder.evidence.linkage.kernels import LATE_READ
from recorder.files.collectors import Guest, Rows
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.linkage.engine import LinkageEngine
from solver.passes.unfiltered import iter_problems

#: Instructions of the longest turn.
TURNS = (1, 4, 20, 1000)


class LateLooks(LinkageCollector):
    """Counts reads of shared variables whose look waits until others have run."""

    def __init__(self, guest: Guest) -> None:
        super().__init__(guest, Counter())
        self.late = 0

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        super().take(stream, rows)
        self.late += int(self._state.streams[stream]["late"] == LATE_READ)


def infer(path: Path) -> LinkageEngine:
    """The engine after all regions of a recording, each of which has to be legal."""
    recording = Recording.open(path)
    engine = LinkageEngine.of(recording)
    for region, problem in iter_problems(RecordingTraces(recording)):
        if solution := engine.solve(region, problem):
            assert solution.verdict.value == "legal", solution.reason
    return engine


def late_table(
    programs: tuple[str, ...], turns: tuple[int, ...] = TURNS, cores: int = 4, size: str = ""
) -> Table:
    """Comparisons a read by the length of turns."""
    columns = [Column("program"), Column("turn", ",d"), Column("shared reads", ",d")]
    columns += [Column("late looks", ".2%"), Column("unfiltered", ",d"), Column("comparisons a read", ".4f")]
    columns += [Column("in 2", ",d"), Column("in 3", ",d"), Column("in more", ",d")]
    notes = [
        f"{cores} cores, small images, turns of up to so many instructions. late looks: reads of shared "
        "variables after which others run before the version is looked at; a bound is above the exact "
        "version where one of them writes. On real processors a look is some cycles late.",
        "comparisons a read: of unfiltered reads. The paper, whose threads run at once: close to 1.",
    ]
    table = Table("late", "Stride: comparisons a read, where looks are late", columns, notes)
    for name in programs:
        for turn in turns:
            with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
                looks, engine = _run(image(name, size), cores, turn, Path(folder) / "rec")
            table.add(name, turn, engine.reads, looks / max(engine.reads, 1), *_compared(engine.compared))
    return table


def _run(program: Path, cores: int, turn: int, path: Path) -> tuple[int, LinkageEngine]:
    """Record, and infer: late looks, and the engine."""
    options = RecordOptions(
        cores=cores, seed=1, longest_slice=turn, evidence=("linkage",), evidence_options={"group": "word"}
    )
    looks = LateLooks(guest_of(program, options))
    capture = Capture(program, path, X86_64, options, lambda _: None, (looks,))
    with capture.writer:
        capture.run()
    return looks.late, infer(path)


def _compared(found: NDArray[np.int64]) -> list[float | int | None]:
    """Of numbers of reads by their comparisons, from 1: reads, the mean, and reads in 2, in 3, in more."""
    reads = int(found.sum())
    mean = float((found * np.arange(1, len(found) + 1)).sum()) / reads if reads else None
    return [reads, mean, int(found[1:2].sum()), int(found[2:3].sum()), int(found[3:].sum())]
