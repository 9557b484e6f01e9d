"""The independent checker: is an order legal? Linear in the number of events, byte by byte.

It walks all rows of all streams in the given order over the initial image: every row's old bytes must be
what memory holds, its new bytes are stored, and at the end memory must be the final image. It shares no
code with granules, filters or engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corebraid.base.errors import FormatError, OrderError
from corebraid.base.rows.event import GLUED, UNCACHED
from solver.check.certificate import ORDERED, REASONS, Certificate
from solver.check.store_queue import (
    FORWARDED,
    MISSING,
    VIOLATIONS,
    WANTS_ROOM,
    WANTS_ROWS,
    make_queues,
    take,
    view_of,
    with_room,
)
from solver.check.sync_walk import BEHIND, pass_syncs, sync_walk
from solver.check.windows import Windows
from solver.regions.image import FlatMemory, ensure, zeros
from solver.regions.traces import Events, Traces
from solver.regions.violations import (
    LEFT_OUT,
    misplaced,
    name_row,
    not_as_held,
    not_final,
    outside_memory,
    split_access,
    too_many,
    unfinished_access,
)

_BUFFER_ROWS = 1 << 13
_OK, _REFILL, _OLD, _STRATUM, _SPLIT, _CUT, _RANGE, _ROOM, _BEHIND, _BUFFER = range(10)
#: Bits of `marks`, one byte of marks per byte of memory: a row touched it; its value is not known.
_TOUCHED, _UNKNOWN = 1, 2
_BYTE = np.uint64(0xFF)


@dataclass(frozen=True)
class CheckReport:
    """What was checked. events: rows walked in order. unchecked: (region, reason) of every region that
    the certificate gives no order for; its `unchecked_events` rows were passed over."""

    events: int
    unchecked_events: int
    unchecked: list[tuple[int, str]]


#: Values of memory after a region that has no order: address (uint64) and value (uint8) of the bytes.
Rebase = Mapping[int, tuple[NDArray[np.uint64], NDArray[np.uint8]]]


@njit(cache=True)
def check_row(row, state, loaded, image, marks):  # type: ignore[no-untyped-def]
    """Compare a row's old bytes with memory and store its new ones. Returns the number of the first byte
    that differs, or -1."""
    first, size = np.int64(row.addr), np.int64(row.size)
    old, new = row.old, row.new
    ensure(first >> 12, state, loaded, image)
    ensure((first + size - 1) >> 12, state, loaded, image)
    for k in range(size):
        if state[first + k] != (old & _BYTE) and (marks[first + k] & _UNKNOWN) == 0:
            return k
        old >>= np.uint64(8)
    for k in range(size):
        state[first + k] = np.uint8(new & _BYTE)
        marks[first + k] = _TOUCHED
        new >>= np.uint64(8)
    return -1


@njit(cache=True)
def placed_rightly(number, place, strata, stream, stratum):  # type: ignore[no-untyped-def]
    """_OK, or what is wrong with where a row of stratum `number` stands: strata run forwards (_STRATUM), and
    its stratum is the one that its instruction count says, of a store its number (_CUT): `place`."""
    if number < stratum or number > strata.shape[0]:
        return _STRATUM
    if number < strata.shape[0] and place >= strata[number, stream]:
        return _CUT
    if number > 0 and place < strata[number - 1, stream]:
        return _CUT
    return _OK


@njit(cache=True)
def ends_here(s, until, w, q, done):  # type: ignore[no-untyped-def]
    """Whether a slice that ends at a count (of stores: a number) ends before stream s's next row."""
    if s >= q.base[0]:
        return np.uint64(done[s]) >= until
    if w.at[s] == w.fill[s]:
        return w.ended[s]
    return w.rows[s, w.at[s]].count >= until


@njit(cache=True)
def walk_one(row, s, accesses, place, strata, now, state, loaded, image, marks):  # type: ignore[no-untyped-def]
    """Walk one row of stream s. now: see `walk`. Returns (status, number of the first byte that differs)."""
    if now[1] >= 0 and now[1] != s:
        return _SPLIT, 0
    number = np.int64(row.stratum)
    wrong = placed_rightly(number, place, strata, s, now[0])
    if wrong != _OK:
        return wrong, 0
    now[0] = number
    if accesses:
        size, most = np.int64(row.size), np.uint64(image.size)
        if size < 1 or size > 8 or row.addr > most or row.addr + np.uint64(size) > most:
            return _RANGE, 0
        byte = check_row(row, state, loaded, image, marks)
        if byte >= 0:
            return _OLD, byte
    now[1] = s if row.flags & GLUED else -1
    now[2] += 1
    return _OK, 0


