"""The event: one memory access in a replayed trace.

A trace is a sequence of `EVENT` rows in program order. One row covers at most 8 bytes; an access of more
bytes is several rows of the same instruction count. Rows that belong to one indivisible access
(16 bytes compared and exchanged at once) carry `GLUED` on every row but the last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Kinds of an event. FENCE: no access, but all earlier stores of the core have left its store buffer; only
#: under TSO, always UNCACHED. HELD: no access of the core's: what a whole page held that it received, as a
#: fingerprint of it in `old` and `new` (`corebraid.base.fingerprints`), always UNCOUNTED.
READ, WRITE, RMW, FENCE, HELD = 1, 2, 3, 4, 5

#: Flags of an event.
#: UNCACHED: a device register; never ordered (MICRO section 4.3 leaves uncacheable accesses out).
#: GLUED: indivisible together with the next row of the same stream.
#: FETCH: the bytes of an instruction block that this core fetched on an instruction-fetch miss.
#: OWNED: of an agent: it got or took the line from a core that had it alone.
#: FAILED: of an instruction that failed after it, and did not retire.
#: ALONE: no access: what a core made of a word, by any number of stores, while nobody else could have it.
#: UNCOUNTED: of a page that is not contested, in a trace beside which another counts only those of pages that
#: are.
UNCACHED, GLUED, FETCH, OWNED, FAILED, ALONE, UNCOUNTED = 1, 2, 4, 8, 16, 32, 64
#: Both: no access either, but what became of a core's right to a page, at the place that stands for the page
#: (`corebraid.base.hold_places`); pc is the page's address plus one of these: it gets the page, to read;
#: takes it for itself alone; shares it again; gives it away. HAD_IT: plus that, where it takes a page that it
#: had to read.
OF_HOLD = ALONE | FETCH
GETS, TAKES, SHARES, GIVES = 0, 1, 2, 3
HAD_IT = 4
#: And plus these, where agents use words of the page, which are told each by a row of its own at its own
#: address, GLUED with the one that stands for the rest: of such a page; the row is of such a word.
BESIDE_AGENTS, OF_WORD = 8, 16

#: `seq` counts the rows of this stream from 0. `count` is the instruction count (instructions retired
#: before the one that made the access). `old` and `new` are the bytes before and after, little-endian,
#: in the low `size` bytes (size 1 to 8); a read has old == new. `core` is the stream: cores first, then
#: agents. `stratum` is the region: how many strata precede the event.
EVENT = np.dtype(
    [
        ("seq", "<u8"),
        ("count", "<u8"),
        ("pc", "<u8"),
        ("addr", "<u8"),
        ("old", "<u8"),
        ("new", "<u8"),
        ("stratum", "<u4"),
        ("core", "u1"),
        ("size", "u1"),
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)
assert EVENT.itemsize == 56


class Access(NamedTuple):
    """One access, as kernels hand it on. kind: as in `EVENT`. address (uint64), size (bytes): inside one
    word. old, new (uint64): the number there before and after."""

    kind: Any
    address: Any
    size: Any
    old: Any
    new: Any


def put_rows(room: NDArray[Any], rows: NDArray[Any]) -> None:
    """Copy rows (EVENT (n,)) to the beginning of `room`. As bytes: numpy copies structured rows one by one,
    twenty times more slowly."""
    n = len(rows)
    room[:n].view(np.uint8)[:] = np.ascontiguousarray(rows).view(np.uint8)


def copy_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """A copy of rows, EVENT (n,)."""
    room = np.empty(len(rows), EVENT)
    put_rows(room, rows)
    return room
