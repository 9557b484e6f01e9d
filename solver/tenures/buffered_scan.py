"""Where a core's tenures begin under TSO: its two chains of rows held against the miss records of its log.

A core has its loads and atomic accesses, and its stores as they commit (`solver.regions.program_order`). A
record says where it stands among both: its instruction count among the loads, its committed number among the
stores, which is exact. So the core's accesses between two records of a line are known, though not all of
their order. What a record brought is the line without what the core had buffered (RECEIVED, else MISS).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import EVENT, READ, UNCACHED
from corebraid.base.rows.record import MISS, MISS_WRITE, RECEIVED
from solver.regions.image import zeros
from solver.regions.traces import Events
from solver.tenures.buffered_placed import LossMatcher, Matched, nothing_matched
from solver.tenures.scan import CONTINUED, MISSED, Records


class BufferedBegins(NamedTuple):
    """The pieces of tenures of one core in one region, in the order of their records; behind them, with line
    -1, where other records stand.

    load, store: int64 (n,), number of the first row of each chain in the region that touches the line in this
    piece, -1 for none; a load may turn out to have been answered by the store buffer. line: int64 (n,),
    address / bytes in a line. how: uint8 (n,), CONTINUED or MISSED. loads_before, stores_before: int64 (n,),
    how many rows of each chain in the region come before the record. image: uint8 (n, line_bytes), home
    memory's line when the record was made, or where the region begins. number: int64 (n,), of the record,
    among all of the core's. at: int64 (n,), its instruction count, -1 of CONTINUED. flags: uint8 (n,),
    MISS_WRITE of a record in the region. losses: the core's in the region. loose: int64 (m,), lines of which
    it is not told when the core held them.
    """

    load: NDArray[np.int64]
    store: NDArray[np.int64]
    line: NDArray[np.int64]
    how: NDArray[np.uint8]
    loads_before: NDArray[np.int64]
    stores_before: NDArray[np.int64]
    image: NDArray[np.uint8]
    number: NDArray[np.int64]
    at: NDArray[np.int64]
    flags: NDArray[np.uint8]
    losses: Matched
    loose: NDArray[np.int64]


class _Queue(NamedTuple):
    """Miss records that no row has passed. at: uint64 (n,), instruction counts. committed, line: int64 (n,).
    image: uint8 (n, line_bytes). flags: uint8 (n,), MISS_WRITE."""

    at: NDArray[np.uint64]
    committed: NDArray[np.int64]
    line: NDArray[np.int64]
    image: NDArray[np.uint8]
    flags: NDArray[np.uint8]


class _Latest(NamedTuple):
    """Records of each line. current: int64[lines], number of its last one plus 1. opened: int64[lines],
    likewise, of the last one that was listed."""

    current: NDArray[np.int64]
    opened: NDArray[np.int64]


@njit(cache=True, nogil=True)
def list_pieces(rows, place, lines, first, shift, latest, out):  # type: ignore[no-untyped-def]
    """For a chain's rows: the first of each line under each record. place: int64, how many rows come before
    each record; lines: theirs; first: number of the first record. latest: `_Latest`. out: row, line and
    number of the record, int64 each, filled. Returns how many."""
    current, opened = latest
    row_out, line_out, number_out = out
    at, n = 0, 0
    for i in range(rows.size):
        while at < place.size and place[at] <= i:
            current[lines[at]] = first + at + 1
            at += 1
        row = rows[i]
        if row.flags & UNCACHED:
            continue
        begin = np.int64(row.addr)
        for line in range(begin >> shift, ((begin + np.int64(row.size) - 1) >> shift) + 1):
            if opened[line] != current[line]:
                opened[line] = current[line]
                row_out[n], line_out[n], number_out[n] = i, line, current[line] - 1
                n += 1
    return n


@njit(cache=True, nogil=True)
def _lay(at, lines, image, shift, memory):  # type: ignore[no-untyped-def]
    memory[lines[at] << shift : (lines[at] + 1) << shift] = image[at]


@njit(cache=True, nogil=True)
def _store(row, memory):  # type: ignore[no-untyped-def]
    new = row.new
    for a in range(np.int64(row.addr), np.int64(row.addr) + np.int64(row.size)):
        memory[a] = np.uint8(new & np.uint64(0xFF))
        new >>= np.uint64(8)


@njit(cache=True, nogil=True)
def lay_records(loads, stores, loads_before, stores_before, lines, image, shift, memory):  # type: ignore[no-untyped-def]
    """Lay over `memory` what the core's writes leave, in program order, which is the order in which they
    reach home memory, and the lines of records in between; of those that no row has passed none. Returns how
    many records were laid."""
    at, i, j = 0, 0, 0
    while i < loads.size or j < stores.size:
        if j == stores.size or (i < loads.size and loads[i].seq < stores[j].seq):
            if loads[i].kind != READ and loads[i].flags & UNCACHED == 0:
                while at < lines.size and loads_before[at] <= i:
                    _lay(at, lines, image, shift, memory)
                    at += 1
                _store(loads[i], memory)
            i += 1
        else:
            while at < lines.size and stores_before[at] <= j:
                _lay(at, lines, image, shift, memory)
                at += 1
            _store(stores[j], memory)
            j += 1
    while at < lines.size and (loads_before[at] < loads.size or stores_before[at] < stores.size):
        _lay(at, lines, image, shift, memory)
        at += 1
    return at


class BufferedScanner:
    """Finds where the tenures of one core begin, region after region.

    records: its miss records in the order of its log, in pieces. memory_bytes: of the guest. line_bytes: a
    power of two. losses: the core's, if it noted them. Needs memory for the lines that the core ever had, and
    for its rows of a region.
    """

    def __init__(
        self,
        records: Iterator[Records],
        memory_bytes: int,
        line_bytes: int,
        losses: LossMatcher | None = None,
    ) -> None:
        self._records, self._ended = records, False
        self._losses, self._region = losses, 0
        self._shift, self._line_bytes = line_bytes.bit_length() - 1, line_bytes
        self._memory, lines = zeros(memory_bytes), memory_bytes // line_bytes
        self._latest = _Latest(zeros(8 * lines).view(np.int64), zeros(8 * lines).view(np.int64))
        self._number = self._stores = 0
        nothing = np.empty(0, np.int64)
        self._queue = _Queue(
            nothing.astype(np.uint64),
            nothing,
            nothing,
            np.empty((0, line_bytes), np.uint8),
            np.empty(0, np.uint8),
        )
        self._chains: tuple[list[Events], list[Events]] = [], []

    def add(self, chain: int, rows: Events) -> None:
        """Rows of the region that come next, of its loads (0) or its stores (1)."""
        self._chains[chain].append(rows.copy())

    def scan(self, chains: Sequence[Iterator[Events]]) -> BufferedBegins:
        """Where tenures begin, or go on, in a region. chains: the pieces of its loads, and of its stores."""
        for chain, pieces in enumerate(chains):
            for rows in pieces:
                self.add(chain, rows)
        return self.take()

    @property
    def next_loss(self) -> int | None:
        """The region of the core's next loss, once a region was taken; None if there is none."""
        return None if self._losses is None else self._losses.next_region

    def pass_over(self, regions: int) -> None:
        """Go on over so many regions without rows or losses, in which no record gets behind the core."""
        self._region += regions

    def take(self) -> BufferedBegins:
        """What is found in the region whose rows were added, and begin another."""
        loads, stores = (np.concatenate([np.empty(0, EVENT), *rows]) for rows in self._chains)
        self._chains = [], []
        counts = loads["count"].copy()
        self._read_behind(int(counts[-1]) if len(counts) else -1, self._stores + len(stores) - 1)
        before = (
            np.searchsorted(counts, self._queue.at).astype(np.int64),
            np.clip(self._queue.committed - self._stores, 0, len(stores)),
        )
        begins = self._begins((loads, stores), before)
        begins = self._with_losses(begins, counts, len(stores), before[1])
        queue = self._queue
        n = lay_records(loads, stores, *before, queue.line, queue.image, self._shift, self._memory)
        np.maximum.at(self._latest.current, queue.line[:n], self._number + np.arange(n) + 1)
        self._number, self._stores = self._number + n, self._stores + len(stores)
        self._queue = _Queue(*(column[n:] for column in queue))  # type: ignore[arg-type]
        self._region += 1
        return begins

    def _with_losses(
        self, begins: BufferedBegins, counts: NDArray[np.uint64], stores: int, committed: NDArray[np.int64]
    ) -> BufferedBegins:
        """Add the losses of the region. counts: of its loads. stores: how many it has. committed: int64
        (queue,), how many of them come before each record."""
        if self._losses is None:
            return begins
        line, way, at, number = self._losses.take(self._region)
        known = np.concatenate([[0], committed, [stores]])
        records = self._queue.at.astype(np.int64)
        low = known[np.searchsorted(records, at, side="left")]
        high = known[np.searchsorted(records, at, side="right") + 1]
        loads = np.searchsorted(counts.astype(np.int64), at).astype(np.int64)
        touched = np.unique(begins.line[begins.line >= 0])
        return begins._replace(
            losses=Matched(line, way, at, number, loads, low, high),
            loose=touched[self._losses.loose(touched)],
        )

    def _begins(self, chains: tuple[Events, Events], before: Sequence[NDArray[np.int64]]) -> BufferedBegins:
        found = []
        for rows, place in zip(chains, before, strict=True):
            current, opened = self._latest
            touched = tuple(np.empty(2 * len(rows), np.int64) for _ in range(3))
            changed = self._queue.line
            kept = current[changed].copy()
            n = list_pieces(rows, place, changed, self._number, self._shift, self._latest, touched)
            found.append([column[:n] for column in touched])
            # Both chains begin with what was known before the region.
            current[changed], opened[found[-1][1]] = kept, 0
        (load, load_line, of_load), (store, store_line, of_store) = found
        numbers, at = np.unique(np.concatenate([of_load, of_store]), return_index=True)
        line = np.concatenate([load_line, store_line])[at]
        first_load, first_store = np.full(len(numbers), -1, np.int64), np.full(len(numbers), -1, np.int64)
        first_load[np.searchsorted(numbers, of_load)] = load
        first_store[np.searchsorted(numbers, of_store)] = store
        new = numbers >= self._number
        place = numbers[new] - self._number
        image = self._memory.reshape(-1, self._line_bytes)[line]
        image[new] = self._queue.image[place]
        stand = [np.zeros(len(numbers), np.int64) for _ in before]
        for column, rows_before in zip(stand, before, strict=True):
            column[new] = rows_before[place]
        how = np.where(new, MISSED, CONTINUED).astype(np.uint8)
        count, flags = np.full(len(numbers), -1, np.int64), np.zeros(len(numbers), np.uint8)
        count[new], flags[new] = self._queue.at[place].astype(np.int64), self._queue.flags[place]
        begins = BufferedBegins(
            first_load, first_store, line, how, stand[0], stand[1], image, numbers, count, flags,
            nothing_matched(), np.empty(0, np.int64),
        )  # fmt: skip
        return _with_others(begins, before)

    def _read_behind(self, count: int, store: int) -> None:
        """Read records until one stands behind both chains."""
        queue = self._queue
        parts: list[_Queue] = [queue]
        while not self._ended and not (
            len(queue.at) and int(queue.at[-1]) > count and queue.committed[-1] > store
        ):
            piece = next(self._records, None)
            if piece is None:
                self._ended = True
                break
            more = self._listed(*piece, parts[-1])
            if len(more.at):
                parts.append(more)
                queue = more
        if len(parts) > 1:
            columns: Any = zip(*parts, strict=True)
            self._queue = _Queue(*(np.concatenate(column) for column in columns))

    def _listed(self, records: Events, blob: NDArray[np.uint8], last: _Queue) -> _Queue:
        """The misses of a piece of the log. last: what came before; a line as it was received is that of the
        miss before it."""
        kind = records["kind"]
        missed = kind == MISS
        of_line = missed | (kind == RECEIVED)
        number, kind = np.cumsum(missed)[of_line] - 1, kind[of_line]
        bytes_of = blob[records["offset"][of_line].astype(np.int64)[:, None] + np.arange(self._line_bytes)]
        image = np.empty((int(missed.sum()), self._line_bytes), np.uint8)
        image[number[kind == MISS]] = bytes_of[kind == MISS]
        received = (kind == RECEIVED) & (number >= 0)
        image[number[received]] = bytes_of[received]
        if len(number) and number[0] < 0 and len(last.image):
            last.image[-1] = bytes_of[0]
        rows = records[missed]
        line = (rows["addr"] >> np.uint64(self._shift)).astype(np.int64)
        flags = rows["flags"] & np.uint8(MISS_WRITE)
        return _Queue(rows["count"].copy(), rows["value"].astype(np.int64), line, image, flags)


def _with_others(begins: BufferedBegins, before: Sequence[NDArray[np.int64]]) -> BufferedBegins:
    """Append where the core's records stand, each place once, if it says anything."""
    places = np.unique(np.stack(before, axis=1), axis=0)
    places = places[places.any(axis=1)]
    n = len(places)
    nowhere = np.full(n, -1, np.int64)
    others = (
        nowhere, nowhere, nowhere, np.zeros(n, np.uint8), places[:, 0], places[:, 1],
        np.zeros((n, begins.image.shape[1]), np.uint8), nowhere, nowhere, np.zeros(n, np.uint8),
    )  # fmt: skip
    named: Any = zip(begins._fields[: len(others)], begins, others, strict=False)
    joined: Any = {name: np.concatenate([mine, more]) for name, mine, more in named}
    return begins._replace(**joined)
