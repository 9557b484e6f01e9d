"""`corebraid.checkpoint`: places in a recording from which its cores can be replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import MOST_JOBS, check_whole
from corebraid.api.info import open_recording
from corebraid.api.record import ignore
from corebraid.base.errors import UsageError
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
    return checkpointed(opened, policy, jobs or worthwhile_processes(opened), progress)
