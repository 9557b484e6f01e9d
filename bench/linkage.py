"""Stride's evidence on our programs: its size against LEAP and a global write order on the same run, what
each compression saves, what recording and inference cost (ICSE 2012, Table II and section VI)."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from bench.linkage_baselines import Counter, Global, Leap
from bench.linkage_late import infer, late_table
from bench.linkage_locks import Races, WithoutProtected
from bench.programs import image
from bench.report import Column, Table, publish
from bench.watching import Watched, guest_of
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, Outcome, RecordOptions
from recorder.evidence.linkage.codec import ALL, DOUBLE, PAPERS, PREDICT, RUNS
from recorder.evidence.linkage.collector import LinkageCollector
from recorder.files.collectors import Collector

CORES = (2, 4, 8)
PROGRAMS = ("uts", "radix", "laplace", "nqueens", "matmul", "ring")
#: Compressions one upon the other, as section V introduces them.
STEPS = (
    ("none", 0),
    ("+ predictor", PREDICT),
    ("+ runs", PREDICT | RUNS),
    ("+ double", PAPERS),
    ("+ follow", ALL),
)
_ALONE = (
    ("without predictor", ALL & ~PREDICT),
    ("without runs", ALL & ~RUNS),
    ("without double", ALL & ~DOUBLE),
)
#: Cycles of a second: the modelled machine at 1 GHz.
SECOND = 1e9


@dataclass
class Measured:
    """One run. bytes: stored, by (recorder, group)."""

    outcome: Outcome
    watched: Watched
    sizes: dict[tuple[str, str], Counter]


def measure(program: Path, cores: int, groups: tuple[str, ...], folder: Path) -> Measured:
    """Record once, with every recorder watching."""
    options = RecordOptions(cores=cores, seed=1)
    guest = guest_of(program, options)
    sizes: dict[tuple[str, str], Counter] = {}
    watchers: list[Collector] = [watched := Watched()]
    for group in groups:
        baselines = {"LEAP": Leap(guest, group), "Global": Global(guest, group)}
        for name, baseline in baselines.items():
            sizes[name, group] = baseline.counter
            watchers.append(baseline)
        for name, compressions in (*STEPS, *_ALONE):
            sizes[name, group] = counter = Counter()
            watchers.append(LinkageCollector(guest, counter, group, compressions))
    capture = Capture(program, folder / "rec", X86_64, options, lambda _: None, tuple(watchers))
    with capture.writer:
        outcome = capture.run()
    return Measured(outcome, watched, sizes)


def measure_locks(program: Path, cores: int, folder: Path) -> tuple[Races, int, int]:
    """What locks protect in the run of `measure`: the races, and the log's bytes with and without that."""
    options = RecordOptions(cores=cores, seed=1)
    guest = guest_of(program, options)
    races, whole, rest = Races(guest), Counter(), Counter()
    watchers: list[Collector] = [races, LinkageCollector(guest, whole)]
    for number in range(2):
        capture = Capture(
            program, folder / f"locks-{number}", X86_64, options, lambda _: None, tuple(watchers)
        )
        with capture.writer:
            capture.run()
        watchers = [WithoutProtected(LinkageCollector(guest, rest), races.protected)]
    return races, whole.stored, rest.stored


def _seconds(program: Path, cores: int, evidence: tuple[str, ...], folder: Path) -> float:
    options = RecordOptions(
        cores=cores, seed=1, evidence=evidence, evidence_options={"group": "word"} if evidence else {}
    )
    capture = Capture(program, folder, X86_64, options, lambda _: None)
    began = time.perf_counter()
    with capture.writer:
        capture.run()
    return time.perf_counter() - began


def size_table() -> Table:
    """Sizes, without rows."""
    names = [name for name, _ in STEPS]
    columns = [Column("program"), Column("cores", ",d"), Column("M events", ".1f"), Column("reads", ".0%")]
    columns += [Column("group")]
    columns += [Column(name, ",.2f") for name in ("LEAP", "Global", *names, *(n for n, _ in _ALONE))]
    columns += [
        Column("KB a second", ",.1f"),
        Column("LEAP / Stride", ".2f"),
        Column("Global / Stride", ".2f"),
    ]
    notes = [
        "Bytes of log for a thousand memory accesses, after LZ4; one run watched by all recorders.",
        "none to + double: Stride with the compressions of section V one upon the other; + follow: with "
        "ours, as recorded; without ...: all but that one. KB a second: as recorded, the machine at 1 GHz.",
        "The paper's average is 3.88 for LEAP / Stride, its best cases left out.",
    ]
    return Table("size", "Stride: size of the log", columns, notes)


