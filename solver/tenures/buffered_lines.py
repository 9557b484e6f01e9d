"""What each core did on a region's hot lines under TSO: parts of tenures, one for each of its chains.

A tenure has its core's loads from memory and atomic accesses, and the stores that commit, all from one record
of the line to the next. Its writes are in program order; a load stands somewhere among them. A load that the
store buffer may have answered says nothing of who had the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import READ, UNCACHED
from solver.regions.traces import Events
from solver.tenures.buffered_scan import BufferedBegins
from solver.tenures.lines import (
    EITHER,
    HotLines,
    Tenures,
    Writes,
    follow_agents,
    heads_of,
    line_digest,
    room_for,
    store_row,
)

if TYPE_CHECKING:
    from solver.regions.program_order import CoreRows
    from solver.regions.region import Region

_LOADS, _STORES = 0, 1


class Parts(NamedTuple):
    """Beside `Tenures`: tenure: int64 (n_parts,), number of the tenure that it is a part of; lead: bool
    (n_parts,), True of one part of each tenure. last_write: int64 (n_tenures,), which of `Writes` is its last
    in program order, -1 for none."""

    tenure: NDArray[np.int64]
    lead: NDArray[np.bool_]
    last_write: NDArray[np.int64]


@dataclass(frozen=True)
class Ties:
    """What holds between the rows of a core's two chains. need: int64 (n_loads,), how many stores have
    committed before the load; loads_before: int64 (n_stores,), how many loads come before the store commits.
    Neither falls. told_need, told_before: the same by program order alone (`CoreRows`)."""

    need: NDArray[np.int64]
    loads_before: NDArray[np.int64]
    told_need: NDArray[np.int64]
    told_before: NDArray[np.int64]


def ties_of(rows: CoreRows, begins: BufferedBegins) -> Ties:
    """What program order and the places of a core's records say."""
    told_need, told_before = rows.need.astype(np.int64), rows.loads_before.astype(np.int64)
    loads, stores = begins.loads_before, begins.stores_before
    need, before = np.zeros(len(told_need) + 1, np.int64), np.zeros(len(told_before) + 1, np.int64)
    np.maximum.at(need, loads, stores)
    np.maximum.at(before, stores, loads)
    need, before = np.maximum.accumulate(need)[:-1], np.maximum.accumulate(before)[:-1]
    return Ties(np.maximum(need, told_need), np.maximum(before, told_before), told_need, told_before)


class Chains(NamedTuple):
    """A core's rows. loads, stores: EVENT (n_loads,), (n_stores,). source: int32 (n_loads,), as of
    `CoreRows`. need: int64 (n_loads,), as of `Ties`."""

    loads: Events
    stores: Events
    source: NDArray[np.int32]
    need: NDArray[np.int64]


class Opened(NamedTuple):
    """What a core has of the hot lines. shift: bits of an address within a line. ids: int32[lines], number of
    a hot line plus 1, 0 of others. current: int64 (2, hot lines), the piece that each chain is in, -1 for
    none. holder: int64 (hot lines,), the piece that wrote last, -1 for none. content: uint8 (hot lines,
    line_bytes), the line's bytes as they are known."""

    shift: int
    ids: NDArray[np.int32]
    current: NDArray[np.int64]
    holder: NDArray[np.int64]
    content: NDArray[np.uint8]


class Pieces(NamedTuple):
    """Of each of `BufferedBegins`: part: int64 (n, 2), the part of each chain, -1 for none. before, after:
    uint64 (n,), digests of the line before the first access and after the last. known: bool (n,), whether its
    old bytes were as known. wrote: bool (n,), whether it writes. last_write: int64 (n,), -1 for none."""

    part: NDArray[np.int64]
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    known: NDArray[np.bool_]
    wrote: NDArray[np.bool_]
    last_write: NDArray[np.int64]


