"""The search of slices by device, and where a GPU's time goes: the paper's Figures 14 and 15.

    python -m bench devices

All devices try every interleaving of the same slices, those of recordings, as the paper does: plain Python,
the numba kernel on one thread and on two, the loop in C, and the CUDA back end where there is a GPU. What
they find is compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from bench.lightplay_c import c_search
from bench.programs import image, recorded
from bench.report import Cell, Column, Table, publish
from corebraid.base.errors import UsageError
from recorder.capture.firmware import RecordOptions
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.lightplay.decide import Decided, Settings
from solver.evidence.lightplay.emulate import try_ranks
from solver.evidence.lightplay.engine import SlicesEngine
from solver.evidence.lightplay.interleavings import count
from solver.evidence.lightplay.search_cuda import PHASES, cuda_module, search_cuda
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, Instance
from solver.passes.unfiltered import iter_problems

PROGRAMS = ("spin_ticket", "uts", "peterson", "litmus")
CORES, SEEDS, TURN = 4, (1, 2, 3), 400
THREADS = 2
#: Slices by how many interleavings they have, at least and at most, and how many a row has in all at most.
#: What is larger than the first class is too much for plain Python.
CLASSES = ((1 << 6, 1 << 12, 1 << 17), (1 << 14, 1 << 22, 1 << 25))
NO_GPU, SIMULATOR = "no GPU here", "simulator"


def device() -> str:
    """Why there are no figures of a GPU; nothing where there is one."""
    try:
        cuda_module()
    except UsageError:
        return NO_GPU
    from numba import config

    return SIMULATOR if config.ENABLE_CUDASIM else ""


def slices_of(recording: Recording) -> list[Instance]:
    """The slices of a recording in which accesses race."""
    found: list[Instance] = []

    def take(decided: Decided, _: Any) -> None:
        if decided.problem.n:
            found.append(decided.problem.paired())

    engine = SlicesEngine.of(recording, Settings(), take)
    for region, problem in iter_problems(RecordingTraces(recording, None)):
        engine.solve(region, problem)
    return found


def chosen(slices: list[Instance], low: int, high: int, most: int) -> list[Instance]:
    """Those of `low` to `high` interleavings, in order, as long as they have no more than `most` in all."""
    found, total = [], 0
    for one in slices:
        ways = count(one.sizes)
        if low <= ways <= high and total + ways <= most:
            found.append(one)
            total += ways
    return found


def python_search(instance: Instance) -> int:
    """Correct interleavings of a slice by numbers and lists of plain Python: each made from its rank,
    emulated until something does not fit."""
    sizes, n = instance.sizes, instance.n
    first, part_ptr = instance.core_ptr.tolist(), instance.part_ptr.tolist()
    parts = list(
        zip(*(column.tolist() for column in (instance.place, instance.how, instance.before, instance.after)),
            strict=True)
    )  # fmt: skip
    initial, final, all_ways, correct = instance.initial.tolist(), instance.final.tolist(), count(sizes), 0
    for number in range(all_ways):
        rank, ways, left, memory, fits = number, all_ways, list(sizes), list(initial), True
        for remaining in range(n, 0, -1):
            core = 0
            here = ways * left[0] // remaining
            while rank >= here:
                rank -= here
                core += 1
                here = ways * left[core] // remaining
            ways = here
            op = first[core + 1] - left[core]
            left[core] -= 1
            for place, how, before, after in parts[part_ptr[op] : part_ptr[op + 1]]:
                if how & TAKES and memory[place] != before:
                    fits = False
                    break
                if how & GIVES:
                    memory[place] = after
            if not fits:
                break
        correct += fits and memory == final
    return correct


def numba_search(instance: Instance) -> int:
    """The same by the kernel, on one thread, none passed over."""
    ways = np.uint64(count(instance.sizes))
    return int(try_ranks(instance, ways, np.uint64(0), ways, False, 1 << 62, np.zeros(1, np.uint64))[0])


def _timed(work: Callable[[], list[int]], expected: list[int] | None, rounds: int) -> tuple[float, list[int]]:
    """Least seconds, and what was found. Raises AssertionError if that is not what was expected."""
    best, found = float("inf"), []
    for _ in range(rounds):
        began = time.perf_counter()
        found = work()
        best = min(best, time.perf_counter() - began)
    if expected is not None and found != expected:
        raise AssertionError("a device finds another number of correct orders")
    return best, found


def _row(slices: list[Instance], in_c: Any, plain: bool, where: str, rounds: int) -> list[Cell]:
    """Milliseconds by device. plain: with plain Python. where: of `device`."""
    numba_s, expected = _timed(lambda: [numba_search(one) for one in slices], None, rounds)
    cells: list[Cell] = [None]
    if plain:
        python_s, _ = _timed(lambda: [python_search(one) for one in slices], expected, 1)
        cells = [1e3 * python_s]
    with ThreadPoolExecutor(THREADS) as pool:
        # The longest slices first, so that no thread is left with one at the end.
        order = sorted(range(len(slices)), key=lambda k: -count(slices[k].sizes))

        def shared_out() -> list[int]:
            found = dict(zip(order, pool.map(numba_search, [slices[k] for k in order]), strict=True))
            return [found[k] for k in range(len(slices))]

        threads_s, _ = _timed(shared_out, expected, rounds)
    c_s: float | None = None
    if in_c is not None:
        room = np.zeros(1, np.uint64)
        run = partial(lambda: [in_c(one, count(one.sizes), room) for one in slices])
        c_s, _ = _timed(run, expected, rounds)
    cells += [1e3 * numba_s, 1e3 * threads_s, None if c_s is None else 1e3 * c_s]
    if where:
        return [*cells, where, None]
    search_cuda(slices)
    cuda_s, _ = _timed(lambda: [one.total for one in search_cuda(slices)], expected, rounds)
    return [*cells, 1e3 * cuda_s, threads_s / cuda_s]


def devices_table(
    slices: dict[str, list[Instance]], classes: tuple[tuple[int, int, int], ...], rounds: int
) -> Table:
    """The paper's Figure 14."""
    table = Table(
        "devices",
        "Searching the same slices by device, every interleaving tried (the paper's Figure 14)",
        [
            Column("program"), Column("interleavings a slice"), Column("slices", ",d"),
            Column("interleavings", ",d"), Column("Python, ms", ",.1f"), Column("numba, ms", ",.2f"),
            Column(f"numba, {THREADS} threads, ms", ",.2f"), Column("C, ms", ",.2f"),
            Column("CUDA, ms", ",.2f"), Column("threads / CUDA", ",.1f"),
        ],
        [
            f"{CORES} cores, {len(SEEDS)} seeds, turns of up to {TURN} instructions; least of {rounds}. "
            "Python, numba and C (gcc -O3) on one thread, slices shared out to threads. CUDA: one GPU, "
            "kernels compiled before.",
            "Python: left out where it takes too long. Paper: two GPUs are 28 times as fast as 8 threads.",
        ],
    )  # fmt: skip
    where = device()
    with c_search() as in_c:
        for name, all_of_them in slices.items():
            for number, (low, high, most) in enumerate(classes):
                mine = chosen(all_of_them, low, high, most)
                if mine:
                    total = sum(count(one.sizes) for one in mine)
                    cells = _row(mine, in_c, number == 0, where, rounds)
                    table.add(name, f"{low:,} to {high:,}", len(mine), total, *cells)
    return table


