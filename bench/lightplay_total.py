"""LightPlay's slices against recording of the total order, by a model of time (the paper's Figure 12).

    python -m bench total

The emulator's cores take turns on one thread, so its time shows no waiting. This model replays what cores
did in a time of its own, as `bench/linkage_waits.py` does, whose assumptions hold here too: a core makes an
instruction a cycle, all cores run at once, whoever is first in time has the next access; a line that a core
does not have, or has to take for itself alone, costs TRANSFER cycles, an atomic instruction ATOMIC, a row of
a log LOG; the accesses are those that were recorded, without reads that only wait. Assumed besides:

- Recording the total order executes an access atomically with its row ("atomically executing an memory
  instruction with the corresponding recording instructions"): one lock for all, taken for ATOMIC cycles and
  its line, after who has it lets go; then the access; then the row. The end of the log is in the lock's
  line. `TOTAL` does so for accesses to shared words, `EVERY` for all accesses, since such a recorder does
  not know which words are shared, and the paper's Table 1 has a trace of all memory instructions.
- `SLICES` is Figure 4. Before each shared access `slice_size` is counted up by an atomic instruction: ATOMIC
  cycles, and its line, for which cores queue. The checkpoints before and after are a row each of the core's
  own log, and look at the word's line, which the access needs anyway. Who counts T + 1 waits until the
  accesses of the slice are over, looks at each word that was written in it (its line, and a row), and counts
  T back; who counts more waits for that. `APART` is the same, but the words are looked at by a thread of its
  own, as the paper's last section has it, for nothing. Whether a slice has a race is looked for by other
  threads, as in the paper, and costs nothing here.
- Nothing is charged for instrumentation itself, for compression or for memory that fills up. So the model
  says what synchronisation costs, and no more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import njit
from rich.console import Console

from bench import linkage_waits
from bench.linkage_waits import Costs, gets_line, next_core, watch
from bench.programs import image
from bench.report import Column, Table, publish
from bench.shared_accesses import Accesses, SharedAccesses
from recorder.evidence.slices.codec import DEFAULT_ACCESSES

PROGRAMS = ("uts", "ring", "radix")
CORES = (2, 4, 8)
#: Shared accesses in a slice: the recorder's, and the paper's most.
SLICE = DEFAULT_ACCESSES
COSTS = Costs(100, 20, 5)
#: Other costs, by which the table of one number of cores is repeated.
_OTHER_COSTS = (Costs(30, 20, 5), Costs(300, 20, 5), Costs(100, 20, 50), Costs(100, 20, 500))
PLAIN, TOTAL, SLICES, APART = range(4)


@njit(cache=True)
def elapsed_slices(accesses, rest, words, most, apart, costs):  # type: ignore[no-untyped-def]
    """Model a run in slices of `most` accesses. accesses: first (int64 (cores + 1,)), word (int64 (n,)),
    writes (bool (n,)), gap (int64 (n,)). words: how many. apart: whether another thread looks at words.
    Returns cycles until the last core is at its end, cycles that all cores have waited (for the counter, or
    for a slice to end), and slices that ended."""
    first, word, writes, gap = accesses
    n = first.size - 1
    owner, has = np.zeros(words, np.int16), np.zeros((words, n), np.bool_)
    count_owner, count_has = np.zeros(1, np.int16), np.zeros((1, n), np.bool_)
    at, now, waited = first[:-1].copy(), np.zeros(n, np.int64), 0
    # When the counter's line can be had; when a slice that is ending is over; when its last access was.
    free, ready, over = np.int64(0), np.int64(0), np.int64(0)
    counted, slices, updated, n_updated = 0, 0, np.empty(most, np.int64), 0
    for _ in range(word.size):
        core, time = next_core(now, at, first, gap)
        i = at[core]
        at[core] = i + 1
        waited += max(free - time, 0)
        time = max(time, free)
        time += costs.atomic + costs.transfer * gets_line(count_owner, count_has, 0, core, True)
        free = time
        if counted == most:
            waited += max(over - time, 0)
            time = max(time, over)
            for k in range(0 if apart else n_updated):
                time += costs.log + costs.transfer * gets_line(owner, has, updated[k], core, False)
            time += costs.atomic + costs.transfer * gets_line(count_owner, count_has, 0, core, True)
            free = max(free, time)
            ready, counted, slices, n_updated = time, 0, slices + 1, 0
        waited += max(ready - time, 0)
        time = max(time, ready)
        time += 2 * costs.log + costs.transfer * gets_line(owner, has, word[i], core, writes[i])
        counted += 1
        if writes[i]:
            known = False
            for k in range(n_updated):
                known = known or updated[k] == word[i]
            if not known:
                updated[n_updated] = word[i]
                n_updated += 1
        over = max(over, time)
        now[core] = time
    return (now + rest).max(), waited, slices


def model(run: SharedAccesses, way: int, costs: Costs, most: int = SLICE) -> tuple[int, int, int]:
    """Cycles of a run, cycles that its cores waited, slices."""
    if way in (PLAIN, TOTAL):
        # Every access takes a lock, as LEAP's do, and here it is one for all.
        one = replace(run, variable=np.zeros_like(run.variable))
        time, waited = linkage_waits.model(one, linkage_waits.LEAP if way else linkage_waits.PLAIN, costs)
        return time, waited, 0
    accesses, words = (run.first, run.word, run.writes, run.gap), int(run.word.max(initial=0)) + 1
    time, waited, slices = elapsed_slices(accesses, run.rest, words, most, way == APART, costs)
    return int(time), int(waited), int(slices)


def overheads(accesses: Accesses, costs: Costs) -> tuple[list[float], list[float], SharedAccesses, int]:
    """(overheads of TOTAL, EVERY, SLICES and APART; shares of time that cores wait; shared accesses; all
    accesses)."""
    shared, every = accesses.shared("word"), accesses.shared("word", private=True)
    found, waits = [], []
    for run, way in ((shared, TOTAL), (every, TOTAL), (shared, SLICES), (shared, APART)):
        plain, _, _ = model(run, PLAIN, costs)
        time, waited, _ = model(run, way, costs)
        found.append(time / plain - 1)
        waits.append(waited / (time * len(run.rest)))
    return found, waits, shared, len(every.word)


def _ratio(one: float, other: float) -> float | None:
    return one / other if other > 0 else None


def total_table() -> Table:
    """The main table, without rows."""
    return Table(
        "total",
        "LightPlay's slices against recording the total order: overhead by what cores wait for (Figure 12)",
        [
            Column("program"), Column("cores", "d"), Column("accesses", ",d"), Column("shared", ",d"),
            Column("total order", ".2f"), Column("of all accesses", ".2f"), Column("slices", ".2f"),
            Column("slices, ends apart", ".2f"), Column("total order / slices", ".1f"),
            Column("of all / apart", ".1f"), Column("total order waits", ".0%"),
            Column("of all waits", ".0%"), Column("slices wait", ".0%"), Column("apart wait", ".0%"),
        ],
        [
            "By a model (bench/lightplay_total.py says what it assumes), not measured: cycles until the last "
            "core has ended over those without a recorder, less 1. A line that another core has costs "
            f"{COSTS.transfer} cycles, an atomic instruction {COSTS.atomic}, a row of a log {COSTS.log}; "
            f"slices of {SLICE} accesses.",
            "total order: of accesses to words that two cores touch; of all accesses: of every access, as "
            "the paper's recorder, which does not know which are shared. Reads that only wait are left out. "
            "ends apart: a slice's end costs its counting core no look at words.",
            "Paper: slices are at least 20 times as fast as recording the total order (4 threads, PARSEC).",
        ],
    )  # fmt: skip


def costs_table(cores: int) -> Table:
    """The table of other costs, without rows."""
    return Table(
        "total-costs",
        "LightPlay's slices against recording the total order: the same under other costs",
        [
            Column("program"), Column("line", ",d"), Column("atomic", ",d"), Column("log", ",d"),
            Column("total order", ".2f"), Column("of all accesses", ".2f"), Column("slices", ".2f"),
            Column("slices, ends apart", ".2f"), Column("total order / slices", ".1f"),
            Column("of all / apart", ".1f"),
        ],
        [f"{cores} cores; what a line, an atomic instruction and a row of a log cost, in cycles."],
    )  # fmt: skip


def main(
    console: Console,
    programs: tuple[str, ...] = PROGRAMS,
    size: str = "medium",
    cores: tuple[int, ...] = CORES,
    varied: int = 4,
) -> list[Table]:
    """Model, print, and write bench/out/total.md and .json. varied: the number of cores for other costs."""
    table, others = total_table(), costs_table(varied)
    for name in programs:
        for n in cores:
            accesses = watch(image(name, size), n)
            found, waits, shared, every = overheads(accesses, COSTS)
            ratios = [_ratio(found[0], found[2]), _ratio(found[1], found[3])]
            table.add(name, n, every, len(shared.word), *found, *ratios, *waits)
            for costs in _OTHER_COSTS if n == varied else ():
                found, _, _, _ = overheads(accesses, costs)
                others.add(name, *costs, *found, _ratio(found[0], found[2]), _ratio(found[1], found[3]))
    publish("total", [table, others], console)
    return [table, others]
