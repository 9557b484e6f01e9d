"""What recording makes cores wait for: LEAP, Global and Stride by a model of time, over 2 to 16 cores.

    python -m bench waits

The emulator's cores take turns on one thread, so its time shows no waiting for locks. This model replays what
cores did to shared variables in a time of its own; the Stride paper measures the real thing (Table II, Figure
6). Assumed:

- A core makes an instruction a cycle. All cores run at once; whoever is first in time has the next access.
  What they read does not depend on it: the accesses are those that were recorded, reads that only wait left
  out.
- Each word, and each variable's lock with its version and the end of its log, is a cache line of its own, in
  caches that are never full. A line that a core does not have, or has to take for itself alone, costs
  TRANSFER cycles.
- To take a lock costs ATOMIC cycles and its line, after who has it lets go. To write to a log costs LOG
  cycles.
- LEAP locks the variable around each access. Stride locks it around each write; after a read it looks at the
  version, which is in the lock's line. Global has one lock and one version for all variables.
- Nothing else is charged: neither the compression of logs, nor the memory that they fill.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit
from rich.console import Console

from bench.programs import image
from bench.report import Column, Table, publish
from bench.shared_accesses import Accesses, SharedAccesses
from bench.watching import guest_of
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, RecordOptions

PROGRAMS = ("uts", "radix", "laplace", "nqueens", "matmul", "ring")
CORES = (2, 4, 8, 16)
GROUPS = ("word", "symbol")
PLAIN, LEAP, GLOBAL, STRIDE = range(4)
_WAYS = (("LEAP", LEAP), ("Global", GLOBAL), ("Stride", STRIDE))


class Costs(NamedTuple):
    """Cycles: of a line that another core has, of an atomic instruction, of a row of a log."""

    transfer: int
    atomic: int
    log: int


COSTS = Costs(100, 20, 5)
_OTHER_COSTS = (Costs(30, 20, 5), Costs(300, 20, 5), Costs(100, 20, 50))


@njit(cache=True)
def gets_line(owner, has, line, core, alone):  # type: ignore[no-untyped-def]
    """Whether the core has to get the line, to read or for itself alone. It has it afterwards. owner: int16
    (lines,), 1 + who has it alone. has: bool (lines, cores)."""
    if alone:
        if owner[line] == core + 1:
            return False
        has[line, :] = False
        owner[line] = core + 1
        has[line, core] = True
        return True
    if has[line, core]:
        return False
    owner[line] = 0
    has[line, core] = True
    return True


@njit(cache=True)
def next_core(now, at, first, gap):  # type: ignore[no-untyped-def]
    """Which core has the next access, and when."""
    core, begins = -1, np.int64(1) << 62
    for k in range(now.size):
        if at[k] < first[k + 1] and now[k] + gap[at[k]] < begins:
            core, begins = k, now[k] + gap[at[k]]
    return core, begins


@njit(cache=True)
def elapsed(accesses, rest, n_lines, way, costs):  # type: ignore[no-untyped-def]
    """Model a run. accesses: first (int64 (cores + 1,)), word, variable (int64 (n,)), writes (bool (n,)), gap
    (int64 (n,)). n_lines: words, and variables. way: a recorder, or PLAIN. Returns cycles until the last core
    is at its end, and cycles that all cores have waited for a lock that another had."""
    first, word, variable, writes, gap = accesses
    n = first.size - 1
    owner, has = np.zeros(n_lines[0], np.int16), np.zeros((n_lines[0], n), np.bool_)
    lock_owner, lock_has = np.zeros(n_lines[1], np.int16), np.zeros((n_lines[1], n), np.bool_)
    free = np.zeros(n_lines[1], np.int64)
    at, now, waited = first[:-1].copy(), np.zeros(n, np.int64), 0
    for _ in range(word.size):
        core, begins = next_core(now, at, first, gap)
        i = at[core]
        at[core] = i + 1
        lock = 0 if way == GLOBAL else variable[i]
        locks = way == LEAP or (way != PLAIN and writes[i])
        time = begins
        if locks:
            time = max(time, free[lock])
            waited += time - begins
            time += costs.atomic + costs.transfer * gets_line(lock_owner, lock_has, lock, core, True)
        time += costs.transfer * gets_line(owner, has, word[i], core, writes[i])
        if way != PLAIN:
            time += costs.log
            if locks:
                free[lock] = time
            else:
                time += costs.transfer * gets_line(lock_owner, lock_has, lock, core, False)
        now[core] = time
    return (now + rest).max(), waited


def model(shared: SharedAccesses, way: int, costs: Costs) -> tuple[int, int]:
    """`elapsed` of a run."""
    accesses = (shared.first, shared.word, shared.variable, shared.writes, shared.gap)
    lines = (int(shared.word.max(initial=0)) + 1, int(shared.variable.max(initial=0)) + 1)
    time, waited = elapsed(accesses, shared.rest, lines, way, costs)
    return int(time), int(waited)


def watch(program: Path, cores: int) -> Accesses:
    """Record a program, and keep what its cores did."""
    options = RecordOptions(cores=cores, seed=1, longest_slice=1000)
    accesses = Accesses(guest_of(program, options))
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        capture = Capture(program, Path(folder) / "rec", X86_64, options, lambda _: None, (accesses,))
        with capture.writer:
            capture.run()
    return accesses


def waits_table() -> Table:
    """The main table, without rows."""
    columns = [Column("program"), Column("variable"), Column("cores", ",d"), Column("shared accesses", ",d")]
    columns += [Column("reads", ".0%"), Column("M cycles", ",.2f")]
    columns += [Column(name, ".2f") for name, _ in _WAYS]
    columns += [Column("LEAP / Stride", ",.1f"), Column("Global / Stride", ",.1f")]
    columns += [Column(f"{name} waits", ".0%") for name, _ in _WAYS]
    notes = [
        "By a model (bench/linkage_waits.py says what it assumes), not measured: cycles until the last core "
        "has ended over those without a recorder, less 1. A line that another core has costs "
        f"{COSTS.transfer} cycles, an atomic instruction {COSTS.atomic}, a row of a log {COSTS.log}.",
        "shared accesses: to variables that two cores touch, without reads that only wait. waits: share of "
        "all cores' time in which they wait for who has the lock.",
    ]
    return Table(
        "waits", "Stride, LEAP, Global: overhead of recording by what cores wait for", columns, notes
    )


def costs_table(cores: int) -> Table:
    """The table of other costs, without rows."""
    columns = [Column("program"), Column("variable"), Column("line", ",d"), Column("atomic", ",d")]
    columns += [Column("log", ",d"), *(Column(name, ".2f") for name, _ in _WAYS)]
    columns += [Column("LEAP / Stride", ",.1f"), Column("Global / Stride", ",.1f")]
    notes = [f"{cores} cores; what a line, an atomic instruction and a row of a log cost, in cycles."]
    return Table("waits-costs", "Stride, LEAP, Global: the same under other costs", columns, notes)


def _overheads(shared: SharedAccesses, costs: Costs) -> tuple[int, list[float], list[float]]:
    """Cycles without a recorder; overheads; shares of time that is waited."""
    plain, _ = model(shared, PLAIN, costs)
    found = [model(shared, way, costs) for _, way in _WAYS]
    n = len(shared.rest)
    return plain, [time / plain - 1 for time, _ in found], [waited / (time * n) for time, waited in found]


def _ratios(overheads: list[float]) -> list[float | None]:
    """LEAP and Global over Stride."""
    return [one / overheads[2] if overheads[2] > 0 else None for one in overheads[:2]]


def main(
    console: Console,
    programs: tuple[str, ...] = PROGRAMS,
    size: str = "medium",
    cores: tuple[int, ...] = CORES,
    varied: int = 8,
) -> list[Table]:
    """Model, print, and write bench/out/waits.md and .json. varied: the number of cores for other costs."""
    table, others = waits_table(), costs_table(varied)
    for name in programs:
        for n in cores:
            accesses = watch(image(name, size), n)
            for group in GROUPS:
                shared = accesses.shared(group)
                plain, overheads, waits = _overheads(shared, COSTS)
                reads = 1 - float(shared.writes.mean()) if len(shared.writes) else 0.0
                row = (name, group, n, len(shared.word), reads, plain / 1e6)
                table.add(*row, *overheads, *_ratios(overheads), *waits)
                for costs in _OTHER_COSTS if n == varied else ():
                    _, overheads, _ = _overheads(shared, costs)
                    others.add(name, group, *costs, *overheads, *_ratios(overheads))
    publish("waits", [table, others], console)
    return [table, others]
