"""A subject recorded: a firmware image or a Linux program, its output handed on, to its end or a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corebraid.base.errors import UsageError
from corebraid.base.wording import another
from corebraid.study.subjects import Subject
from emu.board.elf import isa_of
from isa.registry import linux_abi_of
from recorder.capture.firmware import record
from recorder.capture.learning import StopRecording
from recorder.capture.options import Outcome, RecordOptions

Output = Callable[[bytes], None]


@dataclass(frozen=True)
class Refused:
    """What a Linux guest asked for in vain. calls: system calls that are not emulated, and how often each was
    made. hidden: paths that the host has and the guest does not see."""

    calls: Mapping[str, int] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


def record_subject(
    subject: Subject,
    options: RecordOptions,
    directory: Path,
    output: Output,
    error: Output,
    between: Callable[[int], None],
) -> tuple[Outcome, Refused]:
    """Record `subject` into the new directory `directory`; what became of it, and what it was refused.

    options: in place of the subject's. output, error: called with what the guest prints. between: called
    after slices with the instructions so far; it may raise StopRecording. Raises UsageError, ImageError,
    OSError.
    """
    from corebraid.base.clock import working_time

    over = None if subject.time_limit is None else working_time() + subject.time_limit

    def between_slices(instructions: int) -> None:
        between(instructions)
        if over is not None and working_time() >= over:
            raise StopRecording("time-limit")

    if subject.spec is None:
        isa = isa_of(subject.program)
        return record(subject.program, directory, isa, options, output, between_slices), Refused()
    # Firmware does without all that a Linux program needs.
    from recorder.capture.linux import record_linux

    spec = subject.spec
    _keep_apart(spec.root.keep_writes, directory)
    outcome, capture = record_linux(
        spec, directory, spec.isa, linux_abi_of(spec.isa), options, output, error, between_slices,
        subject.more,
    )  # fmt: skip
    guest = capture.guest
    return outcome, Refused(guest.kernel.unknown, guest.filesystem.absent.hidden())


def _keep_apart(kept: Path | None, directory: Path) -> None:
    if kept is None:
        return
    try:
        place, recording = kept.resolve(), directory.resolve()
    except (OSError, RuntimeError, ValueError):
        # Python 3.11 and 3.12 raise RuntimeError for links that lead to themselves.
        what = "what the guest writes cannot be kept there: the path leads nowhere"
        raise UsageError(what, where=str(kept), remedy=another("keep_writes")) from None
    if place == recording or recording in place.parents:
        raise UsageError(
            "what the guest writes cannot be kept in the recording",
            where=str(kept),
            remedy=another("keep_writes"),
        )
