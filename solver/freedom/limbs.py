"""Numbers of any length in kernels: words of 64 bits, the least significant first."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit

#: A number gets another word before its last one reaches this.
TOP = np.uint64(1) << np.uint64(56)


@njit(cache=True)
def add_limbs(into, other):  # type: ignore[no-untyped-def]
    """into += other, little-endian words (uint64); no carry may leave the last word."""
    carry = np.uint64(0)
    for k in range(into.size):
        total = into[k] + other[k]
        over = np.uint64(1) if total < into[k] else np.uint64(0)
        into[k] = total + carry
        if into[k] < carry:
            over = np.uint64(1)
        carry = over