class PartRows(NamedTuple):
    """Of each part, int64 (n,): its chain, hot line and piece, and the first and the last row of the
    chain."""

    chain: NDArray[np.int64]
    line: NDArray[np.int64]
    piece: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _is_touch(row, i, chain, source, need):  # type: ignore[no-untyped-def]
    """Whether a row accesses memory for certain."""
    if row.flags & UNCACHED:
        return False
    return chain == _STORES or row.kind != READ or source[i] < 0 or source[i] < need[i]


@njit(cache=True, nogil=True)
def follow_chains(rows, begins, order, hot_lines, pieces, out, writes):  # type: ignore[no-untyped-def]
    """Follow a core's rows (`Chains`) in program order. order: numbers of the `begins` that each chain
    begins, by their rows and lines. hot_lines: `Opened`. pieces: `Pieces`. out, writes: `PartRows` and
    `Writes` of parts, filled. Returns how many of both."""
    loads, stores, source, need = rows
    shift, ids, current, holder, content = hot_lines
    part, before, after, known, wrote, last_write = pieces
    chain_out, line_out, piece_out, first_out, last_out = out
    w_part, w_row, w_after = writes
    at = np.zeros(2, np.int64)
    n, m, i, j = 0, 0, 0, 0
    while i < loads.size or j < stores.size:
        chain = _STORES
        if j == stores.size or (i < loads.size and loads[i].seq < stores[j].seq):
            chain = _LOADS
        row, number = (loads[i], i) if chain == _LOADS else (stores[j], j)
        i, j = i + (chain == _LOADS), j + (chain == _STORES)
        touch = _is_touch(row, number, chain, source, need)
        first = np.int64(row.addr)
        mine, firsts = order[chain], begins.load if chain == _LOADS else begins.store
        for line in range(first >> shift, ((first + np.int64(row.size) - 1) >> shift) + 1):
            if line >= ids.size:
                continue
            hot = np.int64(ids[line]) - 1
            here = at[chain]
            if here < mine.size and firsts[mine[here]] == number and begins.line[mine[here]] == line:
                at[chain] += 1
                if hot >= 0:
                    current[chain, hot] = mine[here]
            if hot < 0 or not touch or current[chain, hot] < 0:
                continue
            k = current[chain, hot]
            if part[k, 0] < 0 and part[k, 1] < 0:
                before[k] = after[k] = line_digest(begins.image[k])
                known[k] = True
            if part[k, chain] < 0:
                part[k, chain] = n
                chain_out[n], line_out[n], piece_out[n], first_out[n] = chain, hot, k, number
                n += 1
            last_out[part[k, chain]] = number
            if row.kind != READ:
                if holder[hot] != k:
                    holder[hot] = k
                    content[hot] = begins.image[k]
                after[k], fits = store_row(row, first, line, shift, content[hot], after[k])
                known[k] = known[k] and fits
                wrote[k], last_write[k] = True, m
                w_part[m], w_row[m], w_after[m] = part[k, chain], number, after[k]
                m += 1
    return n, m


@dataclass(frozen=True)
class Followed:
    """What was found on hot lines: the parts of tenures, the writes to them, and beside them `Parts`."""

    tenures: Tenures
    writes: Writes
    parts: Parts


