"""The tables of all systems. What is nothing out of nothing is "-"."""

from __future__ import annotations

from statistics import median

from bench.report import Cell, Column, Table
from bench.systems.logs import (
    GLOBAL,
    LEAP,
    LIGHTPLAY,
    MICRO,
    MICRO_PAPER,
    OPR_ALL,
    RERUN,
    RERUN_BLOOM,
    STRIDE,
    STRIDE_PAPER,
    SYSTEMS,
)  # fmt: skip
from bench.systems.measure import WAYS, Measured
from bench.systems.orders import BIT_EXACT, Ordered
from recorder.files.evidence_names import LINKAGE, LOSSES, OPR, SLICES

NOTHING = "-"
#: Columns of bytes that are no system's.
_BESIDE = ("inputs", "kernel", "cores' logs", "MICRO, pages")
#: The way in which a system's log is taken.
_WAY_OF = {MICRO: LOSSES, STRIDE: LINKAGE, LIGHTPLAY: SLICES, OPR_ALL: OPR}
#: What a system has no engine for, in words.
NO_ENGINE = {
    STRIDE_PAPER: "as Stride",
    LEAP: "log only: no engine here",
    GLOBAL: "log only: no engine here",
    RERUN: "log only: no engine here",
    RERUN_BLOOM: "log only: no engine here",
}
_NO_REPLAY = {
    MICRO_PAPER: "as ours",
    LIGHTPLAY: "none: slices hold no inputs",
    **dict.fromkeys((STRIDE_PAPER,), "as Stride"),
    **dict.fromkeys((LEAP, GLOBAL, RERUN, RERUN_BLOOM), "log only: no replayer here"),
}
_NOT_TIMED = {
    MICRO_PAPER: "as ours",
    STRIDE_PAPER: "as Stride",
    **dict.fromkeys((LEAP, GLOBAL, RERUN, RERUN_BLOOM), "not charged"),
}


def _of(part: float, whole: float, times: float = 1.0) -> float | None:
    """A share; None of nothing."""
    return times * part / whole if whole else None


def or_nothing(cell: Cell) -> Cell:
    """A cell; "-" for a figure that is nothing of nothing."""
    return NOTHING if cell is None else cell


def _score_cells(orders: list[Ordered]) -> list[Cell]:
    """Reads right, wrong, undetermined of runs together. Refused orders say what they are."""
    if any(one.refused for one in orders):
        return ["refused", NOTHING, NOTHING]
    scores = [one.score for one in orders if one.score is not None]
    reads = sum(score.reads for score in scores)
    parts = [sum(getattr(score, name) for score in scores) for name in ("same", "other", "none")]
    return [*parts] if reads else [NOTHING] * 3


def order_cells(system: str, orders: list[Ordered]) -> list[Cell]:
    """(orders checked, reads right, wrong, undetermined) of one run, or of several together."""
    if system in NO_ENGINE or not orders:
        return [NO_ENGINE.get(system, NOTHING), NOTHING, NOTHING, NOTHING]
    if len(orders) == 1:
        return [orders[0].cell, *_score_cells(orders)]
    whole = Ordered(
        sum(one.to_order for one in orders),
        sum(one.decided for one in orders),
        sum(one.checked for one in orders),
        tuple(why for one in orders for why in one.refused),
    )
    for one in orders:
        whole.reasons.update(one.reasons)
    return [whole.cell, *_score_cells(orders)]


def _ratio(system: str, measured: list[Measured]) -> Cell:
    """The median over programs of recording with a system's log over recording without any evidence."""
    if system in _NOT_TIMED:
        return _NOT_TIMED[system]
    way = _WAY_OF[system]
    taken = [one.ratios[way] for one in measured if one.ratios and way in one.ratios]
    return median(taken) if taken else NOTHING


def _replay(system: str, measured: list[Measured]) -> Cell:
    if system in _NO_REPLAY:
        return _NO_REPLAY[system]
    told = [one.replays[system] for one in measured if one.replays and system in one.replays]
    wrong = [text for text in told if text != BIT_EXACT]
    return wrong[0] if wrong else (f"{len(told)} of {len(told)} bit-exact" if told else NOTHING)


