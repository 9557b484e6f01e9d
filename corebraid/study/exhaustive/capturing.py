"""The machine of a subject whose runs are looked at step by step: nothing of them is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from corebraid.study.exhaustive.tasks import Tasks
from corebraid.study.subjects import Subject
from emu.board.board import Board
from recorder.capture.options import Outcome, RecordOptions
from recorder.files.collectors import Collector

#: Told what the guest prints: whether it goes to standard error, and the bytes.
Printed = Callable[[bool, bytes], None]


class Watched(Protocol):
    """A recording in the making, of which nothing is written. board: the machine."""

    @property
    def board(self) -> Board:
        """The machine."""

    def run(self) -> Outcome:
        """Run to the guest's end."""

    def go_on(self, *, again: bool = False) -> Outcome:
        """The same, from where the machine stands. again: see `emu.board.run`."""

    def close(self) -> None:
        """Let go of what is the host's."""


def guest_of(
    subject: Subject, options: RecordOptions, printed: Printed, watcher: Collector
) -> tuple[Watched, Callable[[], Tasks]]:
    """The capture of a subject, and what makes its tasks once it runs step by step. options: in place of the
    subject's."""

    def output(data: bytes) -> None:
        printed(False, data)

    def error(data: bytes) -> None:
        printed(True, data)

    if subject.spec is None:
        from corebraid.study.exhaustive.cores import Cores
        from emu.board.elf import isa_of
        from recorder.capture.firmware import Capture

        image = Capture(subject.program, Path(), isa_of(subject.program), options, output, (watcher,))
        return image, lambda: Cores(image.machine)
    from corebraid.study.exhaustive.threads import Threads
    from isa.registry import linux_abi_of
    from recorder.capture.linux import LinuxCapture

    spec = subject.spec
    linux = LinuxCapture(
        spec, Path(), spec.isa, linux_abi_of(spec.isa), options, output, error, subject.more, (watcher,)
    )
    return linux, lambda: Threads(linux.machine)
