"""Native hook of `cmpxchg8b` and `cmpxchg16b` inside a block: makes them begin one, with their flags settled.

QEMU 5's translator calls their helper without having stored which operation the flags come from
(`cc_op`), so that all flags but ZF would come from whatever was stored last: garbage, and another in
another cut of the same instructions. At a block's beginning it is stored, and writing the flags back makes
it the plain kind that the code after a hook assumes.
"""

from __future__ import annotations

import numpy as np
from unicorn import x86_const as x86

from emu.code.blocks import block_info
from emu.native.state import RUNNING, STOP_SPLIT, core_at
from emu.native.unicorn import BLOCK_HOOK, hook, pointer, uc_emu_stop, uc_reg_read, uc_reg_write

_RFLAGS = x86.UC_X86_REG_RFLAGS


@hook(BLOCK_HOOK)
def on_pair(handle, address, size, user):
    core = core_at(user)
    if core.entered == np.uint64(0):
        return
    if block_info(core).address != address:
        # A stop that was asked for earlier in the block takes hold here.
        if core.stop_reason == np.uint64(RUNNING):
            core.stop_reason = np.uint64(STOP_SPLIT)
        uc_emu_stop(core.handle)
        return
    uc_reg_read(core.handle, _RFLAGS, pointer(core.scratch))
    uc_reg_write(core.handle, _RFLAGS, pointer(core.scratch))
