"""Which pages are contested in a region, as the logs of the page bus tell: all others are one stream's own
there.

Two accesses to a page by different streams, one of them a store, are never both in a region without a core
having lost the page, or the right to write to it, in between, or one of the streams being that of the agents.
A core loses nothing unnoticed (evidence `losses`), and agents' accesses are all in their log; so a page of
neither is read by whom it may be, or is one stream's own: MICRO's filters (section 4.3), known before
anything is replayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import MISS
from emu.native.state import PAGE_SHIFT
from recorder.evidence.losses.log import first_notes, iter_all_losses, losses_strata
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording, iter_agent_trace, iter_core_records

Pages = NDArray[np.uint64]

#: What of the cores' accesses is a row: all; those to contested pages; all, with those to other pages marked;
#: those to contested pages, and reads of whole pages as they come: with these nothing that a core could see
#: of others is left out.
ALL, CONTESTED, MARKED, RECEIVED = "all", "contested", "marked", "received"

#: A region and a page as one number: pages have fewer bits.
_REGION_SHIFT = np.uint64(40)
_PAGE = (np.uint64(1) << _REGION_SHIFT) - np.uint64(1)
_ONE = np.uint64(1)


def tells_contested(recording: Recording) -> bool:
    """Whether `Contested` can know of this recording what is contested."""
    manifest = recording.manifest
    return manifest.paged and LOSSES in manifest.evidence


def _keys(regions: NDArray[Any], addresses: NDArray[np.uint64]) -> Pages:
    found: Pages = np.unique(regions.astype(np.uint64) << _REGION_SHIFT | addresses >> PAGE_SHIFT)
    return found


def _keys_from(region: int) -> Pages:
    """The first key of a region, and of the next."""
    return np.array([region, region + 1], np.uint64) << _REGION_SHIFT


@dataclass(frozen=True)
class Watched:
    """Of which pages one core's accesses are traced. keys: region << 40 | page, uint64[n], ascending; behind
    the last region stands one of all pages that are contested in any. rows: what is one (`CONTESTED`,
    ...)."""

    keys: Pages
    rows: str

    @property
    def ever(self) -> Pages:
        """Pages that are traced in some region, ascending."""
        return np.unique(self.keys & _PAGE)

    def pages(self, region: int) -> Pages:
        """Those of a region, ascending."""
        low, high = np.searchsorted(self.keys, _keys_from(region))
        return self.keys[low:high] & _PAGE


class Contested:
    """The contested pages of a recording. strata: uint64 (strata, streams), where each stream stands at each.
    Raises FormatError."""

    def __init__(self, recording: Recording, strata: NDArray[np.uint64]) -> None:
        self._recording, self._strata = recording, strata
        self._end = np.uint64(len(strata) + 1) << _REGION_SHIFT
        keys = [np.zeros(0, np.uint64)]
        for rows in iter_all_losses(recording):
            for core in np.unique(rows["core"]).tolist():
                mine = rows[rows["core"] == core]
                keys.append(_keys(losses_strata(mine, first_notes(strata[:, core])), mine["line"]))
        for rows in iter_agent_trace(recording):
            last = rows["addr"] + rows["size"].astype(np.uint64) - _ONE
            keys += [_keys(rows["stratum"], rows["addr"]), _keys(rows["stratum"], last)]
        found = np.unique(np.concatenate(keys))
        self._keys: Pages = np.concatenate([found, self._end | np.unique(found & _PAGE)])

    def of(self, core: int, rows: str = CONTESTED) -> Watched:
        """What is traced of a core: what is contested, and of a region in which the core stands still what is
        traced in the next. What it has made of a page is told at the end of the region before, which must
        have an instruction of the core. rows: `CONTESTED`, `MARKED` or `RECEIVED`. Raises FormatError."""
        known = self._keys
        if rows == RECEIVED:
            known = np.union1d(known, self._end | self._received(core))
        keys, region, next_one = [known], 0, known[:0]
        for still in self._stands_still(core)[::-1].tolist():
            if still + 1 != region:
                next_one = known[:0]
            low, high = np.searchsorted(known, _keys_from(still + 1))
            next_one = np.union1d(next_one, known[low:high] & _PAGE)
            keys.append(np.uint64(still) << _REGION_SHIFT | next_one)
            region = still
        return Watched(np.unique(np.concatenate(keys)), rows)

    def _stands_still(self, core: int) -> NDArray[np.int64]:
        """Regions without an instruction of a core."""
        manifest, stands = self._recording.manifest, self._strata[:, core]
        before = np.concatenate([np.zeros(1, np.uint64), stands])
        # Of a recording that was not finished it is not known, and what is traced too much does no harm.
        end = manifest.instructions[core] if manifest.complete else before[-1]
        return np.flatnonzero(np.append(stands, np.uint64(end)) == before)

    def _received(self, core: int) -> Pages:
        """The pages that a core ever received."""
        found = [np.zeros(0, np.uint64)]
        for rows, _ in iter_core_records(self._recording, core):
            found.append(np.unique(rows["addr"][rows["kind"] == MISS] >> PAGE_SHIFT))
        return np.unique(np.concatenate(found))