def lock_table() -> Table:
    """What locks protect, without rows."""
    columns = [Column("program"), Column("cores", ",d"), Column("shared words", ",d")]
    columns += [Column("no race", ".0%"), Column("no race of writes", ".0%")]
    columns += [Column("bytes", ",d"), Column("without protected", ",d"), Column("of it", ".0%")]
    notes = [
        "Shared words that no atomic instruction changes; those whose accesses are all ordered by the "
        "words that one does, and those whose writes are (protected rw and protected w of Table III).",
        "without protected: the log if words without a race were left out, as section V-C does where the "
        "source code tells which those are. What the recorder leaves out: python -m bench protected.",
    ]
    return Table("locks", "Stride: what locks protect", columns, notes)


def cost_table() -> Table:
    """Costs, without rows."""
    columns = [
        Column("program"),
        Column("cores", ",d"),
        Column("record", ".2f"),
        Column("reads linked", ",d"),
    ]
    columns += [Column("comparisons a read", ".4f"), Column("M reads/s", ".1f"), Column("M events/s", ".1f")]
    notes = [
        "record: wall time with evidence linkage over that without, side by side, the better of three.",
        "comparisons a read: of unfiltered reads. Turns are long here and few looks late, so that it is near "
        "1 whatever the method is worth: the table above has turns in which it need not be. M reads/s: reads "
        "of shared variables placed and linked; M events/s: all events that were passed on the way; replay "
        "and sifting not counted.",
    ]
    return Table("cost", "Stride: cost of recording and of inference", columns, notes)


def main(console: Console) -> None:
    """Measure, print, and write bench/out/linkage.md and .json."""
    sizes, costs, locks = size_table(), cost_table(), lock_table()
    for name in PROGRAMS:
        program = image(name, "medium")
        for cores in CORES:
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary)
                groups = ("word", "line", "symbol") if cores == CORES[1] else ("word",)
                measured = measure(program, cores, groups, folder)
                _add_sizes(sizes, name, cores, groups, measured)
                costs.add(name, cores, *_cost(program, cores, measured.watched.events, folder))
                if cores == CORES[1]:
                    races, whole, rest = measure_locks(program, cores, folder)
                    locks.add(name, cores, *races.shares(), whole, rest, rest / whole)
    publish("linkage", [sizes, locks, late_table(PROGRAMS), costs], console)


def _cost(program: Path, cores: int, events: int, folder: Path) -> list[float | int | None]:
    """A row of `cost_table` after program and cores."""
    plain, recorded = (min(_times(program, cores, evidence, folder)) for evidence in ((), ("linkage",)))
    # Once before, so that no kernel is compiled or loaded while it is timed.
    infer(folder / "linkage-2")
    engine = infer(folder / "linkage-2")
    linked = int(engine.compared.sum())
    compared = int((engine.compared * np.arange(1, len(engine.compared) + 1)).sum())
    rates = [n / engine.seconds / 1e6 for n in (engine.reads, events)]
    return [recorded / plain, engine.reads, compared / linked if linked else None, *rates]


def _times(program: Path, cores: int, evidence: tuple[str, ...], folder: Path) -> list[float]:
    name = evidence[0] if evidence else "plain"
    return [_seconds(program, cores, evidence, folder / f"{name}-{k}") for k in range(3)]


def _add_sizes(table: Table, name: str, cores: int, groups: tuple[str, ...], measured: Measured) -> None:
    events = measured.watched.events
    cycles = measured.outcome.manifest.totals["cycles"]
    assert isinstance(cycles, int)
    for group in groups:
        stored = [measured.sizes[key, group].stored for key in ("LEAP", "Global")]
        stored += [measured.sizes[key, group].stored for key, _ in (*STEPS, *_ALONE)]
        stride = measured.sizes["+ follow", group].stored
        table.add(
            name,
            cores,
            events / 1e6,
            measured.watched.reads / events,
            group,
            *(1000 * size / events for size in stored),
            stride / 1000 / (cycles / SECOND),
            stored[0] / stride,
            stored[1] / stride,
        )
