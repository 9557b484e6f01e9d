"""What edges of fork and join do in Stride's inference (ICSE 2012, definition 4.1, e and f): regions decided
and reads determined with bounds lowered by them, and without.

    python -m bench edges
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

import corebraid
from bench.linux_programs import OURS
from bench.report import Column, Table, publish
from corebraid.study.evidence.truth import slices_that_ran
from recorder.files.evidence_names import LINKAGE
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.evidence.linkage.engine import LinkageEngine
from solver.evidence.linkage.log import read_linkage
from solver.passes.order import Options, order_recording
from solver.regions.problem import Verdict
from solver.score import Score, score_certificate

PROGRAMS = ("condvars", "semaphores", "barriers", "mutexes", "rwlocks", "thread_order", "signals")
CORES = 4
#: Instructions of the longest turn.
TURNS = (100, 1000)


@dataclass(frozen=True)
class Ordered:
    """A recording ordered once. regions, undecided: how many. lowered: bounds. score: against what ran."""

    regions: int
    undecided: int
    lowered: int
    score: Score


def ordered(recording: Recording, folder: Path, *, with_edges: bool) -> Ordered:
    """Order it by its linkages, and hold the order against the sealed truth."""
    engine = LinkageEngine(read_linkage(recording), with_edges=with_edges)
    path, traces = folder / f"{with_edges}.cert", RecordingTraces(recording)
    result = order_recording(traces, path, recording.manifest.id, Options(LINKAGE, evidence=engine))
    undecided = sum(region.verdict is Verdict.UNDECIDED for region in result.regions)
    certificate = Certificate(path, recording.manifest.id)
    score = score_certificate(RecordingTraces(recording), certificate, slices_that_ran(recording))
    return Ordered(len(result.regions), undecided, engine.lowered, score)


def edges_table() -> Table:
    """Without rows."""
    columns = [Column("program"), Column("turn", ",d"), Column("regions", ",d"), Column("shared reads", ",d")]
    columns += [Column("bounds lowered", ",d")]
    for way in ("without", "with"):
        columns += [Column(f"undecided, {way}", ",d"), Column(f"reads undetermined, {way}", ",d")]
        columns += [Column(f"reads wrong, {way}", ",d")]
    notes = [
        f"Linux programs on {CORES} cores, turns of up to so many instructions, strata each 20,000 cycles. "
        "Without: an order of the linkages is changed to one that keeps the edges, if there is one; with: "
        "bounds are lowered by the edges before reads are linked, too, and what goes against edges all the "
        "same is searched.",
        "undecided: regions that are given up; undetermined: shared reads of which the order says nothing "
        "then; wrong: those that were linked to another write (of the same value) than in the run.",
    ]
    return Table("edges", "Stride: edges of fork and join", columns, notes)


def add(table: Table, program: Path, turn: int) -> None:
    """Record, and order both ways."""
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        path = Path(folder) / "rec"
        corebraid.record(
            program, path, cores=CORES, seed=1, evidence=LINKAGE, slice=turn, strata="cycles:20000"
        )
        recording = Recording.open(path)
        one, other = (ordered(recording, Path(folder), with_edges=way) for way in (False, True))
    cells = [(way.undecided, way.score.none, way.score.other) for way in (one, other)]
    table.add(program.name, turn, one.regions, one.score.reads, other.lowered, *cells[0], *cells[1])


def main(console: Console) -> None:
    """Measure, print, and write bench/out/edges.md and .json."""
    table = edges_table()
    for name in PROGRAMS:
        for turn in TURNS:
            add(table, OURS / name, turn)
    publish("edges", [table], console)
