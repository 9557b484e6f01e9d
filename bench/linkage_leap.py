"""Why Stride's log is larger than LEAP's, or smaller: both logs of the same runs taken apart, under turns of
every length and with variables of every size.

    python -m bench leap

The Stride paper (section VI-B) has LEAP's log larger, 3.88 times on average, and gives as reasons that LEAP
notes reads too and that values which threads read are mostly their own.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import lz4.block
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from bench.linkage_baselines import Counter, Leap
from bench.programs import image
from bench.report import Column, Table, publish
from bench.watching import guest_of
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, RecordOptions
from recorder.evidence.linkage.codec import ALL, BOUND, ORDER, SHARE, VALUE
from recorder.evidence.linkage.collector import LinkageCollector

PROGRAMS = ("uts", "radix", "laplace", "nqueens", "matmul", "ring")
CORES = (2, 4, 8)
#: Instructions of the longest turn.
TURNS = (1, 4, 20, 100, 1000, 10_000)
GROUPS = ("word", "line", "symbol")
#: What is varied is varied from here.
_CORES, _TURN, _GROUP = 4, 1000, "word"
_PARTS = (SHARE, ORDER, BOUND, VALUE)


@dataclass
class Parts:
    """A writer that counts what it is given by kind of table. rows, raw, stored: by kind; stored after LZ4,
    frame by frame, with a frame's header."""

    rows: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(7), 0))
    raw: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(7), 0))
    stored: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(7), 0))

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        """See `EvidenceWriter`."""
        kind, data = raw[0], bytes(raw)
        self.rows[kind] += records
        self.raw[kind] += len(data)
        self.stored[kind] += len(lz4.block.compress(data, store_size=False))

    def of(self, sizes: dict[int, int]) -> int:
        """The sum over what the paper's log has."""
        return sum(sizes[kind] for kind in _PARTS)


class Runs(Counter):
    """A counter that counts rows, too, and the accesses that they stand for; and no headers of frames."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = self.accesses = 0

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        """See `EvidenceWriter`."""
        self.raw += len(raw)
        self.stored += len(lz4.block.compress(bytes(raw), store_size=False))

    def table(self, table: NDArray[np.uint64]) -> None:
        """See `Counter`."""
        super().table(table)
        self.rows += len(table)
        self.accesses += int(table[:, 2].sum())


@dataclass(frozen=True)
class Both:
    """The two logs of one run, of the same variables."""

    leap: Runs
    stride: Parts


def both(program: Path, cores: int, turn: int, groups: tuple[str, ...]) -> dict[str, Both]:
    """Record once, with both recorders watching for each group of variables."""
    options = RecordOptions(cores=cores, seed=1, longest_slice=turn)
    guest = guest_of(program, options)
    found, watchers = {}, []
    for group in groups:
        leap, stride = Leap(guest, group), Parts()
        leap.counter = runs = Runs()
        found[group] = Both(runs, stride)
        watchers += [leap, LinkageCollector(guest, stride, group, ALL)]
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        capture = Capture(program, Path(folder) / "rec", X86_64, options, lambda _: None, tuple(watchers))
        with capture.writer:
            capture.run()
    return found


def _columns() -> list[Column]:
    columns = [Column("program"), Column("cores", ",d"), Column("turn", ",d"), Column("variable")]
    columns += [Column("shared accesses", ",d"), Column("accesses a run", ",.1f")]
    columns += [Column("LEAP rows", ",.1f")]
    columns += [Column(name, ",.1f") for name in ("shares", "orders", "bounds", "values")]
    columns += [Column("LEAP bytes", ",d"), Column("Stride bytes", ",d"), Column("of it values", ".0%")]
    columns += [Column("LEAP / Stride", ".2f")]
    columns += [Column(name, ".2f") for name in ("rows", "bytes a row", "LZ4")]
    return [*columns, Column("LEAP / Stride without values", ".2f"), Column("LEAP / orders", ".2f")]


def _row(table: Table, name: str, cores: int, turn: int, group: str, found: Both) -> None:
    leap, stride = found.leap, found.stride
    per = 1000 / max(leap.accesses, 1)
    whole, raw, rows = stride.of(stride.stored), stride.of(stride.raw), stride.of(stride.rows)
    table.add(
        name, cores, turn, group, leap.accesses, leap.accesses / max(leap.rows, 1), leap.rows * per,
        *(stride.rows[kind] * per for kind in _PARTS), leap.stored, whole, stride.stored[VALUE] / whole,
        leap.stored / whole, leap.rows / rows, (leap.raw / leap.rows) / (raw / rows),
        (leap.stored / leap.raw) / (whole / raw),
        leap.stored / (whole - stride.stored[VALUE]), leap.stored / stride.stored[ORDER],
    )  # fmt: skip


_NOTES = [
    "Small images; turns of up to so many instructions. shared accesses: to shared variables. accesses a "
    "run: of LEAP, which one core makes to one variable before another does. LEAP rows to values: rows of "
    "the logs for a thousand shared accesses.",
    "Bytes after LZ4, frame by frame, without the frames' headers. LEAP / Stride above 1: LEAP's log is the "
    "larger one. It is the product of the three columns after it: LEAP's over Stride's number of rows, bytes "
    "of a row, and share that LZ4 leaves of them.",
    "Without values: of Stride shares, orders and bounds only, which no replayer could use; orders: those of "
    "writes alone, what LEAP would log if it left reads out.",
]


def _table(
    key: str, title: str, programs: tuple[str, ...], cases: list[tuple[int, int, tuple[str, ...]]]
) -> Table:
    """A table of programs by cases: cores, turn, groups."""
    table = Table(key, title, _columns(), _NOTES)
    for name in programs:
        for cores, turn, groups in cases:
            for group, found in both(image(name), cores, turn, groups).items():
                _row(table, name, cores, turn, group, found)
    return table


def leap_tables(programs: tuple[str, ...], turns: tuple[int, ...]) -> list[Table]:
    """By length of turns and size of variables, and by number of cores."""
    return [
        _table(
            "leap-turns",
            "LEAP and Stride: length of turns, size of variables",
            programs,
            [(_CORES, turn, GROUPS) for turn in turns],
        ),
        _table(
            "leap-cores",
            "LEAP and Stride: number of cores",
            programs,
            [(cores, _TURN, (_GROUP,)) for cores in CORES],
        ),
    ]


def main(
    console: Console, programs: tuple[str, ...] = PROGRAMS, turns: tuple[int, ...] = TURNS
) -> list[Table]:
    """Measure, print, and write bench/out/leap.md and .json."""
    tables = leap_tables(programs, turns)
    publish("leap", tables, console)
    return tables
