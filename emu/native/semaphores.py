"""Semaphores of the host's threads, called natively: a hook waits in one, and no instruction is broken off.

A core that must wait in the middle of an instruction does so inside its memory hook, on a thread of its own.
All but one wait, so that memory which hooks share needs no locks; passing a semaphore on is a barrier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit, types
from corebraid.base.errors import CorebraidError
from corebraid.base.kernels import inner

_SEM_INIT = types.ExternalFunction("sem_init", types.int32(types.uint64, types.int32, types.uint32))
_SEM_WAIT = types.ExternalFunction("sem_wait", types.int32(types.uint64))
_SEM_POST = types.ExternalFunction("sem_post", types.int32(types.uint64))

#: Bytes of one: no C library's `sem_t` is larger; each has a cache line of its own.
SEMAPHORE_BYTES = 64


@njit(cache=True)
def _begin(first, n):  # type: ignore[no-untyped-def]
    for k in range(n):
        if _SEM_INIT(first + np.uint64(SEMAPHORE_BYTES) * np.uint64(k), 0, np.uint32(0)) != 0:
            return False
    return True


def new_semaphores(n: int) -> NDArray[np.uint8]:
    """n semaphores at 0, uint8[n * SEMAPHORE_BYTES]. Raises CorebraidError."""
    room = np.zeros((n + 1) * SEMAPHORE_BYTES, np.uint8)
    begin = -int(room.ctypes.data) % SEMAPHORE_BYTES
    made = room[begin : begin + n * SEMAPHORE_BYTES]
    if not _begin(np.uint64(made.ctypes.data), n):
        raise CorebraidError("the host refused a semaphore", remedy="free some of its memory")
    return made


@inner
def post(first, k):  # type: ignore[no-untyped-def]
    """Let whoever waits, or will wait, for semaphore k go on. first: address of the first one (uint64)."""
    _SEM_POST(first + np.uint64(SEMAPHORE_BYTES) * np.uint64(k))


@inner
def wait(first, k):  # type: ignore[no-untyped-def]
    """Wait until somebody posts it. A signal does not end it: it is dealt with by another thread."""
    while _SEM_WAIT(first + np.uint64(SEMAPHORE_BYTES) * np.uint64(k)) != 0:
        pass
