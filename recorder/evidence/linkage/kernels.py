"""What Stride's instrumentation does at every access to a shared variable (ICSE 2012, Table I and section V).

A core's turn comes in a piece. Within it no other core runs, so a version that is looked at after the next
instruction is looked at at once; only the last access of the turn waits until the core's next one, and what
others write meanwhile slips in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.kernels import inner
from corebraid.base.rows.event import FETCH, GLUED, READ, RMW, UNCACHED
from recorder.evidence.linkage.codec import DOUBLE, FOLLOW, MOST_WORDS, PREDICT, RUNS
from recorder.evidence.linkage.locks import (
    SKIPPED,
    SKIPPED_WRITES,
    Guards,
    begin_guard,
    follow_lock,
    is_guarded,
    is_loose,
    note_touch,
)

#: A variable: `version` counts two a write; odd while `writing` - 1 (a stream) is between its two counts.
#: The writer of the last `run` writes is `runner`. owner: 0 untouched, 1 + the only stream that has touched
#: it, or SHARED.
VARIABLE = np.dtype(
    [("version", "<u8"), ("run", "<u4"), ("owner", "u1"), ("runner", "u1"), ("writing", "u1"), ("zero", "u1")]
)
SHARED = 255

#: A stream: the access whose second half is still to come (NOTHING, a read, a write), its variable, the value
#: read, and where; the open run of versions; reads predicted since the last value; events so far.
NOTHING, LATE_READ, LATE_WRITE = 0, 1, 2
STREAM = np.dtype(
    [
        ("late", "<u8"), ("variable", "<u8"), ("value", "<u8"), ("place", "<u8"),
        ("version", "<u8"), ("run", "<u8"), ("hits", "<u8"), ("reached", "<u8"),
    ]
)  # fmt: skip

#: Rows of the tables that one event may add to each.
MOST_ADDED = 4

_U0, _U1, _U2, _U3 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)


class Names(NamedTuple):
    """Which variable an address belongs to: see `recorder.evidence.linkage.codec.Grouping`."""

    shift: np.uint64
    symbols: np.uint64
    symbol_of: NDArray[np.uint32]


class Shadow(NamedTuple):
    """values: uint64 (streams, 2**n), the value of a stream's last access to a place. seen: uint64
    (streams, 2**m, 2), 1 + a variable, the version that the stream has last seen of it."""

    values: NDArray[np.uint64]
    seen: NDArray[np.uint64]


#: Indexes of `Tables.filled`.
SHARES, ORDERS = 0, 1


class Tables(NamedTuple):
    """What is to be written: uint64 (rows, columns), or (streams, rows, columns), and how many rows are
    filled: int64, of shares and of orders, then of bounds and of values for each stream."""

    shares: NDArray[np.uint64]
    orders: NDArray[np.uint64]
    bounds: NDArray[np.uint64]
    values: NDArray[np.uint64]
    filled: NDArray[np.int64]
    filled_bounds: NDArray[np.int64]
    filled_values: NDArray[np.int64]


class State(NamedTuple):
    """All that a recorder keeps. variables: VARIABLE[n]. streams: STREAM[n]. bits: int64 (2,), of places and
    of versions in the shadow. compressions: bits of `codec`."""

    names: Names
    variables: NDArray[np.void]
    streams: NDArray[np.void]
    shadow: Shadow
    bits: NDArray[np.int64]
    tables: Tables
    compressions: int
    guards: Guards


@inner
def variable_of(names, address):  # type: ignore[no-untyped-def]
    """The variable that holds the byte at `address`."""
    if names.symbol_of.size:
        symbol = names.symbol_of[address >> _U3]
        if symbol:
            return np.uint64(symbol) - _U1
    return names.symbols + (address >> names.shift)


@inner
def slot(key, bits):  # type: ignore[no-untyped-def]
    """Where `key` belongs in a table of 2**bits entries."""
    return np.int64((key * GOLDEN) >> np.uint64(64 - bits))


@inner
def _touch(state, variable, event):  # type: ignore[no-untyped-def]
    """Whether an access to the variable is logged. event: (stream, number, kind, whether it is of this
    variable alone)."""
    stream = event[0]
    variables, streams, tables, guards = state.variables, state.streams, state.tables, state.guards
    row = variables[variable]
    if row.owner == SHARED:
        if guards.marks.size == 0:
            return True
        note_touch(guards, variable, stream)
        # A skipped write that is under way has been made.
        return not is_guarded(guards, streams, variable, (row.version + _U1) >> _U1, event)
    if row.owner == 0:
        row.owner = np.uint8(stream + 1)
        return False
    if row.owner == stream + 1:
        return False
    if guards.marks.size != 0:
        note_touch(guards, variable, stream)
    owner = np.int64(row.owner) - 1
    n = tables.filled[SHARES]
    tables.shares[n, 0], tables.shares[n, 1] = variable, np.uint64(owner)
    tables.shares[n, 2], tables.shares[n, 3] = streams[owner].reached, row.version >> _U1
    tables.shares[n, 4] = begin_guard(guards, variable, event) if guards.marks.size else _U0
    tables.filled[SHARES] = n + 1
    row.owner = np.uint8(SHARED)
    return tables.shares[n, 4] == _U0


@inner
def note_seen(seen, variable, version):  # type: ignore[no-untyped-def]
    """Keep the version in an entry of `Shadow.seen`, and say whether it is the one that was seen last."""
    same = seen[0] == variable + _U1 and seen[1] == version
    seen[0], seen[1] = variable + _U1, version
    return same


@inner
def _put_bound(streams, tables, stream, version, same, compressions):  # type: ignore[no-untyped-def]
    """Write a version down. With FOLLOW `run` counts the versions since the last row that were known."""
    row = streams[stream]
    if (compressions & FOLLOW) != 0:
        row.version = version
        if same:
            row.run += _U1
        else:
            _add_bound(streams, tables, stream, version, row.run)
        return
    if (compressions & RUNS) != 0 and row.run and row.version == version:
        row.run += _U1
        return
    close_bounds(streams, tables, stream, compressions)
    row.version, row.run = version, _U1


@inner
def _add_bound(streams, tables, stream, version, n):  # type: ignore[no-untyped-def]
    at = tables.filled_bounds[stream]
    tables.bounds[stream, at, 0], tables.bounds[stream, at, 1] = version, n
    tables.filled_bounds[stream] = at + 1
    streams[stream].run = _U0


@inner
def close_bounds(streams, tables, stream, compressions):  # type: ignore[no-untyped-def]
    """The stream's open run of versions ends here; with FOLLOW its last read is written as it is."""
    row = streams[stream]
    if row.run:
        n = row.run - _U1 if (compressions & FOLLOW) != 0 else row.run
        _add_bound(streams, tables, stream, row.version, n)


