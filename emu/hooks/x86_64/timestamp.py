"""Native hooks of RDTSC and RDTSCP (SDM volume 2): modelled time while recording, the log's in a replay."""

from __future__ import annotations

import numpy as np
from unicorn import x86_const as x86

from corebraid.base.compiled import njit
from corebraid.base.rows.record import INPUT_TIME, INPUT_TIME_AND_CORE
from emu.code.blocks import position_of
from emu.hooks.access import log_input
from emu.hooks.replay import last_input, take_input
from emu.native.positions import locate
from emu.native.registers import read_pc, write_register
from emu.native.state import core_at
from emu.native.unicorn import INSTRUCTION_HOOK, hook

#: Ticks of a Linux guest's time stamp in a modelled cycle: 3.2 GHz beside its clock's 100 MHz. Programs that
#: wait by time stamps expect some GHz.
LINUX_TICKS = np.uint64(32)

_RAX, _RDX, _RCX = x86.UC_X86_REG_RAX, x86.UC_X86_REG_RDX, x86.UC_X86_REG_RCX
_LOW = np.uint64(0xFFFFFFFF)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def _answer(core, ticks):
    write_register(core, _RAX, ticks & _LOW)
    write_register(core, _RDX, ticks >> np.uint64(32))


@njit(cache=True)
def _record(core, what, auxiliary):
    locate(core)
    count = core.count + position_of(core, read_pc(core))
    ticks = count + core.latency
    if core.call_words != _ZERO:
        ticks *= LINUX_TICKS
    core.times += _ONE
    log_input(core, what, count, auxiliary, ticks, 8)
    _answer(core, ticks)


@njit(cache=True)
def _replay(core, what):
    locate(core)
    count = core.count + position_of(core, read_pc(core))
    if not take_input(core, what, count):
        return
    row = last_input(core)
    _answer(core, row.value)
    if what == INPUT_TIME_AND_CORE:
        write_register(core, _RCX, row.addr)


@hook(INSTRUCTION_HOOK)
def on_rdtsc(handle, user):
    _record(core_at(user), INPUT_TIME, _ZERO)
    return 1


@hook(INSTRUCTION_HOOK)
def on_rdtscp(handle, user):
    core = core_at(user)
    _record(core, INPUT_TIME_AND_CORE, core.core_id)
    write_register(core, _RCX, core.core_id)
    return 1


@hook(INSTRUCTION_HOOK)
def on_replayed_rdtsc(handle, user):
    _replay(core_at(user), INPUT_TIME)
    return 1


@hook(INSTRUCTION_HOOK)
def on_replayed_rdtscp(handle, user):
    _replay(core_at(user), INPUT_TIME_AND_CORE)
    return 1