@njit(cache=True)
def walk(stream, left, until, exact, run, w, q, syncs, done, strata, now, state, loaded, image, marks):  # type: ignore[no-untyped-def]
    """Walk runs from `run` on: of each, the next left[run] rows of stream[run], or, unless `exact`, as many
    as have an instruction count (stores: a number) below until[run]. now = [stratum, stream of an unfinished
    indivisible access or -1, rows walked]; syncs: `sync_check.SyncWalk`; done: rows walked of each stream.
    Returns (run, status, stream, byte): _REFILL asks for rows of that stream, _ROOM for that of `q`;
    violations name the row in q.taken."""
    while run < stream.size:
        s = stream[run]
        while left[run] > 0:
            if not exact and ends_here(s, until[run], w, q, done):
                break
            # A core without a store buffer has its rows where they are.
            plain = q.n.size == 0 and w.at[s] < w.fill[s]
            if plain:
                row = w.rows[s, w.at[s]]
                accesses, place = row.flags & UNCACHED == 0, row.count
            else:
                taken = take(s, w, q)
                if taken == WANTS_ROWS:
                    return run, _REFILL, q.wanted[0], 0
                if taken == WANTS_ROOM:
                    return run, _ROOM, s, 0
                if taken > FORWARDED:
                    return run, _BUFFER + taken, s, 0
                row = q.taken[0]
                accesses = taken != FORWARDED and row.flags & UNCACHED == 0
                place = np.uint64(done[s]) if s >= q.base[0] else row.count
            status, byte = walk_one(row, s, accesses, place, strata, now, state, loaded, image, marks)
            source = s - q.base[0] if s >= q.base[0] else s
            if status == _OK and not pass_syncs(source, row.count, syncs):
                status = _BEHIND
            if status != _OK:
                q.taken[0] = row
                return run, status, s, byte
            if plain:
                w.at[s] += 1
            done[s] += 1
            left[run] -= 1
        run += 1
    return run, _OK, 0, 0


@njit(cache=True)
def forget(rows, n, state, loaded, image, marks):  # type: ignore[no-untyped-def]
    """Mark the bytes of rows that were passed over as unknown."""
    for i in range(n):
        row = rows[i]
        if row.flags & UNCACHED or row.addr + np.uint64(row.size) > np.uint64(image.size):
            continue
        for k in range(np.int64(row.size)):
            a = np.int64(row.addr) + k
            ensure(a >> 12, state, loaded, image)
            marks[a] = _TOUCHED | _UNKNOWN


@njit(cache=True)
def first_difference(state, loaded, marks, final):  # type: ignore[no-untyped-def]
    """Address of the first touched byte that is not the final image's, or -1."""
    for page in range(loaded.size):
        if loaded[page] == 0:
            continue
        for a in range(page << 12, min((page + 1) << 12, final.size)):
            if marks[a] == _TOUCHED and state[a] != final[a]:
                return a
    return -1


