"""The words of memory that agents access: what of a page they use an order must know, beside its holds.

A kernel that puts a thread to sleep reads one word of the page in which a lock lies, and may write another.
Of such a page holds are still rows; these words are told each by itself, and are left out of what stands for
the rest (`emu/hooks/trace_holds.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emu.native.state import PAGE_SHIFT
from recorder.files.reader import Recording, iter_agent_trace

#: Of a page, so that a hold and they are rows of one indivisible access. A page of which agents use more is
#: one that they fill, as by a read of a file: of it accesses are ordered.
MOST_WORDS = 15
_WORD = ~np.uint64(7)
_ONE = np.uint64(1)


def agents_words(recording: Recording) -> NDArray[np.uint64]:
    """The words of guest memory that agents access at any time: their addresses, uint64[n], ascending.
    Raises FormatError."""
    found = [np.zeros(0, np.uint64)]
    for rows in iter_agent_trace(recording):
        last = rows["addr"] + rows["size"].astype(np.uint64) - _ONE
        found.append(np.unique(np.concatenate([rows["addr"] & _WORD, last & _WORD])))
        if len(found) > 64:
            found = [np.unique(np.concatenate(found))]
    return np.unique(np.concatenate(found))


def crowded_pages(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The pages with more than `MOST_WORDS` of these words (uint64[n]), uint64[n], ascending."""
    pages, n = np.unique(words >> PAGE_SHIFT, return_counts=True)
    return pages[n > MOST_WORDS]
