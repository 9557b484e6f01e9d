"""Importing Numba, where it cannot be done without: what others want to be told of it, and of it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

from corebraid.base.compiled.symbols import Symbols
from corebraid.base.host_memory import check_room

#: Address space for Numba and LLVM, who end the process where they compile and there is no more.
_COMPILING_BYTES = 768 << 20


@cache
def symbols() -> Symbols:
    """Those of this process."""
    return Symbols()


@cache
def _waiting() -> list[Callable[[], None]]:
    return []


def when_imported(tell: Callable[[], None]) -> None:
    """Call `tell` once Numba is imported: now, if it is."""
    if "numba" in sys.modules:
        tell()
    else:
        _waiting().append(tell)


def when_busy(kind: str, begun: Callable[[], None], ended: Callable[[], None]) -> None:
    """Have Numba call `begun` and `ended` around its events of a kind (`numba.core.event`)."""

    def listen() -> None:
        from numba.core import event

        class Listener(event.Listener):  # type: ignore[misc]
            def on_start(self, _: event.Event) -> None:
                begun()

            def on_end(self, _: event.Event) -> None:
                ended()

        event.register(kind, Listener())

    when_imported(listen)


def add_library(library: ctypes.CDLL) -> None:
    """Kernels call functions of this library, by their names."""

    def load() -> None:
        import llvmlite.binding

        llvmlite.binding.load_library_permanently(library._name)

    symbols().add(library)
    when_imported(load)


def begin() -> None:
    """Import Numba, and tell who waits for that. Raises ShortageError."""
    if "numba" not in sys.modules:
        check_room(_COMPILING_BYTES)
    import numba  # noqa: F401

    while _waiting():
        _waiting().pop(0)()
