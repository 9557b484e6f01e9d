"""`solver.sifting.filters.sift` for a region under TSO, where every core has two chains
(`solver.regions.program_order`).

A granule that one core alone touches is local, whichever of its chains does: a load there sees the newest
earlier store, from the buffer or from memory. Its values follow each other in program order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from corebraid.base.rows.event import GLUED, UNCACHED, WRITE
from solver.regions.batches import Batch, batches, stream_by_stream
from solver.regions.problem import Problem
from solver.regions.program_order import CoreRows, core_rows, whole
from solver.regions.region import Region
from solver.regions.sync_order import AGENT_ROW, CORE, CORE_ROW, STORE_ROW, segments
from solver.regions.traces import Events
from solver.regions.violations import name_row
from solver.sifting.filters import Chains, Counts, chains_of, problem_of
from solver.sifting.granules import Granules, find_granules_of
from solver.sifting.operations import (
    AT,
    HOT,
    KEPT,
    MOST_PARTS,
    READ_ONLY,
    Operations,
    Parts,
    join_parts,
    repeats,
    sift_row,
    word_parts,
)
from solver.sifting.sync_edges import edges_of
from solver.sifting.words import LEFT_OUT, WordTable, find_word

_DAMAGED = "the recording is damaged: record again, or run 'corebraid verify' to see where"
_ZERO, _ONE, _THREE, _SEVEN, _EIGHT = (np.uint64(n) for n in (0, 1, 3, 7, 8))


@njit(cache=True, nogil=True)
def follow_pieces(rows, pieces, entries, tally):  # type: ignore[no-untyped-def]
    """Follow the filtered bytes of a `Batch` where that is to be done again, and count the rows. Returns
    (piece, row, byte) of the first that does not follow, or (-1, 0, 0)."""
    parts = Parts(np.empty(32, np.int32), np.empty(32, np.uint64), np.empty(32, np.uint64))
    for k in range(pieces.end.size):
        for i in range(pieces.begin[k], pieces.end[k]):
            row = rows[i]
            if row.flags & UNCACHED == 0:
                _, broken = sift_row(row, entries, 0, parts, tally)
                if broken >= 0:
                    return k, i, broken
    return -1, 0, 0


@njit(cache=True)
def _hot_parts(row, entries, at, parts):  # type: ignore[no-untyped-def]
    """Append the unfiltered parts of a row. Returns the new end."""
    turn, pages, words = entries
    word, low = row.addr >> _THREE, row.addr & _SEVEN
    left, old, new = np.uint64(row.size), row.old, row.new
    while left > _ZERO:
        size = min(left, _EIGHT - low)
        entry = words[find_word(word, turn, pages)]
        at = word_parts(entry, low, size, old, new, at, parts)
        left -= size
        if left > _ZERO:
            old, new = old >> (size << _THREE), new >> (size << _THREE)
            word, low = word + _ONE, _ZERO
    return at


class _Rows(NamedTuple):
    """A chain's rows. rows: EVENT (n,). need, source: int32 (n,), as in `CoreRows`, for stores zeros and -1.
    breaks: int64, ascending, rows that are not joined to those before."""

    rows: Events
    need: NDArray[np.int32]
    source: NDArray[np.int32]
    breaks: NDArray[np.int64]


@njit(cache=True)
def gather(chain, entries, parts, operations, first_row, tally):  # type: ignore[no-untyped-def]
    """Append the unfiltered operations of a chain (`_Rows`), as long as there is room. first_row: int64, of
    each operation, filled. A read is joined to the one before it if that saw the same, of the same source,
    with the same stores committed. Returns (operations, parts, the row of an access that contradicts itself
    or -1)."""
    rows, need, source, breaks = chain
    part_ptr, end_row = operations
    ops, part, i, ended, at = 0, 0, 0, 0, 0
    while i < rows.size and part + MOST_PARTS <= parts.granule.size:
        first, begin, hot_rows = part, i, 0
        while at < breaks.size and breaks[at] <= begin:
            ended = ops
            at += 1
        while True:
            row = rows[i]
            if row.flags & UNCACHED == 0:
                end = _hot_parts(row, entries, part, parts)
                if end > part:
                    if part > first:
                        end = join_parts(first, part, end, parts)
                        if end < 0:
                            return ops, part, i
                    hot_rows += 1
                    part = end
            i += 1
            if row.flags & GLUED == 0 or i == rows.size:
                break
        if part == first:
            continue
        # A store that changes nothing still takes its place in the store buffer.
        loads = rows[begin].kind != WRITE
        same = loads and ops > ended and repeats(part_ptr[ops - 1], first, part, parts)
        if same and need[begin] == need[first_row[ops - 1]] and source[begin] == source[first_row[ops - 1]]:
            part = first
        else:
            first_row[ops] = begin
            ops += 1
            part_ptr[ops] = part
            tally[KEPT] += hot_rows
        end_row[ops - 1] = i
    return ops, part, -1


@dataclass(frozen=True)
class _Chain:
    """One chain's operations. first_row: int64 (n_ops,)."""

    parts: Parts
    operations: Operations
    first_row: NDArray[np.int64]


