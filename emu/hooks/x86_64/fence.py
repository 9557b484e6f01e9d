"""Native hook before `Block.fences` (`mfence`, `cpuid`, `iretq`), and `Block.calls`, which empty the store
buffer as fences do where tasks of a kernel run step by step: stops the core where none stands any more.

The hook that empties the store buffer stays when a program has written other code over the fence, and a hook
that does nothing is not nothing (`pair.py`): where the instruction there fails, the emulator would restore
the flags as they were kept before the hook.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.native.state import RUNNING, STOP_MISPLACED, core_at
from emu.native.unicorn import BLOCK_HOOK, hook, peek8, uc_emu_stop

_PREFIXES = (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3)
#: Second bytes: of lldt, ltr; syscall; lgdt, lidt, invlpg; invd; wbinvd; wrmsr; cpuid; rsm; mfence.
_SECOND = (0x00, 0x01, 0x05, 0x08, 0x09, 0x30, 0xA2, 0xAA, 0xAE)
_IRET, _LONGEST = 0xCF, 15


@njit(cache=True)
def is_fence(place, left):
    """Whether one of these may stand at an address (uint64) of this process: of those that share their
    first two bytes with one it says so, too. left: bytes that may be read."""
    for at in range(min(left, _LONGEST)):
        byte = np.int64(peek8(place + np.uint64(at)))
        if byte in _PREFIXES or byte >> 4 == 4:
            continue
        if byte != 0x0F or at + 1 >= left:
            return byte == _IRET
        second = np.int64(peek8(place + np.uint64(at + 1)))
        if second != 0xAE:
            return second in _SECOND
        return at + 2 < left and np.int64(peek8(place + np.uint64(at + 2))) >> 3 == 0xF0 >> 3
    return False


@hook(BLOCK_HOOK)
def on_fence_gone(handle, address, size, user):
    core = core_at(user)
    left = np.int64(core.memory_bytes) - np.int64(address)
    if core.entered == np.uint64(0) or is_fence(core.memory + address, left):
        return
    if core.stop_reason == np.uint64(RUNNING):
        core.stop_reason = np.uint64(STOP_MISPLACED)
    uc_emu_stop(core.handle)
