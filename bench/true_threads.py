"""Program order across cores, from the sealed truth and the cores' logs alone: what every order of a
recording must keep, whatever it knows of sync points. Plain Python; shares no code with them or the solver.

A core's CONTEXT records say which thread runs from a count on, the sealed truth which slice of which stream
followed which. So a thread's accesses come in *pieces*, on one core after the other, and so does what the
kernel did for it, wherever it is certain that a slice of the agents belongs to one thread. `Edge`s say the
rest: what a core had done comes before what another, or an agent, does from a place on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.true_order import Broken
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import RMW, UNCACHED, WRITE
from corebraid.base.rows.record import (
    CONTEXT,
    CONTEXT_INTERRUPT,
    CONTEXT_START,
    CONTEXT_SWITCH,
    INPUT,
    INPUT_CALL,
)
from recorder.files.reader import Recording, iter_core_records, iter_sealed_truth
from solver.regions.traces import MemoryTraces

#: Causes of agents' accesses (docs/format.md, section 5).
_FRAME, _CALL, _PAGE, _EXIT = 2, 4, 5, 7
#: Numbers of calls (Linux, x86-64): those that make a thread, and those whose result says how many bytes of
#: memory the kernel has read, or written.
_MAKE_THREADS = (56, 57, 58, 435)
_BYTES_READ, _BYTES_WRITTEN = (1, 44), (0, 45, 318)
#: Device registers (firmware/include/machine.h) whose write sets something off, and those whose answer tells
#: that something has ended (0) or has come (not 0).
_DEVICES = 0xF0000000
_POST = 0x128
_SET_OFF = {0x058: "IPI", 0x098: "DMA start", _POST: "mailbox post", 0x218: "put start", 0x220: "get start"}
_ENDED, _COME = {0x0A0: "DMA end", 0x228: "put/get end"}, {0x138: "mailbox take", 0x140: "mailbox take"}


@dataclass(frozen=True)
class Piece:
    """Rows of a source (a core; the agents, numbered after the cores) from place `first` to below `end`, in
    program order: instruction counts, or numbers of accesses."""

    source: int
    first: int
    end: int


@dataclass(frozen=True)
class Edge:
    """The rows of source `core` below place `below` come before those of source `to` from `first` on."""

    kind: str
    core: int
    below: int
    to: int
    first: int


@dataclass
class Promises:
    """What an order must keep. pieces: of each thread, in order. edges: all others. agents: the agents'
    accesses in all; attributed: those that are in a thread's pieces."""

    pieces: dict[int, list[Piece]] = field(default_factory=lambda: defaultdict(list))
    edges: list[Edge] = field(default_factory=list)
    agents: int = 0
    attributed: int = 0


# -- what the truth and the logs say ---------------------------------------------------------------------


@dataclass
class CoreLog:
    """Of one core. counts, contexts: of each context header its count, and (why, thread). calls: count behind
    the call -> (number, result)."""

    counts: list[int] = field(default_factory=list)
    contexts: list[tuple[int, int]] = field(default_factory=list)
    calls: dict[int, tuple[int, int]] = field(default_factory=dict)

    def thread(self, place: int) -> int:
        """The thread that makes the accesses from a count on."""
        at = bisect_right(self.counts, place)
        return self.contexts[at - 1][1] if at else 0

    def at(self, place: int) -> list[tuple[int, int]]:
        """The contexts at a count, but for that of the start."""
        found = self.contexts[bisect_left(self.counts, place) : bisect_right(self.counts, place)]
        return [context for context in found if context[0] != CONTEXT_START]


def log_of(recording: Recording, core: int) -> CoreLog:
    log = CoreLog()
    for rows, _ in iter_core_records(recording, core):
        kept = rows[(rows["kind"] == CONTEXT) | (rows["kind"] == INPUT)]
        for row in kept:
            count = int(row["count"])
            if row["kind"] == CONTEXT:
                log.counts.append(count)
                log.contexts.append((int(row["flags"]), int(row["addr"])))
            elif row["flags"] == INPUT_CALL:
                log.calls[count + 1] = int(row["addr"]), int(row["value"])
    return log


def _slices(recording: Recording) -> list[tuple[int, int]]:
    """The sealed truth, without the slices in which stores commit."""
    n = recording.manifest.n_cores
    return [
        (int(stream), int(end))
        for rows in iter_sealed_truth(recording)
        for stream, end in zip(rows["stream"].tolist(), rows["end"].tolist(), strict=True)
        if stream <= n
    ]


