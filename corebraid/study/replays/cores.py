"""Cores replayed, each from its own log alone: several at once, each in a process of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corebraid.base.errors import CorebraidError, ShortageError
from corebraid.base.wording import Wording
from corebraid.study.replays.in_processes import in_processes, usable_processors
from corebraid.study.replays.unfinished import Unfinished
from recorder.files.reader import Recording
from recorder.replay.core import ReplayResult, replay_core
from recorder.replay.finished import Finished, FinishedReplays
from recorder.replay.interval import Interval, intervals, joined, replay_interval

#: Instructions whose replay is worth another process: its start takes a fifth of a second.
_WORTH_A_PROCESS = 20_000_000
#: Intervals for each process, so that all of them end at about the same time.
_SHARES = 4


@dataclass(frozen=True)
class CoreVerdict:
    """What became of one core's replay. result: None when it failed, and then error says why, or skipped why
    nobody tried."""

    core: int
    result: ReplayResult | None
    error: CorebraidError | None = None
    skipped: str = ""

    def line(self, wording: Wording | None = None) -> str:
        """Why there is no result, "" if there is one. wording: how options are called."""
        return self.error.line(wording) if self.error else self.skipped

    @property
    def exit_code(self) -> int:
        """That of the error; 1 where nobody tried."""
        return self.error.exit_code if self.error else int(bool(self.skipped))

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        if self.result is not None:
            return self.result.facts()
        unknown = ("complete", "instructions", "strata", "digests", "contexts")
        nothing: dict[str, object] = dict.fromkeys(unknown)
        return {"core": self.core, "bit_exact": False, **nothing, "error": self.line(wording)}


@dataclass(frozen=True)
class Replays:
    """What became of the replays of some cores, in order of cores."""

    recording: Path
    cores: list[CoreVerdict]

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        return {"recording": str(self.recording), "cores": [one.facts(wording) for one in self.cores]}


def _replay(path: Path, core: int) -> CoreVerdict:
    try:
        return CoreVerdict(core, replay_core(Recording.open(path), core))
    except ShortageError:
        raise
    except CorebraidError as error:
        return CoreVerdict(core, None, error)


def _replay_interval(path: Path, interval: Interval) -> tuple[Interval, CoreVerdict]:
    try:
        return interval, CoreVerdict(interval.core, replay_interval(Recording.open(path), interval))
    except ShortageError:
        raise
    except CorebraidError as error:
        return interval, CoreVerdict(interval.core, None, error)


def worthwhile_processes(recording: Recording) -> int:
    """Processes that replaying a recording is worth, at most one for each processor."""
    manifest, most = recording.manifest, usable_processors()
    return min(most, 1 + sum(manifest.instructions) // _WORTH_A_PROCESS) if manifest.complete else most


def replay_cores(
    recording: Recording, cores: Iterable[int], jobs: int, done: Callable[[int], None]
) -> list[CoreVerdict]:
    """Replay `cores` on up to `jobs` processes; verdicts in order of cores.

    done: called with how many cores are finished. A core whose replay fails does not stop the others.
    """
    cores = sorted(cores)
    verdicts: list[CoreVerdict] = []
    with in_processes(partial(_replay, recording.path), cores, jobs) as source:
        for verdict in source:
            verdicts.append(verdict)
            done(len(verdicts))
    return sorted(verdicts, key=lambda verdict: verdict.core)


def replay_in_intervals(
    recording: Recording,
    cores: Iterable[int],
    jobs: int,
    done: Callable[[int], None],
    unfinished: Unfinished | None = None,
) -> list[CoreVerdict]:
    """The same, from checkpoint to checkpoint, which are held against the replays. Several processes share a
    core. unfinished: where what became of intervals is kept until it is known of all.

    Raises FormatError where checkpoints cannot be read.
    """
    cores = sorted(cores)
    parts = [one for core in cores for one in shared_out(recording, core, jobs)]
    if unfinished is None or len(parts) == len(cores):
        verdicts = _replayed(recording, parts, {}, jobs, done)
    else:
        with unfinished.open(recording, {"rows": None}) as finished:
            known = _known(parts, finished)
            unfinished.tell(len(known))
            verdicts = _replayed(recording, parts, known, jobs, done, finished)
    return [joined_verdicts([verdicts[part] for part in parts if part.core == core]) for core in cores]


def _known(parts: list[Interval], finished: FinishedReplays | None) -> dict[Interval, CoreVerdict]:
    """What became of intervals that were replayed before."""
    known = {} if finished is None else {part: finished.find(part) for part in parts}
    return {part: CoreVerdict(part.core, one.result) for part, one in known.items() if one is not None}


def _replayed(
    recording: Recording,
    parts: list[Interval],
    known: dict[Interval, CoreVerdict],
    jobs: int,
    done: Callable[[int], None],
    finished: FinishedReplays | None = None,
) -> dict[Interval, CoreVerdict]:
    """What became of intervals, of some of which that is known. finished: where that of others is kept."""
    found = dict(known)
    todo = [part for part in parts if part not in found]
    left = Counter(part.core for part in todo)
    n_cores = len({part.core for part in parts})
    with in_processes(partial(_replay_interval, recording.path), todo, jobs) as source:
        for part, verdict in source:
            found[part] = verdict
            if finished is not None and verdict.result is not None:
                finished.finish(part, Finished(verdict.result, None))
            left[part.core] -= 1
            done(n_cores - sum(n > 0 for n in left.values()))
    return found


def shared_out(recording: Recording, core: int, jobs: int) -> list[Interval]:
    """A core in intervals for so many processes. Raises FormatError where checkpoints cannot be read."""
    longest = max(_WORTH_A_PROCESS, sum(recording.manifest.instructions) // (_SHARES * jobs))
    return intervals(recording, core, longest)


def joined_verdicts(verdicts: list[CoreVerdict]) -> CoreVerdict:
    """What became of a core, of whose intervals these are, in their order. The first failure is its: what
    follows it may fail for that alone."""
    failed = [verdict for verdict in verdicts if verdict.result is None]
    if failed:
        return failed[0]
    return CoreVerdict(verdicts[0].core, joined(one.result for one in verdicts if one.result is not None))