def phases_table(
    slices: dict[str, list[Instance]], classes: tuple[tuple[int, int, int], ...], *, simulated: bool = False
) -> Table:
    """The paper's Figure 15. simulated: in numba's simulator, too, where the figures mean nothing."""
    table = Table(
        "phases",
        "Where the GPU's time goes, one batch after the other (the paper's Figure 15)",
        [
            Column("program"), Column("slices", ",d"), Column("interleavings", ",d"),
            *(Column(f"{name}, ms", ",.2f") for name in PHASES), Column("kernel %", ".1f"),
        ],
        [
            "pack: slices put together on the host; copy: to the device; launch: until the launch returns; "
            "kernel: until the device is done; collect: ranks back, made into orders. Each is waited for, so "
            "none overlaps. kernel %: of all but pack. Paper: over 96%.",
        ],
    )  # fmt: skip
    where = device()
    for name, all_of_them in slices.items():
        mine = [one for low, high, most in classes for one in chosen(all_of_them, low, high, most)]
        if not mine:
            continue
        total = sum(count(one.sizes) for one in mine)
        if where == NO_GPU or (where and not simulated):
            table.add(name, len(mine), total, *[where] * len(PHASES), None)
            continue
        search_cuda(mine)
        phases: dict[str, float] = {}
        search_cuda(mine, phases=phases)
        rest = sum(phases.values()) - phases["pack"]
        table.add(name, len(mine), total, *(1e3 * phases[p] for p in PHASES), 100 * phases["kernel"] / rest)
    return table


def main(
    console: Console,
    programs: tuple[str, ...] = PROGRAMS,
    cores: int = CORES,
    seeds: tuple[int, ...] = SEEDS,
    classes: tuple[tuple[int, int, int], ...] = CLASSES,
    rounds: int = 3,
) -> list[Table]:
    """Measure, print, and write bench/out/devices.md and .json."""
    slices: dict[str, list[Instance]] = {}
    for name in programs:
        for seed in seeds:
            options = RecordOptions(cores=cores, seed=seed, longest_slice=TURN, evidence=("slices",))
            with recorded(image(name), options) as made:
                slices.setdefault(name, []).extend(slices_of(made.recording))
    tables = [devices_table(slices, classes, rounds), phases_table(slices, classes)]
    publish("devices", tables, console)
    return tables
