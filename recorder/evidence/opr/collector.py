"""The collector of evidence `opr`: value logs, event orders and digests of the members of a replay set.

Source: "OPR: Deterministic Group Replay for One-Sided Communication", sections 4 and 5. Nothing is kept of
other cores, but that their stores into code, and their partitions of global memory, are known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from corebraid.base.errors import UsageError
from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from recorder.evidence.opr.accesses import AccessStream
from recorder.evidence.opr.clocks import Affinities, ExactClocks, RelaxedClocks
from recorder.evidence.opr.log import Head, OprWriter, unit_of
from recorder.evidence.opr.rows import CHECK, OPR_ROW, Rows
from recorder.evidence.opr.shadow import CodePages, ValueLogger, follow_stores
from recorder.files.access_digest import AccessDigest
from recorder.files.collectors import EvidenceWriter, Guest
from recorder.files.evidence_names import is_core_number

#: Rows that are held back until a frame is worth it, and events that are taken down at once.
_HELD_ROWS, _AT_ONCE = 1 << 14, 1 << 12
#: A count that no event has.
_NEVER = (1 << 64) - 1


def parse_members(text: str, cores: int) -> tuple[int, ...]:
    """The cores of a replay set, as `record --rset` writes them into the manifest. Raises UsageError."""
    parts = text.split(",")
    if not all(is_core_number(part) and int(part) < cores for part in parts) or len(set(parts)) < len(parts):
        raise UsageError(
            "no such replay set", expected=f"cores from 0 to {cores - 1}", found=text or "nothing"
        )
    return tuple(sorted(map(int, parts)))


class OprCollector:
    """Takes the evidence down. rset: the members, as in "0,2"."""

    def __init__(self, guest: Guest, writer: EvidenceWriter, rset: str) -> None:
        members = parse_members(rset, guest.n_cores)
        memory, unit = len(guest.memory), unit_of(guest.line)
        self._code = _code_pages(guest, unit)
        self._place = {core: place for place, core in enumerate(members)}
        self._writer = OprWriter(writer, Head(members, unit), memory)
        self._loggers = [ValueLogger(place, self._code) for place in range(len(members))]
        self._digests = [AccessDigest() for _ in members]
        self._accesses = [AccessStream(memory) for _ in members]
        self._affinities = Affinities(memory, guest.n_cores)
        self._exact = ExactClocks(len(members), memory)
        self._relaxed = RelaxedClocks(len(members), self._affinities)
        self._held = np.empty(2 * _HELD_ROWS, OPR_ROW)
        self._held_rows = 0
        self._late_code, self._late_done = guest.late_code, 0

    @property
    def shadow_bytes(self) -> list[int]:
        """Bytes of each member's shadow memory."""
        return [logger.shadow.bytes for logger in self._loggers]

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        if self._late_code and self._late_done < len(self._late_code):
            self._come_to_hold_code()
        self._affinities.take(stream, rows)
        place = self._place.get(stream)
        if place is None:
            follow_stores(rows, self._code)
            return
        for start in range(0, len(rows), _AT_ONCE):
            self._take(place, rows[start : start + _AT_ONCE])

    def _come_to_hold_code(self) -> None:
        assert self._late_code is not None
        pages = self._late_code[self._late_done :]
        self._late_done += len(pages)
        for logger in self._loggers:
            logger.come_to_hold_code(pages)

    def _take(self, place: int, rows: Rows) -> None:
        logged, fresh = self._loggers[place].take(rows)
        self._digests[place].take(rows)
        accesses = self._accesses[place].take(rows, fresh)
        self._hold(logged)
        self._hold(self._exact.take(place, accesses))
        self._hold(self._relaxed.take(place, accesses))

    def _hold(self, rows: Rows) -> None:
        n = len(rows)
        if not n:
            return
        if self._held_rows + n > len(self._held):
            self.flush()
        if n > len(self._held):
            self._writer.append(rows)
            return
        # As bytes: numpy copies structured rows one by one.
        self._held[self._held_rows : self._held_rows + n].view(np.uint8)[:] = rows.view(np.uint8)
        self._held_rows += n

    def stratum(self) -> None:
        """See `Collector`: a digest of every member."""
        checks = np.zeros(len(self._digests), OPR_ROW)
        for place, digest in enumerate(self._digests):
            row = checks[place]
            row["kind"], row["member"] = CHECK, place
            row["sn"], row["value"] = digest.accesses, digest.value
        self._hold(checks)

    def flush(self) -> None:
        """See `Collector`."""
        if self._held_rows:
            self._writer.append(self._held[: self._held_rows])
        self._held_rows = 0

    def finish(self) -> None:
        """See `Collector`."""
        for place, logger in enumerate(self._loggers):
            self._hold(logger.settle(_NEVER))
            self._hold(self._relaxed.settle(place))
        self.stratum()
        self.flush()


def _code_pages(guest: Guest, unit: int) -> CodePages:
    image = host_memory(len(guest.memory))
    grows = guest.late_code is not None
    page = guest.executable if grows else (guest.executable != 0).astype(np.uint8)
    for number in (np.flatnonzero(page) if guest.used is None else guest.used).tolist():
        at = slice(number * PAGE_BYTES, (number + 1) * PAGE_BYTES)
        image[at] = guest.memory[at]
    return CodePages(page, image, np.uint64(unit), grows)


def make_opr(guest: Guest, writer: EvidenceWriter, options: Mapping[str, object]) -> OprCollector:
    """The collector for a machine. options: "rset", the members. Raises UsageError."""
    return OprCollector(guest, writer, str(options.get("rset", "")))
