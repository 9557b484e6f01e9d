"""Gains and losses of pages, told line by line, as an order reads those of a line bus.

Whoever gets a page gets all of its lines, changed or not, and whoever loses it loses them all. That is all an
order may use of them: why a line of a page was lost, nobody knows (`Manifest.misses_prove_writes` is false).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import MISS, PAGE_LINE, PAGE_LINES, RECORD

Rows = NDArray[np.void]


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


def lines_missed(rows: Rows, blob: NDArray[np.uint8]) -> Rows:
    """The misses of `rows` (RECORD[n]) on pages as misses on lines, in their order; a line that was as the
    core knew it has size 0. What is no miss is left out."""
    pages = rows[rows["kind"] == MISS]
    out = np.zeros(len(pages) * PAGE_LINES, RECORD)
    spread_misses(pages, blob, out)
    return out


def lines_lost(losses: Rows) -> Rows:
    """Losses of pages (LOSS[n]) as losses of lines, in their order."""
    out = np.repeat(losses, PAGE_LINES)
    out["line"] += np.tile(np.arange(0, PAGE_BYTES, PAGE_LINE, dtype=np.uint64), len(losses))
    return out
