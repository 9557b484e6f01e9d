"""System calls of a core, while recording and in a replay, and instructions that only a kernel may run.

What an instruction set's own instruction does to registers is its hook's: `emu.hooks.x86_64.system_call`.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.record import INPUT_CALL
from emu.bus.commit import FORCED_DRAIN, commit_all, note_forced
from emu.bus.runs import end_run
from emu.code.blocks import position_of
from emu.hooks.access import log_input, stop, stop_before
from emu.hooks.replay import next_input_is, take_value
from emu.hooks.shared_access import event_is_due
from emu.hooks.trace_tso import settle_all
from emu.native.positions import locate
from emu.native.registers import read_register, write_register
from emu.native.state import CORE, STOP_CALL, STOP_MISPLACED, core_at, machine_at
from emu.native.unicorn import BLOCK_HOOK, SYSTEM_CALL_HOOK, hook, pointer, uc_emu_stop

#: Words that a system call leaves: its number and six arguments.
CALL_WORDS = 7
#: `exception` of a system call where there is no kernel: a number past the interrupt vectors.
SYSTEM_CALL = 256

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def _call_registers(core):
    """Unicorn's numbers (int64[8]) of the registers of a call's number and arguments, then of its result."""
    return carray(pointer(core.call_registers), CALL_WORDS + 1, np.int64)


@njit(cache=True)
def call_kernel(core, count):
    """The instruction at `count` calls the kernel: the core stops, and leaves what it calls for."""
    machine = machine_at(core.machine)
    if core.buffered != _ZERO:
        # The kernel is to see what the task has stored. Step by step the core has waited before the call.
        note_forced(machine, FORCED_DRAIN)
        cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
        commit_all(core, cores, machine, count)
    end_run(core, machine)
    words = carray(pointer(core.call_words), CALL_WORDS, np.uint64)
    registers = _call_registers(core)
    for k in range(CALL_WORDS):
        words[k] = read_register(core, registers[k])
    stop(core, STOP_CALL)


@njit(cache=True)
def finish_call(rows, number, result):
    """Give the call before which the core (CORE[1]) stopped its result, and note it in the log."""
    core = rows[0]
    write_register(core, _call_registers(core)[CALL_WORDS], result)
    log_input(core, INPUT_CALL, core.count - _ONE, number, result, 8)


@njit(cache=True)
def replay_call(core, count):
    """The call of the instruction at `count` gets its result from the log, or a context header follows."""
    if core.trace != _ZERO and core.buffering != _ZERO:
        settle_all(core)
    if next_input_is(core, INPUT_CALL, count):
        write_register(core, _call_registers(core)[CALL_WORDS], take_value(core))
    else:
        core.awaiting = _ONE
        stop(core, STOP_CALL)


@hook(BLOCK_HOOK)
def on_counted_call(handle, address, size, user):
    """Before a system call: a shared event, before which a slice can end, as it does before an access."""
    core = core_at(user)
    if core.entered == _ZERO or core.stop_reason == np.uint64(STOP_MISPLACED):
        return
    machine = machine_at(core.machine)
    if machine.watched == _ZERO or machine.power != _ZERO:
        return
    count = core.count + position_of(core, address)
    if event_is_due(core, machine, count) or (core.exact != _ZERO and count >= core.stop_at):
        stop_before(core, address, count)


@hook(SYSTEM_CALL_HOOK)
def on_unserved_call(handle, user):
    core = core_at(user)
    locate(core)
    core.exception = np.uint64(SYSTEM_CALL) + _ONE
    uc_emu_stop(core.handle)


@hook(BLOCK_HOOK)
def on_privileged(handle, address, size, user):
    """Before an instruction that a program may not run: the emulator would, since it knows no rings."""
    core = core_at(user)
    if core.entered == _ZERO or core.exception != _ZERO:
        return
    core.exception = core.forbidden
    uc_emu_stop(core.handle)


@hook(BLOCK_HOOK)
def on_illegal(handle, address, size, user):
    """Before what is no instruction to the processor."""
    core = core_at(user)
    if core.entered == _ZERO or core.exception != _ZERO:
        return
    core.exception = core.invalid
    uc_emu_stop(core.handle)
