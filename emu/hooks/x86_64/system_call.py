"""Native hooks of SYSCALL in a Linux guest.

The instruction itself sets rcx and r11 (SDM volume 2, SYSCALL); the hook does it, so that both runs agree
even where a call has no result yet. The result comes from the kernel, or from the log.

Where another hook stands before the instruction (`CORE.calls_wait`), the code behind that one has worked the
flags out, and the emulator, which looks up for this hook where it is in the block, has taken them for not
worked out again. They are put right.
"""

from __future__ import annotations

import numpy as np
from unicorn import x86_const as x86

from corebraid.base.compiled import njit
from emu.code.blocks import position_of
from emu.hooks.access import stop
from emu.hooks.call import call_kernel, replay_call
from emu.hooks.x86_64.helpers.state import CC_SRC, OF_PROCESSOR, PROCESSOR
from emu.native.positions import locate
from emu.native.registers import read_pc, read_register, write_register
from emu.native.state import STOP_CALL, core_at
from emu.native.unicorn import SYSTEM_CALL_HOOK, hook, peek64

_RCX, _R11, _RFLAGS = x86.UC_X86_REG_RCX, x86.UC_X86_REG_R11, x86.UC_X86_REG_RFLAGS
_BYTES = np.uint64(2)
#: EFLAGS.TF (SDM volume 1, 3.4.3.3).
_SINGLE_STEP = np.uint64(1 << 8)
#: CF, PF, AF, ZF, SF and OF, which the emulator works out when they are asked for.
_WORKED_OUT = np.uint64(0x8D5)


@njit(cache=True)
def _put_flags_right(core):
    processor = peek64(core.handle + np.uint64(OF_PROCESSOR)) + np.uint64(PROCESSOR)
    worked_out = peek64(processor + np.uint64(CC_SRC)) & _WORKED_OUT
    write_register(core, _RFLAGS, (read_register(core, _RFLAGS) & ~_WORKED_OUT) | worked_out)


@njit(cache=True)
def _begin(core):
    """What the instruction itself does to the registers. Returns the count of the call."""
    locate(core)
    pc = read_pc(core)
    count = core.count + position_of(core, pc)
    if core.calls_wait != np.uint64(0):
        _put_flags_right(core)
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
