"""How large the emulator's TLB is: so that what a core uses between two flushes finds room there.

The emulator makes its TLB larger or smaller where it is flushed, by how many of its entries were in use in
the last tenth of a second of the wall clock (QEMU, `accel/tcg/cputlb.c`, `tlb_mmu_resize_locked`). It has one
place for each page: pages whose numbers differ by a power of two drive each other out while most entries are
free, so that it stays small, or becomes smaller, and is filled again at every second access. Here it goes by
how often it was filled since the last flush, and by nothing of the host's: what it is told is that it was
used so much, and that the tenth of a second is over.

Its size decides nothing but speed: that the emulator asks for a page again is nothing to be noted.
"""

from __future__ import annotations

import ctypes

import numpy as np

from corebraid.base.compiled import njit
from emu.native.unicorn import poke64

#: Bytes of a mode's description (CPUTLBDesc), which are one behind the other; and behind the last of them,
#: to what every mode's accesses look at (CPUTLBDescFast), 16 bytes each, the size's mask first.
_DESCRIPTION, _BEHIND, _FAST = 696, 8, 16
#: Where in a description the window begins, in nanoseconds, and how many entries were used in it.
_BEGINS, _USED = 16, 24
#: The mask of a TLB of 256 entries of 64 bytes each, with which an emulator begins.
_FIRST_MASK = 255 << 6
#: Entries that are asked for at most: twice as many are made, in which they find room.
_MOST = 2048
#: By how much that becomes less at each flush: a 64th.
_ZERO, _LESS = np.uint64(0), np.uint64(6)
_STRIDE, _TO_USED = np.uint64(_DESCRIPTION), np.uint64(_USED - _BEGINS)


def descriptions(fast: int, modes: int) -> int:
    """Where the first mode's window begins, of an emulator that has run nothing, whose accesses look at
    `fast` (an address); 0 if it is not what is known here."""
    masks = [ctypes.c_uint64.from_address(fast + _FAST * k).value for k in range(modes)]
    first = fast - _BEHIND - _DESCRIPTION * modes + _BEGINS
    windows = {ctypes.c_uint64.from_address(first + _DESCRIPTION * k).value for k in range(modes)}
    known = masks == [_FIRST_MASK] * modes and len(windows) == 1 and windows != {0}
    return first if known else 0


@njit(cache=True)
def fit_tlb(core):
    """The core's TLB is about to be flushed: tell the emulator for how many entries there is to be room."""
    if core.tlb == _ZERO:
        return
    # Where there is room pages are filled once, and what they need to have it is not seen any more. So what
    # was seen counts for long.
    wanted = max(core.fills, core.tlb_wanted - (core.tlb_wanted >> _LESS))
    core.tlb_wanted = min(wanted, np.uint64(_MOST))
    core.fills = _ZERO
    place = core.tlb
    for _ in range(core.tlb_modes):
        poke64(place, _ZERO)
        poke64(place + _TO_USED, core.tlb_wanted)
        place += _STRIDE