def _gather(chain: _Rows, table: WordTable, tally: NDArray[np.int64], stream: int) -> _Chain:
    rows = chain.rows
    room = 8 * len(rows) + MOST_PARTS
    room_for = Parts(np.empty(room, np.int32), np.empty(room, np.uint64), np.empty(room, np.uint64))
    operations = Operations(np.zeros(len(rows) + 1, np.int64), np.empty(len(rows), np.int64))
    first_row = np.empty(len(rows), np.int64)
    ops, parts, bad = gather(chain, table.entries, room_for, operations, first_row, tally)
    if bad >= 0:
        raise OrderError(
            "an indivisible access that contradicts itself",
            where=name_row(stream, rows[bad]),
            remedy="the recording is damaged",
        )
    kept = room_for.first(parts)
    return _Chain(
        Parts(kept.granule.copy(), kept.old.copy(), kept.new.copy()),
        Operations(*(column.copy() for column in operations.first(ops))),
        first_row[:ops].copy(),
    )


def sift_buffered(region: Region, table: WordTable | None = None) -> tuple[Problem, Counts, Chains]:
    """As `solver.sifting.filters.sift`, granules included. Raises OrderError as it does, and if program order
    and values contradict each other within one core."""
    n_cores = len(region.tails)
    cores = [core_rows(region, core) for core in range(n_cores)]
    _expect_committed(region, cores)
    others = [whole(rows.pieces()) for rows in region.streams[n_cores : len(region.streams) - n_cores]]
    in_order = list(_in_order(region, [core.rows for core in cores] + others))
    g = find_granules_of(in_order, table)
    tally = np.zeros(AT, np.int64)
    for batch in in_order if not g.plain else ():
        piece, row, byte = follow_pieces(batch.rows, batch.pieces, g.table.entries, tally)
        if piece >= 0:
            stream, bad = int(batch.pieces.stream[piece]), batch.rows[row]
            address, old = int(bad["addr"]) + byte, (int(bad["old"]) >> (8 * byte)) & 0xFF
            raise OrderError(
                "an event does not follow from memory",
                found=f"old byte {old:#04x} at {address:#x}",
                where=name_row(stream, bad),
                remedy=_DAMAGED,
            )
    streams = [core.loads for core in cores] + others + [core.stores for core in cores]
    if g.plain:
        streams = [rows[:0] for rows in streams]
    chains = [
        _gather(_Rows(rows, *_links(cores, k, rows), _breaks(region, k, len(cores))), g.table, tally, k)
        for k, rows in enumerate(streams)
    ]
    return _problem(region, g, chains, cores), _counts(region, cores, g, tally), chains_of(g)


def _expect_committed(region: Region, cores: list[CoreRows]) -> None:
    """No store commits here that came before agents which met its core in an earlier region."""
    for core, rows in enumerate(cores if len(region.syncs.entered) else ()):
        if len(rows.stores) and rows.stores["count"][0] < region.syncs.entered[core]:
            raise OrderError(
                "a store that commits after a sync point which it came before",
                where=name_row(len(region.streams) - len(cores) + core, rows.stores[0]),
                remedy=_DAMAGED,
            )


