"""Native hooks of SYSCALL in a Linux guest.

The instruction itself sets rcx and r11 (SDM volume 2, SYSCALL); the hook does it, so that both runs agree
even where a call has no result yet. The result comes from the kernel, or from the log.
"""

from __future__ import annotations

import numpy as np
from unicorn import x86_const as x86

from corebraid.base.compiled import njit
from emu.code.blocks import position_of
from emu.hooks.access import stop
from emu.hooks.call import call_kernel, replay_call
from emu.native.registers import read_pc, read_register, write_register
from emu.native.state import STOP_CALL, core_at
from emu.native.unicorn import SYSTEM_CALL_HOOK, hook

_RCX, _R11, _RFLAGS = x86.UC_X86_REG_RCX, x86.UC_X86_REG_R11, x86.UC_X86_REG_RFLAGS
_BYTES = np.uint64(2)
#: EFLAGS.TF (SDM volume 1, 3.4.3.3).
_SINGLE_STEP = np.uint64(1 << 8)


@njit(cache=True)
def _begin(core):
    """What the instruction itself does to the registers. Returns the count of the call."""
    pc = read_pc(core)
    count = core.count + position_of(core, pc)
    write_register(core, _R11, read_register(core, _RFLAGS))
    write_register(core, _RCX, pc + _BYTES)
    return count


@hook(SYSTEM_CALL_HOOK)
def on_syscall(handle, user):
    core = core_at(user)
    call_kernel(core, _begin(core))


@hook(SYSTEM_CALL_HOOK)
def on_replayed_syscall(handle, user):
    core = core_at(user)
    replay_call(core, _begin(core))
    if read_register(core, _R11) & _SINGLE_STEP != np.uint64(0):
        # The recorder stopped here, so that the emulator's trap comes behind the next instruction.
        stop(core, STOP_CALL)
