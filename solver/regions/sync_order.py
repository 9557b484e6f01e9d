"""Sync points as order: where an agent met a core (`emu.bus.sync_points`), what lies before comes before what
lies after.

Sync points stand in the agents' order, which is total; between them and a core's rows its instruction count
decides. A thread's accesses on successive cores, what the kernel does in its calls, and what a call of one
thread does to another are so in one order, whatever the values are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from emu.bus.sync_points import ENTER, LEAVE, SYNC_POINT
from solver.regions.traces import Events, Traces

_REMEDY = "the recording is damaged: record again, or run 'corebraid verify' to see where"
#: Owners that a region may tell apart (`solver.sifting.words`): one of each byte value.
_MOST_OWNERS = 256
#: No thread: it is nobody's, or nobody knows whose.
_NOBODY = 0


@dataclass(frozen=True)
class RegionSyncs:
    """The sync points of one region. points: SYNC_POINT (n,). running: int64 (n_cores,), the thread on each
    core where the region begins, 0 for none. entered: uint64 (n_cores,), instruction counts below which all
    of a core's accesses came before that. first: accesses that agents had made there."""

    points: Events
    running: NDArray[np.int64]
    entered: NDArray[np.uint64]
    first: int


def no_syncs(n_cores: int = 0) -> RegionSyncs:
    """Of a region without sync points."""
    return RegionSyncs(np.zeros(0, SYNC_POINT), np.zeros(n_cores, np.int64), np.zeros(n_cores, np.uint64), 0)


@njit(cache=True)
def follow_threads(core, way, who, stratum, running, at_begin):  # type: ignore[no-untyped-def]
    """Follow the threads over the cores, from sync point to sync point (arrays of their fields). running:
    int64 (n_cores,), zeros. at_begin: int64 (n_regions, n_cores), filled with the threads that run where each
    region begins. Returns (index of the first that cannot be, the core where its thread runs), or (-1, 0)."""
    region = 0
    for i in range(core.size):
        while region < stratum[i]:
            region += 1
            at_begin[region] = running
        c = np.int64(core[i])
        if way[i] & ENTER:
            if running[c] != 0 and running[c] != who[i]:
                return i, c
            running[c] = 0
        if way[i] & LEAVE and who[i] != 0:
            if running[c] != 0 and running[c] != who[i]:
                return i, c
            for k in range(running.size):
                if k != c and running[k] == who[i]:
                    return i, k
            running[c] = who[i]
    while region + 1 < at_begin.shape[0]:
        region += 1
        at_begin[region] = running
    return -1, 0


class SyncsOfRegions:
    """The sync points of a recording by regions. Raises FormatError where they contradict the strata or each
    other: a thread on two cores at once."""

    def __init__(self, traces: Traces) -> None:
        points, strata = traces.syncs, np.asarray(traces.strata, np.uint64).reshape(-1, traces.n_streams)
        n_regions, self._agents = len(strata) + 1, traces.n_streams - traces.buffered - 1
        self._points = points
        self._starts = np.searchsorted(points["stratum"], np.arange(n_regions + 1))
        self._running = np.zeros((n_regions, max(self._agents, 0)), np.int64)
        self._entered = np.zeros((n_regions, max(self._agents, 0)), np.uint64)
        self._first = np.zeros(n_regions, np.int64)
        if self._agents < 0 or not len(points):
            return
        self._first[1:] = strata[:, self._agents]
        _expect_cuts(points, strata)
        enters = points[(points["way"] & ENTER != 0) & (points["stratum"] + 1 < n_regions)]
        np.maximum.at(self._entered, (enters["stratum"] + 1, enters["core"]), enters["count"])
        np.maximum.accumulate(self._entered, axis=0, out=self._entered)
        bad, core = follow_threads(
            points["core"], points["way"], points["who"], points["stratum"].astype(np.int64),
            np.zeros(self._agents, np.int64), self._running,
        )  # fmt: skip
        if bad >= 0:
            who, where = points["who"][bad], points["core"][bad]
            raise FormatError(
                "a thread on two cores at once",
                found=f"thread {who} on core {where}; another one runs there, or it is still on core {core}",
                where=_name(points[bad]),
                remedy=_REMEDY,
            )

    def next_region(self, region: int) -> int | None:
        """The first region from this one on that has sync points, None if none has."""
        at = int(self._starts[region]) if region < len(self._starts) else len(self._points)
        return int(self._points["stratum"][at]) if at < len(self._points) else None

    def of(self, region: int) -> RegionSyncs:
        """Those of one region."""
        points = self._points[self._starts[region] : self._starts[region + 1]]
        return RegionSyncs(points, self._running[region], self._entered[region], int(self._first[region]))


def _name(point: np.void) -> str:
    return (
        f"agents' access {point['number']}, core {point['core']}, instruction count {point['count']}, "
        f"region {point['stratum']}"
    )


def _expect_cuts(points: Events, strata: NDArray[np.uint64]) -> None:
    """Every sync point lies where its region says that its core was."""
    regions, cores = points["stratum"].astype(np.int64), points["core"].astype(np.int64)
    edges = np.concatenate([np.zeros((1, strata.shape[1]), np.uint64), strata])
    wrong = points["count"] < edges[regions, cores]
    inner = regions < len(strata)
    wrong[inner] |= points["count"][inner] > strata[regions[inner], cores[inner]]
    if wrong.any():
        point = points[int(np.argmax(wrong))]
        raise FormatError("a sync point that is not in its region", where=_name(point), remedy=_REMEDY)


