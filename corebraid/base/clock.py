"""A clock that stands still while this thread has kernels compiled or loaded.

Limits and times of solving are by it: what an engine does must not depend on whether its kernels are cached.
"""

from __future__ import annotations

import threading
from time import monotonic

from corebraid.base.compiled.begin import when_busy


class _Compiling(threading.local):
    """One thread's stays in Numba's compiler: how deep it is there, since when, seconds of earlier ones."""

    depth = 0
    since = 0.0
    seconds = 0.0


class _Watch:
    """Hears when a thread goes into the compiler, or loads what that has cached, and when it comes back."""

    def __init__(self) -> None:
        self.here = _Compiling()

    def on_start(self) -> None:
        """Into the compiler, or deeper."""
        if self.here.depth == 0:
            self.here.since = monotonic()
        self.here.depth += 1

    def on_end(self) -> None:
        """One level back."""
        self.here.depth -= 1
        if self.here.depth == 0:
            self.here.seconds += monotonic() - self.here.since


_WATCH = _Watch()
when_busy("numba:compiler_lock", _WATCH.on_start, _WATCH.on_end)


def compiling_time() -> float:
    """Seconds that this thread has spent in Numba's compiler so far."""
    return _WATCH.here.seconds


def stand_still(seconds: float) -> None:
    """Do not count so many seconds of this thread: it waited for somebody who was compiling."""
    _WATCH.here.seconds += seconds


def working_time() -> float:
    """Seconds that this thread has spent otherwise than in Numba's compiler, from some moment on; as
    `time.monotonic`, which it is a replacement for. Not for times that two threads compare."""
    return monotonic() - compiling_time()
