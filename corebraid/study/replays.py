"""Cores replayed, each from its own log alone: several at once, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corebraid.base.errors import CorebraidError
from corebraid.base.wording import Wording
from corebraid.study.each_core import each_core, usable_processors
from recorder.files.reader import Recording
from recorder.replay.checkpoint_check import replay_and_check
from recorder.replay.core import ReplayResult, replay_core

#: Instructions whose replay is worth another process: its start takes a fifth of a second.
_WORTH_A_PROCESS = 20_000_000


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


def _replay(path: Path, held: bool, core: int) -> CoreVerdict:
    try:
        replayed = replay_and_check if held else replay_core
        return CoreVerdict(core, replayed(Recording.open(path), core))
    except CorebraidError as error:
        return CoreVerdict(core, None, error)


def worthwhile_processes(recording: Recording) -> int:
    """Processes that replaying a recording is worth, at most one for each processor."""
    manifest, most = recording.manifest, usable_processors()
    return min(most, 1 + sum(manifest.instructions) // _WORTH_A_PROCESS) if manifest.complete else most


def replay_cores(
    recording: Recording, cores: Iterable[int], jobs: int, done: Callable[[int], None], *, held: bool = False
) -> list[CoreVerdict]:
    """Replay `cores` on up to `jobs` processes; verdicts in order of cores.

    done: called with how many cores are finished. held: checkpoints are held against them. A core whose
    replay fails does not stop the others.
    """
    cores = sorted(cores)
    verdicts: list[CoreVerdict] = []
    with each_core(partial(_replay, recording.path, held), cores, jobs) as source:
        for verdict in source:
            verdicts.append(verdict)
            done(len(verdicts))
    return sorted(verdicts, key=lambda verdict: verdict.core)
