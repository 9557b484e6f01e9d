"""Where in an order a page's holds stand: at a word of its own behind memory, one line a page.

Rows of a traced core are accesses to memory; those that tell what became of rights to a page are accesses to
the place that stands for it (`emu/hooks/trace_holds.py`). Words of it that agents use too are told at their
own addresses.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.memory import PAGE_BYTES

#: Of which pages holds are rows: none; those that cores alone use; also those of which agents use few words.
NO_HOLDS, OF_CORES, WITH_AGENTS = 0, 1, 2
#: Bytes that a page takes behind memory: a line, so that no two pages share one.
HOLD_BYTES = 64
_SHIFT, _ONE = np.uint64(6), np.uint64(1)


@njit(cache=True)
def hold_place(memory_bytes, page):  # type: ignore[no-untyped-def]
    """The address (uint64) that stands for a page (uint64, its number; or an array of them) of a guest with
    so much memory (uint64)."""
    return memory_bytes + (page << _SHIFT)


def with_places(memory_bytes: int) -> int:
    """Bytes of memory with those places behind it."""
    return memory_bytes + memory_bytes // PAGE_BYTES * HOLD_BYTES


assert 1 << int(_SHIFT) == HOLD_BYTES