class BufferedLines(HotLines):
    """Finds the hot lines of one region after the other under TSO, where a core's stores are a stream of
    their own."""

    def follow(
        self,
        region: Region,
        begins: Sequence[BufferedBegins],
        cores: Sequence[CoreRows],
        ties: Sequence[Ties],
    ) -> tuple[NDArray[np.int64], Followed]:
        """(lines, address / bytes in a line, int64 (n_lines,); what was done on them)."""
        hot = self.hot(region, ())
        self._ids[hot] = np.arange(1, len(hot) + 1)
        try:
            found = [self._core(k, len(hot), begins[k], cores[k], ties[k].need) for k in range(self._n_cores)]
            found.append(self._agents(region))
        finally:
            self._ids[hot] = 0
        return hot, _joined(found)

    def _core(
        self, core: int, n_lines: int, begins: BufferedBegins, rows: CoreRows, need: NDArray[np.int64]
    ) -> Followed:
        n, room = len(begins.line), 2 * (len(rows.loads) + len(rows.stores))
        by = [np.lexsort((begins.line, first)) for first in (begins.load, begins.store)]
        order = tuple(at[first[at] >= 0] for at, first in zip(by, (begins.load, begins.store), strict=True))
        part, wrote = np.full((n, 2), -1, np.int64), np.zeros(n, np.bool_)
        before, after, known = np.zeros(n, np.uint64), np.zeros(n, np.uint64), np.ones(n, np.bool_)
        last_write = np.full(n, -1, np.int64)
        out = PartRows(*(np.empty(room, np.int64) for _ in range(5)))
        writes = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.uint64)
        hot_lines = Opened(
            self._shift, self._ids, np.full((2, n_lines), -1, np.int64), np.full(n_lines, -1, np.int64),
            np.empty((n_lines, self._line_bytes), np.uint8),
        )  # fmt: skip
        n_parts, n_writes = follow_chains(
            Chains(rows.loads, rows.stores, rows.source, need), begins, order, hot_lines,
            Pieces(part, before, after, known, wrote, last_write), out, writes,
        )  # fmt: skip
        chain, line, piece, first, last = (column[:n_parts] for column in out)
        tenures = Tenures(
            np.where(chain == _STORES, self._n_cores + 1 + core, core).astype(np.int32),
            line.astype(np.int32), first.copy(), last.copy(), wrote[piece], begins.how[piece], known[piece],
            before[piece], after[piece], piece.astype(np.int32), np.full(n_parts, EITHER),
        )  # fmt: skip
        lead = part[piece].max(axis=1, initial=-1) == np.arange(n_parts)
        w_part, w_row, w_after = writes
        return Followed(
            tenures,
            Writes(w_part[:n_writes].astype(np.int32), w_row[:n_writes].copy(), w_after[:n_writes].copy()),
            Parts(piece, lead, last_write),
        )

    def _agents(self, region: Region) -> Followed:
        source = region.streams[self._n_cores]
        room = 2 * len(source) + 2
        tenures, writes = found = room_for(room, room)
        n = m = number = 0
        for rows in source.pieces():
            done = 0
            while done < len(rows):
                place = number + done, self._n_cores
                n, m, more = follow_agents(rows[done:], place, self._shift, self._ids, found, n, m)
                done += more
            number += len(rows)
        return Followed(
            Tenures(*heads_of(tenures, n)),
            Writes(*heads_of(writes, m)),
            Parts(np.arange(n), np.ones(n, np.bool_), _last_of(writes.tenure[:m], n)),
        )


def _last_of(part: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """The last write of each of n parts that have one chain, -1 for none."""
    last = np.full(n, -1, np.int64)
    last[part] = np.arange(len(part))
    return last


def _joined(found: Sequence[Followed]) -> Followed:
    """All cores and agents in one, tenures and writes numbered through."""
    tenure = np.cumsum([0, *(len(one.parts.last_write) for one in found)])
    part = np.cumsum([0, *(len(one.tenures.line) for one in found)])
    write = np.cumsum([0, *(len(one.writes.row) for one in found)])
    columns: Any = zip(*(one.tenures for one in found), strict=True)
    tenures = Tenures(*(np.concatenate(column) for column in columns))
    writes = Writes(
        np.concatenate([one.writes.tenure + np.int32(part[k]) for k, one in enumerate(found)]),
        np.concatenate([one.writes.row for one in found]),
        np.concatenate([one.writes.after for one in found]),
    )
    last = [np.where(f.parts.last_write < 0, -1, f.parts.last_write + write[k]) for k, f in enumerate(found)]
    parts = Parts(
        np.concatenate([one.parts.tenure + tenure[k] for k, one in enumerate(found)]),
        np.concatenate([one.parts.lead for one in found]),
        np.concatenate(last),
    )
    return Followed(tenures, writes, parts)
