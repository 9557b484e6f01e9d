"""ReRun's recorder and its caches, against naive twins, the machine's own caches, and the order that its log
gives."""

from __future__ import annotations

import io
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linkage_factory import guest
from rich.console import Console

from bench import report, rerun_tables
from bench.bloom import has, jenkins, put
from bench.private_caches import EVICTIONS, MISSES, UPGRADES
from bench.programs import image, recorded, total_of
from bench.rerun import (
    AT_END,
    BYTES,
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
from bench.watching import guest_of
from corebraid.base.rows.event import EVENT, READ, RMW, UNCACHED, WRITE
from emu.bus.cache import CacheGeometry
from recorder.capture.firmware import RecordOptions

N_CORES = 3
#: 64 lines of 64 bytes.
SMALL = CacheGeometry.parse("4k:2:64")


def turns(seed: int, lines: int = 60, n: int = 150) -> list[tuple[int, Any]]:
    """Turns of cores and agents (stream N_CORES) over many lines, most of them some core's own."""
    draw = random.Random(seed)
    made = []
    for _ in range(n):
        stream = draw.choice((*range(N_CORES), *range(N_CORES), N_CORES))
        rows = np.zeros(draw.randint(1, 30), EVENT)
        for row in rows:
            line = draw.randrange(lines) if draw.random() < 0.2 else lines + stream * 30 + draw.randrange(30)
            row["size"] = draw.choice((1, 4, 8))
            row["addr"] = 64 * line + draw.choice((0, 8, 60))
            row["kind"] = draw.choice((READ, READ, READ, WRITE, RMW))
            row["flags"] = UNCACHED if draw.random() < 0.03 else 0
        made.append((stream, rows))
    return made


def watched(made: list[tuple[int, Any]], rerun: Rerun) -> Rerun:
    """The recorder after these turns."""
    for stream, rows in made:
        rerun.take(stream, rows)
    rerun.finish()
    return rerun


def accesses(made: list[tuple[int, Any]]) -> list[tuple[int, str, list[int]]]:
    """(stream, what it does: "R", "W", "RW", the lines) of every cached access, in order."""
    found = []
    for stream, rows in made:
        for row in rows[(rows["flags"] & UNCACHED) == 0]:
            first, last = int(row["addr"]) >> 6, (int(row["addr"]) + int(row["size"]) - 1) >> 6
            does = {READ: "R", WRITE: "W", RMW: "RW"}[int(row["kind"])]
            found.append((stream, does, list(range(first, last + 1))))
    return found


def hashlittle(data: bytes) -> tuple[int, int]:
    """lookup3's hashlittle2, (c, b), as its author publishes it, for lengths that are no multiple of 12."""

    def rot(x: int, k: int) -> int:
        return ((x << k) | (x >> (32 - k))) & 0xFFFFFFFF

    m = 0xFFFFFFFF
    a = b = c = (0xDEADBEEF + len(data)) & m
    while len(data) > 12:
        k = [int.from_bytes(data[i : i + 4], "little") for i in (0, 4, 8)]
        a, b, c = (a + k[0]) & m, (b + k[1]) & m, (c + k[2]) & m
        for left in (4, 6, 8, 16, 19, 4):
            a = (a - c) & m ^ rot(c, left)
            c = (c + b) & m
            a, b, c = b, c, a
        data = data[12:]
    data = data.ljust(12, b"\0")
    k = [int.from_bytes(data[i : i + 4], "little") for i in (0, 4, 8)]
    a, b, c = (a + k[0]) & m, (b + k[1]) & m, (c + k[2]) & m
    for left in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - rot(b, left)) & m
        a, b, c = b, c, a
    # Seven steps have turned the three round: the last one made is in b, the one before in a.
    return b, a


def test_the_hash_is_jenkins() -> None:
    assert hashlittle(b"Four score and seven years ago")[0] == 0x17770551
    for line in (0, 1, 0x1234, 1 << 32, (1 << 64) - 1, 0x0123456789ABCDEF):
        c, b = hashlittle(line.to_bytes(8, "little"))
        assert int(jenkins(np.uint64(line))) == c | b << 32


