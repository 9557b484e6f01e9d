"""The page's tables, each no wider than 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.page.stages import STAGES, Measured
from bench.report import Cell, Column, Table

#: Of the tools that Linux programs are held against (`bench.linux_tools.TOOLS`): the columns' headings.
TOOL_HEADS = {"native": "native", "qemu-user": "qemu", "valgrind none": "vg none", "lackey trace": "lackey"}
_SPENT = "Processor seconds of whole commands, start-up of Python included; medians."


def _millions(one: Measured) -> Cell:
    return one.instructions / 1e6 if one.instructions else None


def stage_tables(results: Sequence[Measured]) -> list[Table]:
    """Every stage on one bus: seconds, and memory."""
    names, bus = ("record", *STAGES), results[0].subject.bus
    seconds = Table(
        f"stages-{bus}",
        f"Every stage, --bus {bus}: processor seconds",
        [
            Column("program"), Column("M instr", ",.0f"), *(Column(name, ".2f") for name in names),
            Column("o/r", ".2f"), Column("v/r", ".2f"),
        ],
        [
            f"{_SPENT} Four cores; every stage in one process (--jobs 1).",
            "events: replay as for an order, dropping what it would look at; check: check-order;",
            "o/r, v/r: order and verify over replay.",
        ],
    )  # fmt: skip
    memory = Table(
        f"memory-{bus}",
        f"Every stage, --bus {bus}: MB of its largest process",
        [Column("program"), *(Column(name, ".0f") for name in names)],
        ["Most resident memory. A Python with NumPy and our kernels has 70 MB."],
    )
    for one in results:
        seconds.add(
            one.subject.name, _millions(one), *(one.seconds(name) for name in names),
            one.ratio("order", "replay"), one.ratio("verify", "replay"),
        )  # fmt: skip
        memory.add(one.subject.name, *(one.megabytes(name) for name in names))
    return [seconds, memory]


def log_table(results: Sequence[Measured]) -> Table:
    """What the logs consist of, on one bus."""
    bus = results[0].subject.bus
    table = Table(
        f"logs-{bus}",
        f"Logs, --bus {bus}: bytes per 1,000 instructions",
        [
            Column("program"),
            *(
                Column(name, ".2f")
                for name in ("data", "fills", "other", "strata", "digests", "losses", "disk")
            ),
        ],
        [
            "data: bytes that cores received; fills: which line, when; other: inputs and context headers.",
            "These before compression; losses, and disk (all cores' logs), as they are on disk.",
        ],
    )
    for one in results:
        if one.logs is not None:
            parts, per = one.logs, one.instructions / 1000
            counted = (
                parts.data,
                parts.fills,
                parts.other,
                parts.strata,
                parts.digests,
                parts.losses,
                parts.disk,
            )
            table.add(one.subject.name, *(count / per for count in counted))
    return table


def tool_table(results: Iterable[Measured]) -> Table:
    """Beside other tools."""
    table = Table(
        "tools",
        "Beside other tools: processor seconds",
        [
            Column("program"), *(Column(head, ".2f") for head in TOOL_HEADS.values()),
            Column("record", ".2f"), Column("mesi", ".2f"), Column("replay", ".2f"),
            Column("record/qemu", ".1f"),
        ],
        [
            f"{_SPENT} record, mesi: on the two buses, four cores.",
            "qemu: qemu-x86_64; vg none, lackey: valgrind's, the second with --trace-mem=yes, to /dev/null.",
            "The tools use the host's AVX where a library has such code; our guest has none.",
        ],
    )  # fmt: skip
    for one in results:
        table.add(
            one.subject.name, *(one.seconds(name) for name in TOOL_HEADS), one.seconds("record"),
            one.seconds("record mesi"), one.seconds("replay"), one.ratio("record", "qemu-user"),
        )  # fmt: skip
    return table


def growth_table(key: str, title: str, first: Column, results: Iterable[tuple[Cell, Measured]]) -> Table:
    """One program that grows, in cores or in length. results: (what it is in the first column, measured)."""
    stages = ("record", "replay", "order", "verify")
    table = Table(
        key,
        title,
        [
            first, Column("M instr", ",.0f"), *(Column(name, ".2f") for name in stages),
            Column("KB log", ",.0f"),
            *(Column(f"MB {name[:3]}", ".0f") for name in ("record", "order", "verify")),
        ],
        [_SPENT, "KB log: of all cores, on disk. MB rec, ord, ver: most resident memory of each."],
    )  # fmt: skip
    for cell, one in results:
        table.add(
            cell, _millions(one), *(one.seconds(name) for name in stages), one.logs and one.logs.disk / 1e3,
            *(one.megabytes(name) for name in ("record", "order", "verify")),
        )  # fmt: skip
    return table
