"""Stride without what locks protect (ICSE 2012, sections V-C and VI-E): bytes of the log with and without,
measured, not estimated: `record --evidence linkage --protected skip`, and `--protected writes`.

    python -m bench protected
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import corebraid
from bench.linkage_lock_log import LockLog
from bench.linkage_locks import Races
from bench.linux_programs import OURS
from bench.programs import image
from bench.report import Column, Table, publish
from bench.systems.logs import guest_of, watch_again
from recorder.evidence.linkage.codec import LOOSENED, MOST, Piece, iter_linkage
from recorder.files.evidence_names import LINKAGE, evidence_log
from recorder.files.reader import Recording
from solver.evidence.linkage.log import read_linkage

FIRMWARE = ("pgas_uts", "pgas_fib", "pgas_guppie", "bug_dcl", "uts", "radix")
LINUX = {
    "mutexes": (), "histogram": (), "linear_regression": (), "condvars": (), "water": ("4", "64"),
    "barnes": ("4", "96"), "steal": ("4", "8"), "ocean": ("4", "48"),
}  # fmt: skip
CORES = 4
WAYS = ("log", "skip", "writes")


@dataclass(frozen=True)
class Run:
    """One run's logs. stored: bytes of the evidence, by `WAYS`. shared: variables. guarded, opened: those
    that a lock protects at first, and not to the end, with `skip`. skipped: accesses; all of them:
    accesses. loose: variables of which a lock protects the writes, still_loose: to the end; loose_skipped:
    accesses, with `writes`. no_race: the share of shared words, but for locks, that no two accesses race on,
    by a detector that sees the whole run; None of a Linux program, whose address space is too large for
    it. lock_log: `LockLog.sizes`."""

    stored: tuple[int, ...]
    accesses: int
    shared: int
    guarded: int
    opened: int
    skipped: int
    loose: int
    still_loose: int
    loose_skipped: int
    no_race: float | None
    lock_log: tuple[int, ...]


def measured(program: Path, arguments: tuple[str, ...], folder: Path, cores: int = CORES) -> Run:
    """Record by one seed, which is the same run, in each way."""
    stored, recordings = [], []
    for way in WAYS:
        path = folder / way
        corebraid.record(
            program,
            path,
            arguments=arguments,
            cores=cores,
            seed=1,
            evidence=LINKAGE,
            protected=way,
            slice=1000,
        )
        recordings.append(Recording.open(path))
        stored.append((path / evidence_log(LINKAGE)).stat().st_size)
    one, other, third = recordings
    assert one.manifest.instructions == other.manifest.instructions == third.manifest.instructions
    log, loose_log, no_race = read_linkage(other), read_linkage(third), None
    locks = LockLog()
    if one.manifest.linux:
        watch_again(one, [locks])
    else:
        races = Races(guest_of(one.manifest))
        watch_again(one, [races, locks])
        no_race = races.shares()[1]
    accesses = one.manifest.totals["accesses"]
    assert isinstance(accesses, int)
    guards = log.guards
    opened = int((guards.written < MOST).sum())
    loose = _loosened(third)
    slot = loose_log.shares.slot_of[loose].astype(np.int64) - 1
    still = int((loose_log.guards.written[slot] == MOST).sum())
    return Run(
        tuple(stored), accesses, len(guards.lock), int((guards.lock > 0).sum()), opened,
        int(guards.skipped[0]), len(loose), still, int(loose_log.guards.skipped[0]), no_race,
        locks.sizes(),
    )  # fmt: skip


def _loosened(recording: Recording) -> NDArray[np.uint64]:
    """uint64[n], the variables of which a lock protects the writes."""
    found = [np.empty(0, np.uint64)]
    for item in iter_linkage(recording):
        if isinstance(item, Piece) and item.kind == LOOSENED:
            found.append(item.table[:, 0])
    return np.concatenate(found)


def protected_table() -> Table:
    """Sizes with and without what locks protect, without rows."""
    columns = [Column("program"), Column("guest"), Column("M accesses", ".2f"), Column("shared words", ",d")]
    columns += [Column("under a lock", ",d"), Column("opened", ",d"), Column("no race", ".0%")]
    columns += [
        Column("skipped", ",d"),
        Column("bytes", ",d"),
        Column("without", ",d"),
        Column("of it", ".0%"),
    ]
    notes = [
        f"{CORES} cores, turns of up to 1,000 instructions. under a lock: words that a lock protects when a "
        "second core touches them; opened: those of them that were then touched without it, and are logged "
        "from there on.",
        "no race: of shared words that are no locks, those that a race detector, which sees the whole run "
        "and takes every atomic word for a lock, finds ordered. The recorder asks for one lock, and knows "
        "only the past.",
        "skipped: accesses that are not logged. bytes: of the evidence, fetches and digests included; "
        "without: with --protected skip.",
    ]
    return Table("protected", "Stride: the log without what locks protect", columns, notes)


def writes_table() -> Table:
    """Sizes also without writes to what is read without its lock, without rows."""
    columns = [Column("program"), Column("words", ",d"), Column("to the end", ",d")]
    columns += [Column("skipped", ",d"), Column("bytes", ",d"), Column("of it", ".1%")]
    columns += [Column(way, ",.1f") for way in WAYS]
    notes = [
        "words: of which a lock protects the writes alone, to the end or until another write; skipped, "
        "bytes: accesses that are not logged, and the evidence, with --protected writes.",
        "log, skip, writes: bytes for a thousand accesses with these.",
    ]
    return Table("writes", "Stride: the log without writes under a lock", columns, notes)


def locks_table() -> Table:
    """What a lock log would take, without rows."""
    columns = [Column("program"), Column("locks", ",d"), Column("taken", ",d"), Column("orders", ",d")]
    columns += [Column("lock log", ",d"), Column("others", ",d")]
    columns += [Column("orders, a thousand", ".2f"), Column("lock log, others", ".2f")]
    notes = [
        "locks: that more than one core took, and how often. orders: bytes of who wrote to their words, "
        "which the evidence has. lock log: what section III-A's would take; others: the orders beside it, of "
        "writes that neither take a lock nor give it back. These do not say yet between which of the others "
        "they come.",
        "The last two: bytes for a thousand accesses, of orders, and of lock log and others together.",
    ]
    return Table("locks", "Stride: orders of locks, and a lock log", columns, notes)


def main(console: Console) -> None:
    """Measure, print, and write bench/out/protected.md and .json."""
    tables = [protected_table(), writes_table(), locks_table()]
    subjects = [(name, "firmware", image(name), ()) for name in FIRMWARE]
    subjects += [(name, "Linux", OURS / name, given) for name, given in LINUX.items()]
    for name, guest, program, arguments in subjects:
        with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
            add(tables, name, guest, measured(program, arguments, Path(folder)))
    publish("protected", tables, console)


def add(tables: list[Table], name: str, guest: str, run: Run) -> None:
    """A row of each."""
    one, other, third = run.stored
    tables[0].add(
        name, guest, run.accesses / 1e6, run.shared, run.guarded, run.opened, run.no_race, run.skipped,
        one, other, other / one,
    )  # fmt: skip
    thousand = 1000 / run.accesses
    tables[1].add(
        name, run.loose, run.still_loose, run.loose_skipped, third, third / one,
        *(size * thousand for size in run.stored),
    )  # fmt: skip
    _, _, orders, lock_log, others = run.lock_log
    tables[2].add(name, *run.lock_log, orders * thousand, (lock_log + others) * thousand)
