"""Cores replayed, each from its own log alone: several at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from corebraid.base.errors import CorebraidError
from corebraid.base.wording import Option, Phrase, Wording
from recorder.files.reader import Recording
from recorder.replay.core import ReplayResult, replay_core
from solver.passes.pool import interrupts_held, set_interrupts

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


def _replay(path: Path, core: int) -> CoreVerdict:
    try:
        return CoreVerdict(core, replay_core(Recording.open(path), core))
    except CorebraidError as error:
        return CoreVerdict(core, None, error)


def _let_interrupts_end_it() -> None:
    set_interrupts(signal.SIG_DFL)


def usable_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


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
    with _verdicts(recording.path, cores, min(jobs, len(cores))) as source:
        for verdict in source:
            verdicts.append(verdict)
            done(len(verdicts))
    return sorted(verdicts, key=lambda verdict: verdict.core)


@contextmanager
def _verdicts(path: Path, cores: list[int], jobs: int) -> Iterator[Iterator[CoreVerdict]]:
    if jobs <= 1:
        yield (_replay(path, core) for core in cores)
        return
    # Forked, the workers have this process's kernels; it runs no emulator and no thread of its own yet.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context, initializer=_let_interrupts_end_it) as pool:
        try:
            with interrupts_held():
                futures = [pool.submit(_replay, path, core) for core in cores]
            yield (future.result() for future in as_completed(futures))
        except BrokenProcessPool:
            raise CorebraidError(
                "a replaying process was killed",
                remedy=Phrase("try again with ", Option("jobs", 1), ", or with more memory"),
            ) from None
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