class _Walk:
    """A walk in progress."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._windows = Windows(traces.streams(), _BUFFER_ROWS)
        self._view = view_of(self._windows)
        self._queues = make_queues(traces.n_streams, traces.buffered)
        self._syncs = sync_walk(traces.syncs, traces.n_streams - traces.buffered - 1)
        self._done = np.zeros(traces.n_streams, np.int64)
        self.memory = FlatMemory(traces.initial())
        self.marks = zeros(len(self.memory.state))
        self.now = np.array([0, -1, 0], np.int64)
        self._strata = np.ascontiguousarray(traces.strata, np.uint64).reshape(-1, traces.n_streams)

    def runs(self, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Walk runs of so many rows. Raises OrderError at the first violation."""
        self._walk(stream, rows.copy(), np.empty(0, np.uint64), True)

    def slices(self, stream: NDArray[np.int64], end: NDArray[np.uint64]) -> None:
        """Walk rows up to instruction counts, stores up to numbers. Raises OrderError at the first
        violation."""
        self._walk(stream, np.full(len(stream), np.iinfo(np.int64).max), end, False)

    def _walk(
        self, stream: NDArray[np.int64], left: NDArray[np.int64], until: NDArray[np.uint64], exact: bool
    ) -> None:
        memory = self.memory
        run = 0
        while run < len(stream):
            run, status, s, byte = walk(
                stream, left, until, exact, run, self._view, self._queues, self._syncs, self._done,
                self._strata, self.now, memory.state, memory.loaded, memory.image, self.marks,
            )  # fmt: skip
            if status == _REFILL:
                self._windows.refill(s)
            elif status == _ROOM:
                self._queues = with_room(self._queues)
            elif status != _OK:
                raise self._violation(status, s, byte)

    def pass_over(self, region: int, rows: NDArray[np.int64]) -> None:
        """Skip rows[s] rows of every stream s, all of `region`; what they touch becomes unknown."""
        for s, count in enumerate(rows.tolist()):
            self._done[s] += count
            while count:
                piece = self._some_rows(s, count)
                other = np.flatnonzero(piece["stratum"] != region)
                if len(other):
                    raise self._name_violation(_CUT, s, piece[other[0]], 0)
                memory = self.memory
                forget(piece, len(piece), memory.state, memory.loaded, memory.image, self.marks)
                count -= len(piece)

    def _some_rows(self, s: int, most: int) -> Events:
        """At least one and at most so many of a stream's next rows, which are taken."""
        w, q = self._view, self._queues
        core = s - int(q.base[0])
        if core >= 0 and q.n[core]:
            n = min(most, int(q.n[core]))
            taken = q.rows[core, q.head[core] : q.head[core] + n]
            q.head[core] += n
            q.n[core] -= n
            return taken
        if w.at[s] == w.fill[s] and not self._windows.refill(s):
            raise too_many(f"stream {s}")
        first = int(w.at[s])
        n = min(most, int(w.fill[s]) - first)
        w.at[s] += n
        return w.rows[s, first : first + n]

    def rebase(self, address: NDArray[np.uint64], value: NDArray[np.uint8]) -> None:
        """Give bytes their values after a region that was passed over."""
        self.memory.store(address, np.ones(len(address), np.uint8), value.astype(np.uint64))
        self.marks[address.astype(np.int64)] = _TOUCHED

    def finish(self) -> None:
        """Check that every row was walked and memory is the final image, where that is known."""
        w, q = self._view, self._queues
        for core in range(len(q.n)):
            if q.n[core]:
                row = q.rows[core, q.head[core]]
                raise OrderError(LEFT_OUT, where=name_row(int(q.base[0]) + core, row))
        for s in range(self._traces.n_streams):
            if w.at[s] < w.fill[s] or self._windows.refill(s):
                raise OrderError(LEFT_OUT, where=name_row(s, w.rows[s, w.at[s]]))
        if self.now[1] >= 0:
            raise unfinished_access(f"stream {self.now[1]}")
        if not self._traces.has_final:
            return
        final = np.asarray(self._traces.final())
        a = first_difference(self.memory.state, self.memory.loaded, self.marks, final)
        if a >= 0:
            raise not_final(int(a), int(final[a]), int(self.memory.state[a]))

    def _violation(self, status: int, s: int, byte: int) -> OrderError:
        if status == _BUFFER + MISSING:
            return too_many(f"stream {s}")
        return self._name_violation(status, s, self._queues.taken[0], byte)

    def _name_violation(self, status: int, s: int, row: np.void, byte: int) -> OrderError:
        where = name_row(s, row)
        if status > _BUFFER:
            return OrderError(VIOLATIONS[status - _BUFFER], where=where)
        if status == _STRATUM:
            return OrderError(
                "an event stands after one of a later region",
                expected=f"stratum {int(self.now[0])} or later",
                found=f"stratum {row['stratum']}",
                where=where,
            )
        if status == _CUT:
            return misplaced(where)
        if status == _BEHIND:
            return OrderError(BEHIND, where=where)
        if status == _SPLIT:
            return split_access(int(self.now[1]), where)
        if status == _RANGE:
            return outside_memory(where)
        return not_as_held(row, byte, int(self.memory.state[int(row["addr"]) + byte]), where)


def check_certificate(traces: Traces, certificate: Certificate, rebase: Rebase | None = None) -> CheckReport:
    """Walk the traces in the certificate's order. Raises OrderError at the first violation, FormatError
    for a certificate that cannot be read or is of another number of streams or regions.

    A region without an order is passed over and reported as unchecked; what its events touched is unknown
    afterwards, and the next event there is believed, unless `rebase` gives the bytes' values after it.
    """
    head = certificate.head
    for name, expected, found in (
        ("streams", traces.n_streams, head.n_streams),
        ("regions", len(traces.strata) + 1, head.n_regions),
    ):
        if expected != found:
            raise FormatError(
                f"a certificate for another number of {name}",
                expected=expected,
                found=found,
                remedy="order the recording again",
            )
    state = _Walk(traces)
    unchecked: list[tuple[int, str]] = []
    passed = 0
    for block in certificate.blocks():
        if block.status == ORDERED:
            state.runs(block.stream, block.rows)
            continue
        state.pass_over(block.region, block.rows)
        passed += int(block.rows.sum())
        unchecked.append((block.region, REASONS[block.status]))
        if rebase is not None and block.region in rebase:
            state.rebase(*rebase[block.region])
    state.finish()
    return CheckReport(int(state.now[2]), passed, unchecked)


def check_slices(
    traces: Traces, slices: Iterable[tuple[NDArray[np.int64], NDArray[np.uint64]]]
) -> CheckReport:
    """Check an order given as slices: of each, all rows of a stream with an instruction count below an end
    come next. slices: batches of (stream int64 (n,), end uint64 (n,)). Raises OrderError."""
    state = _Walk(traces)
    for stream, end in slices:
        if len(stream) and not 0 <= int(stream.min()) <= int(stream.max()) < traces.n_streams:
            raise OrderError(
                "a slice of no stream", expected=f"0 to {traces.n_streams - 1}", found=stream.tolist()[:8]
            )
        state.slices(stream.astype(np.int64), end.astype(np.uint64))
    state.finish()
    return CheckReport(int(state.now[2]), 0, [])
