"""`corebraid.replay`, `corebraid.replay_all`: cores, each from its own log alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, overload

from corebraid.api.asked import MOST_JOBS, check_integer, check_whole, ignore
from corebraid.api.info import open_recording
from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase

if TYPE_CHECKING:
    from corebraid.study.pauses import Paused
    from corebraid.study.replays.cores import Replays
    from recorder.files.reader import Recording
    from recorder.replay.core import ReplayResult


@overload
def replay(
    recording: Recording | Path | str,
    core: int,
    *,
    first: None = ...,
    until: None = ...,
    progress: Callable[[int], None] = ...,
) -> ReplayResult: ...
@overload
def replay(
    recording: Recording | Path | str,
    core: int,
    *,
    first: int | None = ...,
    until: int,
    sink: BinaryIO | None = ...,
) -> Paused: ...
def replay(
    recording: Recording | Path | str,
    core: int,
    *,
    first: int | None = None,
    until: int | None = None,
    sink: BinaryIO | None = None,
    progress: Callable[[int], None] = ignore,
) -> ReplayResult | Paused:
    """Replay one core from its own log alone, checked against every digest on the way.

    until: stop when so many instructions have retired, and give the core as it is there. first: with the
    accesses from this instruction count on, too. sink: write those there, as a table, instead of giving them.
    progress: called with the instructions replayed.

    Raises Divergence, FormatError, UsageError (no such core; it never comes so far).
    """
    check_stops(first, until)
    check_integer("core", core)
    opened = open_recording(recording)
    if until is not None:
        from corebraid.study.pauses import pause

        return pause(opened, core, first, until, sink)
    from recorder.replay.core import replay_core

    return replay_core(opened, core, progress)


def replay_all(
    recording: Recording | Path | str, *, jobs: int | None = None, progress: Callable[[int], None] = ignore
) -> Replays:
    """Replay every core. One that diverges does not stop the others: `CoreVerdict.error` says what it met.

    jobs: processes at a time; None: as many as are worth it, one for each processor at most. progress: called
    with how many cores are done. Raises FormatError.
    """
    from corebraid.study.replays.cores import Replays, replay_cores, worthwhile_processes

    check_whole("jobs", jobs, 1, MOST_JOBS)
    opened = open_recording(recording)
    cores = range(opened.manifest.n_cores)
    found = replay_cores(opened, cores, jobs or worthwhile_processes(opened), progress)
    return Replays(opened.path, found)


def check_stops(first: int | None, until: int | None) -> None:
    """Raises UsageError for stops that make no sense."""
    check_whole("first", first, 0)
    check_whole("until", until, 0)
    start, end = Option("first"), Option("until")
    if first is not None and until is None:
        raise UsageError(Phrase(start, " needs ", end), remedy="give both")
    if first is not None and until is not None and first >= until:
        raise UsageError(
            "a range of instruction counts that holds nothing",
            found=Phrase(Option("first", first), " ", Option("until", until)),
            remedy=Phrase("give ", end, " a greater count than ", start),
        )
