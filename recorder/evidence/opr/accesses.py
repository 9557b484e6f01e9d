"""A core's accesses to global memory as event orders see them: loads, stores, and the puts and gets that it
starts by writing device registers (firmware/include/machine.h)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.memory import DEVICE_BASE
from corebraid.base.rows.event import FETCH, READ, UNCACHED, WRITE
from emu.devices.one_sided import (
    RMA_GET,
    RMA_LENGTH,
    RMA_LOCAL,
    RMA_OUTSTANDING,
    RMA_PUT,
    RMA_REMOTE,
    longest_transfer,
)
from recorder.evidence.opr.rows import Rows

#: Kinds of an access. GOT: a get that the core knows to be complete: it has read [addr, addr + size).
LOAD, STORE, GOT = 1, 2, 3

#: An access: its SN, where, how many bytes, whether it read something new; event: the row that it comes from;
#: local: of a put or get, where the core's own end of it is.
ACCESS = np.dtype(
    [
        ("sn", "<u8"),
        ("addr", "<u8"),
        ("size", "<u8"),
        ("local", "<u8"),
        ("event", "<i8"),
        ("kind", "u1"),
        ("fresh", "u1"),
        ("put", "u1"),
        ("unused", "u1", (5,)),
    ]
)

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_BASE = np.uint64(DEVICE_BASE)
#: Gets of a core that it has started since it last found nothing outstanding, of which are remembered so
#: many; should there be more, the oldest counts as complete.
MOST_GETS = 256
#: State of a core's engine: its registers LOCAL, REMOTE and LENGTH, how many such gets there are, and from
#: here on these; and how long that is.
_LOCAL, _REMOTE, _LENGTH, _COUNT, _GETS = range(5)
_STATE = _GETS + 3 * MOST_GETS


@njit(cache=True)
def _put_access(out, n, sn, addr, size, kind, fresh, event):  # type: ignore[no-untyped-def]
    access = out[n]
    access.sn, access.addr, access.size, access.kind, access.fresh = sn, addr, size, kind, fresh
    access.local, access.event, access.put = _ZERO, event, 0
    return n + 1


@njit(cache=True)
def _got(state, k, sn, event, out, n):  # type: ignore[no-untyped-def]
    """The k-th of the core's gets is complete."""
    at = _GETS + 3 * k
    n = _put_access(out, n, sn, state[at + 1], state[at + 2], GOT, 1, event)
    out[n - 1].local = state[at]
    return n


@njit(cache=True)
def _device(row, sn, state, limit, event, out, n):  # type: ignore[no-untyped-def]
    """A device register: what the core has thereby done to memory. limit: bytes of memory."""
    register = row.addr - _BASE
    if row.kind == WRITE:
        if register == RMA_LOCAL:
            state[_LOCAL] = row.new
        elif register == RMA_REMOTE:
            state[_REMOTE] = row.new
        elif register == RMA_LENGTH:
            state[_LENGTH] = row.new
        elif register in (RMA_PUT, RMA_GET):
            size = longest_transfer(state[_LOCAL], state[_REMOTE], state[_LENGTH], limit)
            if register == RMA_PUT and size != _ZERO:
                n = _put_access(out, n, sn, state[_REMOTE], size, STORE, 0, event)
                out[n - 1].local, out[n - 1].put = state[_LOCAL], 1
            elif size != _ZERO:
                if state[_COUNT] == np.uint64(MOST_GETS):
                    n = _got(state, 0, sn, event, out, n)
                    state[_GETS : _STATE - 3] = state[_GETS + 3 : _STATE]
                    state[_COUNT] -= _ONE
                place = _GETS + 3 * np.int64(state[_COUNT])
                state[place], state[place + 1], state[place + 2] = state[_LOCAL], state[_REMOTE], size
                state[_COUNT] += _ONE
    elif register == RMA_OUTSTANDING and row.old == _ZERO:
        for k in range(np.int64(state[_COUNT])):
            n = _got(state, k, sn, event, out, n)
        state[_COUNT] = _ZERO
    return n


@njit(cache=True)
def expand_accesses(rows, fresh, sn, state, limit, out):  # type: ignore[no-untyped-def]
    """Accesses of a core's next events (EVENT[n]), whose accesses before were `sn` (uint64).

    fresh: uint8[n]. state: uint64[_STATE] of its engine. out: ACCESS[n + MOST_GETS]. Returns (accesses,
    SN).
    """
    n = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        if (row.flags & FETCH) != 0:
            continue
        sn += _ONE
        if (row.flags & UNCACHED) != 0:
            n = _device(row, sn, state, limit, i, out, n)
        else:
            kind = LOAD if row.kind == READ else STORE
            n = _put_access(out, n, sn, row.addr, np.uint64(row.size), kind, fresh[i], i)
    return n, sn


class AccessStream:
    """The accesses of one core, piece by piece. memory: bytes of guest memory."""

    def __init__(self, memory: int) -> None:
        self._state = np.zeros(_STATE, np.uint64)
        self._limit = np.uint64(memory)
        self.sn = 0

    def take(self, rows: Rows, fresh: npt.NDArray[np.uint8]) -> Rows:
        """Accesses of the next events. rows: EVENT[n]; fresh: uint8[n]. Returns ACCESS[m]."""
        out = np.empty(len(rows) + MOST_GETS, ACCESS)
        n, sn = expand_accesses(rows, fresh, np.uint64(self.sn), self._state, self._limit, out)
        self.sn = int(sn)
        return out[:n]
