"""Rows of the OPR stream in memory: what a partial replay of a group of cores needs (OPR, section 4).

A member's accesses are numbered from 1: its sequence number, SN, which is also its own entry in its vector
clock. Rows of fetched code are not accesses. The bytes on disk are `recorder/evidence/opr/codec.py`,
docs/opr.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.void]

#: Kinds of a row, and what its fields hold; `member` is the place in the replay set.
#: VALUE: access `sn` read `value`, in the low `size` bytes.
#: CODE: the 8 bytes at `place` are `value` for the instructions from count `sn` on. size: 1 if the member had
#:       these bytes before, so that they change at exactly that count; else 0.
#: EXACT, RELAXED: an event order (section 4.2): access `place` of member `peer` came before access `sn`, by
#:       exact clocks and by those of section 4.3.
#: CHECK: at a stratum, or the end: `value` is the digest of the first `sn` accesses.
VALUE, CODE, EXACT, RELAXED, CHECK = 1, 2, 3, 4, 5

OPR_ROW = np.dtype(
    [
        ("sn", "<u8"),
        ("value", "<u8"),
        ("place", "<u8"),
        ("member", "u1"),
        ("kind", "u1"),
        ("size", "u1"),
        ("peer", "u1"),
        ("unused", "<u4"),
    ]
)
assert OPR_ROW.itemsize == 32
_NONE = np.zeros(0, OPR_ROW)


def joined(pieces: list[Rows]) -> Rows:
    """The pieces as one: OPR_ROW[n]."""
    if not pieces:
        return _NONE
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
