"""`corebraid.checkpoint`: places in a recording from which its cores can be replayed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import MOST_JOBS, check_whole, ignore
from corebraid.api.info import open_recording
from corebraid.base.descriptors import locked
from corebraid.base.errors import UsageError, unless_short
from corebraid.base.wording import Option, Phrase

if TYPE_CHECKING:
    from corebraid.study.replays.checkpoints import Checkpointed
    from recorder.files.reader import Recording


def checkpoint(
    recording: Recording | Path | str,
    *,
    every: int | str = "auto",
    jobs: int | None = None,
    progress: Callable[[int], None] = ignore,
) -> Checkpointed:
    """Make the checkpoints of a recording's cores, in place of those that it has.

    every: instructions of a core between two of them at least; "auto": by size. They stand at strata. jobs:
    cores to replay at a time; None: as many as are worth it. progress: called with how many cores are done.
    Raises UsageError (no such distance; the recording has no strata), FormatError, Divergence.
    """
    from corebraid.study.replays.checkpoints import checkpointed
    from corebraid.study.replays.cores import worthwhile_processes
    from recorder.replay.checkpointing import CheckpointPolicy

    if not isinstance(every, str):
        check_whole("every", every, 1, optional=False)
    check_whole("jobs", jobs, 1, MOST_JOBS)
    policy = CheckpointPolicy.parse(str(every), "every", none=False)
    opened = open_recording(recording)
    if opened.manifest.strata == "none":
        raise UsageError(
            "checkpoints stand at strata, and the recording has none",
            where=str(opened.path),
            remedy=Phrase("record again with ", Option("strata", "cycles:100000")),
        )
    assert policy is not None
    with _alone(opened.path, opened.manifest.n_cores):
        return checkpointed(opened, policy, jobs or worthwhile_processes(opened), progress)


@contextmanager
def _alone(directory: Path, cores: int) -> Iterator[None]:
    """While nobody else makes checkpoints of it; none is half there afterwards. Raises UsageError."""
    try:
        held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        unless_short(error)
        raise UsageError(f"cannot be opened ({error.strerror})", where=str(directory)) from None
    try:
        if not os.access(directory, os.W_OK):
            what, remedy = "may not be written to", "let it be written to, or make the checkpoints of a copy"
            raise UsageError(what, where=str(directory), remedy=remedy)
        if not locked(held):
            what, remedy = "checkpoints of it are being made already", "wait until that has ended"
            raise UsageError(what, where=str(directory), remedy=remedy)
        with _none_half_there(directory, cores):
            yield
    finally:
        os.close(held)


@contextmanager
def _none_half_there(directory: Path, cores: int) -> Iterator[None]:
    from recorder.files.manifest import checkpoint_log

    try:
        yield
    except BaseException:
        # Processes that were at work are gone without having tidied up.
        for core in range(cores):
            (directory / f"{checkpoint_log(core)}.partial").unlink(missing_ok=True)
        raise
