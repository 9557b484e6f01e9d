"""What the emulator leaves behind where it broke a store off in its middle.

The emulator takes a store that is not aligned apart, into bytes, when other cases than plain memory may be
met, and calls no memory hook for the bytes (`uc_struct.size_recur_mem` is not 0 meanwhile). If one of them
changes the block that executes the store, it is broken off and runs again, as a block of one instruction, and
that word stays as it is: no memory hook is called any more until the engine is started the next time.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.native.unicorn import peek64, pointer, poke32

#: Where unicorn 2.1.4 has the word (`emu.hooks.x86_64.helpers.table` refuses other versions), the address of
#: its CPUState, in that the blocks found last (`tb_jmp_cache`), and in a block its flags.
_RECURSION, _CPU, _FOUND, _FLAGS = np.uint64(0x568), np.uint64(0x1B8), np.uint64(0x138), np.uint64(0x18)
#: In its CPUState: flags of the block that is to run next (`cflags_next_tb`), and requests behind them.
_NEXT = np.uint64(24)
#: Of the flags: how many instructions the block was asked to have, 0 for any (CF_COUNT_MASK).
_ASKED = np.uint64(0x7FFF)
#: Bits of an address by which a block is looked for: of its page, and in it.
_PAGES, _IN_PAGE, _SHIFT = np.uint64(0xFC0), np.uint64(0x3F), np.uint64(6)
_NONE, _LOW = np.uint32(0), np.uint64(0xFFFFFFFF)
_ZERO, _ONE, _THREE = np.uint64(0), np.uint64(1), np.uint64(3)


@njit(cache=True)
def hear_again(handle):
    """Have the engine call memory hooks again. handle: address of its uc_struct. Returns how many bytes the
    store has that it broke off between two of them, 0 for one that is made at once."""
    size = peek64(handle + _RECURSION) & _LOW
    poke32(handle + _RECURSION, _NONE)
    return size


@njit(cache=True)
def runs_again(handle, address):
    """Whether the block at `address` that the engine begins is of one instruction that it broke off. True
    once for each: the engine may come to other blocks there without looking for them."""
    mixed = address ^ (address >> _SHIFT)
    found = (mixed >> _SHIFT) & _PAGES | mixed & _IN_PAGE
    place = peek64(handle + _CPU) + _FOUND + (found << _THREE)
    block = peek64(place)
    if block == _ZERO or peek64(block) != address or peek64(block + _FLAGS) & _ASKED != _ONE:
        return False
    carray(pointer(place), 1, np.uint64)[0] = _ZERO
    return True


@njit(cache=True)
def notes(handle):
    """What the engine has noted for when it is started the next time: uint64[2]."""
    return np.array([peek64(handle + _RECURSION) & _LOW, peek64(peek64(handle + _CPU) + _NEXT)], np.uint64)


@njit(cache=True)
def set_notes(handle, found):
    """Have it note what `notes` found."""
    poke32(handle + _RECURSION, np.uint32(found[0]))
    carray(pointer(peek64(handle + _CPU) + _NEXT), 1, np.uint64)[0] = found[1]
