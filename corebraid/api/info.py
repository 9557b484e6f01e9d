"""`corebraid.info`: what a recording is. Loads neither an emulator nor compiled kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import check_place
from corebraid.study.about import Info
from recorder.files.manifest import INTERVALS

if TYPE_CHECKING:
    from recorder.files.reader import Recording


def info(recording: Recording | Path | str) -> Info:
    """What a recording is, and what it takes on disk; also of one whose recorder was killed.

    Raises FormatError.
    """
    place: object = getattr(recording, "path", recording)
    check_place("recording", place)
    _put_together(Path(str(place)))
    return Info.of(Path(str(place)))


def open_recording(directory: Recording | Path | str) -> Recording:
    """The recording in `directory`; one that is open already as it is. Raises FormatError."""
    from recorder.files.reader import Recording

    if isinstance(directory, Recording):
        return directory
    check_place("recording", directory)
    _put_together(Path(directory))
    return Recording.open(directory)


def _put_together(directory: Path) -> None:
    """What a killed recorder has left of a ring becomes a recording. Raises FormatError."""
    try:
        ring = (directory / INTERVALS).is_dir()
    except (OSError, ValueError):
        return
    if ring:
        from recorder.capture.intervals import join_killed

        join_killed(directory)