#: Columns of `places`.
CORE, CORE_ROW, AGENT_ROW, WAY, STORE_ROW = range(5)


def places(syncs: RegionSyncs, streams: Sequence[Iterator[Events]]) -> NDArray[np.int64]:
    """Where a region's sync points stand: int64 (n, 5), columns CORE, CORE_ROW (rows of the core's stream
    that come before), AGENT_ROW (rows of the agents'), WAY, and under TSO STORE_ROW (rows of the core's
    stores).

    streams: the pieces of each stream of the region, the cores' first; a core's stores last, under TSO.
    """
    points, n_cores = syncs.points, len(syncs.running)
    table = np.zeros((len(points), 5), np.int64)
    if not len(points):
        return table
    table[:, CORE], table[:, WAY] = points["core"], points["way"]
    table[:, AGENT_ROW] = points["number"].astype(np.int64) - syncs.first
    buffered = len(streams) > n_cores + 1
    for core in np.unique(points["core"]).tolist():
        mine = np.flatnonzero(points["core"] == core)
        counts = points["count"][mine]
        table[mine, CORE_ROW] = _rows_below(streams[core], counts)
        if buffered:
            table[mine, STORE_ROW] = _rows_below(streams[n_cores + 1 + core], counts)
    return table


def _rows_below(pieces: Iterator[Events], counts: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many rows of a stream have an instruction count below each of `counts`: int64 (n,)."""
    found = np.zeros(len(counts), np.int64)
    for piece in pieces:
        here = np.searchsorted(piece["count"], counts)
        found += here
        if here[-1] < len(piece):
            break
    return found


@njit(cache=True)
def cut_segments(table, count, owner_of, running, lengths, stream, end, owner):  # type: ignore[no-untyped-def]
    """Cut the rows of a region into segments in an order that all sync points allow, each of one owner.

    table: `places`; count: uint64 (n,), the points' instruction counts; owner_of: int64 (n,), owners of their
    threads, -1 for none; running: int64 (n_cores,), owners of what runs where the region begins, updated;
    lengths: rows of each stream, the cores' and the agents'. stream, end, owner: int64, filled. Returns how
    many segments. Rows of one owner follow one another in that order whatever the order of the others is: it
    is a thread with what the kernel does for it, or a stream.
    """
    n_cores, n = running.size, table.shape[0]
    placed = np.zeros(n_cores + 1, np.int64)
    goes_on = np.zeros(n + 1, np.bool_)
    for i in range(n - 2, -1, -1):
        same = table[i + 1, CORE] == table[i, CORE] and count[i + 1] == count[i]
        goes_on[i] = same and (table[i + 1, WAY] & LEAVE != 0 or goes_on[i + 1])
    found, gap = 0, np.int64(n_cores)
    for i in range(n):
        c = table[i, CORE]
        for half in range(2):
            s = c if half else np.int64(n_cores)
            until = table[i, CORE_ROW] if half else table[i, AGENT_ROW]
            if placed[s] < until:
                stream[found], end[found], owner[found] = s, until, running[c] if half else gap
                placed[s] = until
                found += 1
        if table[i, WAY] & ENTER:
            gap = owner_of[i] if owner_of[i] >= 0 else (c if goes_on[i] else np.int64(n_cores))
            running[c] = c
        if table[i, WAY] & LEAVE:
            gap = np.int64(n_cores)
            running[c] = owner_of[i] if owner_of[i] >= 0 else c
    for k in range(n_cores + 1):
        s = (k + n_cores) % (n_cores + 1)
        if placed[s] < lengths[s]:
            stream[found], end[found] = s, lengths[s]
            owner[found] = gap if s == n_cores else running[s]
            found += 1
    return found


@dataclass(frozen=True)
class Segments:
    """Rows of a region, segment after segment in an order that its sync points allow. int64 (n,): the stream
    of each, how many of the stream's rows have come when it ends, and its owner (`cut_segments`)."""

    stream: NDArray[np.int64]
    end: NDArray[np.int64]
    owner: NDArray[np.int64]


def segments(syncs: RegionSyncs, table: NDArray[np.int64], lengths: list[int]) -> Segments:
    """The segments of a region. table: its sync points' `places`. lengths: rows of the cores' streams and of
    the agents'."""
    n_streams = len(lengths)
    who = syncs.points["who"].astype(np.int64)
    threads = np.unique(np.concatenate([who, syncs.running]))
    threads = threads[threads != _NOBODY][: _MOST_OWNERS - n_streams]
    running = np.arange(n_streams - 1)
    mine = _owners(syncs.running, threads, n_streams)
    running[mine >= 0] = mine[mine >= 0]
    room = 2 * len(table) + n_streams
    stream, end, owner = (np.zeros(room, np.int64) for _ in range(3))
    n = cut_segments(
        table, syncs.points["count"].copy(), _owners(who, threads, n_streams), running,
        np.array(lengths, np.int64), stream, end, owner,
    )  # fmt: skip
    return Segments(stream[:n], end[:n], owner[:n])


def _owners(who: NDArray[np.int64], threads: NDArray[np.int64], n_streams: int) -> NDArray[np.int64]:
    """Owners of threads, int64 (n,): -1 of those that are not told apart."""
    at = np.searchsorted(threads, who)
    known = (at < len(threads)) & (np.append(threads, -1)[np.minimum(at, len(threads))] == who)
    return np.where(known, n_streams + at, -1)
