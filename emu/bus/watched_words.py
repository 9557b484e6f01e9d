"""Which words of memory are watched (`emu.schedule.shared_words`), a bit each."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.native.unicorn import peek8

_ZERO, _ONE, _THREE, _SEVEN = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(7)


@njit(cache=True)
def touches_watched(machine, address, size):
    """Whether [address, address + size) touches a watched word, of a machine that watches any."""
    word, last = address >> _THREE, (address + size - _ONE) >> _THREE
    while word <= last:
        if (np.uint64(peek8(machine.watched + (word >> _THREE))) >> (word & _SEVEN)) & _ONE:
            return True
        word += _ONE
    return False
