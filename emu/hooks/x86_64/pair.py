"""Native hook of `cmpxchg8b`, `cmpxchg16b`, `loope`, `loopne`: makes them begin a block, with their flags
settled.

QEMU 5's translator calls their helper without having stored which operation the flags come from
(`cc_op`), so that all flags but ZF would come from whatever was stored last: garbage, and another in
another cut of the same instructions. At a block's beginning it is stored, and writing the flags back makes
it the plain kind that the code after a hook assumes. `loope` and `loopne` work the flags out on one of their
two ways, and take them for worked out on both.
"""

from __future__ import annotations

import numpy as np
from unicorn import x86_const as x86

from corebraid.base.compiled import njit
from emu.code.blocks import block_info
from emu.native.state import RUNNING, STOP_MISPLACED, STOP_SPLIT, core_at
from emu.native.unicorn import BLOCK_HOOK, hook, peek8, pointer, uc_emu_stop, uc_reg_read, uc_reg_write

_RFLAGS = x86.UC_X86_REG_RFLAGS
_PREFIXES = (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3)
_LONGEST = 15


@njit(cache=True)
def is_pair(place, left):
    """Whether one of these stands at an address (uint64) of this process. left: bytes that may be read."""
    for at in range(min(left, _LONGEST)):
        byte = np.int64(peek8(place + np.uint64(at)))
        if byte in _PREFIXES or byte >> 4 == 4:
            continue
        if byte != 0x0F or at + 2 >= left:
            return byte in (0xE0, 0xE1)
        second = np.int64(peek8(place + np.uint64(at + 1)))
        third = np.int64(peek8(place + np.uint64(at + 2)))
        return second == 0xC7 and third >> 3 & 7 == 1
    return False


@hook(BLOCK_HOOK)
def on_pair(handle, address, size, user):
    core = core_at(user)
    if core.entered == np.uint64(0):
        return
    left = np.int64(core.memory_bytes) - np.int64(address)
    if not is_pair(core.memory + address, left):
        # Something else stands there by now. A hook that does nothing is not nothing: where the instruction
        # fails, the emulator would restore the flags as they were kept before the hook.
        if core.stop_reason == np.uint64(RUNNING):
            core.stop_reason = np.uint64(STOP_MISPLACED)
        uc_emu_stop(core.handle)
        return
    if block_info(core).address != address:
        # A stop that was asked for earlier in the block takes hold here.
        if core.stop_reason == np.uint64(RUNNING):
            core.stop_reason = np.uint64(STOP_SPLIT)
        uc_emu_stop(core.handle)
        return
    uc_reg_read(core.handle, _RFLAGS, pointer(core.scratch))
    uc_reg_write(core.handle, _RFLAGS, pointer(core.scratch))