@inner
def _put_value(streams, shadow, bits, tables, stream, place, value, predict):  # type: ignore[no-untyped-def]
    row = streams[stream]
    at = slot(place, bits)
    if predict and shadow.values[stream, at] == value:
        row.hits += _U1
        return
    n = tables.filled_values[stream]
    tables.values[stream, n, 0], tables.values[stream, n, 1] = value, row.hits
    tables.filled_values[stream] = n + 1
    row.hits = _U0
    shadow.values[stream, at] = value


@inner
def _look(variables, variable, double):  # type: ignore[no-untyped-def]
    """The version as the instrumentation sees it: writes, or twice as many and one if one is under way."""
    version = variables[variable].version
    return version if double else (version + _U1) >> _U1


@inner
def _written(variables, variable, double):  # type: ignore[no-untyped-def]
    """The version once no write is under way."""
    writes = (variables[variable].version + _U1) >> _U1
    return writes << _U1 if double else writes


@inner
def close_order(variables, tables, variable):  # type: ignore[no-untyped-def]
    """The variable's open run of writes ends here."""
    row = variables[variable]
    if row.run:
        n = tables.filled[ORDERS]
        tables.orders[n, 0] = variable
        tables.orders[n, 1], tables.orders[n, 2] = np.uint64(row.runner), np.uint64(row.run)
        tables.filled[ORDERS] = n + 1
        row.run = np.uint32(0)


@njit(cache=True)
def close_orders(variables, tables, shared, start):  # type: ignore[no-untyped-def]
    """`close_order` for shared[start:] (uint64, variables) until the table is full. Returns the first
    left."""
    i = start
    while i < shared.size and tables.filled[ORDERS] < tables.orders.shape[0]:
        close_order(variables, tables, shared[i])
        i += 1
    return i


@inner
def _put_write(variables, tables, variable, stream, shared, late, runs):  # type: ignore[no-untyped-def]
    """wc of Table I: the version, and who writes it. A write whose second count is still to come has it now:
    writers of one variable exclude each other."""
    row = variables[variable]
    if row.writing:
        row.version += _U1
        row.writing = np.uint8(0)
    if late:
        row.version += _U1
        row.writing = np.uint8(stream + 1)
    else:
        row.version += _U2
    if not shared:
        return
    if not runs or row.run == 0 or row.runner != stream or row.run == 0xFFFFFFFF:
        close_order(variables, tables, variable)
        row.runner = np.uint8(stream)
    row.run += np.uint32(1)


