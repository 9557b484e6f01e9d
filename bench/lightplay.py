"""LightPlay's figures on our programs: the log, slices with races, searches, fixing, constraints.

Paper: Feng, Khorasani, Gupta, Bhuyan, "LightPlay: Efficient Replay with GPUs"; its Tables 1 and 2 and its
Figures 12 to 14, 16 and 18 are on PARSEC.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from bench.lightplay_c import c_search
from bench.lightplay_log import NOTHING, log_facts, record_seconds
from bench.programs import image, recorded
from bench.report import Column, Table, publish
from recorder.capture.firmware import RecordOptions
from recorder.files.reader import Recording
from solver.evidence.lightplay.decide import APART, FIXED, RELAXED, Settings
from solver.evidence.lightplay.emulate import try_ranks
from solver.evidence.lightplay.interleavings import count
from solver.evidence.lightplay.report import Report, survey
from solver.evidence.lightplay.search_cpu import processors, search_cpu
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, Instance

PROGRAMS = ("spin_ticket", "uts", "radix", "primitives", "peterson", "litmus")
CORES = (2, 4, 8)
SEEDS = (1, 2, 3)
#: Longest turn of a core, instructions: short ones, so that there are races at all on an emulator.
TURN = 400
#: Interleavings that the paper's way, all of them, is given at most for one slice.
TRIES = 1 << 21
#: (program, size) whose recording is timed.
TIMED = (("uts", "medium"), ("radix", "medium"), ("spin_ticket", ""))


@dataclass
class Searched:
    """The same slices by several back ends."""

    skip: Report
    cut: Report


def survey_both(recording: Recording) -> Searched:
    """Search a recording's slices on the CPU and over cuts."""
    tries = Settings(backend="cpu", limit=64, tries=TRIES)
    return Searched(
        survey(recording, tries, constraints=False),
        survey(recording, Settings(backend="cut"), constraints=True),
    )


def log_table(programs: tuple[str, ...], cores: tuple[int, ...], seeds: tuple[int, ...]) -> Table:
    """Bytes of the logs and slices with races: the paper's Tables 1 and 2."""
    table = Table(
        "lightplay_log",
        "LightPlay's log against a log of the total order (the paper's Tables 1 and 2)",
        [
            Column("program"), Column("cores", "d"), Column("shared accesses", ",d"), Column("slices", ",d"),
            Column("with a race %", ".2f"), Column("slices, raw", ",d"), Column("slices, LZ4", ",d"),
            Column("order, raw", ",d"), Column("order, LZ4", ",d"), Column("times", ".1f"),
            Column("times, LZ4", ".1f"), Column("runs, raw", ",d"), Column("times, runs", ".1f"),
            Column("with values, raw", ",d"), Column("with values, LZ4", ",d"),
            Column("times, with values", ".1f"), Column("times, with values, LZ4", ".1f"),
        ],
        [
            f"Slices of 16 accesses; turns of up to {TURN} instructions; sums of {len(seeds)} seeds; bytes. "
            "times: a log of the total order over that of slices; below 1 slices take more.",
            "order: of each shared access its core and its place in that core's events, as varints, which is "
            "what a replay needs. runs: the same as runs of one core, which are long here, where a core "
            "takes turns, and short on real processors: ours cannot show what the paper's Table 1 does.",
            "with values: and its value, 8 bytes. That is no part of an order, and flatters slices, whose "
            "numbers are varints; the paper's total order log has a trace of all memory instructions.",
            "Paper: 28 to 250 times smaller; races in at most 0.146% of the slices, on real processors "
            "whose threads meet far less often. A turn on an emulator is one repetition to LZ4.",
        ],
    )  # fmt: skip
    for name in programs:
        for n in cores:
            facts = []
            for seed in seeds:
                options = RecordOptions(cores=n, seed=seed, longest_slice=TURN, evidence=("slices",))
                with recorded(image(name), options) as made:
                    facts.append(log_facts(made.recording))
            slices, kept = sum(f.slices for f in facts), sum(f.kept for f in facts)
            log, order = sum((f.log for f in facts), NOTHING), sum((f.order for f in facts), NOTHING)
            valued, runs = sum((f.valued for f in facts), NOTHING), sum((f.runs for f in facts), NOTHING)
            table.add(
                name, n, sum(f.accesses for f in facts), slices, 100 * kept / max(slices, 1), log.raw,
                log.stored, order.raw, order.stored, order.raw / log.raw, order.stored / log.stored, runs.raw,
                runs.raw / log.raw, valued.raw, valued.stored, valued.raw / log.raw,
                valued.stored / log.stored,
            )  # fmt: skip
    return table


