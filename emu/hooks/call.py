"""Native hooks of a Linux guest's core: its system calls and CPUID, while recording and in a replay.

SYSCALL itself sets rcx and r11 (SDM volume 2, SYSCALL); the hook does it, so that both runs agree even where
a call has no result yet. The result comes from the kernel, or from the log.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit
from unicorn import x86_const as x86

from corebraid.base.rows.record import INPUT_CALL
from emu.bus.commit import commit_all
from emu.bus.lines import end_run
from emu.code.blocks import position_of
from emu.hooks.access import log_input, read_pc, stop
from emu.hooks.record import write_register
from emu.hooks.replay import next_input_is, take_value
from emu.hooks.trace_tso import settle_all
from emu.native.state import CORE, STOP_CALL, core_at, machine_at
from emu.native.unicorn import (
    BLOCK_HOOK,
    INSTRUCTION_HOOK,
    SYSTEM_CALL_HOOK,
    hook,
    peek64,
    pointer,
    uc_emu_stop,
    uc_reg_read,
)

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_RAX, _RBX, _RCX, _RDX = (
    x86.UC_X86_REG_RAX, x86.UC_X86_REG_RBX, x86.UC_X86_REG_RCX, x86.UC_X86_REG_RDX,
)  # fmt: skip
_R11, _RFLAGS = x86.UC_X86_REG_R11, x86.UC_X86_REG_RFLAGS
_SYSCALL_BYTES = np.uint64(2)
_LOW = np.uint64(0xFFFFFFFF)
#: `exception` of a fault that a privileged instruction causes (SDM volume 3, table 6-1), plus 1.
_GENERAL_PROTECTION = np.uint64(14)

#: Words that a system call leaves: its number and six arguments.
CALL_WORDS = 7
#: Words of a row of CPUID's answers: leaf, subleaf, eax, ebx, ecx, edx. Rows of a leaf are together.
CPUID_WORDS = 6
#: In ebx of this leaf the highest byte is the core's number (initial APIC identifier).
_FEATURES = np.uint64(1)


@njit(cache=True)
def _read_register(core, register):
    uc_reg_read(core.handle, register, pointer(core.scratch))
    return peek64(core.scratch)


@njit(cache=True)
def _enter_kernel(core):
    """What the instruction itself does to the registers. Returns the count of the call."""
    pc = read_pc(core)
    count = core.count + position_of(core, pc)
    write_register(core, _R11, _read_register(core, _RFLAGS))
    write_register(core, _RCX, pc + _SYSCALL_BYTES)
    return count


@njit(cache=True)
def call_registers(core):
    """Unicorn's numbers (int64[8]) of the registers of a call's number and arguments, then of its result."""
    return carray(pointer(core.call_registers), CALL_WORDS + 1, np.int64)


@hook(SYSTEM_CALL_HOOK)
def on_call(handle, user):
    core = core_at(user)
    count = _enter_kernel(core)
    machine = machine_at(core.machine)
    if core.buffered != _ZERO:
        # The kernel is to see what the task has stored.
        cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
        commit_all(core, cores, machine, count)
    end_run(core, machine)
    words = carray(pointer(core.call_words), CALL_WORDS, np.uint64)
    registers = call_registers(core)
    for k in range(CALL_WORDS):
        words[k] = _read_register(core, registers[k])
    stop(core, STOP_CALL)


@njit(cache=True)
def finish_call(rows, number, result):
    """Give the call before which the core (CORE[1]) stopped its result, and note it in the log."""
    core = rows[0]
    write_register(core, call_registers(core)[CALL_WORDS], result)
    log_input(core, INPUT_CALL, core.count - _ONE, number, result, 8)


@hook(BLOCK_HOOK)
def on_privileged(handle, address, size, user):
    """Before an instruction that a program may not run: the emulator would, since it knows no rings."""
    core = core_at(user)
    if core.entered == _ZERO or core.exception != _ZERO:
        return
    core.exception = _GENERAL_PROTECTION
    uc_emu_stop(core.handle)


@hook(SYSTEM_CALL_HOOK)
def on_replayed_call(handle, user):
    core = core_at(user)
    count = _enter_kernel(core)
    if core.trace != _ZERO and core.buffering != _ZERO:
        settle_all(core)
    if next_input_is(core, INPUT_CALL, count):
        write_register(core, call_registers(core)[CALL_WORDS], take_value(core))
    else:
        core.awaiting = _ONE
        stop(core, STOP_CALL)


@njit(cache=True)
def answer_cpuid(core, leaf, subleaf):
    """Index of the row that answers, or the number of rows: all registers 0.

    A leaf without subleaves has one row, whatever ecx is.
    """
    n = np.int64(core.cpuid_n)
    rows = carray(pointer(core.cpuid), (n, CPUID_WORDS), np.uint64)
    first = int(n)
    for k in range(n):
        if rows[k, 0] == leaf:
            if rows[k, 1] == subleaf:
                return k
            if first == n:
                first = k
    single = first < n and (first + 1 >= n or rows[first + 1, 0] != leaf)
    return first if single else n


@hook(INSTRUCTION_HOOK)
def on_cpuid(handle, user):
    core = core_at(user)
    leaf = _read_register(core, _RAX) & _LOW
    k = answer_cpuid(core, leaf, _read_register(core, _RCX) & _LOW)
    a = b = c = d = _ZERO
    if k < np.int64(core.cpuid_n):
        rows = carray(pointer(core.cpuid), (np.int64(core.cpuid_n), CPUID_WORDS), np.uint64)
        a, b, c, d = rows[k, 2], rows[k, 3], rows[k, 4], rows[k, 5]
        if leaf == _FEATURES:
            b |= core.core_id << np.uint64(24)
    write_register(core, _RAX, a)
    write_register(core, _RBX, b)
    write_register(core, _RCX, c)
    write_register(core, _RDX, d)
    return 1
