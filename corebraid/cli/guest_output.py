"""A guest that runs under the recorder, for the commands: where its output goes, and Ctrl-C."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from corebraid.base.errors import UsageError
from corebraid.base.interrupts import ENDING
from corebraid.base.wording import shown

#: Of paths that a guest asked for in vain.
_PATHS_SHOWN, _LONGEST_PATH = 3, 200


def not_seen(paths: tuple[str, ...]) -> str:
    """What is said of paths that the host has, and the guest asked for and does not see."""
    named = ", ".join(shown(path, _LONGEST_PATH) for path in paths[:_PATHS_SHOWN])
    more = f" and {len(paths) - _PATHS_SHOWN} more" if len(paths) > _PATHS_SHOWN else ""
    bind = next((f"{path}:{path}" for path in paths if ":" not in path and len(path) <= _LONGEST_PATH), "")
    helps = f"; it would, for one, with --bind {shlex.quote(bind)}" if bind else ""
    return f"the guest asked for what is on the host and it does not see: {named}{more}{helps}"


class GuestOutput:
    """Where the guest's bytes go. A reader that goes away, or a full disk, does not stop the recording."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink, self._open, self._in_line = sink, True, False
        self._failure: OSError | None = None

    def __call__(self, data: bytes) -> None:
        if self._open and data:
            self._in_line = not data.endswith(b"\n")
            try:
                self._sink.write(data)
                self._sink.flush()
            except BrokenPipeError:
                self._open = False
            except OSError as error:
                self._open, self._failure = False, error

    def check(self, directory: Path) -> None:
        """Raises UsageError if the recording went on without what the guest printed."""
        if self._failure is not None:
            raise UsageError(
                f"what the guest printed could not all be written ({self._failure.strerror})",
                remedy=f"the recording {directory} is complete",
            )

    def end_line(self) -> None:
        """Begin a new line if the guest's last one has no end and ours would follow it."""
        if self._in_line and self._sink in (sys.stdout.buffer, sys.stderr.buffer):
            self(b"\n")


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back while the recorder is at work; gives a function that says whether it came.

    SIGTERM and SIGHUP, unless they are ignored, are held back likewise; a second one ends the process.
    """
    came = False

    def remember(number: int, _: FrameType | None) -> None:
        nonlocal came
        came = True
        if number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)

    ending = [one for one in ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, remember) for one in (signal.SIGINT, *ending)}
    try:
        yield lambda: came
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
