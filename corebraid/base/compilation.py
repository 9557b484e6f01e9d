"""Telling a user that kernels are being compiled: the first run of a command takes so much longer."""

from __future__ import annotations

import os
from collections.abc import Callable

from corebraid.base.compiled.begin import when_busy


class _Teller:
    """Calls `tell` when Numba begins to compile for the first time, in whichever forked process."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        # A byte that one process can have, and no other then.
        self._untold, end = os.pipe()
        os.write(end, b"!")
        os.close(end)

    def on_start(self) -> None:
        """A kernel is compiled that is not cached."""
        if os.read(self._untold, 1):
            self._tell()


def tell_compilation(tell: Callable[[], None]) -> None:
    """Call `tell`, once, as soon as a kernel has to be compiled, in this process or one forked from it."""
    when_busy("numba:compile", _Teller(tell).on_start, lambda: None)