def _in_order(region: Region, groups: list[Events]) -> Iterator[Batch]:
    """The rows of cores (both chains, in program order) and agents in an order that the sync points allow.
    stream: number of the group."""
    streams = [iter([rows]) for rows in groups]
    if not len(region.syncs.points):
        return stream_by_stream(streams)
    # Among rows of both chains a sync point stands where it does among each: below its instruction count.
    table = region.places.copy()
    table[:, CORE_ROW] += table[:, STORE_ROW]
    return batches(segments(region.syncs, table, [len(rows) for rows in groups]), streams)


def _breaks(region: Region, stream: int, n_cores: int) -> NDArray[np.int64]:
    """Rows of a chain between which and those before them a sync point lies, or that begin an operation of
    their own (`Region.breaks`), ascending: int64 (n,)."""
    table, more = region.places, region.breaks[stream] if len(region.breaks) else np.empty(0, np.int64)
    if stream == n_cores:
        return np.union1d(table[:, AGENT_ROW], more)
    core, column = (stream, CORE_ROW) if stream < n_cores else (stream - n_cores - 1, STORE_ROW)
    return np.union1d(table[table[:, CORE] == core, column], more)


def _links(cores: list[CoreRows], k: int, rows: Events) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """need and source of a chain's rows."""
    if k < len(cores):
        return cores[k].need, cores[k].source
    return np.zeros(len(rows), np.int32), np.full(len(rows), -1, np.int32)


def _counts(region: Region, cores: list[CoreRows], g: Granules, tally: NDArray[np.int64]) -> Counts:
    forwarded = sum(core.forwarded for core in cores)
    hot, kept, read_only = int(tally[HOT]), int(tally[KEPT]), int(tally[READ_ONLY])
    total, uncached = region.events, int(g.table.used[LEFT_OUT]) - forwarded
    return Counts(total, uncached, total - uncached - read_only - hot, read_only, hot - kept, kept)


def _problem(region: Region, g: Granules, chains: list[_Chain], cores: list[CoreRows]) -> Problem:
    problem = problem_of(region, g, [(chain.parts, chain.operations) for chain in chains])
    edges, source = _order_between(chains, cores, problem.stream_ptr)
    met = edges_of(region.places, problem.stream_ptr, problem.end_row, len(cores))
    return replace(
        problem,
        edges=np.unique(np.concatenate([edges, met]), axis=0),
        buffered=len(cores),
        source=source,
        loads_before=np.concatenate([core.loads_before for core in cores]),
        needs=np.concatenate([_steps(k, core.need) for k, core in enumerate(cores)]),
    )


def _steps(core: int, need: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64 (n, 3): core, row, stores that have committed before it, wherever that rises."""
    rows = np.flatnonzero(np.diff(need, prepend=np.int32(0)))
    return np.stack([np.full(len(rows), core), rows, need[rows]], axis=1).astype(np.int64)


def _order_between(
    chains: list[_Chain], cores: list[CoreRows], stream_ptr: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`Problem.edges` between a core's two chains, and `Problem.source`."""
    after, source = np.full(stream_ptr[-1], -1, np.int64), np.full(stream_ptr[-1], -1, np.int64)
    first_store = len(chains) - len(cores)
    for k, core in enumerate(cores):
        loads, stores = chains[k], chains[first_store + k]
        load_base, store_base = stream_ptr[k], stream_ptr[first_store + k]
        # How many store operations lie below a number of stores, and load operations below one of loads.
        needed = np.searchsorted(stores.first_row, core.need[loads.first_row])
        rises = np.diff(needed, prepend=0) > 0
        after[load_base : load_base + len(needed)][rises] = store_base + needed[rises] - 1
        before = np.searchsorted(loads.first_row, core.loads_before[stores.first_row])
        rises = np.diff(before, prepend=0) > 0
        after[store_base : store_base + len(before)][rises] = load_base + before[rises] - 1
        from_row = core.source[loads.first_row]
        open_ = from_row >= 0
        at = np.searchsorted(stores.first_row, from_row[open_])
        source[load_base : load_base + len(from_row)][open_] = store_base + at
    waiting = np.flatnonzero(after >= 0)
    return np.stack([after[waiting], waiting], axis=1), source