def test_a_filter_has_what_was_put_into_it_and_little_else() -> None:
    words = np.zeros(4, np.uint64)
    for line in range(20):
        put(words, 256, np.uint64(line), 4)
    assert all(has(words, 256, np.uint64(line), 4) for line in range(20))
    assert sum(has(words, 256, np.uint64(line), 4) for line in range(20, 2020)) < 100
    assert not has(np.zeros(4, np.uint64), 256, np.uint64(7), 4)


@dataclass
class Cache:
    """One core's: places by set, the least recently used first, of (line, state)."""

    geometry: CacheGeometry
    sets: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    state: dict[int, str] = field(default_factory=dict)

    def use(self, line: int) -> int | None:
        """The line is the last one used; what is pushed out."""
        mine = self.sets[line % self.geometry.sets]
        if line in mine:
            mine.remove(line)
        mine.append(line)
        if len(mine) > self.geometry.ways:
            self.state.pop(mine[0])
            return mine.pop(0)
        return None

    def drop(self, line: int) -> None:
        self.sets[line % self.geometry.sets].remove(line)
        del self.state[line]


@dataclass
class Core:
    """A core's episode. hashes: 0 for exact sets; else its filters, as sets of bits."""

    hashes: int
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    length: int = 0
    stamp: int = 0

    def bits(self, line: int, size: int) -> set[int]:
        c, b = hashlittle(line.to_bytes(8, "little"))
        return {((c | b << 32) >> 16 * k) % (8 * size) for k in range(self.hashes)}

    def holds(self, lines: set[int], line: int, size: int) -> bool:
        if not self.hashes:
            return line in lines
        filled = set().union(*(self.bits(one, size) for one in lines))
        return self.bits(line, size) <= filled

    def says(self, line: int, also_reads: bool) -> bool:
        return self.holds(self.writes, line, WRITE_BYTES) or (
            also_reads and self.holds(self.reads, line, READ_BYTES)
        )

    def so(self, line: int, also_reads: bool) -> bool:
        return line in self.writes or (also_reads and line in self.reads)


class Twin:
    """ReRun by hand. everywhere: the fault that filters are asked at each access, of all cores."""

    def __init__(self, hashes: int, snooped: bool, everywhere: bool = False) -> None:
        self.caches = [Cache(SMALL) for _ in range(N_CORES)]
        self.cores = [Core(hashes) for _ in range(N_CORES)]
        self.banks = [0] * N_CORES
        self.log: list[tuple[int, int, int]] = []
        self.why: dict[int, int] = defaultdict(int)
        self.snooped, self.everywhere = snooped, everywhere

    def end(self, core: int, why: int) -> None:
        mine = self.cores[core]
        if mine.length:
            self.log.append((core, mine.length, mine.stamp))
            self.why[why] += 1
            self.cores[core] = Core(mine.hashes, stamp=mine.stamp + 1)

    def request(self, stream: int, line: int, write: bool) -> None:
        mine = self.caches[stream].state.get(line) if stream < N_CORES else None
        bank = line % N_CORES
        if mine in ("M", "E") or (mine == "S" and not write):
            self.caches[stream].state[line] = "M" if write else mine
            self.caches[stream].use(line)
            if self.everywhere:
                self.ask(stream, line, write, [])
            return
        self.why[REQUESTS] += 1
        holders = [c for c in range(N_CORES) if c != stream and line in self.caches[c].state]
        answering = [c for c in holders if write or self.caches[c].state[line] != "S"]
        for other in answering:
            if write:
                self.caches[other].drop(line)
            else:
                self.caches[other].state[line] = "S"
        if stream < N_CORES:
            self.caches[stream].state[line] = "M" if write else "S" if holders else "E"
            victim = self.caches[stream].use(line)
            if victim is not None:
                said = not self.snooped and self.cores[stream].says(victim, True)
                if said:
                    self.end(stream, EVICTED if self.cores[stream].so(victim, True) else FALSELY_EVICTED)
                at = victim % N_CORES
                self.banks[at] = max(self.banks[at], self.cores[stream].stamp)
        self.ask(stream, line, write, answering)
        others = [core for number, core in enumerate(self.cores) if number != stream]
        if self.snooped and stream < N_CORES and not write and any(o.says(line, True) for o in others):
            self.caches[stream].state[line] = "S"
        if stream < N_CORES:
            self.cores[stream].stamp = max(self.cores[stream].stamp, self.banks[bank])

    def ask(self, stream: int, line: int, write: bool, answering: list[int]) -> None:
        for other, core in enumerate(self.cores):
            if other == stream or not (other in answering or self.snooped or self.everywhere):
                continue
            said = core.says(line, write)
            if said:
                self.end(other, CONFLICTS if core.so(line, write) else FALSE_CONFLICTS)
            if said or other in answering:
                at = line % N_CORES
                self.banks[at] = max(self.banks[at], self.cores[other].stamp)

    def run(self, made: list[tuple[int, Any]]) -> Twin:
        for stream, does, lines in accesses(made):
            for one in does:
                for line in lines:
                    self.request(stream, line, one == "W")
            if stream < N_CORES:
                (self.cores[stream].reads if does == "R" else self.cores[stream].writes).update(lines)
                self.cores[stream].length += 1
        for core in range(N_CORES):
            self.end(core, AT_END)
        return self


