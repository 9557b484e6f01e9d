"""The independent checker of an order: the abstract machine of the axe manual, sections 4.1 and 4.2, run
along it. It shares nothing with the search but the trace; it uses no chains, clocks or pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from solver.axe.trace import LOAD, RMW, STORE, Trace

_REASONS = (
    "",
    "an operation that does not exist, or comes twice",
    "an operation before one that must come first",
    "a read that would not read its value",
    "a final value that would not remain",
)


@njit(cache=True)
def walk_sc(order, thread, kind, address, read, written, memory, n_threads):  # type: ignore[no-untyped-def]
    """(place in the order, reason) of the first wrong operation, or (-1, 0). Memory is left as it ends."""
    latest = np.full(n_threads, -1, np.int64)
    for i in range(order.size):
        op = order[i]
        t, a = thread[op], address[op]
        if op < latest[t]:
            return i, 2
        latest[t] = op
        if (kind[op] == LOAD or kind[op] == RMW) and memory[a] != read[op]:
            return i, 3
        if kind[op] == STORE or kind[op] == RMW:
            memory[a] = written[op]
    return -1, 0


@njit(cache=True)
def neighbours(thread, kind, address, n_threads, n_addresses):  # type: ignore[no-untyped-def]
    """int64 per operation: the one before it in its thread; the one after it; its thread's last store before
    it to its location; -1 where there is none."""
    n = thread.size
    before, after, store = np.full(n, -1, np.int64), np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    previous = np.full(n_threads, -1, np.int64)
    last = np.full((n_threads, n_addresses), -1, np.int64)
    for op in range(n):
        t, a = thread[op], address[op]
        before[op] = previous[t]
        if previous[t] >= 0:
            after[previous[t]] = op
        previous[t] = op
        if a >= 0:
            store[op] = last[t, a]
        if kind[op] == STORE:
            last[t, a] = op
    return before, after, store


@njit(cache=True)
def walk_tso(order, thread, kind, address, read, written, memory, n_threads):  # type: ignore[no-untyped-def]
    """As `walk_sc`. A store stands where it leaves its buffer; what a thread's buffer holds at a load are the
    stores before the load that have not stood yet."""
    before, after, store = neighbours(thread, kind, address, n_threads, memory.size)
    stood = np.zeros(order.size, np.bool_)
    #: Per thread: its last operation but stores that stood; the last up to which all have stood.
    latest, whole = np.full(n_threads, -1, np.int64), np.full(n_threads, -1, np.int64)
    for i in range(order.size):
        op = order[i]
        t, a, k = thread[op], address[op], kind[op]
        if k != LOAD and before[op] != whole[t]:
            return i, 2
        if k != STORE:
            if op < latest[t]:
                return i, 2
            latest[t] = op
        if k == LOAD and store[op] >= 0 and not stood[store[op]]:
            if written[store[op]] != read[op]:
                return i, 3
        elif k in (LOAD, RMW) and memory[a] != read[op]:
            return i, 3
        if k in (STORE, RMW):
            memory[a] = written[op]
        stood[op] = True
        if before[op] == whole[t]:
            whole[t] = op
            while after[whole[t]] >= 0 and stood[after[whole[t]]]:
                whole[t] = after[whole[t]]
    return -1, 0


def check_order(trace: Trace, order: NDArray[np.int64], model: str) -> None:
    """Check an order of all operations: under SC where each takes effect, under TSO for a store where it
    leaves its thread's buffer. Raises OrderError.

    order: int64 (n,), indices of operations.
    """
    if len(order) != trace.n_ops or not np.array_equal(np.sort(order), np.arange(trace.n_ops)):
        raise OrderError(_REASONS[1], where=trace.name or None)
    memory = np.zeros(len(trace.addresses), np.uint64)
    walk = walk_sc if model == "sc" else walk_tso
    place, why = walk(
        order, trace.thread, trace.kind, trace.address, trace.read, trace.written, memory, len(trace.threads)
    )
    if place >= 0:
        raise OrderError(_REASONS[why], where=f"line {trace.lines[order[place]]}")
    for number, (a, value) in enumerate(zip(trace.final_address, trace.final_value, strict=True)):
        if memory[a] != value:
            raise OrderError(_REASONS[4], where=f"line {trace.final_lines[number]}")
