"""Replay of one member of a replay set, from its value log (OPR, section 6): no other core runs, and no miss
record is used. Its own log gives only what is no memory: context headers, inputs, strata, digests.

Every access is checked by the digests that the recorder made of them, every register at every stratum.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import MISS, MISS_LATE, RECEIVED, RECORD
from emu.core.isolated import IsolatedCore
from emu.core.standing import Diverged
from emu.core.surroundings import DEVICES, KERNEL
from emu.hooks.feed import FED, on_fed_access
from recorder.evidence.opr.log import OprLog
from recorder.files.reader import Recording
from recorder.replay.by_accesses import ReplayByAccesses
from recorder.replay.driver import Piece

_WORD_BYTES = 8


class MemberReplay(ReplayByAccesses):
    """Replays one member; `run` yields its accesses, cut where the recorder has made a digest of them, `seq`
    being SN - 1. core: the core's number.

    Old bytes of a plain store are what this core knew there. Of a recording whose recorder was killed it goes
    up to the last stratum that both logs reach.
    """

    _title = "partial replay diverged"

    def __init__(self, recording: Recording, log: OprLog, core: int) -> None:
        manifest, isa = recording.manifest, recording.manifest.instruction_set
        member = log.members.index(core)
        around = KERNEL if manifest.linux else DEVICES
        isolated = IsolatedCore(
            isa, core, manifest.memory, log.unit, traced=True, on_access=on_fed_access, surroundings=around
        )
        super().__init__(recording, core, isolated)
        self._core.feed_values(_fed(log, member))
        self._code = _CodeRecords(log, member)
        self._checks = log.checks(member)

    def _pieces(self) -> Iterator[Piece]:
        return (self._code.merged(*piece) for piece in super()._pieces())

    def _over(self) -> bool:
        """Whether the recorder was killed, and here is the last stratum that the value log reaches."""
        over = self.checks == len(self._checks) and self.registers == self.checks
        return self._recording.killed and over

    def _rest(self) -> Iterator[NDArray[np.void]]:
        yield from self._taken()
        if self._complete:
            self._check_end()

    def _taken(self) -> Iterator[NDArray[np.void]]:
        """The accesses since the last call, cut where the recorder has made a digest."""
        rows = self._core.take_trace()
        while len(rows):
            piece = rows
            if self.checks < len(self._checks):
                left = int(self._checks[self.checks]["sn"]) - self._accesses.accesses
                piece = rows[: max(left, 0)] if left < len(rows) else rows
            if len(piece):
                self._accesses.take(piece)
                yield piece
            self._compare_accesses()
            rows = rows[len(piece) :]
        self._compare_accesses()

    def _compare_accesses(self) -> None:
        while self.checks < len(self._checks):
            check = self._checks[self.checks]
            if int(check["sn"]) != self._accesses.accesses:
                return
            before = int(self._checks[self.checks - 1]["sn"]) if self.checks else 0
            self._compare_digest(int(check["value"]), before)

    def _check_end(self) -> None:
        if len(self._checks) > self.checks:
            self._compare_end(int(self._checks[-1]["sn"]))
        if self._core.unused_values:
            found = f"{self._core.unused_values} at the end"
            raise self._diverged(Diverged("entries of the value log are left over", "none", found))


def _fed(log: OprLog, member: int) -> NDArray[np.void]:
    """A member's value log as the machine takes it: FED[n]."""
    values = log.values(member)
    fed = np.zeros(len(values), FED)
    fed["seq"], fed["value"] = values["sn"] - np.uint64(1), values["value"]
    return fed


class _CodeRecords:
    """A member's CODE rows in place of the miss records of its log."""

    def __init__(self, log: OprLog, member: int) -> None:
        code = log.code(member)
        self._rows = np.zeros(len(code), RECORD)
        self._rows["count"], self._rows["addr"] = code["sn"], code["place"]
        self._rows["kind"], self._rows["size"] = MISS, _WORD_BYTES
        self._rows["flags"] = np.where(code["size"] != 0, MISS_LATE, 0)
        self._bytes = np.ascontiguousarray(code["value"]).view(np.uint8)
        self._done = 0

    def merged(
        self, rows: NDArray[np.void], blob: NDArray[np.uint8]
    ) -> tuple[NDArray[np.void], NDArray[np.uint8]]:
        """A frame of the core's log with code for its miss records: (RECORD[n], uint8[])."""
        kept = rows[(rows["kind"] != MISS) & (rows["kind"] != RECEIVED)]
        last = self._done + int(
            np.searchsorted(self._rows["count"][self._done :], rows["count"][-1], "right")
        )
        code, data = self._rows[self._done : last].copy(), self._bytes[8 * self._done : 8 * last]
        self._done = last
        code["offset"] = len(blob) + 8 * np.arange(len(code))
        both = np.concatenate([code, kept])
        return both[np.argsort(both["count"], kind="stable")], np.concatenate([blob, data])
