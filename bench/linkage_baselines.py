"""What Stride is measured against, as recorders of the same run: LEAP and a global write order.

LEAP (Huang, Liu, Zhang; FSE 2010) records for every shared variable which thread accessed it next, reads
included. Global is Cantin, Lipasti and Smith's proposal as the Stride paper implements it (section VI): one
order of all writes to shared variables; a read logs its value and the number of writes so far. Both use the
variables, the sharing and the encoding of recorder/evidence/linkage/collector.py, so that only what is
recorded differs.
"""

from __future__ import annotations

from typing import NamedTuple

import lz4.block
import numpy as np
from numba import njit
from numpy.typing import NDArray

from corebraid.base.host_memory import host_memory
from corebraid.base.rows.event import READ, RMW, UNCACHED
from recorder.evidence.linkage.codec import Grouping
from recorder.evidence.linkage.collector import SHADOW_BITS
from recorder.evidence.linkage.kernels import Names, slot, variable_of
from recorder.files.collectors import Guest
from recorder.files.columns import encode_table

_ROOM, _AT_ONCE = 1 << 15, 1 << 12
_U1 = np.uint64(1)


class Counter:
    """A writer that counts what it is given. raw: bytes before compression; stored: after, frame by frame."""

    def __init__(self) -> None:
        self.raw = self.stored = 0

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        """See `EvidenceWriter`."""
        self.raw += len(raw)
        self.stored += len(lz4.block.compress(bytes(raw), store_size=False)) + 44

    def table(self, table: NDArray[np.uint64]) -> None:
        """Count a table, as a frame of its own."""
        if len(table):
            self.append(encode_table(table), len(table), 0, 0)


class Runs(NamedTuple):
    """Runs being written. table: uint64 (rows, 3): key, value, how many. filled: int64 (1,)."""

    table: NDArray[np.uint64]
    filled: NDArray[np.int64]


@njit(cache=True)
def _emit(runs, key, value, n):  # type: ignore[no-untyped-def]
    if n:
        at = runs.filled[0]
        runs.table[at, 0], runs.table[at, 1], runs.table[at, 2] = key, value, n
        runs.filled[0] = at + 1


@njit(cache=True)
def _shared(owner, variable, stream):  # type: ignore[no-untyped-def]
    if owner[variable] == 255:
        return True
    if owner[variable] == 0 or owner[variable] == stream + 1:
        owner[variable] = stream + 1
        return False
    owner[variable] = 255
    return True


@njit(cache=True)
def leap_rows(rows, stream, names, owner, last, n, runs):  # type: ignore[no-untyped-def]
    """Every access to a shared variable: who, in runs. last, n: uint8, uint32 (variables,), the open run."""
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & np.uint8(UNCACHED)) != 0:
            continue
        first = variable_of(names, row.addr)
        second = variable_of(names, row.addr + np.uint64(row.size) - _U1)
        for half in range(1 if first == second else 2):
            variable = first if half == 0 else second
            if not _shared(owner, variable, stream):
                continue
            if n[variable] and last[variable] != stream:
                _emit(runs, variable, np.uint64(last[variable]), np.uint64(n[variable]))
                n[variable] = 0
            last[variable] = stream
            n[variable] += np.uint32(1)


class OpenRuns(NamedTuple):
    """state: uint64 (3,): writes, the stream of the open run, its length. bound: uint64 (streams, 3): the
    open run of bounds, its length, values predicted."""

    state: NDArray[np.uint64]
    bound: NDArray[np.uint64]


@njit(cache=True)
def global_rows(rows, stream, names, owner, run, shadow, bits, tables):  # type: ignore[no-untyped-def]
    """All writes in one order, in runs; reads with the number of writes so far, and values that are not
    predicted. run: `OpenRuns`. tables: `Runs` of orders, bounds and values."""
    state, bound = run
    orders, bounds, values = tables
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & np.uint8(UNCACHED)) != 0:
            continue
        first = variable_of(names, row.addr)
        second = variable_of(names, row.addr + np.uint64(row.size) - _U1)
        shared = _shared(owner, first, stream)
        if second != first:
            shared = _shared(owner, second, stream) or shared
        if not shared:
            continue
        at = slot(row.addr, bits)
        mine = bound[stream]
        if row.kind == READ or row.kind == RMW:
            if row.kind == READ:
                if mine[1] and mine[0] != state[0]:
                    _emit(bounds, np.uint64(stream), mine[0], mine[1])
                    mine[1] = 0
                mine[0] = state[0]
                mine[1] += _U1
            if shadow[stream, at] == row.old:
                mine[2] += _U1
            else:
                _emit(values, row.old, mine[2], _U1)
                mine[2] = 0
                shadow[stream, at] = row.old
        if row.kind != READ:
            if state[2] and state[1] != stream:
                _emit(orders, state[1], state[2], _U1)
                state[2] = 0
            state[0] += _U1
            state[1] = stream
            state[2] += _U1
            shadow[stream, at] = row.new


