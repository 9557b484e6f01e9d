"""What is measured for the page, and in which order; the page as files."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from rich.console import Console

from bench import report
from bench.linux_programs import OURS, tool
from bench.linux_speed import gdb_table
from bench.linux_tools import GDB_RUNS, TOOLS, run_gdb
from bench.page.cost import Cost, cost_of
from bench.page.emulator import emulator_table
from bench.page.plots import draw_bars, draw_lines, need_matplotlib
from bench.page.stages import STAGES, Measured, measure
from bench.page.subjects import Subject, compressors, firmware, make_text, rays
from bench.page.tables import TOOL_HEADS, growth_table, log_table, stage_tables, tool_table
from bench.report import Column, Table, publish
from corebraid.base.errors import UsageError

WIDTH = 80


@dataclass(frozen=True)
class Scale:
    """How much is measured. firmware: beside the emulator; size: of those images. text: kilobytes that
    compressors get. programs: only these, all if empty. cores: of the growth in cores, of the program
    `grown`. sides: of pictures, one after the other longer. tools: of `TOOLS`. limit: seconds for a command.
    gdb: whether it is tried."""

    firmware: tuple[str, ...] = ("uts", "matmul", "radix", "nqueens", "laplace")
    size: str = "large"
    text: int = 250
    programs: tuple[str, ...] = ()
    cores: tuple[int, ...] = (1, 2, 4, 8, 16)
    grown: str = "uts"
    sides: tuple[int, ...] = (30, 95, 300, 950, 3000)
    tools: tuple[str, ...] = tuple(TOOLS)
    limit: float = 600.0
    gdb: bool = True


FULL = Scale()
#: Pictures of more points than this are measured once.
_LONG = 500


def _tool_costs(measured: Measured, name: str, limit: float, folder: Path) -> None:
    words = TOOLS[name]
    found = tool(words[0]) if words else ""
    if found is None:
        measured.add(name, Cost(why="missing"))
        return
    command = [*([found, *words[1:]] if found else []), *measured.subject.command]
    measured.add(name, cost_of(command, limit, {}, folder / "printed"))


def _programs(folder: Path, scale: Scale, rounds: int, say: Callable[[str], None]) -> list[Table]:
    """Linux programs and firmware through every stage, on both buses, beside other tools."""
    text = make_text(folder, scale.text)
    linux = [*compressors(text), rays(scale.sides[len(scale.sides) // 2])]
    linux.append(Subject("histogram", (str(OURS / "histogram"),)))
    every = [*linux, firmware("uts", size=scale.size), firmware("radix", size=scale.size)]
    subjects = [one for one in every if not scale.programs or one.name in scale.programs]
    if unknown := set(scale.programs) - {one.name for one in subjects}:
        known = ", ".join(one.name for one in every)
        raise UsageError(
            "no such program in the bench", found=", ".join(sorted(unknown)), remedy=f"name some of {known}"
        )
    paged = [Measured(one) for one in subjects]
    lined = [Measured(one.on(bus="mesi")) for one in subjects]
    for number in range(rounds):
        for page, line in zip(paged, lined, strict=True):
            say(f"round {number + 1} of {rounds}: {page.subject.name}")
            for name in scale.tools if page.subject.linux else ():
                _tool_costs(page, name, scale.limit, folder)
            measure(page, folder / "rec", limit=scale.limit)
            measure(line, folder / "rec", limit=scale.limit)
            page.costs["record mesi"] = line.costs["record"]
    tools = tool_table([one for one in paged if one.subject.linux])
    both = (paged, lined)
    return [tools, *chain(*map(stage_tables, both)), *map(log_table, both)]


def _growth(folder: Path, scale: Scale, rounds: int, say: Callable[[str], None]) -> list[Table]:
    """More cores, and longer runs."""
    wanted = ("replay", "order", "verify")
    by_cores = [Measured(firmware(scale.grown, cores, scale.size)) for cores in scale.cores]
    by_length = [Measured(rays(side)) for side in scale.sides]
    for number in range(rounds):
        for one in [*by_cores, *by_length]:
            if number == 0 or one.subject not in [rays(side) for side in scale.sides if side > _LONG]:
                say(f"round {number + 1} of {rounds}: {one.subject.name}, {one.subject.cores} cores")
                measure(one, folder / "rec", wanted, scale.limit)
    first = Column("cores", ",d")
    return [
        growth_table(
            "cores", f"More cores: {scale.grown}", first, [(one.subject.cores, one) for one in by_cores]
        ),
        growth_table(
            "length",
            "Longer runs: a picture by four threads on four cores",
            Column("k points", ",.1f"),
            [(side * side / 1000, one) for side, one in zip(scale.sides, by_length, strict=True)],
        ),
    ]


def _draw(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Plots of some, beside the page."""
    by_key, unit = {table.key: table for table in tables}, "processor seconds"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"page-{name}.svg" for name in ("tools", "stages", "cores", "length")]
    draw_bars(by_key["tools"], (*TOOL_HEADS.values(), "record", "mesi", "replay"), unit, paths[0])
    draw_bars(by_key["stages-page"], ("record", *STAGES), unit, paths[1])
    grown = ("record", "replay", "order", "verify")
    draw_lines(by_key["cores"], "cores", grown, unit, paths[2])
    draw_lines(by_key["length"], "M instr", grown, unit, paths[3])
    return paths


def text_of(tables: Sequence[Table]) -> str:
    """The page as text, no line of which is wider than `WIDTH`."""
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, legacy_windows=False)
    for table in tables:
        table.print(console, plain=True)
        console.print()
    return out.getvalue()


def main(console: Console, rounds: int = 3, chosen: tuple[str, ...] = (), scale: Scale = FULL) -> list[Table]:
    """Measure and publish: tables as the others, a text of 80 columns, and plots. chosen: names of programs,
    all if empty. Raises UsageError."""
    need_matplotlib()
    scale = replace(scale, programs=chosen or scale.programs)
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch, console.status("") as status:
        folder = Path(scratch)
        status.update("kernels are being loaded")
        for one in (firmware("uts", 2, ""), rays(30)):
            measure(Measured(one), folder / "rec")
            measure(Measured(one.on(bus="mesi")), folder / "rec")
        tables = [emulator_table(scale.firmware, rounds, status.update, scale.size)]
        tables += _programs(folder, scale, rounds, status.update)
        tables += _growth(folder, scale, rounds, status.update)
        if scale.gdb:
            status.update("gdb")
            tables.append(gdb_table([run_gdb(k, folder, 60.0) for k in range(len(GDB_RUNS))]))
    tables[-1].notes.append(f"{rounds} round(s), {os.cpu_count()} processors; longest pictures once.")
    publish("page", tables, console)
    (report.OUT / "page.txt").write_text(text_of(tables), encoding="utf-8")
    plots = ", ".join(path.name for path in _draw(tables, report.OUT))
    console.print(f"and to page.txt, {plots}", highlight=False)
    return tables
