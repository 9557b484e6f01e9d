"""One core of Stride's replays: from its own program, with what its log says of inputs, and no miss record.

Of its own log it takes context headers, inputs, strata and digests of registers; of the evidence where it
fetched code, and digests of its accesses, which are compared with those that it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import CorebraidError, Divergence
from corebraid.base.host_memory import host_memory
from corebraid.base.rows.event import FETCH
from corebraid.base.rows.record import CONTEXT, INPUT, LOSES, MISS, RECEIVED, RECORD
from emu.core.isolated import IsolatedCore
from emu.core.standing import Diverged
from emu.core.surroundings import DEVICES, KERNEL
from emu.hooks.fill import on_whole_fill
from emu.native.state import address_of
from recorder.files.reader import Recording
from recorder.replay.by_accesses import ReplayByAccesses
from recorder.replay.driver import Piece
from solver.evidence.linkage.replay.access import (
    fetch_words,
    on_linked_access,
    on_lone_access,
    renew_code,
)
from solver.evidence.linkage.replay.steps import Steps
from solver.evidence.linkage.replay.stream import Replay
from solver.evidence.linkage.replay.table import table_of

#: Kind of the rows that stand for fetches of code; the log has none of it. value: the number of the event.
FETCHED = 10
_LEFT_OUT = (MISS, RECEIVED, LOSES)
_WORD_BYTES, _SHIFT = 8, np.uint64(3)


class GivenUp(CorebraidError):
    """The core stands before an access that cannot happen: why stands in the replay that it is part of."""


class LinkedCore(IsolatedCore):
    """A core whose accesses are held against the evidence. alone: they only read the read log. initial:
    (address, bytes) of the pages that memory holds at the beginning."""

    def __init__(
        self,
        recording: Recording,
        number: int,
        replay: Replay,
        initial: list[tuple[int, bytes]],
        *,
        alone: bool,
    ) -> None:
        manifest = recording.manifest
        super().__init__(
            manifest.instruction_set, number, manifest.memory, manifest.line, traced=True,
            on_access=on_lone_access if alone else on_linked_access, fill=on_whole_fill,
            surroundings=KERNEL if manifest.linux else DEVICES,
        )  # fmt: skip
        self._replay, self._alone = replay, alone
        self._table = table_of(replay)
        self._row["fed"] = address_of(self._table)
        # Every new block is told of: `_learn`.
        self._row["plain_block"] = 0
        #: Words of code that it has fetched.
        self._fetched = host_memory(manifest.memory // _WORD_BYTES + 1)
        #: Addresses of what each stream has for itself: uint64[n].
        self.memories = np.zeros(0, np.uint64)
        for address, page in initial:
            self.core.memory[address : address + len(page)] = np.frombuffer(page, np.uint8)

    @property
    def events(self) -> int:
        """Events so far."""
        return int(self._row["trace_sequence"])

    def fetch(self, row: np.void) -> None:
        """It fetches code (a RECORD, FETCHED)."""
        address, n = int(row["addr"]), int(row["size"])
        fetch_words(self.core.rows, np.uint64(address), n, self._alone)
        self._fetched[address >> 3 : (address >> 3) + n] = 1

    def _learn(self) -> None:
        low, size = int(self._row["block_address"]), int(self._row["block_size"])
        if not self._alone:
            at, length = np.uint64(low), np.uint64(size)
            if renew_code(self.core.rows, at, length, self._fetched, self.memories):
                self.core.forget_code(low, low + size)
                return
        super()._learn()


class LinkedReplay(ReplayByAccesses):
    """Replays one core. failed: whether the replay that it is part of has. taken: what was taken from the
    core's own log, by kind."""

    _title = "replay from linkages diverged"

    def __init__(
        self, recording: Recording, core: LinkedCore, number: int, steps: Steps, failed: Callable[[], bool]
    ) -> None:
        super().__init__(recording, number, core)
        self._linked, self._steps, self._failed = core, steps, failed
        self._fetches, self._fetched = _fetches(steps), 0
        self.taken = {"inputs": 0, "contexts": 0}

    def _pieces(self) -> Iterator[Piece]:
        done = 0
        for rows, blob in super()._pieces():
            kept = rows[~np.isin(rows["kind"], _LEFT_OUT)]
            for name, kind in (("inputs", INPUT), ("contexts", CONTEXT)):
                self.taken[name] += int((kept["kind"] == kind).sum())
            upto = int(np.searchsorted(self._fetches["count"], rows["count"][-1], "right"))
            both = np.concatenate([self._fetches[done:upto], kept])
            done = max(done, upto)
            if len(both):
                yield both[np.argsort(both["count"], kind="stable")], blob

    def _pass(self, row: np.void) -> None:
        if int(row["kind"]) != FETCHED:
            super()._pass(row)
            return
        number, count = int(row["value"]), int(row["count"])
        if (number, count) != (self._linked.events, self._core.count):
            expected = f"event {number}, instruction {count}"
            found = f"event {self._linked.events}, instruction {self._core.count}"
            raise self._diverged(Diverged("the core fetched code", expected, found))
        self._linked.fetch(row)
        self._fetched += 1
        if self._failed():
            raise GivenUp("an access cannot happen")
        self._core.pass_barrier()

    def _rest(self) -> Iterator[NDArray[np.void]]:
        yield from self._taken()
        checks = self._steps.checks
        if len(checks):
            self._compare_end(int(checks[-1, 0]))
        if self._fetched < len(self._fetches):
            expected = f"{len(self._fetches)} fetches of code"
            raise self._diverged(Diverged("the core ended", expected, str(self._fetched)))

    def _taken(self) -> Iterator[NDArray[np.void]]:
        """The accesses since the last call, cut where the recorder has made a digest."""
        rows, checks = self._core.take_trace(), self._steps.checks
        left = rows
        while self.checks < len(checks):
            n = int(rows_of(left, int(checks[self.checks, 0]) - self._accesses.accesses))
            if n < 0:
                break
            self._accesses.take(left[:n])
            left = left[n:]
            before = int(checks[self.checks - 1, 0]) if self.checks else 0
            self._compare_digest(int(checks[self.checks, 1]), before)
        self._accesses.take(left)
        yield rows

    def _diverged(self, step: Diverged) -> Divergence:
        if self._failed():
            raise GivenUp("an access cannot happen")
        return super()._diverged(step)


@njit(cache=True)
def rows_of(rows, accesses):  # type: ignore[no-untyped-def]
    """How many of these rows (EVENT[n]) so many accesses take, with fetches of code between; -1 if there are
    fewer."""
    for i in range(rows.size):
        if accesses <= 0:
            return i
        accesses -= (rows[i].flags & np.uint8(FETCH)) == 0
    return rows.size if accesses <= 0 else -1


def _fetches(steps: Steps) -> NDArray[np.void]:
    """As rows of a log: RECORD[n]."""
    rows = np.zeros(len(steps.fetches), RECORD)
    rows["value"], rows["count"], rows["addr"] = (steps.fetches[:, k] for k in range(3))
    rows["size"], rows["kind"] = steps.fetches[:, 3], FETCHED
    return rows
