"""Cores replayed, each from its own log alone: several at once, each in a process of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path

from corebraid.base.errors import CorebraidError, ShortageError
from corebraid.base.wording import Wording
from corebraid.study.replays.in_processes import in_processes, usable_processors
from recorder.files.reader import Recording
from recorder.replay.core import ReplayResult, replay_core
from recorder.replay.interval import Interval, intervals, joined, replay_interval

#: Instructions whose replay is worth another process: its start takes a fifth of a second.
_WORTH_A_PROCESS = 20_000_000
#: Intervals for each process, so that all of them end at about the same time; an interval nobody cuts.
_SHARES, _NEVER = 4, 1 << 62


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
    recording: Recording, cores: Iterable[int], jobs: int, done: Callable[[int], None]
) -> list[CoreVerdict]:
    """The same, from checkpoint to checkpoint, which are held against the replays. Several processes share a
    core.

    Raises FormatError where checkpoints cannot be read.
    """
    manifest, cores = recording.manifest, sorted(cores)
    longest = max(_WORTH_A_PROCESS, sum(manifest.instructions) // (_SHARES * jobs))
    parts = [one for core in cores for one in intervals(recording, core, longest if jobs > 1 else _NEVER)]
    found: dict[int, list[tuple[int, CoreVerdict]]] = {core: [] for core in cores}
    left = Counter(one.core for one in parts)
    with in_processes(partial(_replay_interval, recording.path), parts, jobs) as source:
        for interval, verdict in source:
            found[interval.core].append((interval.first, verdict))
            left[interval.core] -= 1
            done(sum(not n for n in left.values()))
    return [_joined([verdict for _, verdict in sorted(found[core], key=itemgetter(0))]) for core in cores]


def _joined(verdicts: list[CoreVerdict]) -> CoreVerdict:
    """What became of a core. The first failure is its: what follows it may fail for that alone."""
    failed = [verdict for verdict in verdicts if verdict.result is None]
    if failed:
        return failed[0]
    return CoreVerdict(verdicts[0].core, joined(one.result for one in verdicts if one.result is not None))