def systems_table(measured: list[Measured]) -> Table:
    """A row for each system, of all programs together."""
    columns = [Column("system"), *(Column(name, ",.1f") for name in ("own log", "all", "least", "most"))]
    columns += [Column("record", ".2f"), Column("replay"), Column("regions ordered")]
    columns += [Column("right", ",d"), Column("wrong", ",d"), Column("undetermined", ",d")]
    n = sum(one.logs is not None for one in measured)
    notes = [
        f"{n} runs. own log: bytes for a thousand data accesses of the cores, all runs together. all: with "
        "what the system needs besides: inputs and the kernel's accesses, but LightPlay the cores' logs for "
        "inputs; least, most: of a run.",
        "record: processor time with that log over recording by lines without evidence, median of the runs. "
        "not charged: what the locks of LEAP and Global, or ReRun's hardware, would cost is not modelled.",
        "replay: from that log, bit for bit. regions ordered: orders that the independent checker passed, of "
        "regions in which something was left to order.",
        "right, wrong, undetermined: shared reads by whether the order gives them the write that they saw.",
    ]
    table = Table("systems", "All systems on programs with threads", columns, notes)
    for system in SYSTEMS:
        logs = [one.logs for one in measured if one.logs is not None]
        each = [value for log in logs if (value := log.per_thousand(system, beside=True)) is not None]
        accesses, own = sum(log.accesses for log in logs), sum(log.bytes[system] for log in logs)
        whole = own + sum(log.beside(system) for log in logs)
        orders = [one.orders[system] for one in measured if one.orders and system in one.orders]
        table.add(
            system,
            or_nothing(_of(own, accesses, 1000)),
            or_nothing(_of(whole, accesses, 1000)),
            or_nothing(min(each, default=None)),
            or_nothing(max(each, default=None)),
            _ratio(system, measured),
            _replay(system, measured),
            *order_cells(system, orders),
        )
    return table


def bytes_table(measured: list[Measured]) -> Table:
    """A row for each program: bytes of every system's log for a thousand accesses."""
    columns = [Column("program"), Column("threads", "d"), Column("accesses", ",d")]
    columns += [Column(system, ",.1f") for system in (*SYSTEMS, *_BESIDE)]
    notes = [
        "Bytes of each system's own log for a thousand data accesses of the cores; a row is one run.",
        "inputs, kernel, cores' logs: what others need besides, see the first table; MICRO's has all that.",
        "MICRO, pages: as the recorder does it by default, which is another run; by the same accesses.",
    ]
    table = Table("systems-bytes", "All systems: bytes of log for 1,000 accesses", columns, notes)
    for one in measured:
        name, threads = one.subject.name, one.subject.cores
        if one.logs is None:
            table.add(name, threads, one.failed, *[NOTHING] * len((*SYSTEMS, *_BESIDE)))
            continue
        cells = [or_nothing(one.logs.per_thousand(system)) for system in SYSTEMS]
        more = (one.logs.inputs, one.logs.kernel, one.logs.cores, one.paged)
        cells += [or_nothing(_of(n, one.logs.accesses, 1000)) for n in more]
        table.add(name, threads, one.logs.accesses, *cells)
    return table


def cost_table(measured: list[Measured]) -> Table:
    """A row for each program: what recording costs."""
    columns = [Column("program"), Column("threads", "d"), Column("lines / bare", ".1f")]
    columns += [Column(way, ".2f") for way in list(WAYS)[1:]]
    notes = [
        "lines / bare: recording by the exact model of lines, without evidence, over the emulator without a "
        "recorder on one core. The others: over recording by lines, processor time, the least of the rounds, "
        "in which all take turns. pages: the recorder's default.",
    ]
    table = Table("systems-cost", "All systems: time to record", columns, notes)
    for one in measured:
        cells: list[Cell] = [or_nothing((one.ratios or {}).get(way)) for way in ("bare", *list(WAYS)[1:])]
        table.add(one.subject.name, one.subject.cores, *([one.failed, *cells[1:]] if one.failed else cells))
    return table


def orders_table(measured: list[Measured]) -> Table:
    """A row for each program and engine: orders found, and held against what ran."""
    columns = [Column("program"), Column("threads", "d"), Column("system"), Column("regions ordered")]
    columns += [Column("right", ",d"), Column("wrong", ",d"), Column("undetermined", ",d"), Column("replay")]
    table = Table("systems-orders", "All systems: orders", columns, ["See the first table."])
    for one in measured:
        name, threads = one.subject.name, one.subject.cores
        if one.orders is None:
            table.add(name, threads, NOTHING, one.failed, *[NOTHING] * 4)
            continue
        for system, ordered in one.orders.items():
            replay = (one.replays or {}).get(system) or _NO_REPLAY.get(system, NOTHING)
            table.add(name, threads, system, *order_cells(system, [ordered]), replay)
    return table


def all_tables(measured: list[Measured]) -> list[Table]:
    """The table of all systems, then those of each program."""
    return [table(measured) for table in (systems_table, bytes_table, cost_table, orders_table)]