def time_table(timed: tuple[tuple[str, str], ...], cores: tuple[int, ...], rounds: int) -> Table:
    """Time to record with the evidence and without; the paper's Figure 12 has total order recording."""
    table = Table(
        "lightplay_time",
        "Time to record with slices",
        [
            Column("program"), Column("cores", "d"), Column("without, s", ".3f"), Column("with, s", ".3f"),
            Column("times", ".2f"),
        ],
        [f"Least of {rounds} runs; turns of the default length. The bound for all evidence together is 3."],
    )  # fmt: skip
    for name, size in timed:
        for n in cores:
            record_seconds(name, size, n, ("slices",), 1)
            plain, more = (record_seconds(name, size, n, e, rounds) for e in ((), ("slices",)))
            table.add(f"{name} {size}".rstrip(), n, plain, more, more / plain)
    return table


def search_table(programs: tuple[str, ...], cores: tuple[int, ...], seeds: tuple[int, ...]) -> Table:
    """Search and what follows: the paper's Figures 13, 14, 16 and 18."""
    table = Table(
        "lightplay_search",
        "Searching the slices with a race (the paper's Figures 13, 14, 16, 18)",
        [
            Column("program"), Column("cores", "d"), Column("searched", ",d"), Column("racing, mean", ".1f"),
            Column("cpu, ms a slice", ".3f"), Column("cut, ms a slice", ".3f"), Column("cuda"),
            Column("fixed %", ".1f"), Column("relaxed %", ".1f"), Column("apart %", ".1f"),
            Column("undecided", "d"), Column("constraints", ",d"), Column("always %", ".1f"),
            Column("constraints, ms a slice", ".3f"),
        ],
        [
            "cpu: permutations, passing over those that begin like one that failed; "
            f"at most {TRIES:,} a slice. cut: the search over cuts, which also counts all orders.",
            "cuda: not measured, no GPU here; the back end is tested in numba's simulator only.",
            "fixed: by Figure 7; relaxed: Figure 8; apart: beyond the paper (shares by the cut search).",
            "Paper: at most 1.5% of slices need fixing. Here a coin puts every turn's end between an access "
            "and one of its checkpoints, which is the worst case.",
        ],
    )  # fmt: skip
    for name in programs:
        for n in cores:
            found = []
            for seed in seeds:
                options = RecordOptions(cores=n, seed=seed, longest_slice=TURN, evidence=("slices",))
                with recorded(image(name), options) as made:
                    found.append(survey_both(made.recording))
            searched = sum(f.cut.searched for f in found)
            if not searched:
                continue
            racing = sum(size * k for f in found for size, k in f.cut.sizes.items()) / searched
            shares = [100 * sum(f.cut.how[how] for f in found) / searched for how in (FIXED, RELAXED, APART)]
            constraints = sum(f.cut.constraints for f in found)
            table.add(
                name, n, searched, racing,
                1e3 * sum(f.skip.search_seconds for f in found) / searched,
                1e3 * sum(f.cut.search_seconds for f in found) / searched,
                "no GPU here", *shares, sum(len(f.cut.undecided) for f in found), constraints,
                100 * sum(f.cut.always for f in found) / max(constraints, 1),
                1e3 * sum(f.cut.constraint_seconds for f in found) / searched,
            )  # fmt: skip
    return table