class _Walk:
    """The truth, slice by slice."""

    def __init__(self, recording: Recording, traces: MemoryTraces) -> None:
        self.n = recording.manifest.n_cores
        self.traces, self.slices = traces, _slices(recording)
        self.logs = [log_of(recording, core) for core in range(self.n)]
        self.stand, self.agents = [0] * self.n, 0
        self.ends = [int(count) for count in recording.manifest.instructions]
        self.promises = Promises(agents=len(traces.rows[self.n]))

    def _edge(self, kind: str, core: int, below: int, to: int, first: int) -> None:
        self.promises.edges.append(Edge(kind, core, below, to, first))

    def linux(self) -> Promises:
        """Of a Linux guest."""
        last = -1
        made: dict[int, tuple[int, int]] = {}
        for number, (stream, end) in enumerate(self.slices):
            if stream == self.n:
                self._kernel(last, end, number)
                self.agents = end
            else:
                last = stream
                self._core(stream, end, made)
        self._end()
        return self.promises

    def _core(self, core: int, end: int, made: dict[int, tuple[int, int]]) -> None:
        begin, log = self.stand[core], self.logs[core]
        if end > begin:
            thread = log.thread(begin)
            inside = bisect_left(log.counts, end)
            if inside and begin < log.counts[inside - 1]:
                raise Broken(f"core {core} changes its context within the slice {begin} to {end}")
            pieces = self.promises.pieces[thread]
            if not pieces and thread in made:
                self._edge("thread start", *made[thread], core, begin)
            if pieces and pieces[-1].source == core and pieces[-1].end == begin:
                pieces[-1] = Piece(core, pieces[-1].first, end)
            else:
                pieces.append(Piece(core, begin, end))
            self.stand[core] = end
        if end in log.calls:
            call, result = log.calls[end]
            self._edge("call", core, end, self.n, self.agents)
            if call in _MAKE_THREADS and 0 < result < 1 << 31:
                made[result] = core, end

    def _busy(self, core: int) -> bool:
        """The core goes on where it stands, with the thread that it has."""
        return self.stand[core] < self.ends[core] and not self.logs[core].at(self.stand[core])

    def _kernel(self, core: int, end: int, number: int) -> None:
        """The kernel's accesses up to `end`; the last core to run was `core`."""
        rows = self.traces.rows[self.n][self.agents : end]
        if not len(rows) or core < 0:
            return
        thread = self._thread_of(core, end, rows, number)
        if thread:
            self.promises.pieces[thread].append(Piece(self.n, self.agents, end))
            self.promises.attributed += len(rows)
        exits = rows[(rows["pc"] == _EXIT) & (rows["kind"] == WRITE) & (rows["size"] == 4)]
        for row in exits[exits["new"] == 0]:
            self._joined(row)

    def _thread_of(self, core: int, end: int, rows: NDArray[np.void], number: int) -> int:
        """The thread for which these accesses were made for certain; 0 if it is not."""
        after_core = number > 0 and self.slices[number - 1][0] == core
        causes = set(rows["pc"].tolist())
        others_busy = all(self._busy(k) for k in range(self.n) if k != core)
        here = self.logs[core].at(self.stand[core])
        stays = not any(why == CONTEXT_SWITCH for why, _ in here)
        mine = self.logs[core].thread(self.stand[core] - 1) if self.stand[core] else 0
        if causes == {_EXIT} or (after_core and causes == {_PAGE} and self._touched_next(core, rows)):
            return mine
        if after_core and stays and (self._says_so(core, rows) or (others_busy and self._runs_on(core))):
            return mine
        changing = [k for k in range(self.n) if not self._busy(k)]
        if len(changing) == 1 and changing[0] != core and not after_core:
            return self.logs[changing[0]].thread(self.stand[changing[0]])
        return 0

    def _runs_on(self, core: int) -> bool:
        return self.stand[core] < self.ends[core]

    def _touched_next(self, core: int, rows: NDArray[np.void]) -> bool:
        """The core's next accesses are to a page that these rows fill: its own fault."""
        mine = self.traces.rows[core]
        at = int(np.searchsorted(mine["count"], np.uint64(self.stand[core])))
        following = mine[at : at + 8]
        following = following[following["count"] == following["count"][0]] if len(following) else following
        pages = set((rows["addr"] // PAGE_BYTES).tolist())
        last = following["addr"] + following["size"] - 1
        return bool(pages & {*(following["addr"] // PAGE_BYTES).tolist(), *(last // PAGE_BYTES).tolist()})

    def _says_so(self, core: int, rows: NDArray[np.void]) -> bool:
        """The core's call has returned as many bytes as the kernel read, or wrote, in these rows."""
        call, result = self.logs[core].calls.get(self.stand[core], (-1, 0))
        if result <= 0 or set(rows["pc"].tolist()) != {_CALL}:
            return False
        writes = rows["kind"] == WRITE
        read, written = int(rows["size"][~writes].sum()), int(rows["size"][writes].sum())
        return (call in _BYTES_READ and not written and read == result) or (
            call in _BYTES_WRITTEN and not read and written == result
        )

    def _joined(self, row: np.void) -> None:
        """A thread's word is cleared: the first core that finds it so afterwards comes after that."""
        address, number = int(row["addr"]), int(row["count"])
        for core in range(self.n):
            mine = self.traces.rows[core]
            at = int(np.searchsorted(mine["count"], np.uint64(self.stand[core])))
            later = mine[at:]
            hit = np.flatnonzero((later["addr"] == address) & (later["size"] == 4) & (later["kind"] != WRITE))
            if len(hit) and int(later["old"][hit[0]]) == 0:
                self._edge("join", self.n, number + 1, core, int(later["count"][hit[0]]))

    def _end(self) -> None:
        """What is written to shared mappings' files at the end: read after all that has run."""
        last = [i for i, (stream, _) in enumerate(self.slices) if stream == self.n]
        n = self.n
        if not last or self.slices[last[-1] + 1 :] != [(k, self.ends[k] + 1) for k in range(n)]:
            return
        first = self.slices[last[-2]][1] if len(last) > 1 else 0
        rows = self.traces.rows[n][first : self.slices[last[-1]][1]]
        if len(rows) and (rows["kind"] != WRITE).all() and (rows["pc"] == _EXIT).all():
            for core in range(n):
                self._edge("process end", core, self.ends[core], n, first)

    # -- firmware --------------------------------------------------------------------------------------

    def firmware(self) -> Promises:
        """Of firmware."""
        self._pass_firmware()
        posts: list[tuple[int, int, int]] = []
        takes: list[tuple[int, int, int]] = []
        for core in range(self.n):
            rows = self.traces.rows[core]
            asks = rows[(rows["flags"] & UNCACHED != 0) & (rows["addr"] >= _DEVICES) & (rows["size"] >= 4)]
            for row in asks:
                register, place = int(row["addr"]) - _DEVICES, int(row["count"]) + 1
                when, agents = self._time(core, place)
                value = int(row["new"]) & 0xFFFFFFFF if row["size"] == 4 else int(row["new"])
                if row["kind"] in (WRITE, RMW) and register in _SET_OFF:
                    self._edge(_SET_OFF[register], core, place, self.n, agents)
                    if register == _POST:
                        posts.append((when, core, place))
                elif (register in _ENDED and value == 0) or (register in _COME and value != 0):
                    self._edge((_ENDED | _COME)[register], self.n, agents, core, place)
                    if register in _COME:
                        takes.append((when, core, place))
        self._mail(sorted(posts), sorted(takes))
        return self.promises

    def _mail(self, posts: list[tuple[int, int, int]], takes: list[tuple[int, int, int]]) -> None:
        """Whatever was posted before comes before what follows a receipt."""
        latest: dict[int, int] = {}
        at = 0
        for when, core, place in takes:
            while at < len(posts) and posts[at][0] < when:
                latest[posts[at][1]] = posts[at][2]
                at += 1
            for sender, below in latest.items():
                if sender != core:
                    self._edge("mail", sender, below, core, place)

    def _time(self, core: int, place: int) -> tuple[int, int]:
        """(number of the slice in which a core came to a place, accesses that agents had made)."""
        at = bisect_left([end for end, _, _ in self.passed[core]], place)
        _, number, agents = self.passed[core][min(at, len(self.passed[core]) - 1)]
        return number, agents

    def _pass_firmware(self) -> None:
        self.passed: list[list[tuple[int, int, int]]] = [[] for _ in range(self.n)]
        frames: list[tuple[int, int]] = []
        for number, (stream, end) in enumerate([*self.slices, (-1, 0)]):
            if stream == self.n:
                rows = self.traces.rows[self.n][self.agents : end]
                if len(rows) and (rows["pc"] == _FRAME).all():
                    frames.append((self.agents, end))
                self.agents = end
                continue
            if frames:
                self._frames(frames)
                frames = []
            if stream >= 0 and end > self.stand[stream]:
                self.passed[stream].append((end, number, self.agents))
                self.stand[stream] = end

    def _frames(self, frames: list[tuple[int, int]]) -> None:
        """Interrupts were delivered between two slices: to cores in ascending order, once each. If there are
        more cores that are interrupted where they stand, it may be now or later."""
        found = [
            core
            for core in range(self.n)
            if any(why == CONTEXT_INTERRUPT for why, _ in self.logs[core].at(self.stand[core]))
        ]
        if len(found) != len(frames):
            return
        for core, (first, end) in zip(found, frames, strict=True):
            self._edge("interrupted context", core, self.stand[core], self.n, first)
            self._edge("handler", self.n, end, core, self.stand[core])


def promises(recording: Recording, traces: MemoryTraces) -> Promises:
    """What every order of a complete recording must keep. traces: its events (`true_order.held_traces`)."""
    walk = _Walk(recording, traces)
    return walk.linux() if recording.manifest.linux else walk.firmware()
