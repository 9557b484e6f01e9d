"""Running a guest under the recorder, for the commands: its output, Ctrl-C, time limits, full disks."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO

from corebraid.base.errors import UsageError
from corebraid.cli import console

if TYPE_CHECKING:
    from emu.linux.boot import GuestSpec
    from recorder.capture.linux import LinuxCapture
    from recorder.capture.options import Outcome, RecordOptions
    from recorder.files.json_fields import Scalar


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
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back while the recorder is at work; gives a function that says whether it came."""
    came = False

    def remember(_: int, __: FrameType | None) -> None:
        nonlocal came
        came = True

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, before)


def record_firmware(program: Path, directory: Path, options: RecordOptions, guest: GuestOutput) -> Outcome:
    """Record a firmware image. Ctrl-C leaves what was written so far."""
    from emu.board.elf import isa_of
    from recorder.capture.firmware import record

    with _interruptible() as interrupted, console.progress("recording", options.limit or None) as show:

        def between_slices(instructions: int) -> None:
            show(instructions)
            if interrupted():
                raise KeyboardInterrupt

        try:
            return record(program, directory, isa_of(program), options, guest, between_slices)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; {directory} is incomplete, and readable as far as it was written"
            ) from None
        except OSError as error:
            raise UsageError(
                f"the recording cannot be written ({error.strerror})",
                where=str(directory),
                remedy="check the disk; if the guest had begun, what was written so far is readable",
            ) from None


def record_program(
    spec: GuestSpec,
    directory: Path,
    options: RecordOptions,
    output: GuestOutput,
    error: GuestOutput,
    more: dict[str, Scalar],
    time_limit: float | None,
) -> tuple[Outcome, LinuxCapture]:
    """Record a Linux program. Ctrl-C and the time limit (seconds) end the recording cleanly."""
    from isa.registry import linux_abi_of
    from recorder.capture.linux import StopRecording, record_linux

    _keep_apart(spec.root.keep_writes, directory)
    over = None if time_limit is None else time.monotonic() + time_limit
    with _interruptible() as interrupted, console.progress("recording", options.limit or None) as show:

        def between_slices(instructions: int) -> None:
            show(instructions)
            if interrupted():
                raise StopRecording("interrupted")
            if over is not None and time.monotonic() >= over:
                raise StopRecording("time-limit")

        try:
            return record_linux(
                spec,
                directory,
                spec.isa,
                linux_abi_of(spec.isa),
                options,
                output,
                error,
                between_slices,
                more,
            )
        except OSError as failure:
            raise UsageError(
                f"the recording cannot be written ({failure.strerror})",
                where=str(directory),
                remedy="check the disk; if the guest had begun, what was written so far is readable",
            ) from None


def _keep_apart(kept: Path | None, directory: Path) -> None:
    if kept is None:
        return
    place, recording = kept.resolve(), directory.resolve()
    if place == recording or recording in place.parents:
        raise UsageError(
            "what the guest writes cannot be kept in the recording",
            where=str(kept),
            remedy="choose another --keep-writes",
        )
