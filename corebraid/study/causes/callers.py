"""From where in own code a program's threads were in libraries, by what calls and returns did to the stack.

A call stores the address behind itself; a return reads it. Frames that are left in another way, by an
exception or a jump, are known to be gone when the next call or return is of a frame above them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from corebraid.base.rows.event import READ, WRITE

Rows = NDArray[np.void]
Places = NDArray[np.uint64]
Mask = NDArray[np.bool_]

#: The caller of what nothing of the program's own has called, as far as that is known.
NONE = 0
#: Bytes of the longest instruction, and of a return's address.
_INSTRUCTION, _ADDRESS = 16, 8


class Code(Protocol):
    """What is known of code. Both take pcs, uint64[n], and tell of each, bool[n]: whether it is in the
    program's own code; whether it returns."""

    def own(self, pcs: Places) -> Mask:
        """See above."""

    def returns(self, pcs: Places) -> Mask:
        """See above."""


class Calls(NamedTuple):
    """The calls of own code that a thread is in. slots: uint64[n], where each stored its return. pcs:
    uint64[n], where it is. depth: int64[1], how many there are."""

    slots: Places
    pcs: Places
    depth: NDArray[np.int64]


@inner
def _drop(calls, upto):  # type: ignore[no-untyped-def]
    """Calls whose return is stored at `upto` or below have ended."""
    slots, _, depth = calls
    while depth[0] > 0 and slots[depth[0] - 1] <= upto:
        depth[0] -= 1


@inner
def _is_call(row):  # type: ignore[no-untyped-def]
    """Whether it stores an address right behind its instruction."""
    if row.kind != WRITE or row.size != _ADDRESS:
        return False
    return row.pc < row.new and row.new - row.pc < np.uint64(_INSTRUCTION)


@njit(cache=True)
def follow_calls(rows, own, returns, calls, callers):  # type: ignore[no-untyped-def]
    """Follow a thread through its accesses (EVENT[n]). own, returns: bool[n], which are in own code, and
    which are returns. Fill in callers, uint64[n]: the pc of the call for those that are not in own code;
    `NONE` for the others. calls moves on; it must have room for as many more as there are accesses."""
    slots, pcs, depth = calls
    for i in range(rows.size):
        row = rows[i]
        callers[i] = NONE if own[i] or depth[0] == 0 else pcs[depth[0] - 1]
        if returns[i]:
            _drop(calls, row.addr)
        elif own[i] and _is_call(row):
            _drop(calls, row.addr)
            slots[depth[0]], pcs[depth[0]] = row.addr, row.pc
            depth[0] += 1


class Callers:
    """Of the threads of a run, each of whose accesses come in program order."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._calls: dict[int, Calls] = {}

    def of(self, rows: Rows, who: NDArray[np.int64]) -> Places:
        """The caller of each access: uint64[n], see `follow_calls`. who: int64[n], the threads."""
        pcs = rows["pc"].astype(np.uint64)
        own, returns = self._code.own(pcs), _returns(rows, self._code)
        callers = np.zeros(len(rows), np.uint64)
        for thread in np.unique(who).tolist():
            mine = np.flatnonzero(who == thread)
            callers[mine] = self._of_thread(thread, rows[mine], own[mine], returns[mine])
        return callers

    def _of_thread(self, thread: int, rows: Rows, own: Mask, returns: Mask) -> Places:
        calls = self._calls.get(thread, _nothing())
        room = int(calls.depth[0]) + len(rows)
        if len(calls.slots) < room:
            more = np.zeros(room, np.uint64)
            calls = calls._replace(
                slots=np.concatenate([calls.slots, more]), pcs=np.concatenate([calls.pcs, more])
            )
        self._calls[thread] = calls
        callers = np.empty(len(rows), np.uint64)
        follow_calls(rows, own, returns, calls, callers)
        return callers


class LastOwn(Callers):
    """The same where accesses do not come in program order, as stores do that a buffer holds: where the
    thread was last in its own code, which is mostly the call."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self._last: dict[int, int] = {}

    def _of_thread(self, thread: int, rows: Rows, own: Mask, returns: Mask) -> Places:
        here = np.flatnonzero(own)
        at = np.searchsorted(here, np.arange(len(rows)), side="right") - 1
        before = np.full(len(rows), self._last.get(thread, NONE), np.uint64)
        if not len(here):
            return before
        pcs = rows["pc"].astype(np.uint64)
        self._last[thread] = int(pcs[here[-1]])
        found = np.where(at < 0, before, pcs[here[np.maximum(at, 0)]])
        found[own] = NONE
        return found


def turns_of_calls(rows: Rows, code: Code) -> Mask:
    """Of accesses (EVENT[n]) those from which follows in which calls their thread is: bool[n]."""
    pcs, new = rows["pc"].astype(np.uint64), rows["new"]
    calls = (rows["kind"] == WRITE) & (rows["size"] == _ADDRESS)
    calls &= (pcs < new) & (new - pcs < np.uint64(_INSTRUCTION))
    return calls | _returns(rows, code)


def _returns(rows: Rows, code: Code) -> Mask:
    reads = (rows["kind"] == READ) & (rows["size"] == _ADDRESS)
    found: Mask = np.zeros(len(rows), np.bool_)
    found[reads] = code.returns(rows["pc"][reads].astype(np.uint64))
    return found


def _nothing() -> Calls:
    return Calls(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(1, np.int64))
