"""Ctrl-C is heard, wherever it arrives."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Long enough to be out of the finaliser that swallowed the first one, too short for a person to notice.
_AGAIN_AFTER_S = 0.02


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """Raise KeyboardInterrupt once more where Python had to drop it.

    Python cannot raise out of a finaliser or a callback from C: it prints what was raised there, and goes
    on. A Ctrl-C that arrives during one would be lost (sys.unraisablehook, Python library reference). Other
    dropped exceptions are shown as before. Does nothing outside the main thread, which alone has signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    show = sys.unraisablehook

    def hear(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER_S)
        else:
            show(dropped)

    before = signal.signal(signal.SIGALRM, _interrupt)
    sys.unraisablehook = hear
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = show
        signal.signal(signal.SIGALRM, before)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
