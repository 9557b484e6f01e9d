"""Stride's replayer: all cores and agents together, memory with versions between them (ICSE 2012, section II,
Figure 3). No miss record is read, and no log of accesses: every core computes its own from its program.

A core that is replayed alone has its read values from the log, if all are there (section IV-A).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.host_memory import host_memory
from corebraid.base.wording import Option, Phrase, another
from emu.native.state import address_of
from recorder.evidence.linkage.codec import DOUBLE, GUARDED, Head
from recorder.files.reader import Recording, iter_agent_trace, iter_image
from solver.evidence.linkage.log import LinkageLog, read_linkage
from solver.evidence.linkage.replay.core import GivenUp, LinkedCore, LinkedReplay
from solver.evidence.linkage.replay.memory import new_memory
from solver.evidence.linkage.replay.steps import Steps, read_steps
from solver.evidence.linkage.replay.stream import COMPARED, LINKED, Replay, do_rows, new_replay
from solver.evidence.linkage.replay.turns import (
    ELSEWHERE,
    FAILED,
    STUCK,
    SWITCHES,
    WAITS,
    WHY,
    begin_first,
    begin_turn,
    end_turns,
    new_turns,
)
from solver.evidence.linkage.replay.wording import contradiction, left_over

#: Seconds after which a thread is asked again whether it has ended, so that Ctrl-C is heard.
_PATIENCE = 0.2


@dataclass(frozen=True)
class CoreResult:
    """A core's replay. accesses, checks, registers: compared with the recorded ones. waits: how often an
    access was held; linked, compared: reads that were held against memory, and comparisons. inputs, contexts:
    what was taken from its own log."""

    core: int
    instructions: int
    accesses: int
    checks: int
    registers: int
    waits: int
    linked: int
    compared: int
    inputs: int
    contexts: int


@dataclass(frozen=True)
class ReplayedGroup:
    """A replay that was bit-exact. versions: made in shared memory. turns: handed on. values: of the read
    log, by what became of them. agents: accesses of theirs, which were taken from their log. alone: whether
    it was of one core, from the read log."""

    cores: tuple[CoreResult, ...]
    versions: int
    turns: int
    values: dict[str, int]
    agents: int
    alone: bool


class _Replaying:
    """A replay under way."""

    def __init__(self, recording: Recording) -> None:
        self.head: Head
        self.steps: list[Steps]
        self.recording = recording
        self.head, self.steps = read_steps(recording)
        self.log: LinkageLog = read_linkage(recording, with_values=True)
        self.initial = host_memory(recording.manifest.memory)
        self.pages = list(iter_image(recording, "initial"))
        for address, page in self.pages:
            self.initial[address : address + len(page)] = np.frombuffer(page, np.uint8)
        turns, self._semaphores = new_turns(self.log.streams)
        self.replay: Replay = new_replay(self.log, new_memory(self.log, self.initial), turns)
        #: What agents have for themselves, and how many accesses they have made.
        self.of_agents, self.agents = host_memory(recording.manifest.memory), 0
        for address, page in self.pages:
            self.of_agents[address : address + len(page)] = np.frombuffer(page, np.uint8)
        self._cores: list[LinkedCore] = []

    @property
    def failed(self) -> bool:
        """Whether it has failed."""
        return bool(self.replay.turns.state[FAILED])

    def core(self, number: int, *, alone: bool) -> LinkedReplay:
        """The replay of a core."""
        core = LinkedCore(self.recording, number, self.replay, self.pages, alone=alone)
        self._cores.append(core)
        return LinkedReplay(self.recording, core, number, self.steps[number], lambda: self.failed)

    def share_code(self) -> None:
        """All cores know where each stream has what nobody else accesses, which may be code."""
        places = [core.core.memory for core in self._cores] + [self.of_agents]
        memories = np.array([address_of(memory) for memory in places], np.uint64)
        for core in self._cores:
            core.memories = memories

    def result(self, number: int, done: LinkedReplay) -> CoreResult:
        """What became of a core."""
        own, turns = self.replay.own[number], self.replay.turns
        return CoreResult(
            number, done.count, done.accesses, done.checks, done.registers,
            waits=int(turns.streams[number, WAITS]), linked=int(own[LINKED]), compared=int(own[COMPARED]),
            **done.taken,
        )  # fmt: skip

    def values(self) -> dict[str, int]:
        """Of the read log."""
        names = ("written", "predicted", "left_out")
        return dict(zip(names, self.log.values.tally.tolist(), strict=True))


def replay_together(recording: Recording, progress: Callable[[int], None] = lambda _: None) -> ReplayedGroup:
    """Replay all cores. progress: called with instructions so far.

    Raises UsageError without evidence that a replay can be made from, FormatError, Divergence, and
    Contradiction where the evidence is not of one run."""
    replaying = _Replaying(recording)
    n = recording.manifest.n_cores
    threads = Threads(replaying.replay)
    cores = [replaying.core(number, alone=False) for number in range(n)]
    replaying.share_code()
    counts = [0] * n

    def run(number: int) -> None:
        def tell(count: int) -> None:
            counts[number] = count
            progress(sum(counts))

        for _ in cores[number].run(tell):
            pass

    for number in range(n):
        threads.add(number, lambda number=number: run(number))  # type: ignore[misc]
    threads.add(n, lambda: _agents(replaying, iter_agent_trace(recording)))
    threads.run()
    if replaying.failed:
        raise contradiction(recording, replaying.replay)
    if left := left_over(replaying.log):
        raise contradiction(recording, replaying.replay, left)
    results = tuple(replaying.result(number, core) for number, core in enumerate(cores))
    made, turns = replaying.replay.memory.made, replaying.replay.turns
    handed = int(turns.state[SWITCHES])
    return ReplayedGroup(results, int(made.sum()), handed, replaying.values(), replaying.agents, alone=False)


def _agents(replaying: _Replaying, pieces: Iterator[NDArray[np.void]]) -> None:
    """What devices and the kernel did, as their log says it."""
    agents = replaying.recording.manifest.n_cores
    for rows in pieces:
        if not do_rows(replaying.replay, agents, rows, replaying.of_agents):
            return
        replaying.agents += len(rows)


class Threads:
    """A thread for each stream, of which one is on its turn."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._threads: list[Thread] = []
        self._errors: list[BaseException] = []

    def add(self, stream: int, run: Callable[[], None]) -> None:
        """A stream's thread, and what it does."""
        self._threads.append(Thread(target=self._main, args=(stream, run), daemon=True))

    def _main(self, stream: int, run: Callable[[], None]) -> None:
        turns, why = self._replay.turns, 0
        if not begin_turn(turns, stream):
            return
        try:
            run()
        except GivenUp:
            why = STUCK
        except BaseException as error:
            self._errors.append(error)
            why = ELSEWHERE
        end_turns(turns, self._replay.memory.made, stream, why)

    def run(self) -> None:
        """Until all have ended. Raises what one of them raised first."""
        for thread in self._threads:
            thread.start()
        begin_first(self._replay.turns, self._replay.memory.made)
        try:
            self._join()
        except BaseException:
            # Whoever is on its turn sees it at its next access, and lets the others go.
            self._replay.turns.state[WHY] = ELSEWHERE
            self._replay.turns.state[FAILED] = 1
            self._join()
            raise
        if self._errors:
            raise self._errors[0]

    def _join(self) -> None:
        for thread in self._threads:
            while thread.is_alive():
                thread.join(_PATIENCE)


