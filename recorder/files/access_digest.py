"""A running digest of a core's accesses: where each went, how wide it was, what it read and what it wrote.

Bytes that a plain store overwrote are left out: the core never sees them. So are fetches of code.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.rows.event import FETCH, READ, WRITE

Rows = npt.NDArray[np.void]

_ONE = np.uint64(1)
_SHIFT = np.uint64(29)
_K1, _K2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_EIGHT, _SIXTEEN = np.uint64(8), np.uint64(16)


@njit(cache=True)
def _mixed(digest, value):  # type: ignore[no-untyped-def]
    digest = (digest ^ value) * _K1
    digest = (digest ^ (digest >> _SHIFT)) * _K2
    return digest ^ (digest >> _SHIFT)


@njit(cache=True)
def digest_accesses(rows, digest):  # type: ignore[no-untyped-def]
    """Go on with a digest (uint64) over EVENT[n]. Returns (accesses, digest)."""
    n = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        if (row.flags & FETCH) != 0:
            continue
        n += 1
        what = np.uint64(row.size) | np.uint64(row.kind) << _EIGHT | np.uint64(row.flags) << _SIXTEEN
        digest = _mixed(digest, row.addr)
        digest = _mixed(digest, what)
        if row.kind != WRITE:
            digest = _mixed(digest, row.old)
        if row.kind != READ:
            digest = _mixed(digest, row.new)
    return n, digest


class AccessDigest:
    """The digest of a stream as far as it has been taken: `value`, over `accesses` accesses."""

    def __init__(self) -> None:
        self.accesses = 0
        self.value = 0

    def take(self, rows: Rows) -> None:
        """The stream's next events, EVENT[n]."""
        n, digest = digest_accesses(rows, np.uint64(self.value))
        self.value = int(digest)
        self.accesses += int(n)
