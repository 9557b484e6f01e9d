"""In which regions holds are enough for an order of a page of which agents now and then use much.

The loader reads a file's header into a page of the first thread's stack, and from then on no call uses more
than a few words of it, but for one that looks at a file in the end. Before and behind a *spell* such a page
is ordered by accesses, and in it by holds. Where it begins and ends one core has the page, and nobody else:
it tells what is there (`emu.hooks.trace_holds.open_spell`, `close_spell`), so that what accesses tell and
what holds tell are never both there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.record import MISS_WRITE
from emu.bus.losses import LOST
from emu.native.state import PAGE_SHIFT
from recorder.replay.agents_words import Stretches, Wanted

#: Losses of a page in a spell that are worth it; borders that are tried; pages that one core tells of at one,
#: as far as its trace has room; stretches that are looked at.
_WORTH, _TRIED, _AT_ONCE, _MOST = 16, 64, 60, 1 << 12
_NO_WAY, _WAY_SHARED, _WAY_LOST = range(3)
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


class Histories(NamedTuple):
    """What became of each core's rights to each of some pages, page by page, of each core by core, by count.
    gained: int64[pages * cores + 1], which gains are whose, of which gain_count, and flags of the record;
    lost: the same of losses, loss_count and way."""

    gained: NDArray[np.int64]
    gain_count: NDArray[np.uint64]
    flags: NDArray[np.uint8]
    lost: NDArray[np.int64]
    loss_count: NDArray[np.uint64]
    way: NDArray[np.uint8]


def histories(places: NDArray[np.intp], cores: list[Changes]) -> Histories:
    """Those of these pages, by their places among some, ascending."""
    found: list[NDArray[Any]] = []
    for name in ("gains", "losses"):
        keys, counts, what = [], [], []
        for core, changes in enumerate(cores):
            count, page, told = getattr(changes, name)[:3]
            at = np.searchsorted(places, page)
            mine = np.flatnonzero(at < len(places))
            mine = mine[places[at[mine]] == page[mine]]
            keys.append(at[mine] * len(cores) + core)
            counts.append(count[mine])
            what.append(told[mine])
        key, count, told = (np.concatenate(column) for column in (keys, counts, what))
        by = np.lexsort((count, key))
        ends = np.arange(len(places) * len(cores) + 1)
        found += [np.searchsorted(key[by], ends), count[by], told[by]]
    return Histories(*found)


def worth(losses: list[LostPages], used: NDArray[np.bool_]) -> Wanted:
    """The stretches that are worth a spell. losses: of all cores, regions below 2^32. used: bool[pages], the
    pages that agents use, among which pages of stretches are numbered."""
    page, region = (np.concatenate([lost[column] for lost in losses]) for column in (1, 3))
    number = np.append(np.cumsum(used) - 1, -1)
    mine = np.append(used, False)[page]
    return Wanted(np.sort(number[page[mine]] << 32 | region[mine]), _WORTH)


def most_lost(found: Stretches, wanted: Wanted) -> NDArray[np.intp]:
    """Of stretches that are wanted the `_MOST` in which the page is lost most."""
    lost = wanted.lost_in(found)
    often = np.flatnonzero(lost >= wanted.least)
    return np.sort(often[np.argsort(-lost[often], kind="stable")[:_MOST]])


def spells_of(
    pages: Pages, found: Stretches, chosen: NDArray[np.intp], cores: list[Changes], strata: NDArray[np.uint64]
) -> Spells:
    """Spells in the chosen stretches. cores: what became of each core's rights to their pages."""
    places, n, strata = np.unique(found.page[chosen]), len(cores), np.ascontiguousarray(strata)
    all_of, spells = histories(places, cores), list[_Spell]()
    told = np.zeros((len(strata) + 1, n), np.uint8)
    for k in chosen.tolist():
        place, first, end = int(found.page[k]), int(found.first[k]), int(found.end[k])
        key, opener, closer = int(np.searchsorted(places, place)) * n, -1, -1
        if first:
            last = max(first, min(first + _TRIED, end, len(strata)))
            first, opener = find_border(all_of, key, strata, (first, last, 1), told)
            if opener < 0:
                continue
        if end <= len(strata):
            # Not in the region in which agents use more: they may be before the core that tells.
            end, closer = find_border(all_of, key, strata, (end - 1, max(end - 1 - _TRIED, first), -1), told)
            if closer < 0:
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


@njit(cache=True)
def find_border(histories, key, strata, regions, told):  # type: ignore[no-untyped-def]
    """(the first of some regions where a core can tell what a page holds, that core); -1 twice if there is
    none. key: place of the page's first core in `Histories`; regions: first, last (which is none of them),
    step; told: uint8[regions, cores], how many pages each core tells of in each region."""
    region, last, step = regions
    while (last - region) * step > 0:
        teller = find_teller(histories, key, strata[region - 1], strata[region], told.shape[1])
        if teller >= 0 and told[region, teller] < _AT_ONCE:
            told[region, teller] += 1
            return region, teller
        region += step
    return -1, -1


@njit(cache=True)
def find_teller(histories, key, here, there, n_cores):  # type: ignore[no-untyped-def]
    """The core that has a page where a region begins, if no other has, and none gets it there before that has
    executed something; else -1. here, there: where the cores stand at both ends of the region."""
    teller, alone, others = -1, False, False
    for core in range(n_cores):
        first, end = histories.gained[key + core], histories.gained[key + core + 1]
        gains = histories.gain_count[first:end]
        n = np.searchsorted(gains, here[core])
        if n < gains.size and gains[n] == here[core]:
            return -1
        since = _way_since(histories, key + core, gains[n - 1], here[core]) if n > 0 else _WAY_LOST
        if since == _WAY_LOST:
            others = others or np.searchsorted(gains, there[core]) > n
            continue
        if teller >= 0 or there[core] <= here[core]:
            return -1
        teller = core
        alone = since == _NO_WAY and histories.flags[first + n - 1] & np.uint8(MISS_WRITE) != 0
    return teller if alone or not others else -1


@njit(cache=True)
def _way_since(histories, key, gained, here):  # type: ignore[no-untyped-def]
    """What became of a page between a gain and a count: `_NO_WAY`, `_WAY_LOST`, else it is shared."""
    first, end = histories.lost[key], histories.lost[key + 1]
    since = first + np.searchsorted(histories.loss_count[first:end], gained, side="right")
    until = first + np.searchsorted(histories.loss_count[first:end], here, side="right")
    found = _NO_WAY
    for k in range(since, until):
        if histories.way[k] == LOST:
            return _WAY_LOST
        found = _WAY_SHARED
    return found
