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
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import FormatError
from corebraid.base.hold_places import NO_HOLDS, WITH_AGENTS
from corebraid.base.rows.record import MISS
from emu.core.watched_pages import Watching
from emu.native.state import PAGE_SHIFT
from recorder.evidence.losses.log import RegionCount, first_notes, iter_all_losses, losses_strata
from recorder.files.constraints import LOSSES
from recorder.files.evidence_names import evidence_log
from recorder.files.reader import Recording, iter_agent_trace, iter_core_records
from recorder.replay.handovers import NO_HANDOVERS, Handovers, possible
from recorder.replay.holds import no_holds, pages_by_holds
from recorder.replay.spells import Spells

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


def _beside_spells(keys: Pages, spells: Spells) -> Pages:
    """Keys without those in spells; in the region before one begins its page is traced."""
    kept = keys[~spells.within(keys & _PAGE, (keys >> _REGION_SHIFT).astype(np.int64))]
    opened = spells.opener >= 0
    before = (spells.first[opened] - 1).astype(np.uint64) << _REGION_SHIFT | spells.page[opened]
    return np.union1d(kept, before)


@dataclass(frozen=True)
class Watched:
    """Of which pages one core's accesses are traced. keys: region << 40 | page, uint64[n], ascending; behind
    the last region stands one of all pages that are contested in any. listed: under which region a region's
    pages stand, int64[regions + 1]. rows: what is one (`CONTESTED`, ...). others: pages that are traced
    though they are never contested, uint64[n]. by_holds: of which not accesses but holds are traced,
    uint64[n] (`recorder.replay.holds`); words: those of them that agents use, uint64[n]; spells: of which it
    is so for a time. strata: see `Contested`. handovers: the regions that begin with one
    (`recorder.replay.handovers`)."""

    keys: Pages
    listed: NDArray[np.int64]
    rows: str
    others: Pages
    by_holds: Pages
    words: Pages
    spells: Spells
    strata: NDArray[np.uint64]
    handovers: frozenset[int]

    @property
    def ever_by_holds(self) -> Pages:
        """Pages of which holds are traced at any time, ascending."""
        return np.union1d(self.by_holds, self.spells.page)

    def by_holds_in(self, region: int) -> Pages:
        """Those of which they are in a region, ascending."""
        spells = self.spells
        return np.union1d(self.by_holds, spells.page[(spells.first <= region) & (region < spells.end)])

    def turns(self, first: int, last: int) -> list[int]:
        """Of these regions those at whose beginning a spell ends, or begins, ascending."""
        at, end = np.searchsorted(self._turns, (first, last + 1))
        return self._turns[at:end].tolist()

    @cached_property
    def _turns(self) -> NDArray[np.int64]:
        return np.union1d(self.spells.first, self.spells.end)

    def words_in(self, region: int) -> Pages:
        """Words that agents use of those, ascending."""
        return np.union1d(self.words, self.spells.words_in(region))

    def asked(self, region: int = 0) -> Watching:
        """Of the core, where its replay begins with a region."""
        marking, gains = self.rows == MARKED, self.rows == RECEIVED
        by_holds = self.by_holds_in(region), len(self.ever_by_holds) > 0
        return Watching(self.ever, self.others, marking, gains, *by_holds, self.words_in(region))

    @cached_property
    def ever(self) -> Pages:
        """Pages that are traced at any time, ascending."""
        return np.union1d(self.keys & _PAGE, self.spells.page)

    def pages(self, region: int) -> Pages:
        """Those of a region, ascending. A log may have more strata than others that a killed recorder left:
        what lies behind theirs is nobody's."""
        region = int(self.listed[min(region, len(self.listed) - 1)])
        begins = self._begins
        return self.keys[begins[region] : begins[region + 1]] & _PAGE

    @cached_property
    def _begins(self) -> list[int]:
        """Where each region's keys begin, and behind the last."""
        regions = np.arange(len(self.listed) + 1, dtype=np.uint64)
        return np.searchsorted(self.keys, regions << _REGION_SHIFT).tolist()


