"""Of Linux programs, how much of OPR's order can be held against the order that ran (docs/crosscheck.md).

The kernel is no member and has no clock, so that what only it takes part in is left out. Each program is
recorded with several seeds, in long turns and in short ones, ordered by the engine `opr`, and judged region
by region; an access after another change than in the sealed truth would be a disagreement.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.linux_means import spec_of
from bench.linux_programs import OURS
from bench.linux_soak import EXPECTED
from bench.report import Column, Table, publish
from corebraid.base.memory import ADDRESS_SPACE
from corebraid.study.crosschecks import CrossChecked
from corebraid.study.engines import evidence_engine
from corebraid.study.evidence.truth import TruthScores
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.linux import record_linux
from recorder.capture.options import RecordOptions
from recorder.capture.strata_policy import StrataPolicy
from recorder.files.evidence_names import OPR, settled
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.passes.answers import Options
from solver.passes.crosscheck import Contender, crosscheck
from solver.score import Judged

#: Kernels of firmware/linux, with a small size; they are told how many threads to have.
_KERNELS = {"fft": 16, "lu": 32, "radix_sort": 1024, "ocean": 24, "barnes": 32, "water": 32, "steal": 6}
_THREADS = (2, 4, 8)
#: Others, on four cores.
_OTHERS = (
    "mutexes", "spinlocks", "barriers", "condvars", "semaphores", "rwlocks", "pi_mutexes", "robust",
    "thread_local", "good_cache", "bug_lost_update", "jit",
)  # fmt: skip
_SEEDS, _SLICES, _STRATA = (1, 2, 3), (10_000, 50), StrataPolicy(cycles=20_000)
_REGION_S = 60.0

#: A program: its name, arguments and cores.
Program = tuple[str, tuple[str, ...], int]


def programs() -> list[Program]:
    """All that are measured."""
    kernels = [(name, (str(n), str(size)), n) for name, size in _KERNELS.items() for n in _THREADS]
    return [*kernels, *((name, tuple(EXPECTED[name]["args"]), 4) for name in _OTHERS)]


def judged(program: Program, seed: int, longest_slice: int, path: Path) -> CrossChecked:
    """Record a program into `path`, and hold the orders of the engine `opr` against the sealed truth."""
    name, arguments, cores = program
    options = RecordOptions(
        cores=cores, seed=seed, longest_slice=longest_slice, strata=_STRATA, memory_bytes=ADDRESS_SPACE,
        evidence=(OPR,), evidence_options=settled((OPR,), {}, cores),
    )  # fmt: skip
    spec = spec_of([str(OURS / name), *arguments])
    record_linux(spec, path, X86_64, LINUX_X86_64, options, lambda _: None, lambda _: None)
    recording = Recording.open(path)
    traces = RecordingTraces(recording)
    scores = TruthScores(recording, traces)
    options = Options(OPR, _REGION_S, evidence=evidence_engine(recording, OPR))
    found = crosscheck(traces, [Contender(OPR, options)], None, scores.take)
    return CrossChecked(recording, [OPR], found, [], True, scores.scores)


def judged_table() -> Table:
    """The table, without rows."""
    kinds = ("reads", "writes")
    counts = [
        Column(f"{kind}: {what}", spec)
        for kind in kinds
        for what, spec in (
            ("contended", ",d"),
            ("judged %", ".1f"),
            ("left out", ",d"),
            ("its own or fetched", ",d"),
            ("wrong", ",d"),
        )
    ]
    return Table(
        "judged",
        "What the engine opr makes of Linux programs, region by region against what ran",
        [
            Column("program"), Column("threads"), Column("recordings", "d"), Column("shared reads", ",d"),
            *counts, Column("undetermined", ",d"), Column("disagreements", ",d"),
        ],
    )  # fmt: skip


def add_row(table: Table, name: str, threads: object, found: Sequence[CrossChecked]) -> None:
    """Add what was found of recordings of a program. Raises RuntimeError if one has no order of all."""
    reads = writes = Judged()
    shared = disagreements = 0
    for one in found:
        score = one.scores.get(OPR)
        if score is None or score.within is None:
            raise RuntimeError(f"{one.recording.path}: {'; '.join(one.wrong()) or 'not scored'}")
        reads, writes = reads + score.within.reads, writes + score.within.writes
        shared += score.reads
        disagreements += len(one.wrong())
    cells = [
        cell
        for kind in (reads, writes)
        for cell in (
            kind.contended,
            "-" if kind.share is None else kind.share,
            kind.left_out,
            kind.unclocked,
            kind.wrong,
        )
    ]
    table.add(name, str(threads), len(found), shared, *cells, reads.open + writes.open, disagreements)


def main(console: Console, chosen: tuple[str, ...] = ()) -> None:
    """Record, order and judge all programs, or those whose names are `chosen`."""
    table, every = judged_table(), list[CrossChecked]()
    with tempfile.TemporaryDirectory() as folder:
        for program in programs():
            if chosen and program[0] not in chosen:
                continue
            found = []
            for number, (seed, turns) in enumerate((s, t) for s in _SEEDS for t in _SLICES):
                path = Path(folder) / f"rec-{number}"
                found.append(judged(program, seed, turns, path))
                shutil.rmtree(path)
            add_row(table, program[0], program[2], found)
            console.print(*table.texts()[-1], highlight=False)
            every += found
    add_row(table, "all", "", every)
    publish("judged", [table], console)