@pytest.mark.parametrize("snooped", [False, True], ids=["holders", "snooped"])
@pytest.mark.parametrize("hashes", [0, 1, HASHES])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(3)
def test_the_log_is_the_twins(seed: int, hashes: int, snooped: bool) -> None:
    made = turns(seed)
    found = watched(made, Rerun(guest(N_CORES), SMALL, hashes, snooped, keep=True))
    twin = Twin(hashes, snooped).run(made)
    assert [tuple(row) for row in np.concatenate(found.kept).tolist()] == twin.log
    counts = found.episodes.counts
    for why in (REQUESTS, CONFLICTS, FALSE_CONFLICTS, EVICTED, FALSELY_EVICTED, AT_END):
        assert int(counts[why]) == twin.why[why]
    assert int(counts[ENTRIES]) == len(twin.log)
    assert int(counts[BYTES]) == 4 * len(twin.log)
    assert twin.why[CONFLICTS] > 20
    assert (twin.why[EVICTED] > 10) != snooped
    if snooped:
        assert (twin.why[FALSE_CONFLICTS] > 0) == (hashes > 0)


@pytest.mark.parametrize("hashes", [1, HASHES])
def test_asking_at_each_access_would_show(hashes: int) -> None:
    """The twin with that fault ends many more episodes at conflicts that are none."""
    made = turns(0)
    right = watched(made, Rerun(guest(N_CORES), SMALL, hashes)).episodes.counts
    wrong = Twin(hashes, False, everywhere=True).run(made)
    assert wrong.why[FALSE_CONFLICTS] > 3 * int(right[FALSE_CONFLICTS])


def test_a_core_that_hits_asks_nobody() -> None:
    """Core 0 has read so much that its filter is full; core 1 uses a line of its own a thousand times."""
    many, own = np.zeros(400, EVENT), np.zeros(1000, EVENT)
    many["addr"], many["size"], many["kind"] = 64 * np.arange(400), 8, READ
    own["addr"], own["size"], own["kind"] = 64 * 999, 8, WRITE
    again = [(0, many), (1, own), (0, many[:1])]
    unbounded = CacheGeometry.parse("unbounded")
    counts = watched(again, Rerun(guest(N_CORES), unbounded, HASHES, snooped=True)).episodes.counts
    # The filter is asked once, when core 1 misses.
    assert (int(counts[FALSE_CONFLICTS]), int(counts[REQUESTS])) == (1, 401)
    counts = watched(again, Rerun(guest(N_CORES), unbounded, HASHES)).episodes.counts
    # Nobody holds the line, so nobody answers.
    assert int(counts[FALSE_CONFLICTS]) == 0