class Contested:
    """The contested pages of a recording. strata: uint64 (strata, streams), where each stream stands at each.
    holds: of which holds are traced, not accesses (`corebraid.base.hold_places`); they are `by_holds`,
    uint64[n], and not among the others, nor those of `spells` while they last; what agents use of the former
    is `words`. handovers: that are asked for; those that are possible there become `handovers`
    (`recorder.replay.handovers`). Raises FormatError, also where not all losses are there."""

    def __init__(
        self,
        recording: Recording,
        strata: NDArray[np.uint64],
        *,
        holds: int = NO_HOLDS,
        handovers: Handovers = NO_HANDOVERS,
    ) -> None:
        self._recording, self._strata = recording, strata
        self._end = np.uint64(len(strata) + 1) << _REGION_SHIFT
        keys, lost = [np.zeros(0, np.uint64)], 0
        counts = [RegionCount() for _ in range(recording.manifest.n_cores)]
        for rows in iter_all_losses(recording):
            lost += len(rows)
            for core in np.unique(rows["core"]).tolist():
                mine = rows[rows["core"] == core]
                regions = losses_strata(mine, first_notes(strata[:, core]))
                counts[core].add(regions)
                keys.append(_keys(regions, mine["line"]))
        self._check_number(lost)
        agents = [np.zeros(0, np.uint64)]
        for rows in iter_agent_trace(recording):
            last = rows["addr"] + rows["size"].astype(np.uint64) - _ONE
            agents += [_keys(rows["stratum"], rows["addr"]), _keys(rows["stratum"], last)]
        used = np.unique(np.concatenate(agents))
        found = np.union1d(np.concatenate(keys), used)
        by_holds = no_holds()
        if holds:
            agents_pages = np.unique(used & _PAGE)
            by_holds = pages_by_holds(recording, strata, agents_pages, beside=holds == WITH_AGENTS)
            found = _beside_spells(found[~np.isin(found & _PAGE, by_holds.pages)], by_holds.spells)
        self.by_holds, self.words, self.spells = by_holds.pages, by_holds.words, by_holds.spells
        self.handovers = possible(handovers, strata, self.spells)
        # The agents' log of a killed recorder may go on behind the last stratum.
        found = found[found < self._end]
        last = np.unique(found & _PAGE)
        last = last[~self.spells.within(last, np.full(len(last), len(strata)))]
        self._keys: Pages = np.concatenate([found, self._end | last])

    def _check_number(self, found: int) -> None:
        manifest = self._recording.manifest
        expected = manifest.totals.get("downgrades")
        if manifest.complete and found != expected:
            raise FormatError(
                "losses are missing, or too many",
                expected=f"{expected}, as the bus counted them",
                found=str(found),
                where=str(self._recording.path / evidence_log(LOSSES)),
                remedy="record again",
            )

    def of(self, core: int, rows: str = CONTESTED) -> Watched:
        """What is traced of a core: what is contested, and where it begins to stand still all that is
        contested until it goes on. What it has made of a page is told at the end of the region before, which
        must have an instruction of the core. rows: `CONTESTED`, `MARKED` or `RECEIVED`. Raises
        FormatError."""
        keys, others = self._keys, np.zeros(0, np.uint64)
        if rows == RECEIVED:
            others = np.setdiff1d(self._received(core), np.concatenate([keys & _PAGE, self.by_holds]))
            keys = np.union1d(keys, self._end | others)
        still = self._stands_still(core)
        number = np.arange(len(still))
        begins = still & ~np.concatenate([[False], still[:-1]])
        # Of a region in which it stands still, and of the one after those: where it began to.
        began = np.maximum.accumulate(np.where(begins, number, 0))
        regions = (keys >> _REGION_SHIFT).astype(np.int64)
        after = np.concatenate([[False], still[:-1]])[regions]
        waited = (began[regions[after | still[regions]]]).astype(np.uint64) << _REGION_SHIFT
        traced = np.concatenate([keys[~still[regions]], waited | keys[after | still[regions]] & _PAGE])
        listed = np.where(still, began, number)
        handovers = frozenset(self.handovers[core] if self.handovers else ())
        return Watched(
            np.unique(traced),
            listed,
            rows,
            others,
            self.by_holds,
            self.words,
            self.spells,
            self._strata,
            handovers,
        )

    def _stands_still(self, core: int) -> NDArray[np.bool_]:
        """Whether a core executes nothing in a region, bool[regions + 1]."""
        manifest, stands = self._recording.manifest, self._strata[:, core]
        before = np.concatenate([np.zeros(1, np.uint64), stands])
        # Of a recording that was not finished it is not known, and what is traced too much does no harm.
        end = np.uint64(manifest.instructions[core]) if manifest.complete else before[-1]
        return np.append(np.append(stands, end) == before, [False])

    def _received(self, core: int) -> Pages:
        """The pages that a core ever received."""
        found = [np.zeros(0, np.uint64)]
        for rows, _ in iter_core_records(self._recording, core):
            found.append(np.unique(rows["addr"][rows["kind"] == MISS] >> PAGE_SHIFT))
        return np.unique(np.concatenate(found))
