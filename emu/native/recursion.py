"""Memory hooks of an engine whose store was broken off in its middle.

The emulator takes a store that is not aligned apart, into bytes, when other cases than plain memory may be
met, and calls no memory hook for the bytes (`uc_struct.size_recur_mem` is not 0 meanwhile). If one of them
changes the block that executes the store, it is broken off and runs again, and that word stays as it is:
no memory hook is called any more until the engine is started the next time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from emu.native.unicorn import poke32

#: Where unicorn 2.1.4 has the word (`emu.hooks.x86_64.helpers.table` refuses other versions).
_RECURSION = np.uint64(0x568)
_NONE = np.uint32(0)


@njit(cache=True)
def hear_again(handle):
    """Have the engine call memory hooks again. handle: address of its uc_struct."""
    poke32(handle + _RECURSION, _NONE)
