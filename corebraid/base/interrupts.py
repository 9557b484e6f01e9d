"""Ctrl-C is heard, wherever it arrives, and answered by one line; so are other requests to end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130
#: Besides SIGINT, how a process is asked to end: by others, by a terminal that goes away.
ENDING = (signal.SIGTERM, signal.SIGHUP)
# Long enough to be out of the finaliser that swallowed the first one, too short for a person to notice.
_AGAIN_AFTER_S = 0.02
_SHOW_CURSOR = "\x1b[?25h"
#: Python code that native code waits for. LLVM drops what its callbacks raise, and goes on: without the
#: kernel that one was to fetch from the cache, which is then called at address 0. Other code is about to say
#: who owns an object from now on, Python or LLVM.
_NATIVE = ("llvmlite.binding.", "numba.core.codegen", "numba.core.caching")
_Handler = Callable[[int, FrameType | None], None]


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """Raise KeyboardInterrupt once more where Python had to drop it.

    Python cannot raise out of a finaliser or a callback from C: it prints what was raised there, and goes
    on. A Ctrl-C that arrives during one would be lost (sys.unraisablehook, Python library reference). Other
    dropped exceptions are shown as before, unless a Ctrl-C has come: then finalisers meet objects that were
    interrupted while they were made. Does nothing outside the main thread, which alone has signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    show = sys.unraisablehook

    def hear(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER_S)
        elif signal.getsignal(signal.SIGINT) not in (_second, _none):
            show(dropped)

    before = signal.signal(signal.SIGALRM, interrupting())
    sys.unraisablehook = hear
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = show
        signal.signal(signal.SIGALRM, before)


@contextmanager
def ends_heard() -> Iterator[None]:
    """Of SIGTERM and SIGHUP, unless they are ignored, the first one is a KeyboardInterrupt too, so that
    nothing is left half done; others that come while that is dealt with are not heard. Does nothing outside
    the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = [one for one in ENDING if signal.getsignal(one) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for one in ending:
            signal.signal(one, _none)
        if signal.getsignal(signal.SIGINT) is _first:
            signal.signal(signal.SIGINT, _second)
        interrupting(f"ended by {signal.Signals(number).name}")(number, frame)

    for one in ending:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in ending:
            signal.signal(one, signal.SIG_DFL)


def interrupting(line: str = "") -> _Handler:
    """A signal's handler that raises KeyboardInterrupt(line): at once, or within `interrupts_heard` once no
    native code waits for Python."""

    def interrupt(_: int, frame: FrameType | None) -> None:
        if not _awaited_by_native_code(frame):
            raise KeyboardInterrupt(line)
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER_S)

    return interrupt


def _awaited_by_native_code(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_NATIVE):
            return True
        frame = frame.f_back
    return False


# Between two handlers of Python's own no signal is lost; on the way to SIG_IGN Python may complain of one.


def _first(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _second)
    interrupting()(number, frame)


def _second(_: int, __: FrameType | None) -> None:
    end_interrupts()
    _write("corebraid: interrupted\n")
    leave_at_once()


def _none(_: int, __: FrameType | None) -> None:
    pass


def answer_interrupts() -> None:
    """From now on the first Ctrl-C is a KeyboardInterrupt, and a second one, while that is dealt with, leaves
    at once. A process that was told to ignore it, as a shell tells those in the background, goes on to."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _first)


def answered(command: Callable[[], int]) -> int:
    """The exit code of a command during which Ctrl-C is answered; none that was interrupted returns."""
    try:
        answer_interrupts()
        with interrupts_heard():
            code = command()
        # What is left to do is Python's own end, which is short.
        ignore_interrupts()
    except BaseException as error:
        # It came while modules were loading: the commands deal with it themselves.
        if not (_comes_of_interrupt(error) or signal.getsignal(signal.SIGINT) is _second):
            raise
        if not interrupts_told():
            sys.stderr.write("corebraid: interrupted\n")
        code = INTERRUPTED
    if code == INTERRUPTED:
        leave_at_once()
    return code


def _comes_of_interrupt(error: BaseException | None) -> bool:
    """Python 3.11 makes a RuntimeError of what is raised while a class is made; others do the like. Native
    code that imports a module makes an ImportError, and forgets what it comes of."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def end_interrupts() -> None:
    """From now on nothing comes of a Ctrl-C, if `answer_interrupts` had it: what there is to do is done."""
    if signal.getsignal(signal.SIGINT) in (_first, _second):
        signal.signal(signal.SIGINT, _none)


def ignore_interrupts() -> None:
    """The same, through Python's own end too, which gives every handler of Python's back."""
    if signal.getsignal(signal.SIGINT) in (_first, _second, _none):
        # Blocked, since Python complains of a signal that comes while its handler goes.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_ends() -> None:
    """From now on nothing comes of SIGTERM and SIGHUP: what there is to do is done, and Python's own end is
    short."""
    for one in ENDING:
        if signal.getsignal(one) is signal.SIG_DFL:
            signal.signal(one, signal.SIG_IGN)


def interrupts_told() -> bool:
    """Whether the one line that tells of a Ctrl-C is left to somebody else; from now on it is."""
    told = signal.getsignal(signal.SIGINT) is _none
    end_interrupts()
    return told


def leave_at_once() -> None:
    """Exit without tearing anything down: a module that was half loaded does not outlive that."""
    end_interrupts()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):
            stream.flush()
    _write(_SHOW_CURSOR if os.isatty(2) else "")
    os._exit(INTERRUPTED)


def _write(text: str) -> None:
    # Past Python's own buffers: what was interrupted may be writing to them. Where stderr is full or closed
    # nobody can be told.
    with suppress(OSError):
        os.write(2, text.encode())
