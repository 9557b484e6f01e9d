"""Gains and losses of pages, told line by line, as an order reads those of a line bus.

Whoever gets a page gets all of its lines, changed or not, and whoever loses it loses them all. That is all an
order may use of them: why a line of a page was lost, nobody knows (`Manifest.misses_prove_writes` is false).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.fingerprints import fingerprint_beside
from corebraid.base.hold_places import HOLD_BYTES, hold_place
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import MISS, PAGE_LINE, PAGE_LINES, RECORD
from recorder.replay.spells import Spells

Rows = NDArray[np.void]
_PAGE_SHIFT = np.uint64(12)


@njit(cache=True)
def spread_misses(rows, blob, out):  # type: ignore[no-untyped-def]
    """Fill `out` (RECORD, PAGE_LINES for each of rows) with a miss on each line of each page. rows: RECORD
    (n,), misses on pages, whose bytes are in `blob` (uint8[])."""
    at = 0
    for row in rows:
        start = np.int64(row.offset)
        n, told = np.int64(blob[start]), 0
        for k in range(PAGE_LINES):
            line = out[at]
            line.count, line.addr, line.value = row.count, row.addr + np.uint64(k * PAGE_LINE), row.value
            line.kind, line.flags, line.size, line.offset = row.kind, row.flags, 0, 0
            if told < n and blob[start + 1 + told] == k:
                line.size = PAGE_LINE
                line.offset = start + 1 + n + told * PAGE_LINE
                told += 1
            at += 1


@dataclass(frozen=True)
class Places:
    """Pages of which holds are rows (uint64[n], ascending), of a guest with so many bytes of memory: what
    comes and goes of them is the line that stands for them (`corebraid.base.hold_places`). Of those of
    `beside` (uint64[m], ascending) agents use words: why a core lost one of these its line does not tell, and
    nothing is said of it, nor of those in `spells`."""

    memory: int
    pages: NDArray[np.uint64]
    beside: NDArray[np.uint64]
    spells: Spells

    def split(self, rows: Rows, name: str, region: NDArray[np.int64]) -> tuple[Rows, Rows, NDArray[np.int64]]:
        """Rows whose field of this name is a page's address: those of other pages; those of these, of their
        lines; and of each of both, in this order, the number that it had. region: that of each."""
        pages, number = rows[name] >> _PAGE_SHIFT, np.arange(len(rows))
        at = np.searchsorted(self.pages, pages)
        mine = at < len(self.pages)
        mine[mine] = self.pages[at[mine]] == pages[mine]
        others, mine = ~mine & ~self.spells.within(pages, region), mine & ~np.isin(pages, self.beside)
        ours = rows[mine]
        ours[name] = hold_place(np.uint64(self.memory), ours[name] >> _PAGE_SHIFT)
        return rows[others], ours, np.concatenate([number[others], number[mine]])


@njit(cache=True)
def clear_pages(memory, pages, words):  # type: ignore[no-untyped-def]
    """Put 0 where pages (uint64[n], numbers) of a memory image (uint8[]) are, but for these words (addresses,
    uint64[m], ascending)."""
    whole = memory.view(np.uint64)
    for number in pages:
        first = np.int64(number) * PAGE_BYTES
        for address in range(first, first + PAGE_BYTES, 8):
            k = np.searchsorted(words, np.uint64(address))
            if k == words.size or words[k] != np.uint64(address):
                whole[address // 8] = 0


@njit(cache=True)
def fill_places(memory, pages, words, places):  # type: ignore[no-untyped-def]
    """Put what pages (uint64[n], numbers) of a memory image (uint8[]) hold, but for these words (addresses,
    uint64[m], ascending), where it stands for them (uint64[], the words behind memory)."""
    for number in pages:
        page = np.int64(number)
        first = np.searchsorted(words, number << _PAGE_SHIFT)
        end = np.searchsorted(words, (number + np.uint64(1)) << _PAGE_SHIFT)
        held = memory[page * PAGE_BYTES : (page + 1) * PAGE_BYTES].copy()
        value = fingerprint_beside(held, words[first:end])
        places[page * (HOLD_BYTES // 8)] = value


def lines_missed(rows: Rows, blob: NDArray[np.uint8], places: Places, stands: NDArray[np.uint64]) -> Rows:
    """The misses of `rows` (RECORD[n]) on pages as misses on lines, in their order; a line that was as the
    core knew it has size 0. What is no miss is left out. stands: where the core stands at each stratum."""
    misses = rows[rows["kind"] == MISS]
    region = np.searchsorted(stands, misses["count"], side="right")
    pages, ours, number = places.split(misses, "addr", region)
    out = np.zeros(len(pages) * PAGE_LINES, RECORD)
    spread_misses(pages, blob, out)
    ours["size"] = ours["offset"] = 0
    return _in_order(out, ours, number)


def lines_lost(losses: Rows, places: Places) -> Rows:
    """Losses of pages (LOSS[n]) as losses of lines, in their order."""
    pages, ours, number = places.split(losses, "line", losses["stratum"].astype(np.int64))
    out = np.repeat(pages, PAGE_LINES)
    out["line"] += np.tile(np.arange(0, PAGE_BYTES, PAGE_LINE, dtype=np.uint64), len(pages))
    return _in_order(out, ours, number)


def _in_order(spread: Rows, ours: Rows, number: NDArray[np.int64]) -> Rows:
    """The lines of pages (PAGE_LINES each) and those that stand for pages, by the number of each page."""
    if not len(ours):
        return spread
    n = len(number) - len(ours)
    every = np.concatenate([np.repeat(number[:n], PAGE_LINES), number[n:]])
    return np.concatenate([spread, ours])[np.argsort(every, kind="stable")]
