"""Orders against the truth: of every program, how many reads each engine gives another source than they had.

    python -m bench.scored [--programs uts,mutexes] [--cores 4,8,16] [--strata cycles:100000,none]
                           [--engines auto,linkage,slices] [--constraints values,tenures,losses]
                           [--models sc,tso] [--slice N] [--timeout 5]

All firmware, and the Linux programs of `LINUX` on at most eight cores. Each recording is ordered by every
engine, and each order, checked, is held against the sealed truth (solver/score). Prints and writes
bench/out/scored.md and .json.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corebraid.base.kernel_cache import use_kernel_cache

# Before numba is imported: kernels compiled from older sources must not be run.
use_kernel_cache()

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402

from bench.linux_soak import Plan, place, record_plan  # noqa: E402
from bench.programs import FIRMWARE  # noqa: E402
from bench.report import Cell, Column, Table, publish  # noqa: E402
from corebraid.base.errors import CorebraidError  # noqa: E402
from corebraid.study.engines import ENGINES, evidence_engine, ordering_engines  # noqa: E402
from isa.x86_64.registers import X86_64  # noqa: E402
from recorder.capture.firmware import RecordOptions, record  # noqa: E402
from recorder.capture.strata_policy import StrataPolicy  # noqa: E402
from recorder.files.evidence_names import STREAMS, settled  # noqa: E402
from recorder.files.manifest import ORDER_CERT  # noqa: E402
from recorder.files.reader import Recording, iter_sealed_truth  # noqa: E402
from recorder.replay.traces import RecordingTraces  # noqa: E402
from solver.check.certificate import Certificate  # noqa: E402
from solver.passes.answers import Options  # noqa: E402
from solver.passes.order import order_recording  # noqa: E402
from solver.regions.problem import Verdict  # noqa: E402
from solver.score import Score, score_certificate  # noqa: E402

#: Linux guests of ours that have several threads and run to an end.
LINUX = (
    "mutexes", "semaphores", "barriers", "condvars", "rwlocks", "spinlocks", "pi_mutexes", "robust",
    "bug_aba", "bug_atomicity", "bug_lost_update", "bug_publication", "good_aba", "good_atomicity",
    "good_counter", "good_publication", "pipes_poll", "signal_waits", "thread_local", "cancellation",
)  # fmt: skip
_MEMORY, _LIMIT, _MOST_LINUX_CORES = 16 << 20, 40_000_000, 8


def slices_of(recording: Recording) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The sealed truth, as the checker takes it."""
    for rows in iter_sealed_truth(recording):
        yield rows["stream"].astype(np.int64), rows["end"].astype(np.uint64)


def _evidence(chosen: argparse.Namespace, cores: int, model: str) -> dict[str, Any]:
    """Losses, and what the engines need, as both kinds of recordings are asked for it."""
    needed = {ENGINES[name].stream for name in chosen.engines}
    rows = [row for row in STREAMS.values() if row.by_default or row.name in needed]
    names = tuple(row.name for row in rows if model in row.models)
    return {"evidence": names, "evidence_options": settled(names, {}, cores)}


def firmware(
    name: str, cores: int, strata: str, chosen: argparse.Namespace, model: str, folder: Path
) -> None:
    """Record a firmware program."""
    options = RecordOptions(
        cores=cores,
        seed=chosen.seed,
        longest_slice=chosen.slice,
        strata=StrataPolicy.parse(strata),
        memory_bytes=_MEMORY,
        limit=_LIMIT,
        input=b"corebraid\n",
        model=model,
        **_evidence(chosen, cores, model),
    )
    record(FIRMWARE / "x86_64" / f"{name}.elf", folder, X86_64, options, lambda _: None)


def scored(
    recording: Recording, engine: str, constraints: str, timeout_s: float
) -> tuple[Score, int, int, float]:
    """(score, regions, of them undecided, seconds to order)."""
    options = Options(engine, timeout_s, evidence=evidence_engine(recording, engine))
    path = recording.path / ORDER_CERT
    path.unlink(missing_ok=True)
    began = time.perf_counter()
    traces = RecordingTraces(recording, constraints=constraints)
    result = order_recording(traces, path, recording.manifest.id, options)
    seconds = time.perf_counter() - began
    if result.verdict is Verdict.ILLEGAL:
        raise RuntimeError(f"{recording.path}: {engine} found a recording illegal")
    undecided = sum(region.verdict is not Verdict.LEGAL for region in result.regions)
    certificate = Certificate(path, recording.manifest.id)
    score = score_certificate(RecordingTraces(recording), certificate, slices_of(recording))
    return score, len(result.regions), undecided, seconds


