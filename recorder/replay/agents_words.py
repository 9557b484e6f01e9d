"""The words of pages that agents use: what of a page an order must know beside its holds.

A kernel that puts a thread to sleep reads one word of the page in which a lock lies, and may write another.
Of such a page holds are still rows; these words are told each by itself, and are left out of what stands for
the rest (`emu/hooks/trace_holds.py`). Of a page that a file was read into that is so before and afterwards
(`recorder/replay/spells.py`): here is found when.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.native.state import PAGE_SHIFT
from recorder.files.reader import Recording, iter_agent_trace

#: Of a page, so that a hold and they are rows of one indivisible access.
MOST_WORDS = 15
_ONE, _WORD = np.uint64(1), ~np.uint64(7)
#: Room for stretches that end with one row.
_ROOM = 1 << 12


class Stretches(NamedTuple):
    """Stretches of regions in which agents use few words of a page, in the order in which they end. page: its
    place among some, int64[n]; first, end: regions, int64[n]; words: uint64[n, MOST_WORDS], addresses of
    those that they use; n_words: int64[n]."""

    page: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    words: NDArray[np.uint64]
    n_words: NDArray[np.int64]


class Wanted(NamedTuple):
    """Which stretches are wanted. losses: page << 32 | region of each loss of a page by a core, int64[n],
    ascending; least: how many of a page there are in a stretch."""

    losses: NDArray[np.int64]
    least: int

    def lost_in(self, found: Stretches) -> NDArray[np.int64]:
        """How often the page is lost in each of some stretches, int64[n]."""
        first, end = (np.searchsorted(self.losses, found.page << 32 | at) for at in (found.first, found.end))
        return (end - first).astype(np.int64)


def _room(n: int) -> Stretches:
    columns = (np.zeros(n, np.int64) for _ in range(3))
    return Stretches._make([*columns, np.zeros((n, MOST_WORDS), np.uint64), np.zeros(n, np.int64)])


@njit(cache=True)
def follow_words(rows, start, pages, now, when, wanted, out):  # type: ignore[no-untyped-def]
    """Follow agents' rows (EVENT) from `start` on. pages: uint64[m], ascending. now: `Stretches` of these
    pages that have begun; when: int64[m, MOST_WORDS, 2], the regions in which each word was used first and
    last. out: `Stretches`, filled. Returns (row, how many): where there was no room for two more."""
    n = 0
    for i in range(start, rows.size):
        if n + 2 > out.page.size:
            return i, n
        first = rows[i].addr & _WORD
        last = (rows[i].addr + np.uint64(rows[i].size) - _ONE) & _WORD
        region = np.int64(rows[i].stratum)
        n = _follow(first, region, pages, (now, when, wanted), out, n)
        if last != first:
            n = _follow(last, region, pages, (now, when, wanted), out, n)
    return rows.size, n


@njit(cache=True)
def _follow(word, region, pages, known, out, n):  # type: ignore[no-untyped-def]
    now, when, wanted = known
    p = np.searchsorted(pages, word >> PAGE_SHIFT)
    if p == pages.size or pages[p] != word >> PAGE_SHIFT or region < now.first[p]:
        return n
    words, used = now.words[p], now.n_words[p]
    for k in range(used):
        if words[k] == word:
            when[p, k, 1] = region
            return n
    if used == MOST_WORDS:
        if often_lost(wanted, p, now.first[p], region):
            n = _end(p, region, now, when, out, n)
        # What was used in this region belongs to the stretch that may begin with it.
        used = 0
        for k in range(MOST_WORDS):
            if when[p, k, 1] == region:
                words[used], when[p, used, 0], when[p, used, 1] = words[k], region, region
                used += 1
        now.first[p] = region
        if used == MOST_WORDS:
            now.first[p], now.n_words[p] = region + 1, 0
            return n
    words[used], when[p, used, 0], when[p, used, 1] = word, region, region
    now.n_words[p] = used + 1
    return n


@njit(cache=True)
def often_lost(wanted, page, first, end):  # type: ignore[no-untyped-def]
    """Whether a page is lost often enough in regions from `first` to before `end`."""
    if end <= first:
        return False
    from_here = np.searchsorted(wanted.losses, np.int64(page) << 32 | first)
    return np.searchsorted(wanted.losses, np.int64(page) << 32 | end) - from_here >= wanted.least


@njit(cache=True)
def _end(p, region, now, when, out, n):  # type: ignore[no-untyped-def]
    """A page's stretch ends before a region. Returns how many there are."""
    out.page[n], out.first[n], out.end[n], used = p, now.first[p], region, 0
    for k in range(now.n_words[p]):
        if when[p, k, 0] < region:
            out.words[n, used] = now.words[p, k]
            used += 1
    out.n_words[n] = used
    return n + 1


def stretches(recording: Recording, pages: NDArray[np.uint64], regions: int, wanted: Wanted) -> Stretches:
    """Those of these pages, uint64[m], ascending, in so many regions that are wanted, or are of all. Raises
    FormatError."""
    now, when = _room(len(pages)), np.zeros((len(pages), MOST_WORDS, 2), np.int64)
    found, out = list[Stretches](), _room(_ROOM)
    for rows in iter_agent_trace(recording) if len(pages) else ():
        start = 0
        while start < len(rows):
            start, n = follow_words(rows, start, pages, now, when, wanted, out)
            if n:
                found.append(Stretches._make(column[:n].copy() for column in out))
    last = now._replace(page=np.arange(len(pages)), end=np.full(len(pages), regions))
    kept = (last.first == 0) | (wanted.lost_in(last) >= wanted.least) & (last.first < regions)
    found.append(Stretches._make(column[kept] for column in last))
    return Stretches._make(np.concatenate(column) for column in zip(*found, strict=True))