def random_slice(cores: int, accesses: int, *, reads: bool, seed: int = 0) -> Instance:
    """A slice of cores that take turns. reads: whether there are any; without, every interleaving is walked
    to its end."""
    rng, memory = random.Random(f"{cores}/{accesses}/{seed}"), [0, 0, 0]
    made: list[list[tuple[int, int, int, int]]] = [[] for _ in range(cores)]
    for k in range(accesses):
        g, how = rng.randrange(3), rng.choice((TAKES, GIVES, TAKES | GIVES)) if reads else GIVES
        new = rng.randrange(3) if how & GIVES else memory[g]
        made[k % cores].append((g, how, memory[g] if how & TAKES else 0, new))
        memory[g] = new
    parts = [part for core in made for part in core]
    columns = list(zip(*parts, strict=True))
    return Instance(
        np.cumsum([0] + [len(core) for core in made]).astype(np.int64),
        np.arange(accesses + 1, dtype=np.int64), np.array(columns[0], np.int32),
        np.array(columns[1], np.uint8), np.array(columns[2], np.uint64), np.array(columns[3], np.uint64),
        np.zeros(3, np.uint64), np.array(memory, np.uint64),
    )  # fmt: skip


def _least(rounds: int, work: object) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        work()  # type: ignore[operator]
        best = min(best, time.perf_counter() - began)
    return best


def speed_table(lengths: tuple[tuple[int, int], ...], rounds: int) -> Table:
    """Interleavings a second against a C loop that does the same."""
    table = Table(
        "lightplay_speed",
        "Interleavings a second, each made from its rank and emulated: numba against C",
        [
            Column("cores", "d"), Column("accesses", "d"), Column("kind"), Column("interleavings", ",d"),
            Column("numba, M/s", ".1f"), Column("C (gcc -O3), M/s", ".1f"), Column("C / numba", ".2f"),
            Column("all processors, M/s", ".1f"), Column("with skipping, M/s", ".0f"),
            Column("cut search, ms", ".3f"),
        ],
        [
            f"Least of {rounds}; one thread but for 'all processors' ({processors()} here). Both loops try "
            "every interleaving; the wish is a factor of at most 2. With skipping: the same interleavings, "
            "most of them passed over.",
        ],
    )  # fmt: skip
    with c_search() as in_c:
        for cores, accesses in lengths:
            for reads in (True, False):
                slice_ = random_slice(cores, accesses, reads=reads)
                ways, found = count(slice_.sizes), np.zeros(64, np.uint64)
                ends = np.uint64(ways), np.uint64(0), np.uint64(ways)

                def ours(
                    skip: bool, slice_: Instance = slice_, ends: tuple = ends, found: object = found
                ) -> int:  # type: ignore[type-arg]
                    return int(try_ranks(slice_, *ends, skip, 1 << 62, found)[0])

                expected = ours(False)
                numba_s = _least(rounds, lambda f=ours: f(False))
                skip_s = _least(rounds, lambda f=ours: f(True))
                all_s = _least(rounds, lambda s=slice_: search_cpu(s, skip=False))
                cut_s = _least(rounds, lambda s=slice_: _cut(s))
                c_s = float("nan")
                if in_c is not None:
                    if in_c(slice_, ways, found) != expected:
                        raise AssertionError("the C loop finds another number of correct orders")
                    c_s = _least(rounds, lambda s=slice_, w=ways, f=found: in_c(s, w, f))
                table.add(
                    cores, accesses, "reads and writes" if reads else "writes only", ways,
                    *(ways / s / 1e6 for s in (numba_s, c_s)), numba_s / c_s, ways / all_s / 1e6,
                    ways / skip_s / 1e6, 1e3 * cut_s,
                )  # fmt: skip
    return table


def _cut(instance: Instance) -> int:
    from solver.evidence.lightplay.search_cut import search_cut

    return search_cut(instance, listed=1).total


def main(
    console: Console,
    programs: tuple[str, ...] = PROGRAMS,
    cores: tuple[int, ...] = CORES,
    seeds: tuple[int, ...] = SEEDS,
    timed: tuple[tuple[str, str], ...] = TIMED,
    lengths: tuple[tuple[int, int], ...] = ((2, 22), (4, 13), (8, 10)),
    rounds: int = 3,
) -> list[Table]:
    """Measure and publish."""
    with console.status("kernels are being loaded"):
        search_table(programs[:1], cores[:1], seeds[:1])
        speed_table(((2, 6),), 1)
    tables = [
        log_table(programs, cores, seeds),
        time_table(timed, cores, rounds),
        search_table(programs, cores, seeds),
        speed_table(lengths, rounds),
    ]
    publish("lightplay", tables, console)
    return tables