def names(chosen: argparse.Namespace) -> list[str]:
    """All firmware programs and those of LINUX, or those that were chosen."""
    every = [path.stem for path in sorted((FIRMWARE / "x86_64").glob("*.elf"))]
    every += [f"linux/{name}" for name in LINUX]
    wanted = chosen.programs.split(",") if chosen.programs else []
    return [name for name in every if not wanted or name in wanted or name.split("/")[-1] in wanted]


def one(table: Table, name: str, cores: int, strata: str, model: str, chosen: argparse.Namespace) -> None:
    """Record a program once and let every engine order it."""
    with place() as folder:
        path = folder / "rec"
        try:
            if name.startswith("linux/"):
                guest = name.split("/")[1]
                told = {"strata": strata, "model": model, "longest_slice": chosen.slice}
                record_plan(Plan(guest, cores, chosen.seed, **told, **_evidence(chosen, cores, model)), path)
            else:
                firmware(name, cores, strata, chosen, model, path)
        except CorebraidError as error:
            print(f"{name} on {cores} cores is left out: {error.line()}", file=sys.stderr)
            shutil.rmtree(path, ignore_errors=True)
            return
        recording = Recording.open(path)
        for engine in chosen.engines:
            if not ENGINES[engine].applies(recording):
                continue
            for constraints in chosen.constraints.split(","):
                if constraints != "values" and ENGINES[engine].stream:
                    continue
                score, regions, undecided, seconds = scored(recording, engine, constraints, chosen.timeout)
                row = name, cores, strata, model, engine, constraints
                table.add(*row, regions, undecided, *_cells(score), seconds)
                print(*row, "; ".join(score.lines()), file=sys.stderr)


def _cells(score: Score) -> list[Cell]:
    if not score.reads:
        return ["no shared reads", None, None, None, None, score.pairs, score.turned, score.open]
    share = 100 * score.other / score.reads
    return [score.reads, score.other, share, score.changed, score.none, score.pairs, score.turned, score.open]


def totals(table: Table) -> Table:
    """The same added up for each model, engine and constraints."""
    names = Column("model"), Column("engine"), Column("constraints")
    columns = [*names, Column("recordings", ",d"), *table.columns[6:16]]
    sums = Table("scored-all", "All programs together", columns)
    for kind in sorted({tuple(map(str, row[3:6])) for row in table.rows}):
        rows = [row for row in table.rows if tuple(row[3:6]) == kind]
        added = [sum(row[k] for row in rows if isinstance(row[k], int)) for k in range(6, 16)]
        reads, other = added[2], added[3]
        share = 100 * other / reads if reads else None
        sums.add(*kind, len(rows), *added[:4], share, *added[5:])
    return sums


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; returns the exit status."""
    parser = argparse.ArgumentParser(description="Hold the orders of all engines against the sealed truth.")
    parser.add_argument("--programs", default="", help="only these, with commas between")
    parser.add_argument("--cores", default="4,8,16")
    parser.add_argument("--strata", default="cycles:100000,none")
    parser.add_argument("--engines", default="auto", help=", ".join(row.name for row in ordering_engines()))
    parser.add_argument("--constraints", default="values,tenures,losses")
    parser.add_argument("--models", default="sc")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slice", type=int, default=10_000, help="longest slice of the schedule")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds a region")
    chosen = parser.parse_args(arguments)
    chosen.engines = chosen.engines.split(",")
    table = Table(
        "scored",
        "Orders against the truth",
        [
            *(Column(name) for name in ("program", "cores", "strata", "model", "engine", "constraints")),
            *(Column(name, ",d") for name in ("regions", "undecided", "shared reads", "other source")),
            Column("%", ".3g"),
            *(Column(name, ",d") for name in ("other change", "none", "pairs", "turned", "open")),
            Column("seconds", ".2f"),
        ],
        [
            f"Seed {chosen.seed}, slices of up to {chosen.slice:,}, {chosen.timeout:g} s a region.",
            "Other source: reads of shared bytes of which a byte comes from another write than it did.",
            "Other change: the same if writes of what was there before are nobody's source.",
            "Turned: conflicting pairs that stand the other way round. None, open: regions without an order.",
        ],
    )
    for name in names(chosen):
        for cores in map(int, chosen.cores.split(",")):
            if name.startswith("linux/") and cores > _MOST_LINUX_CORES:
                continue
            for strata in chosen.strata.split(","):
                for model in chosen.models.split(","):
                    one(table, name, cores, strata, model, chosen)
    publish("scored", [table, totals(table)], Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
