"""Cores replayed, interval by interval, with their rows kept, so that several can look at those and none
replays again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from corebraid.base.errors import CorebraidError, FormatError, ShortageError
from corebraid.base.wording import Phrase
from corebraid.study.replays.cores import CoreVerdict, joined_verdicts, shared_out
from corebraid.study.replays.in_processes import in_processes
from corebraid.study.replays.unfinished import Unfinished
from recorder.files.reader import Recording
from recorder.replay.contested import ALL, RECEIVED, Watched, tells_contested
from recorder.replay.finished import Finished
from recorder.replay.handovers import carried_at
from recorder.replay.holds import Carried
from recorder.replay.interval import Interval, intervals_at
from recorder.replay.kept_rows import KeptRows, replay_and_keep, worth_keeping
from recorder.replay.traces import RecordingTraces
from solver.passes.order import Resources

#: A folder of the recording's, while it is ordered.
UNFINISHED = "order.rows"
#: An interval, of which pages its accesses are kept (None: of all), the file for them, and those of all.
Item = tuple[Interval, Watched | None, Carried | None, int, list[int]]


def received_rows(recording: Recording) -> str:
    """Of which accesses a recording's order can be held against the sealed truth: see
    `recorder.replay.contested`."""
    return RECEIVED if tells_contested(recording) else ALL


def parts_of(recording: Recording, traces: RecordingTraces, jobs: int) -> list[Interval]:
    """In which intervals the cores are replayed for these traces, by so many processes. Raises FormatError
    where it is not known which pages are contested, or checkpoints cannot be read."""
    parts = list[Interval]()
    for core in range(recording.manifest.n_cores):
        if traces.kind.rows != ALL:
            regions = traces.handovers[core] if traces.handovers else ()
            parts += intervals_at(recording, core, regions) if regions else [Interval(core)]
        elif traces.buffered:
            # What its buffered stores overwrite is known from a core's beginning on.
            parts.append(Interval(core))
        else:
            parts += shared_out(recording, core, jobs) if jobs > 1 else [Interval(core)]
    return parts


@contextmanager
def room_for_rows(
    recording: Recording, traces: RecordingTraces, jobs: int, unfinished: Unfinished
) -> Iterator[KeptRows | None]:
    """Room for a recording's rows until its end; None where it is not worth it, or not known which rows there
    are. unfinished: where those of cores in several intervals are kept."""
    parts = list[Interval]()
    if recording.manifest.complete and worth_keeping(recording, traces.kind):
        with suppress(FormatError):
            parts = parts_of(recording, traces, jobs)
    if not parts:
        yield None
    elif len(parts) == recording.manifest.n_cores:
        with _closing(KeptRows.of(traces.kind, parts)) as kept:
            yield kept
    else:
        with (
            unfinished.open(recording, traces.kind._asdict()) as finished,
            _closing(KeptRows.of(traces.kind, parts, finished)) as kept,
        ):
            unfinished.tell(0 if kept is None else kept.known)
            yield kept


def _closing(kept: KeptRows | None) -> AbstractContextManager[KeptRows | None]:
    return nullcontext() if kept is None else closing(kept)


def replay_and_keep_parts(
    recording: Recording,
    traces: RecordingTraces,
    kept: KeptRows,
    jobs: int,
    done: Callable[[Interval, int], None],
) -> list[CoreVerdict]:
    """Replay all cores on up to `jobs` processes, and keep their rows; what is known already is not replayed
    again. traces: of the recording. done: called with an interval, and how many cores are finished. Raises
    FormatError where it is not known which pages are contested."""
    cores = range(recording.manifest.n_cores)
    verdicts = {
        part: CoreVerdict(part.core, result)
        for part in kept.parts
        if (result := kept.result(part)) is not None
    }
    left = Counter(part.core for part in kept.parts if part not in verdicts)
    items = _items(recording, traces, kept)
    with in_processes(partial(_replay, recording.path), items, jobs) as source:
        for part, verdict, finished in source:
            if finished is not None:
                kept.learn(part, finished)
            verdicts[part] = verdict
            left[part.core] -= 1
            done(part, sum(not left[core] for core in cores))
    return [joined_verdicts([verdicts[one] for one in kept.parts if one.core == core]) for core in cores]


def _items(recording: Recording, traces: RecordingTraces, kept: KeptRows) -> list[Item]:
    watched: dict[int, Watched | None] = {}
    carried: dict[int, dict[int, Carried]] = {}
    files = [file.fileno() for file in kept.files]
    items = list[Item]()
    for part, file in zip(kept.parts, files, strict=True):
        if kept.result(part) is not None:
            continue
        if part.core not in watched:
            one = None if kept.kind.rows == ALL else traces.pages.of(part.core, kept.kind.rows)
            watched[part.core], carried[part.core] = one, _carried(recording, part.core, one, kept)
        before = None if part.start is None else carried[part.core].get(part.start.stratum + 1)
        items.append((part, watched[part.core], before, file, files))
    return items


def _carried(recording: Recording, core: int, watched: Watched | None, kept: KeptRows) -> dict[int, Carried]:
    """What intervals of a core that are to be replayed carry over from before, by the region that each begins
    with."""
    regions = [
        part.start.stratum + 1
        for part in kept.parts
        if part.core == core and part.start is not None and kept.result(part) is None
    ]
    if watched is None or not regions or not len(watched.ever_by_holds):
        return {}
    return carried_at(recording, core, watched.strata, watched.ever_by_holds, regions)


def _replay(path: Path, item: Item) -> tuple[Interval, CoreVerdict, Finished | None]:
    part, watched, carried, file, files = item
    try:
        finished = replay_and_keep(Recording.open(path), part, watched, file, files, carried)
    except ShortageError:
        raise
    except CorebraidError as error:
        return part, CoreVerdict(part.core, None, error), None
    return part, CoreVerdict(part.core, finished.result), finished


@contextmanager
def kept_for_order(
    recording: Recording,
    traces: RecordingTraces,
    resources: Resources,
    replayed: Callable[[int, int], None],
) -> Iterator[RecordingTraces]:
    """Traces that are to be ordered: where cores are in several intervals, replayed and kept. What fails here
    fails again where the core is replayed for its rows. replayed: called with a core, and how many of its
    instructions are done."""
    unfinished = Unfinished(recording.path / UNFINISHED, resources.fresh, resources.say)
    done: Counter[int] = Counter()

    def advance(part: Interval, _: int) -> None:
        end = recording.manifest.instructions[part.core] if part.end is None else part.end.count
        done[part.core] += end - part.first
        replayed(part.core, done[part.core])

    with room_for_rows(recording, traces, resources.jobs, unfinished) as kept:
        if kept is None or kept.finished is None:
            yield traces
            return
        verdicts = replay_and_keep_parts(recording, traces, kept, resources.jobs, advance)
        if (wrong := next((one for one in verdicts if one.result is None), None)) is not None:
            resources.say(Phrase("not replayed from checkpoints: ", wrong.line))
        yield traces.with_kept(kept)
