"""Replay of one member of a replay set, from its value log (OPR, section 6): no other core runs, and no miss
record is used. Its own log gives only what is no memory: context headers, inputs, strata, digests.

Every access is checked by the digests that the recorder made of them, every register at every stratum.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from emu.isolated import AtBarrier, Diverged, IsolatedCore, NeedRows, TraceFull
from emu.value_feed import FED
from isa.decode import disassemble
from isa.errors import Divergence, FormatError
from isa.registry import isa_named
from recorder.digest import Digest
from recorder.opr_digest import AccessDigest
from recorder.opr_log import OprLog
from recorder.reader import Recording, iter_core_records
from recorder.record import CONTEXT, DIGEST, END, MISS, MISS_LATE, RECEIVED, RECORD, STRATUM

_CODE_WINDOW = 16
_WORD_BYTES = 8


class MemberReplay:
    """Replays one member; `run` yields its accesses. core: the core's number."""

    def __init__(self, recording: Recording, log: OprLog, core: int) -> None:
        manifest = recording.manifest
        member = log.members.index(core)
        self._recording, self._number = recording, core
        self._isa = isa_named(manifest.isa)
        self._core = IsolatedCore(
            self._isa, core, manifest.memory, log.unit, traced=True, fed=True, linux=manifest.linux
        )
        self._core.feed_values(_fed(log, member))
        self._code = _CodeRecords(log, member)
        self._checks = log.checks(member)
        self._digest = AccessDigest()
        self._contexts = self.checks = self.registers = 0
        self._complete = False

    @property
    def count(self) -> int:
        """Instructions replayed."""
        return self._core.count

    @property
    def accesses(self) -> int:
        """Accesses replayed, each like the recorded one as far as the last digest."""
        return self._digest.accesses

    @property
    def _cut_off(self) -> bool:
        """Whether the recorder was killed, and here is the last stratum that the value log reaches."""
        over = self.checks == len(self._checks) and self.registers == self.checks
        return self._recording.killed and over

    def run(self) -> Iterator[NDArray[np.void]]:
        """Replay to the log's end; yields accesses in bounded pieces, EVENT[n], `seq` being SN - 1.

        Old bytes of a plain store are what this core knew there. Of a recording whose recorder was killed,
        up to the last stratum that both logs reach. Raises Divergence at the first digest that
        differs, FormatError when a log is damaged.
        """
        frames = iter_core_records(self._recording, self._number)
        while not self._complete and not self._cut_off:
            step = self._core.step()
            if isinstance(step, NeedRows):
                piece = next(frames, None)
                if piece is None:
                    break
                rows, blob = self._code.merged(*piece)
                self._core.feed(rows, blob)
            elif isinstance(step, AtBarrier):
                # Digests of accesses are of strata: what was accessed up to here must be known.
                if int(step.row["kind"]) in (STRATUM, END):
                    yield from self._taken()
                self._pass(step.row)
            elif isinstance(step, TraceFull):
                yield from self._taken()
            else:
                raise self._diverged(step)
        if not (self._complete or self._recording.killed):
            raise FormatError(
                "the log stops before its end record",
                where=str(self._recording.core_log_path(self._number)),
                remedy="record again; the file has lost its tail",
            )
        yield from self._taken()
        if self._complete:
            self._check_end()

    def _taken(self) -> Iterator[NDArray[np.void]]:
        """The accesses since the last call, cut where the recorder has made a digest."""
        rows = self._core.take_trace()
        while len(rows):
            piece = rows
            if self.checks < len(self._checks):
                left = int(self._checks[self.checks]["sn"]) - self._digest.accesses
                piece = rows[: max(left, 0)] if left < len(rows) else rows
            if len(piece):
                self._digest.take(piece)
                yield piece
            self._compare_accesses()
            rows = rows[len(piece) :]
        self._compare_accesses()

    def _compare_accesses(self) -> None:
        while self.checks < len(self._checks):
            check = self._checks[self.checks]
            if int(check["sn"]) != self._digest.accesses:
                return
            if int(check["value"]) != self._digest.value:
                before = int(self._checks[self.checks - 1]["sn"]) if self.checks else 0
                what = f"accesses {before + 1} to {int(check['sn'])} are not those recorded"
                expected, found = f"digest {int(check['value']):#018x}", f"{self._digest.value:#018x}"
                raise self._diverged(Diverged(what, expected, found))
            self.checks += 1

    def _check_end(self) -> None:
        left = len(self._checks) - self.checks
        if left and int(self._checks[-1]["sn"]) != self._digest.accesses:
            expected = f"{int(self._checks[-1]['sn'])} accesses"
            raise self._diverged(Diverged("the core ended", expected, str(self._digest.accesses)))
        if self._core.unused_values:
            found = f"{self._core.unused_values} at the end"
            raise self._diverged(Diverged("entries of the value log are left over", "none", found))

    def _pass(self, row: np.void) -> None:
        kind, core = int(row["kind"]), self._core
        if int(row["count"]) != core.count:
            what = f"the core passed a record of kind {kind}"
            expected = f"instruction {int(row['count'])}"
            raise self._diverged(Diverged(what, expected, f"instruction {core.count}"))
        if kind == STRATUM:
            core.set_stratum(int(row["value"]) + 1, 0, 0)
        elif kind == DIGEST:
            self._compare_registers(core.blob_of(row))
        elif kind == CONTEXT:
            self._contexts += 1
            context = core.blob_of(row)
            if len(context) != self._isa.context_bytes:
                raise self._foreign("a context header")
            core.restore(context)
        elif kind == END:
            if core.unused_inputs:
                found = f"{core.unused_inputs} at the end of the log"
                raise self._diverged(Diverged("inputs are left over", "none", found))
            self._complete = True
        elif kind != MISS:
            raise self._foreign(f"a record of kind {kind}")
        core.pass_barrier()

    def _compare_registers(self, blob: bytes) -> None:
        expected = Digest.unpack(blob, self._isa)
        if expected is None:
            raise self._foreign("a digest")
        self.registers += 1
        # Of memory the member knows only what it accessed: the accesses are compared instead.
        found = Digest(self._core.core.context(), expected.fingerprint)
        differences = expected.differences(found, self._isa)
        if differences:
            what, wanted, got = differences[0]
            raise self._diverged(Diverged(f"{what} differs", wanted, got))

    def _diverged(self, step: Diverged) -> Divergence:
        pc, count = self._core.core.pc, self._core.count
        memory = self._core.core.memory
        text = disassemble(memory[pc : pc + _CODE_WINDOW].tobytes(), pc) if pc < len(memory) else "?"
        return Divergence(
            f"partial replay diverged: {step.what}",
            expected=step.expected,
            found=step.found,
            where=f"core {self._number}, instruction {count}, pc {pc:#x} ({text})",
            remedy=f"compare with: corebraid replay {self._recording.path} --core {self._number}",
        )

    def _foreign(self, what: str) -> FormatError:
        return FormatError(
            f"{what} is not of {self._isa.name}",
            where=str(self._recording.core_log_path(self._number)),
            remedy="record again",
        )


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
