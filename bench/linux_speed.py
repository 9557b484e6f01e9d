"""Speed of recording Linux programs: against the bare emulator, and other tools on the same programs.

Each round runs everything once, program by program, one after the other. Times of ours are processor seconds
of the run alone, kernels loaded; times of commands are processor seconds of the whole command.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.linux_programs import OURS, LinuxProgram, make_inputs, programs
from bench.linux_tools import (
    GDB_RUNS,
    RECORD,
    TOOLS,
    GdbRun,
    Ran,
    run_command,
    run_gdb,
    run_recorder,
    run_tool,
)
from bench.report import Cell, Column, Table, publish
from corebraid.base.errors import UsageError

CORES = 4
ONE, MANY = ("1 core", f"{CORES} cores")
MEANS = ("bare", *(f"{what}, {cores}" for cores in (ONE, MANY)
                   for what in ("record", "replay", "traced replay", "record mesi")))  # fmt: skip
#: Seconds that a command, or all means of ours together, may take.
_LIMIT, _MEANS_LIMIT, _GDB_LIMIT = 120.0, 300.0, 60.0
_DIFFERS = "it printed something else than natively"


@dataclass
class Measured:
    """One program: what each means of ours said, and each command, one entry a round."""

    program: LinuxProgram
    means: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    commands: dict[str, list[Ran]] = field(default_factory=dict)

    def median(self, means: str, fact: str) -> float | None:
        """Of a number that a means of ours gave; None if it has failed."""
        values = [line[fact] for line in self.means.get(means, []) if fact in line]
        return statistics.median(values) if values else None

    def mega(self, means: str) -> float | None:
        """Million instructions a second; the bare emulator's are those of a recording with one core."""
        counted = self.median("record, 1 core" if means == "bare" else means, "instructions")
        seconds = self.median(means, "run")
        return None if not counted or not seconds else counted / seconds / 1e6

    def ratio(self, means: str, yardstick: str) -> float | None:
        """Time for an instruction over the yardstick's: median of the rounds."""
        values = []
        for mine, base in zip(self.means.get(means, []), self.means.get(yardstick, []), strict=False):
            if "run" in mine and "run" in base:
                values.append(mine["run"] / base["run"])
        return statistics.median(values) if values else None

    def failures(self) -> Iterable[str]:
        """What went wrong, one line each."""
        native = {ran.digest for ran in self.commands.get("native", [])}
        for means, lines in self.means.items():
            for text in dict.fromkeys(line["failure"] for line in lines if "failure" in line):
                yield f"{self.program.name}, {means}: {text}"
            if any(line.get("printed", "") not in {"", *native} for line in lines):
                yield f"{self.program.name}, {means}: {_DIFFERS}"
        for name, runs in self.commands.items():
            for text in dict.fromkeys(ran.why for ran in runs if ran.why):
                yield f"{self.program.name}, {name}: {text}"
            if any(not ran.why and ran.digest not in native for ran in runs):
                yield f"{self.program.name}, {name}: {_DIFFERS}"


def measure_means(measured: Measured) -> None:
    """All means of ours, in one process of its own."""
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        folder = Path(scratch)
        command = [sys.executable, "-m", "bench.linux_child", scratch, ";".join(MEANS)]
        ran = run_command([*command, *measured.program.command], folder, _MEANS_LIMIT, dict(os.environ))
        lines = [json.loads(line) for line in (folder / "stdout").read_text().splitlines() if line[:1] == "{"]
    said = {line["means"]: line for line in lines}
    for name in MEANS:
        why = ran.why or f"status {ran.status}: {ran.text.strip()[-200:]}"
        measured.means.setdefault(name, []).append(said.get(name, {"failure": why}))


def measure_commands(measured: Measured, tools: Iterable[str]) -> None:
    """The same program by commands."""
    command = measured.program.command
    for name in (*tools, RECORD):
        with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
            if name == RECORD:
                ran = run_recorder(command, Path(scratch), CORES, _LIMIT)
            else:
                ran = run_tool(name, command, Path(scratch), _LIMIT)
        measured.commands.setdefault(name, []).append(ran)


def own_table(results: Iterable[Measured]) -> Table:
    """Our own means, against the bare emulator."""
    ratios = [name for name in MEANS[1:] if ONE in name] + [f"record, {MANY}"]
    table = Table(
        "linux-ratios",
        "Linux programs: time over the bare emulator's",
        [Column("program"), Column("M instr.", ".1f"), Column("calls", ".0f"), Column("bare M/s", ".0f")]
        + [Column(name, ".1f") for name in ratios],
        [
            "Bare: the same kernel and address space, no block or memory hooks, one core, tasks switched",
            "only where they wait; its speed is by the instructions of the recording with one core.",
            "Processor seconds of the run alone; median of the rounds. mesi: on the line bus.",
        ],
    )
    for one in results:
        table.add(
            one.program.name,
            _mega(one.median("record, 1 core", "instructions")),
            one.median("record, 1 core", "calls"),
            one.mega("bare"),
            *(one.ratio(name, "bare") for name in ratios),
        )
    return table


def _mega(count: float | None) -> float | None:
    return None if count is None else count / 1e6


def speed_table(results: Iterable[Measured]) -> Table:
    """Million instructions a second."""
    table = Table(
        "linux-speed",
        "Linux programs: million instructions a second, all cores together",
        [Column("program"), *(Column(name, ".1f") for name in MEANS[1:])],
        ["Cores take turns on one host thread; a replay is of every core, one after the other."],
    )
    for one in results:
        table.add(one.program.name, *(one.mega(name) for name in MEANS[1:]))
    return table