def test_an_episode_ends_when_its_counter_is_full() -> None:
    rows = np.zeros(70_000, EVENT)
    rows["addr"], rows["size"], rows["kind"] = 64, 8, READ
    found = watched([(0, rows)], Rerun(guest(N_CORES), SMALL, keep=True))
    assert [int(row[1]) for part in found.kept for row in part] == [65_535, 70_000 - 65_535]
    assert int(found.episodes.counts[FULL]) == 1


@pytest.mark.parametrize("snooped", [False, True], ids=["holders", "snooped"])
@pytest.mark.parametrize("hashes", [0, HASHES])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(6)
def test_time_stamps_keep_all_conflicts_in_order(seed: int, hashes: int, snooped: bool) -> None:
    """What the log is for: of two accesses in conflict the first has the smaller stamp. No twin is asked."""
    made = turns(seed, lines=24, n=400)
    # Caches so small that lines are pushed out which others then write to.
    found = watched(made, Rerun(guest(N_CORES), CacheGeometry.parse("512:2:64"), hashes, snooped, keep=True))
    stamps: list[list[int]] = [[] for _ in range(N_CORES)]
    for core, length, stamp in np.concatenate(found.kept).tolist():
        stamps[core] += [stamp] * length
    at = [iter(one) for one in stamps]
    wrote: dict[int, tuple[int, int]] = {}
    read: dict[int, list[tuple[int, int]]] = defaultdict(list)
    compared = 0
    for stream, does, lines in accesses(made):
        if stream == N_CORES:
            continue
        write = does != "R"
        mine = next(at[stream])
        for line in lines:
            before = [wrote[line]] if line in wrote else []
            before += read[line] if write else []
            for other, stamp in before:
                assert other == stream or stamp < mine
                compared += other != stream
            if write:
                wrote[line], read[line] = (stream, mine), []
            else:
                read[line].append((stream, mine))
    assert compared > 100


@pytest.mark.parametrize(
    ("name", "cache"), [("uts", "unbounded"), ("ring", "1k:2:32"), ("matmul", "32k:4:32")]
)
@pytest.mark.sampled(1)
def test_the_caches_are_the_machines(name: str, cache: str) -> None:
    options = RecordOptions(cores=3, seed=2, cache=CacheGeometry.parse(cache), longest_slice=300)
    rerun = Rerun(guest_of(image(name), options), options.cache)
    with recorded(image(name), options, (rerun,)) as run:
        manifest = run.outcome.manifest
    counted = rerun.caches.counted
    wanted = {kind: total_of(manifest, key) for kind, key in ((MISSES, "misses"), (UPGRADES, "upgrades"))}
    assert {kind: int(counted[kind]) for kind in wanted} == wanted
    assert int(counted[EVICTIONS]) == total_of(manifest, "evictions")


def test_the_tables_of_a_small_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")
    tables = rerun_tables.main(Console(file=io.StringIO(), width=200), ("ring",), (2, 3))
    sizes, ends, costs = (
        [dict(zip([c.name for c in t.columns], row, strict=True)) for row in t.rows] for t in tables
    )
    assert [row["cores"] for row in sizes] == [row["cores"] for row in costs] == [2, 3]
    for size, end in zip(sizes, ends, strict=True):
        for way in ("ideal", "Bloom", "Bloom, all asked"):
            assert size[f"{way} / strata"] * size["strata"] == pytest.approx(size[f"ReRun, {way}"])
        # An entry has four bytes, and stamps of so short a run never more than one word.
        accesses = round(size["M accesses"] * 1e6)
        assert size["ReRun, Bloom"] == pytest.approx(4000 * end["episodes"] / accesses)
        assert size["ReRun, ideal"] == pytest.approx(4000 * end["ideal: episodes"] / accesses)
        # Nearly every episode of a ring ends since the next core wants what it wrote.
        assert end["conflict"] > 0.9
    assert (tmp_path / "out" / "rerun.json").exists()
