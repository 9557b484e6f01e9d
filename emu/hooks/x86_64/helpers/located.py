"""Which instruction of its block makes an access is looked up only when a hook wants to know.

Before it calls a hook on an access the emulator looks that up (QEMU: `cpu_restore_state`): for the block in a
tree of all that it has, then from that one's first instruction on. For most accesses the recorder's hook does
no more than to see that the core has the line, so that this was the longest part of it. Of a core whose row
names the emulator's function (`CORE.locate`), ours in its place keeps what was asked
(`emu.native.positions`).
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import CORE_ROW, PROCESSOR, at
from emu.native.functions import Native
from emu.native.positions import LOCATE, forget_positions
from emu.native.state import core_at
from emu.native.unicorn import peek64

FLUSH = types.void(types.uint64)
_NOTHING, _STAYS, _FOUND = np.uint64(0), np.uint8(0), np.uint8(1)

_flush = types.ExternalFunction("tb_flush_x86_64", FLUSH)
_restore_state = types.ExternalFunction("cpu_restore_state_x86_64", LOCATE)


@njit
def restore_state(processor, place, leaves):
    """`cpu_restore_state`: the processor's registers are to be those before the instruction that runs. place:
    where its code calls the emulator. leaves: the block is left there."""
    row = peek64(at(processor + np.uint64(PROCESSOR), CORE_ROW))
    if leaves != _STAYS or row == _NOTHING or core_at(row).locate == _NOTHING:
        return _restore_state(processor, place, leaves)
    core = core_at(row)
    core.processor, core.unlocated = processor, place
    return _FOUND


@njit
def flush(processor):
    """`tb_flush`: all code is thrown away."""
    row = peek64(at(processor + np.uint64(PROCESSOR), CORE_ROW))
    if row != _NOTHING and core_at(row).positions != _NOTHING:
        forget_positions(core_at(row))
    _flush(processor)


#: Ours by the emulator's names.
LOCATED = {"cpu_restore_state": Native(restore_state, LOCATE), "tb_flush": Native(flush, FLUSH)}
