"""From slices to a region's rows: which accesses a slice has, memory between slices, and the order of all
rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import first_from
from corebraid.base.rows.event import EVENT, READ, UNCACHED
from recorder.evidence.slices.codec import SliceTable
from solver.evidence.lightplay.slice_problem import Misfit
from solver.regions.problem import Problem
from solver.regions.region import Region

_BYTE = np.uint64(0xFF)


@njit(cache=True)
def write_rows(rows, start, end, address, value):  # type: ignore[no-untyped-def]
    """What rows start to end leave in the bytes that matter."""
    for i in range(start, end):
        row = rows[i]
        if row.kind == READ or row.flags & UNCACHED:
            continue
        k = first_from(address, 0, address.size, row.addr)
        while k < address.size and address[k] < row.addr + np.uint64(row.size):
            value[k] = np.uint8((row.new >> (np.uint64(8) * (address[k] - row.addr))) & _BYTE)
            k += 1


@njit(cache=True)
def read_places(first, size, address, value, out):  # type: ignore[no-untyped-def]
    """The values of places. Returns False if a byte of them is not one that matters."""
    for p in range(first.size):
        k = first_from(address, 0, address.size, first[p])
        out[p] = np.uint64(0)
        for b in range(np.int64(size[p])):
            if k + b >= address.size or address[k + b] != first[p] + np.uint64(b):
                return False
            out[p] |= np.uint64(value[k + b]) << np.uint64(8 * b)
    return True


@njit(cache=True)
def order_of_ops(run_stream, run_rows, stream_ptr, end_row, order):  # type: ignore[no-untyped-def]
    """The order of a region's operations that an order of its rows implies: an operation comes where its last
    row does. Returns how many were placed."""
    next_op, placed = stream_ptr[:-1].copy(), np.zeros(stream_ptr.size - 1, np.int64)
    n = 0
    for i in range(run_stream.size):
        s = run_stream[i]
        placed[s] += run_rows[i]
        while next_op[s] < stream_ptr[s + 1] and end_row[next_op[s]] <= placed[s]:
            order[n] = next_op[s]
            next_op[s] += 1
            n += 1
    return n


@njit(cache=True)
def write_places(first, size, values, address, value):  # type: ignore[no-untyped-def]
    """Places hold these values now."""
    for p in range(first.size):
        k = first_from(address, 0, address.size, first[p])
        for b in range(np.int64(size[p])):
            value[k + b] = np.uint8((values[p] >> np.uint64(8 * b)) & _BYTE)


class Rows:
    """The rows of a region, stream by stream (EVENT), and what is in memory where they race."""

    def __init__(self, region: Region, problem: Problem) -> None:
        self.rows: list[Any] = []
        for source in region.streams:
            pieces = list(source.pieces())
            self.rows.append(pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0, EVENT), *pieces]))
        length = problem.size.astype(np.int64)
        lane = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        address = np.repeat(problem.address, length) + lane.astype(np.uint64)
        value = np.repeat(problem.initial, length) >> (np.uint64(8) * lane.astype(np.uint64))
        by = np.argsort(address)
        self._address, self._value = address[by], (value & _BYTE).astype(np.uint8)[by]
        self._at = [0] * len(self.rows)

    def advance(self, ends: list[int]) -> None:
        """The streams go on to these rows: what they write is in memory, each stream's after the others'."""
        for stream, to in enumerate(ends):
            if to > self._at[stream]:
                write_rows(self.rows[stream], self._at[stream], to, self._address, self._value)
                self._at[stream] = to

    def covers(self, address: NDArray[np.uint64], size: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which places lie where something races in this region: bool (n,)."""
        found = np.zeros(len(address), bool)
        one, out = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
        for p in range(len(address)):
            one[0] = address[p]
            found[p] = read_places(one, size[p : p + 1], self._address, self._value, out)
        return found

    def values(self, address: NDArray[np.uint64], size: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """What places hold now. Raises Misfit for one on which nothing races in this region."""
        out = np.empty(len(address), np.uint64)
        if not read_places(address, size, self._address, self._value, out):
            raise Misfit("a race where the region has none")
        return out

    def set_values(
        self, address: NDArray[np.uint64], size: NDArray[np.uint8], values: NDArray[np.uint64]
    ) -> None:
        """Places that `values` knows hold something else now."""
        write_places(address, size, values, self._address, self._value)


class Runs:
    """The order of a region's rows in the making, as runs of rows of one stream."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._at = problem, [0] * problem.n_streams
        self._runs: list[tuple[int, int]] = []

    def advance(self, stream: int, to: int) -> None:
        """A stream goes on to its row `to`."""
        if to > self._at[stream]:
            self._runs.append((stream, to - self._at[stream]))
            self._at[stream] = to

    def order(self) -> NDArray[np.int64]:
        """The order of the problem's operations (int64 (n_ops,)) that follows. Raises Misfit if rows are
        missing."""
        problem = self._problem
        runs = np.array(self._runs, np.int64).reshape(-1, 2)
        order = np.empty(problem.n_ops, np.int64)
        columns = np.ascontiguousarray(runs[:, 0]), np.ascontiguousarray(runs[:, 1])
        n = order_of_ops(*columns, problem.stream_ptr, problem.end_row, order)
        if n != problem.n_ops:
            raise Misfit("events behind the end of the last slice")
        return order


def ends_in(table: SliceTable, begin: NDArray[np.uint64], rows: Rows) -> NDArray[np.int64]:
    """int64 (slices, streams), how many rows of the region lie before each slice's end. begin: uint64
    (streams,), events before the region. Raises Misfit where the slices do not end with the region."""
    ends = (table.end - begin).astype(np.int64)
    lengths = [len(r) for r in rows.rows]
    if len(ends) == 0 or ends[-1].tolist() != lengths:
        raise Misfit("the events of a region")
    return ends


def accesses_of(table: SliceTable, number: int, begin: NDArray[np.uint64], rows: Rows) -> tuple[Any, Any]:
    """A kept slice's accesses: (EVENT (n,), CHECKPOINT (n,)). Raises Misfit if the replayed ones are
    others."""
    checkpoints = table.accesses[table.access_ptr[number] : table.access_ptr[number + 1]]
    found = np.zeros(len(checkpoints), EVENT)
    for stream in np.unique(checkpoints["stream"]):
        mine = checkpoints["stream"] == stream
        found[mine] = rows.rows[stream][(checkpoints["seq"][mine] - begin[stream]).astype(np.int64)]
    same = (found["size"] == checkpoints["size"]) & (found["kind"] == checkpoints["kind"])
    if not (same & (found["seq"] == checkpoints["seq"])).all():
        raise Misfit("an access")
    return found, checkpoints


def begun_before(events: Any, begin: NDArray[np.uint64], rows: Rows) -> Any:
    """The accesses that lie before a slice, of instructions that have others in it: EVENT (n,). events: those
    of the slice (`accesses_of`)."""
    found = [np.zeros(0, EVENT)]
    for core in np.unique(events["core"]).tolist():
        first = events[events["core"] == core][0]
        at = end = int(first["seq"] - begin[core])
        while at and rows.rows[core][at - 1]["count"] == first["count"]:
            at -= 1
        found.append(rows.rows[core][at:end])
    return np.concatenate(found)