def log_table(results: Iterable[Measured]) -> Table:
    """Bytes of the logs."""
    record = f"record, {MANY}"
    table = Table(
        "linux-logs",
        f"Linux programs: logs of a recording with {MANY}",
        [
            Column("program"),
            Column("M instr.", ".1f"),
            Column("core logs kB/s", ".0f"),
            Column("core logs B/1000 instr.", ".1f"),
            Column("kernel's log B/1000 instr.", ".1f"),
            Column("whole recording MB", ".1f"),
        ],
        ["Bytes on disk, compressed; kB for each processor second of the run."],
    )
    for one in results:
        counted, seconds = one.median(record, "instructions"), one.median(record, "run")
        logs, agents = one.median(record, "core_log"), one.median(record, "agent_log")
        rates: list[Cell] = [None, None, None]
        if counted and seconds and logs is not None and agents is not None:
            rates = [logs / seconds / 1e3, logs / counted * 1e3, agents / counted * 1e3]
        table.add(one.program.name, _mega(counted), *rates, _mega(one.median(record, "whole")))
    return table


def tool_table(results: Iterable[Measured], tools: Iterable[str]) -> Table:
    """Whole commands, against each other."""
    names = [name for name in tools if name != "native"] + [RECORD]
    table = Table(
        "linux-tools",
        "Linux programs: processor seconds of whole commands, start-up included",
        [Column("program"), Column("native s", ".3f"), *(Column(f"{name} s", ".2f") for name in names)]
        + [Column(f"{RECORD} over {name}", ".2f") for name in names if name != RECORD],
        [
            f"{RECORD}: with {MANY}, start-up of Python and all included. lackey's trace goes to /dev/null.",
            "The other tools use the host's AVX where a library has such code; our guest has none.",
        ],
    )
    for one in results:
        ours = _seconds(one, RECORD)
        cells = [_shown(one, name) for name in names]
        over = [
            ours / theirs if ours and theirs else None
            for theirs in (_seconds(one, name) for name in names if name != RECORD)
        ]
        table.add(one.program.name, _shown(one, "native"), *cells, *over)
    return table


def _seconds(one: Measured, name: str) -> float | None:
    values = [ran.cpu for ran in one.commands.get(name, []) if not ran.why]
    return statistics.median(values) if values else None


def _shown(one: Measured, name: str) -> Cell:
    """Seconds, or in a word why there are none."""
    seconds = _seconds(one, name)
    if seconds is not None:
        return seconds
    why = next((ran.why for ran in one.commands.get(name, [])), "")
    return why if why == "not installed" or why.startswith("not done") else "failed"


def gdb_table(runs: Iterable[GdbRun]) -> Table:
    """gdb's recorder."""
    table = Table(
        "linux-gdb",
        "gdb `record full`, from main on",
        [Column("what"), Column("instructions", ",.0f"), Column("instr./s", ",.0f"), Column("gdb says")],
        ["No limit on the log. Wall seconds, less those of the same session without recording."],
    )
    for run in runs:
        speed = run.instructions / run.seconds if run.seconds > 0 and run.instructions else None
        table.add(run.what, run.instructions or None, speed, run.why)
    return table


def load_line() -> str:
    """What else the machine does."""
    one, five, _ = os.getloadavg()
    return f"Machine load (1 and 5 minutes): {one:.1f}, {five:.1f} on {os.cpu_count()} processors."


def choose(chosen: tuple[str, ...], folder: Path) -> tuple[list[LinuxProgram], list[str]]:
    """Programs to measure, and names of those not installed. Raises UsageError for one that there is not."""
    known = programs(folder)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise UsageError(
            "no such program in the bench",
            found=", ".join(unknown),
            remedy=f"name some of {', '.join(known)}",
        )
    wanted = [program for key, program in known.items() if not chosen or key in chosen]
    return [p for p in wanted if p.path is not None], [p.name for p in wanted if p.path is None]


def main(
    console: Console,
    rounds: int = 1,
    chosen: tuple[str, ...] = (),
    scale: float = 1.0,
    tools: tuple[str, ...] = tuple(TOOLS),
    gdb: bool = True,
    warm: bool = True,
) -> list[Table]:
    """Measure and publish. chosen: names of programs, all if empty. scale: of the inputs. warm: load kernels
    first."""
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch, console.status("") as status:
        folder = Path(scratch)
        make_inputs(folder, scale)
        present, missing = choose(chosen, folder)
        results = [Measured(program) for program in present]
        began = load_line()
        status.update("kernels are being loaded")
        if warm:
            _warm_up(folder)
        _measure_rounds(results, rounds, tools, status.update)
        status.update("gdb")
        runs = [run_gdb(k, folder, _GDB_LIMIT) for k in range(len(GDB_RUNS))] if gdb else []
    tables = [own_table(results), speed_table(results), log_table(results), tool_table(results, tools)]
    tables += [gdb_table(runs)] if gdb else []
    notes = [f"Not installed: {name}." for name in missing]
    notes += [line for one in results for line in one.failures()]
    notes += [f"At the beginning: {began}", f"At the end: {load_line()}"]
    tables[-1].notes += [f"{rounds} round(s).", *notes]
    publish("linux", tables, console)
    return tables


def _warm_up(folder: Path) -> None:
    """Compile, or load, what the command that records needs."""
    run_recorder([str(OURS / "static_hello")], folder, CORES, _MEANS_LIMIT)


def _measure_rounds(
    results: list[Measured], rounds: int, tools: tuple[str, ...], say: Callable[[str], None]
) -> None:
    for number in range(rounds):
        for one in results:
            say(f"round {number + 1} of {rounds}: {one.program.name}")
            measure_means(one)
            measure_commands(one, tools)
