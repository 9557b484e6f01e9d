"""What is kept of pages that are not watched yet, taken out again."""

from __future__ import annotations

import numpy as np

from corebraid.base.memory import PAGE_BYTES
from emu.core.watched_pages import take_kept
from emu.hooks.watch import KEPT, LATER
from emu.native.state import CORE

_PAGES = 40


def test_what_is_kept_is_taken_as_from_a_dictionary() -> None:
    draw, rows, marks = np.random.default_rng(1), np.zeros(1, CORE), np.full(_PAGES, LATER, np.uint8)
    kept, taken = ((np.zeros(_PAGES, np.uint64), np.zeros((_PAGES, PAGE_BYTES), np.uint8)) for _ in range(2))
    known: dict[int, int] = {}
    for step in range(300):
        for page in draw.integers(0, _PAGES, 4).tolist():
            if page not in known:
                n = len(known)
                known[page], kept[0][n], kept[1][n] = step % 251, page, step % 251
                marks[page] |= KEPT
                rows["kept_n"] = n + 1
        wanted = np.unique(draw.integers(0, _PAGES, draw.integers(0, 9)).astype(np.uint64))
        n = take_kept(rows, marks, wanted, kept, taken)
        expected = {page: known.pop(page) for page in wanted.tolist() if page in known}
        assert dict(zip(taken[0][:n].tolist(), taken[1][:n, 7].tolist(), strict=True)) == expected
        left = int(rows["kept_n"][0])
        assert dict(zip(kept[0][:left].tolist(), kept[1][:left, 9].tolist(), strict=True)) == known
        assert np.flatnonzero(marks != LATER).tolist() == sorted(known)
