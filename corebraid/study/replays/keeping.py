"""Cores replayed with their rows kept, so that several can look at those and none replays again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from corebraid.base.errors import CorebraidError, ShortageError
from corebraid.study.replays.cores import CoreVerdict
from corebraid.study.replays.in_processes import in_processes
from recorder.files.reader import Recording
from recorder.replay.contested import ALL, RECEIVED, Watched, tells_contested
from recorder.replay.kept_rows import Chunks, KeptRows, replay_and_keep
from recorder.replay.traces import RecordingTraces

#: A core, of which pages its accesses are kept (None: of all), and the file for them.
Item = tuple[int, Watched | None, int]


def received_rows(recording: Recording) -> str:
    """Of which accesses a recording's order can be held against the sealed truth: see
    `recorder.replay.contested`."""
    return RECEIVED if tells_contested(recording) else ALL


@contextmanager
def room_for_rows(recording: Recording, *, holds: int) -> Iterator[KeptRows | None]:
    """Room for a recording's rows until its end; None where it is not worth it. holds: see
    `RecordingTraces`."""
    rows = received_rows(recording)
    kept = KeptRows.of(recording, rows, holds=holds) if recording.manifest.complete else None
    if kept is None:
        yield None
        return
    with closing(kept):
        yield kept


def replay_and_keep_cores(
    recording: Recording, traces: RecordingTraces, kept: KeptRows, jobs: int, done: Callable[[int], None]
) -> list[CoreVerdict]:
    """Replay all cores on up to `jobs` processes, as `replay_in_intervals` does, and keep their rows. traces:
    of the recording. done: called with how many are finished. Raises FormatError where it is not known which
    pages are contested."""
    pages = None if kept.rows == ALL else traces.pages
    items: list[Item] = [
        (core, None if pages is None else pages.of(core, kept.rows), file.fileno())
        for core, file in enumerate(kept.files)
    ]
    verdicts = list[CoreVerdict]()
    with in_processes(partial(_replay, recording.path), items, jobs) as source:
        for verdict, chunks in source:
            kept.learn(verdict.core, chunks)
            verdicts.append(verdict)
            done(len(verdicts))
    return sorted(verdicts, key=lambda verdict: verdict.core)


def _replay(path: Path, item: Item) -> tuple[CoreVerdict, Chunks | None]:
    core, watched, file = item
    try:
        result, chunks = replay_and_keep(Recording.open(path), core, watched, file)
    except ShortageError:
        raise
    except CorebraidError as error:
        return CoreVerdict(core, None, error), None
    return CoreVerdict(core, result), chunks
