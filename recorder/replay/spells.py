"""In which regions holds are enough for an order of a page of which agents now and then use much.

The loader reads a file's header into a page of the first thread's stack, and from then on no call uses more
than a few words of it, but for one that looks at a file in the end. Before and behind a *spell* such a page
is ordered by accesses, and in it by holds. Where it begins and ends one core has the page, and nobody else:
it tells what is there (`emu.hooks.trace_holds.open_spell`, `close_spell`), so that what accesses tell and
what holds tell are never both there.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import MISS_WRITE
from emu.bus.losses import LOST
from emu.native.state import PAGE_SHIFT
from recorder.replay.agents_words import Stretches

#: Losses of a page in a spell that are worth it; borders that are tried; pages that one core tells of at one,
#: as far as its trace has room.
_WORTH, _TRIED, _AT_ONCE = 16, 64, 60
Pages = NDArray[np.uint64]
#: Of one core, by count: count, page (its place among some), flags of the record.
GainedPages = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint8]]
#: The same: count, page, way, region.
LostPages = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]


class Spells(NamedTuple):
    """By page and region. page: uint64[n]; first, end: regions, int64[n]; opener, closer: the cores that tell
    what the page holds where a spell begins and ends, int64[n], -1 for none: at the beginning and the end of
    the recording. words: addresses of words that agents use in it, uint64[m], ascending in each; ptr:
    int64[n + 1], which are whose."""

    page: Pages
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    opener: NDArray[np.int64]
    closer: NDArray[np.int64]
    words: Pages
    ptr: NDArray[np.int64]

    def within(self, pages: Pages, regions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether these pages (uint64[k]) are in a spell in these regions (int64[k])."""
        if not len(self.page):
            return np.zeros(len(pages), bool)
        begins = self.page.astype(np.int64) << 32 | self.first
        at = np.searchsorted(begins, pages.astype(np.int64) << 32 | regions, side="right") - 1
        found: NDArray[np.bool_] = (at >= 0) & (self.page[at] == pages) & (regions < self.end[at])
        return found

    def words_in(self, region: int) -> Pages:
        """Those of spells that a region is in, ascending."""
        there = np.repeat((self.first <= region) & (region < self.end), np.diff(self.ptr))
        return np.sort(self.words[there])


def no_spells() -> Spells:
    """None at all."""
    return _spells([])


class Changes(NamedTuple):
    """What became of one core's rights."""

    gains: GainedPages
    losses: LostPages

    def of(self, pages: NDArray[np.intp]) -> Changes:
        """Those of any of these pages."""
        counts, places, flags = self.gains
        gained = np.isin(places, pages)
        others, lines, ways, regions = self.losses
        lost = np.isin(lines, pages)
        return Changes(
            (counts[gained], places[gained], flags[gained]),
            (others[lost], lines[lost], ways[lost], regions[lost]),
        )


def worth(found: Stretches, losses: list[LostPages]) -> NDArray[np.intp]:
    """The stretches in which the page is lost often. losses: of all cores, regions below 2^32."""
    page, region = (np.concatenate([lost[column] for lost in losses]) for column in (1, 3))
    keys = np.sort(page << 32 | region)
    first, end = (np.searchsorted(keys, found.page << 32 | edge) for edge in (found.first, found.end))
    return np.flatnonzero(end - first >= _WORTH)


def spells_of(
    pages: Pages, found: Stretches, chosen: NDArray[np.intp], cores: list[Changes], strata: NDArray[np.uint64]
) -> Spells:
    """Spells in the chosen stretches. cores: what became of each core's rights to their pages."""
    told, spells = Counter[tuple[int, int]](), list[_Spell]()
    for k in chosen.tolist():
        place, first, end = int(found.page[k]), int(found.first[k]), int(found.end[k])
        mine = [changes.of(np.array([place])) for changes in cores]
        opener, closer = -1, -1
        if first:
            first, opener = _border(mine, strata, range(first, min(first + _TRIED, end)), told)
        if opener == -1 and first:
            continue
        if end <= len(strata):
            # Not in the region in which agents use more: they may be before the core that tells.
            end, closer = _border(mine, strata, range(end - 1, max(end - 1 - _TRIED, first), -1), told)
            if closer == -1:
                continue
        words = np.sort(found.words[k][: found.n_words[k]])
        if not len(words):
            # So that it is one of those of which nothing is said by lines.
            words = pages[place : place + 1] << PAGE_SHIFT
        spells.append((int(pages[place]), first, end, opener, closer, words))
    return _spells(sorted(spells, key=lambda spell: spell[:2]))


_Spell = tuple[int, int, int, int, int, Pages]


def _spells(found: list[_Spell]) -> Spells:
    columns = np.array([spell[:5] for spell in found], np.int64).reshape(-1, 5).T.copy()
    words = [np.zeros(0, np.uint64), *(spell[5] for spell in found)]
    ptr = np.cumsum([len(some) for some in words])
    return Spells._make([columns[0].astype(np.uint64), *columns[1:], np.concatenate(words), ptr])


def _border(
    cores: list[Changes], strata: NDArray[np.uint64], regions: range, told: Counter[tuple[int, int]]
) -> tuple[int, int]:
    """The first of these regions where a core can tell what the page holds, and that core; -1 twice if there
    is none. told: how many pages each core tells of in each region."""
    for region in regions:
        if region >= len(strata):
            continue
        teller = _teller(cores, strata[region - 1], strata[region])
        if teller is not None and told[region, teller] < _AT_ONCE:
            told[region, teller] += 1
            return region, teller
    return -1, -1


def _teller(cores: list[Changes], here: NDArray[np.uint64], there: NDArray[np.uint64]) -> int | None:
    """The core that has a page where a region begins, if no other has, and none gets it there before that has
    executed something. here, there: where the cores stand at both ends of the region."""
    teller, alone, others = None, False, False
    for core, (gains, losses) in enumerate(cores):
        n, m = np.searchsorted(gains[0], here[core]), np.searchsorted(gains[0], there[core])
        if n < len(gains[0]) and gains[0][n] == here[core]:
            return None
        if n:
            since = np.searchsorted(losses[0], gains[0][n - 1], side="right")
            ways = losses[2][since : np.searchsorted(losses[0], here[core], side="right")]
            if LOST not in ways:
                if teller is not None or there[core] <= here[core]:
                    return None
                teller, alone = core, bool(gains[2][n - 1] & MISS_WRITE) and not len(ways)
                continue
        others = others or m > n
    return teller if alone or not others else None
