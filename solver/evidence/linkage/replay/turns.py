"""Who goes on: one stream at a time, until it needs a version that is not there yet (ICSE 2012, section II).

Each stream has a thread of its own, and a semaphore in which it waits. It hands its turn to the next one that
can go on, in a rotating fashion, as the paper's scheduler does; where nobody can, the logs contradict each
other: no run could have made them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from emu.native.semaphores import new_semaphores, post, wait

#: Why a stream cannot go on: the evidence has nothing for its read, or write; nobody will make the version
#: that it waits for; its value is of no write up to its bound; an atomic access, or an agent, found another
#: value than was logged; there are more writes than the evidence has. ELSEWHERE: Python knows.
FITS, NO_BOUND, NO_WRITE, STUCK, NO_MATCH, OTHER_VALUE, TOO_MANY, ELSEWHERE = range(8)
#: What a stream is: not begun, on its turn, waiting for a version, at its end.
READY, ON_TURN, WAITING, OVER = range(4)
#: Columns of `Turns.streams`.
STATUS, SLOT, VERSION, WAITS, STREAM_FIELDS = range(5)
#: Places of `Turns.state`: whether the replay has failed; which stream found why, where and at which event;
#: turns handed on. A stream that fails says why first.
FAILED, WHY, STREAM, EVENT_NUMBER, ADDRESS, SWITCHES, _STATE = range(7)


class Turns(NamedTuple):
    """semaphores: address of the first of one a stream. streams: int64[n, 4], see STATUS. state: int64[6],
    see FAILED."""

    semaphores: Any
    streams: NDArray[np.int64]
    state: NDArray[np.int64]


def new_turns(n: int) -> tuple[Turns, NDArray[np.uint8]]:
    """Nobody has begun. Also the semaphores, which must be kept."""
    semaphores = new_semaphores(n)
    address = np.uint64(semaphores.ctypes.data)
    return Turns(address, np.zeros((n, STREAM_FIELDS), np.int64), np.zeros(_STATE, np.int64)), semaphores


@inner
def _next_ready(turns, made, after):  # type: ignore[no-untyped-def]
    """The next stream after this one that can go on, or -1; it may be this one."""
    n = turns.streams.shape[0]
    for k in range(1, n + 1):
        stream = (after + k) % n
        row = turns.streams[stream]
        if row[STATUS] == READY or (row[STATUS] == WAITING and made[row[SLOT]] >= row[VERSION]):
            return stream
    return -1


@inner
def _hand_on(turns, to):  # type: ignore[no-untyped-def]
    turns.state[SWITCHES] += 1
    turns.streams[to, STATUS] = ON_TURN
    post(turns.semaphores, to)


@inner
def fail(turns, why, stream, number, address):  # type: ignore[no-untyped-def]
    """The replay cannot go on, for the first reason that is given."""
    state = turns.state
    if state[FAILED] == 0:
        state[FAILED] = 1
        state[WHY], state[STREAM], state[EVENT_NUMBER] = why, stream, number
        state[ADDRESS] = np.int64(address)


@inner
def hold(turns, made, stream, slot, version):  # type: ignore[no-untyped-def]
    """Wait until the variable has this version. False if it never will, or the replay has failed."""
    if made[slot] >= version:
        return True
    row = turns.streams[stream]
    row[STATUS], row[SLOT], row[VERSION] = WAITING, slot, version
    row[WAITS] += 1
    to = _next_ready(turns, made, stream)
    if to < 0:
        return False
    _hand_on(turns, to)
    wait(turns.semaphores, stream)
    return turns.state[FAILED] == 0


@njit(cache=True, nogil=True)
def begin_turn(turns, stream):  # type: ignore[no-untyped-def]
    """A stream's thread has begun: wait for its first turn. Whether there is anything to be done."""
    wait(turns.semaphores, stream)
    return turns.state[FAILED] == 0


@njit(cache=True, nogil=True)
def begin_first(turns, made):  # type: ignore[no-untyped-def]
    """Let the first stream begin."""
    _hand_on(turns, _next_ready(turns, made, turns.streams.shape[0] - 1))


@njit(cache=True, nogil=True)
def end_turns(turns, made, stream, why):  # type: ignore[no-untyped-def]
    """A stream is at its end. why: nonzero if it failed. Where nobody can go on who has not ended, or the
    replay has failed, all threads are let go."""
    turns.streams[stream, STATUS] = OVER
    if why:
        fail(turns, why, stream, -1, np.uint64(0))
    to = _next_ready(turns, made, stream)
    if to >= 0 and turns.state[FAILED] == 0:
        _hand_on(turns, to)
        return
    for k in range(turns.streams.shape[0]):
        if turns.streams[k, STATUS] == WAITING or turns.streams[k, STATUS] == READY:
            if turns.state[FAILED] == 0:
                fail(turns, STUCK, k, -1, np.uint64(0))
            turns.streams[k, STATUS] = OVER
            post(turns.semaphores, k)