class _Baseline:
    """What both have in common: variables, sharing, and tables that are counted when they are full."""

    def __init__(self, guest: Guest, group: str) -> None:
        objects = np.array(guest.symbols, np.uint64).reshape(-1, 2)
        objects = objects if group == "symbol" else objects[:0]
        self.grouping = Grouping(group, guest.line, len(guest.memory), objects)
        self._names = Names(
            np.uint64(self.grouping.shift), np.uint64(len(objects)), self.grouping.symbol_of_word()
        )
        self._owner = host_memory(self.grouping.n_variables)
        self.counter = Counter()

    def _runs(self) -> Runs:
        return Runs(np.zeros((_ROOM + 2 * _AT_ONCE, 3), np.uint64), np.zeros(1, np.int64))

    def _count(self, runs: Runs, columns: tuple[int, ...], least: int = 1, sort: bool = False) -> None:
        if runs.filled[0] >= least:
            table = runs.table[: runs.filled[0]][:, columns]
            if sort:
                table = table[np.argsort(table[:, 0], kind="stable")]
            self.counter.table(np.ascontiguousarray(table))
            runs.filled[0] = 0

    def stratum(self) -> None:
        """Nothing is known of strata."""

    def flush(self) -> None:
        """A baseline is not read back."""


class Leap(_Baseline):
    """LEAP's log of a run."""

    def __init__(self, guest: Guest, group: str = "word") -> None:
        super().__init__(guest, group)
        n = self.grouping.n_variables
        self._last, self._n = host_memory(n), host_memory(4 * n).view(np.uint32)
        self._table = self._runs()

    def take(self, stream: int, rows: NDArray[np.void]) -> None:
        """See `recorder.files.collectors.Collector`."""
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            leap_rows(part, stream, self._names, self._owner, self._last, self._n, self._table)
            self._count(self._table, (0, 1, 2), _ROOM, sort=True)

    def open_variables(self) -> NDArray[np.int64]:
        """Variables whose run is open, ascending."""
        return np.flatnonzero(self._n)

    def finish(self) -> None:
        """The runs that are open."""
        open_ones = self.open_variables()
        rest = np.stack([open_ones, self._last[open_ones], self._n[open_ones]], axis=1).astype(np.uint64)
        self._count(self._table, (0, 1, 2), sort=True)
        self.counter.table(rest)


class Global(_Baseline):
    """The log of a run with one order of all writes."""

    def __init__(self, guest: Guest, group: str = "word") -> None:
        super().__init__(guest, group)
        streams = guest.n_cores + 1
        self._open = OpenRuns(np.zeros(3, np.uint64), np.zeros((streams, 3), np.uint64))
        self._shadow = np.zeros((streams, 1 << SHADOW_BITS), np.uint64)
        self._orders, self._bounds, self._values = self._runs(), self._runs(), self._runs()

    def take(self, stream: int, rows: NDArray[np.void]) -> None:
        """See `recorder.files.collectors.Collector`."""
        for start in range(0, len(rows), _AT_ONCE):
            global_rows(
                rows[start : start + _AT_ONCE], stream, self._names, self._owner, self._open, self._shadow,
                SHADOW_BITS, (self._orders, self._bounds, self._values),
            )  # fmt: skip
            self._write(_ROOM)

    def _write(self, least: int) -> None:
        self._count(self._orders, (0, 1), least)
        self._count(self._bounds, (1, 2), least)
        self._count(self._values, (0, 1), least)

    def finish(self) -> None:
        """The runs that are open."""
        self._write(1)
        self.counter.table(np.stack([self._open.bound[:, 0], self._open.bound[:, 1]], axis=1))
        self.counter.table(self._open.state[None, 1:])