@inner
def _read(state, stream, variable):  # type: ignore[no-untyped-def]
    """rc of Table I: look at the version, and write it down. Whether the value need not be."""
    _, variables, streams, shadow, bits, tables, compressions, _ = state
    double = (compressions & DOUBLE) != 0
    version = _look(variables, variable, double)
    same = note_seen(shadow.seen[stream, slot(variable, bits[1])], variable, version)
    _put_bound(streams, tables, stream, version, same, compressions)
    return double and same and (version & _U1) == _U0


@njit(cache=True)
def settle(state, stream):  # type: ignore[no-untyped-def]
    """The second half of the last access of the stream's last turn."""
    _, variables, streams, shadow, bits, tables, compressions, _ = state
    row = streams[stream]
    late, row.late = row.late, np.uint64(NOTHING)
    if late == LATE_WRITE:
        variable = variables[row.variable]
        if variable.writing == stream + 1:
            variable.version += _U1
            variable.writing = np.uint8(0)
    elif late == LATE_READ and not _read(state, stream, row.variable):
        predict = (compressions & PREDICT) != 0
        _put_value(streams, shadow, bits[0], tables, stream, row.place, row.value, predict)


@njit(cache=True)
def take_rows(rows, start, end, last, stream, state):  # type: ignore[no-untyped-def]
    """Take down rows[start:end] (EVENT), a piece of a turn. last: the turn ends with the last of these rows;
    its access waits for its second half."""
    names, variables, streams, shadow, bits, tables, compressions, guards = state
    double, runs = (compressions & DOUBLE) != 0, (compressions & RUNS) != 0
    predict = (compressions & PREDICT) != 0
    before = np.uint8(0)
    for i in range(start, end):
        row = rows[i]
        joined = ((row.flags | before) & np.uint8(GLUED)) != 0
        before = row.flags
        if (row.flags & np.uint8(UNCACHED)) != 0:
            continue
        first = variable_of(names, row.addr)
        second = variable_of(names, row.addr + np.uint64(row.size) - _U1)
        two = second != first
        event = (np.int64(stream), row.seq, row.kind, not two)
        shared = _touch(state, first, event)
        also = two and _touch(state, second, event)
        # A write that is skipped, of a variable whose reads are not.
        bare = False
        if not shared and variables[first].owner == SHARED:
            guards.counts[SKIPPED] += 1
            guards.counts[SKIPPED_WRITES] += row.kind != READ
            bare = is_loose(guards, first)
        waits = last and i == end - 1 and (shared or bare) and not two and not joined
        if row.kind == READ:
            if waits:
                mine = streams[stream]
                mine.late, mine.variable = np.uint64(LATE_READ), first
                mine.value, mine.place = row.old, row.addr
                continue
            known = double
            if shared:
                known &= _read(state, stream, first)
            if also:
                known &= _read(state, stream, second)
            if (shared or also) and not known:
                _put_value(streams, shadow, bits[0], tables, stream, row.addr, row.old, predict)
            continue
        if row.kind == RMW and (shared or also) and not double:
            _put_value(streams, shadow, bits[0], tables, stream, row.addr, row.old, predict)
        late = double and waits
        _put_write(variables, tables, first, stream, shared, late, runs)
        if two:
            _put_write(variables, tables, second, stream, also, False, runs)
        if late:
            streams[stream].late, streams[stream].variable = np.uint64(LATE_WRITE), first
        # The version that the write has when it is over: nothing else may come between its two counts.
        if shared or bare:
            version = _written(variables, first, double)
            note_seen(shadow.seen[stream, slot(first, bits[1])], first, version)
        if also:
            version = _written(variables, second, double)
            note_seen(shadow.seen[stream, slot(second, bits[1])], second, version)
        if shared or also or bare:
            shadow.values[stream, slot(row.addr, bits[0])] = row.new
        if guards.marks.size:
            follow_lock(guards, stream, row, (first, second), joined)
    if end > start:
        streams[stream].reached = rows[end - 1].seq + _U1


@njit(cache=True)
def note_fetches(rows, out):  # type: ignore[no-untyped-def]
    """Where code was fetched among rows (EVENT[n]): the number of the first event, its instruction, its
    address, how many words follow each other. out: uint64[n, 4], filled. Returns how many there are."""
    n = 0
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & np.uint8(FETCH)) == 0:
            continue
        if n and i and (rows[i - 1].flags & np.uint8(FETCH)) != 0:
            last = out[n - 1]
            follows = last[2] + np.uint64(8) * last[3] == row.addr and last[3] < np.uint64(MOST_WORDS)
            if last[1] == row.count and follows:
                last[3] += _U1
                continue
        out[n, 0], out[n, 1], out[n, 2], out[n, 3] = row.seq, row.count, row.addr, _U1
        n += 1
    return n