def replay_alone(
    recording: Recording, number: int, progress: Callable[[int], None] = lambda _: None
) -> ReplayedGroup:
    """Replay one core from the read log alone. Raises UsageError, FormatError, Divergence."""
    n = recording.manifest.n_cores
    if not 0 <= number < n:
        raise UsageError(
            "no such core in this recording", expected=f"0 to {n - 1}", found=str(number),
            where=str(recording.path), remedy=another("core"),
        )  # fmt: skip
    replaying = _Replaying(recording)
    if replaying.head.compressions & DOUBLE:
        raise UsageError(
            "the read log leaves out values that only a replay of all cores can know",
            where=str(recording.path),
            remedy=Phrase("replay all cores, or record again with ", Option("read_values", "all")),
        )
    if replaying.head.compressions & GUARDED:
        raise UsageError(
            "the evidence skips what locks protect, which only a replay of all cores can know",
            where=str(recording.path),
            remedy=Phrase("replay all cores, or record again with ", Option("protected", "log")),
        )
    core = replaying.core(number, alone=True)
    for _ in core.run(progress):
        pass
    if left := left_over(replaying.log, only=number):
        raise contradiction(recording, replaying.replay, left)
    return ReplayedGroup((replaying.result(number, core),), 0, 0, replaying.values(), 0, alone=True)
