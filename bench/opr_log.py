"""OPR's log against its shadow memory and its overhead: the relation of the paper's section 8.2.4.

python -m bench oprlog
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from bench.opr import PAPER, PROGRAMS, largest_log, looks, members, seconds, shadow_bytes
from bench.programs import image
from bench.report import Column, Table, publish
from recorder.files.reader import Recording

CORES, GROUP = 16, 4
_UNITS = {"KB": 1e3, "MB": 1e6, "GB": 1e9}


def paper_relation(name: str) -> tuple[float, float] | None:
    """Of a program in the paper's Table 2: log over shadow memory, and the overhead of the largest group."""
    if name not in PAPER:
        return None
    overheads, *sizes = PAPER[name]
    shadow, log = (float(number) * _UNITS[unit] for number, unit in (size.split() for size in sizes))
    return log / shadow, float(overheads.split()[-1].rstrip("x"))


def ranks(values: list[float]) -> list[float]:
    """Each value's place among all, equal ones at their mean place."""
    order = sorted(values)
    return [order.index(one) + (order.count(one) - 1) / 2 for one in values]


def rank_correlation(one: list[float], other: list[float]) -> float | None:
    """Spearman's; None where either is the same everywhere, or there are too few."""
    if len(one) < 3 or len(set(one)) == 1 or len(set(other)) == 1:
        return None
    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


def measure(programs: tuple[str, ...], cores: int, group: int, rounds: int, folder: Path) -> list[Table]:
    """The tables. folder: for recordings, empty."""
    table = Table(
        "opr-log",
        "OPR: log, shadow memory and overhead of recording (the paper's section 8.2.4)",
        [
            Column("program"), Column("shadow, KB", ",.0f"), Column("largest log, KB", ",.1f"),
            Column("log / shadow", ".3f"), Column("overhead", ".2f"), Column("looks an instruction", ".2f"),
            Column("logged a thousand looks", ".2f"), Column("paper: log / shadow", ".3f"),
            Column("paper: overhead", ".2f"),
        ],
        [
            f"{cores} cores, a group of {group}; sizes of the member that has most, the log before "
            "compression; overhead: processor time of recording over that without the evidence, less 1, "
            f"least of {rounds}.",
            "paper: its Table 2; overhead of a group of 16, over a native run.",
        ],
    )  # fmt: skip
    related: list[tuple[float, ...]] = []
    theirs: list[tuple[float, float]] = []
    for name in programs:
        program, rset = image(name), members(group, cores)
        plain = seconds(program, cores, "", folder / f"{name}-plain", rounds)
        overhead = seconds(program, cores, rset, folder / f"{name}-group", rounds) / plain - 1
        recording = Recording.open(folder / f"{name}-group")
        shadow = shadow_bytes(program, cores, rset, folder / f"{name}-shadow") / 1e3
        log, (a_look, logged), paper = largest_log(recording) / 1e3, looks(recording), paper_relation(name)
        table.add(name, shadow, log, log / shadow, overhead, a_look, logged, *(paper or (None, None)))
        related.append((log / shadow, log, shadow, a_look, overhead))
        if paper:
            theirs.append(paper)
    columns = [list(column) for column in zip(*related, strict=True)]
    summary = Table(
        "opr-relation",
        "OPR: what goes with the overhead of recording, over programs",
        [Column("what"), Column("rank correlation with overhead", ".2f"), Column("programs", "d")],
        ["Spearman's. Paper: the larger log / shadow, the larger the overhead tends to be."],
    )
    names = ("log / shadow", "largest log", "shadow", "looks an instruction")
    for what, values in zip(names, columns, strict=False):
        summary.add(what, rank_correlation(values, columns[-1]), len(related))
    theirs_by = [list(column) for column in zip(*theirs, strict=True)] or [[], []]
    summary.add("paper: log / shadow", rank_correlation(*theirs_by), len(theirs))
    return [table, summary]


def main(console: Console, programs: tuple[str, ...] = PROGRAMS, rounds: int = 2) -> list[Table]:
    """Measure and publish."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        tables = measure(programs, CORES, GROUP, rounds, Path(folder))
    publish("oprlog", tables, console)
    return tables
