"""MICRO 2009, Figures 8 and 9, in numbers: the log of strata against ReRun's, why ReRun's episodes end, and
what recording costs.

    python -m bench rerun
"""

from __future__ import annotations

from rich.console import Console

from bench.logsize import log_bytes
from bench.programs import image, recorded
from bench.report import Column, Table, publish
from bench.rerun import (
    AT_END,
    CONFLICTS,
    ENTRIES,
    EVICTED,
    FALSE_CONFLICTS,
    FALSELY_EVICTED,
    FULL,
    HASHES,
    READ_BYTES,
    REQUESTS,
    WRITE_BYTES,
    Rerun,
)
from bench.slowdown import slowdown
from bench.watching import Watched, guest_of
from emu.bus.cache import CacheGeometry
from recorder.capture.firmware import RecordOptions
from recorder.files.collectors import Guest

PROGRAMS = ("uts", "radix", "laplace", "matmul", "ring")
CORES = (2, 4, 8)
#: The paper's L1 cache (Table 1).
CACHE = "32k:4:32"
#: How ReRun is recorded: see `Rerun`, bits of a line in a filter, and whether all cores are asked.
WAYS = {
    "ideal": (0, False),
    "Bloom": (HASHES, False),
    "Bloom, 1 bit": (1, False),
    "ideal, all asked": (0, True),
    "Bloom, all asked": (HASHES, True),
}
#: Those that are held against strata.
_RATIOS = ("ideal", "Bloom", "Bloom, all asked")


def rerun_watchers(guest: Guest, cache: CacheGeometry) -> dict[str, Rerun]:
    """A recorder of each way, by its name in WAYS."""
    return {name: Rerun(guest, cache, hashes, snooped) for name, (hashes, snooped) in WAYS.items()}


def rerun_tables() -> tuple[Table, Table]:
    """The tables, without rows."""
    return _sizes(), _ends()


def _sizes() -> Table:
    columns = [Column("program"), Column("cores", ",d"), Column("M accesses", ".1f")]
    columns += [Column(name, ".2f") for name in ("strata", *(f"ReRun, {way}" for way in WAYS))]
    columns += [Column(f"{way} / strata", ".2f") for way in _RATIOS]
    notes = [
        "Bytes of log for a thousand memory accesses; strata every 100,000 cycles. Bloom: filters of "
        f"{READ_BYTES} bytes for reads and {WRITE_BYTES} for writes, Jenkins' lookup3, {HASHES} bits a line "
        "(1 bit: one); the paper names the sizes and Jenkins, not the bits.",
        "A core's sets are asked when its cache answers a request of the bus, a miss or an upgrade; its "
        "episode ends as well when a line that they hold is pushed out of its cache. All asked: as on a bus "
        "that everybody listens to, where each request asks all cores and evictions end nothing. The paper "
        "says that evictions could end episodes, which is either; the fairer to ReRun is the smaller one.",
        "An entry is 2 bytes of length and 2 or more of time stamp. This is what the MICRO paper says of "
        "ReRun; ReRun's own paper was not followed.",
        "The paper (Figure 8, 8 cores): about 10 for strata, ReRun ten times as much. Its cores run at the "
        "same time; ours take turns of up to 1,000 instructions, so that few episodes end early.",
    ]
    return Table("rerun", "MICRO 2009, Figure 8: strata against ReRun's race log", columns, notes)


def _ends() -> Table:
    columns = [Column("program"), Column("cores", ",d"), Column("requests", ".2f"), Column("episodes", ",d")]
    names = ("conflict", "false conflict", "eviction", "false eviction", "full")
    columns += [Column(name, ".1%") for name in names]
    columns += [Column("ideal: episodes", ",d"), Column("ideal: evictions", ".1%")]
    notes = [
        "requests: misses and upgrades for a thousand accesses. Shares of the episodes of ReRun, Bloom, by "
        "what ended them: a conflict or an eviction of a line that the episode had used; one that the "
        "filters only said it had, by the exact sets kept beside them; 65,535 references. What is left ended "
        "with the run.",
        "ideal: the same with exact sets, which say nothing false.",
    ]
    return Table("rerun-ends", "ReRun: what ends an episode", columns, notes)


def add_rerun(
    tables: tuple[Table, Table], name: str, cores: int, accesses: int, strata: int, reruns: dict[str, Rerun]
) -> None:
    """A row of each. strata: bytes of their log."""
    sizes, ends = tables
    per = 1000 / accesses
    found = {way: rerun.bytes * per for way, rerun in reruns.items()}
    ratios = (found[way] / (strata * per) if strata else None for way in _RATIOS)
    sizes.add(name, cores, accesses / 1e6, strata * per, *found.values(), *ratios)
    bloom, ideal = (reruns[way].episodes.counts.tolist() for way in ("Bloom", "ideal"))
    shares = (
        bloom[why] / bloom[ENTRIES] for why in (CONFLICTS, FALSE_CONFLICTS, EVICTED, FALSELY_EVICTED, FULL)
    )
    assert sum(bloom[CONFLICTS : AT_END + 1]) == bloom[ENTRIES]
    ends.add(
        name,
        cores,
        bloom[REQUESTS] * per,
        bloom[ENTRIES],
        *shares,
        ideal[ENTRIES],
        ideal[EVICTED] / ideal[ENTRIES],
    )


def costs_table() -> Table:
    """The table of Figure 9, without rows."""
    columns = [Column("program"), Column("cores", ",d"), Column("plain", ".2%"), Column("prioritised", ".2%")]
    notes = [
        "The paper, 8 cores: 1.3% on average, 0.99% where log writes wait for others.",
        "Worked out from the log (bench/slowdown.py): one link, whose requests change their order where "
        "writes of the log delay some. So what is near 0 can come out below it: no recording is faster than "
        "none.",
    ]
    return Table("slowdown", "MICRO 2009, Figure 9: modelled slowdown of recording", columns, notes)


def main(
    console: Console,
    programs: tuple[str, ...] = PROGRAMS,
    cores: tuple[int, ...] = CORES,
    size: str = "medium",
) -> list[Table]:
    """Measure, print, and write bench/out/rerun.md and .json."""
    logs, costs = rerun_tables(), costs_table()
    for name in programs:
        for n in cores:
            program = image(name, size)
            # Short turns, as cores that run at the same time would interleave.
            options = RecordOptions(cores=n, seed=1, cache=CacheGeometry.parse(CACHE), longest_slice=1000)
            watched, reruns = Watched(), rerun_watchers(guest_of(program, options), options.cache)
            with recorded(program, options, (watched, *reruns.values())) as run:
                add_rerun(logs, name, n, watched.events, log_bytes(run.recording).strata, reruns)
                cost = slowdown(run)
                costs.add(name, n, cost.plain, cost.prioritised)
    tables = [*logs, costs]
    publish("rerun", tables, console)
    return tables
