"""`corebraid.verify`, `corebraid.crosscheck`: everything that can be checked of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import MOST_JOBS, check_whole, ignore
from corebraid.api.info import open_recording
from corebraid.base.errors import FormatError
from corebraid.base.wording import Text
from recorder.files.manifest import MANIFEST

if TYPE_CHECKING:
    from corebraid.study.crosschecks import CrossChecked
    from corebraid.study.verifying import Show, Unreadable, Verdict
    from recorder.files.reader import Recording


def verify(
    recording: Recording | Path | str,
    *,
    jobs: int | None = None,
    fresh: bool = False,
    show: Show | None = None,
    note: Callable[[Text], None] = ignore,
) -> Verdict | Unreadable:
    """Check every byte of a recording, every core's replay, its order, and the sealed truth.

    jobs: processes that replay; None: as many as are worth it. fresh: use no replay that an earlier run has
    finished. show: gives, of what is at work and of how much there is to do, what shows it. note: told what
    the user should know. What is wrong is no error: see `Verdict.sound`. Raises FormatError if
    there is no recording.
    """
    from corebraid.study.replays.cores import worthwhile_processes
    from corebraid.study.replays.unfinished import Unfinished
    from corebraid.study.verifying import UNFINISHED, Unreadable, show_nothing, verify_recording

    try:
        check_whole("jobs", jobs, 1, MOST_JOBS)
        opened = open_recording(recording)
    except FormatError as error:
        path = Path(str(recording))
        if not (path / MANIFEST).is_file():
            raise
        return Unreadable(path, error)
    unfinished = Unfinished(opened.path / UNFINISHED, fresh, note)
    jobs = jobs or worthwhile_processes(opened)
    verdict = verify_recording(opened, jobs, show or show_nothing, unfinished)
    unfinished.over()
    return verdict


def crosscheck(
    recording: Recording | Path | str,
    *,
    engines: str | Iterable[str] | None = None,
    region_timeout: float = 60.0,
    truth: bool = False,
    progress: Callable[[int], None] = ignore,
) -> CrossChecked:
    """Order a recording by every engine that can, and compare what they say.

    engines: names, with commas or not; the first is what the others are compared with; None: "auto", and
    every one that the recording has evidence for. region_timeout: seconds. truth: also compare every
    order with the sealed truth, which nothing else here opens. progress: called with how many
    regions are done. Disagreement is no error: see `CrossChecked.wrong`. Raises UsageError, FormatError,
    Divergence.
    """
    from corebraid.study.crosschecks import crosschecked

    return crosschecked(open_recording(recording), engines, region_timeout, progress, truth)
