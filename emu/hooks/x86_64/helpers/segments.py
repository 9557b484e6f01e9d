"""Selectors and gates as 64-bit Linux has them for a program (SDM volume 3, chapters 5 and 6).

The emulator runs programs without descriptor tables: every selector but 0 is refused there, and `int`
reaches every vector. What Linux puts into its tables does not change, so that no table is needed: 0x33 is
the program's code, 0x2b its stack, other data segments are loaded by nobody.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.exceptions.memory import try_store
from emu.hooks.x86_64.helpers.state import ALIGNMENT, FAULT_CODE, REGS, SEGMENTS, at, note
from emu.native.unicorn import peek64, poke32, poke64

_ADDRESS = types.uint64
_CODE, _STACK = np.int64(0x33), np.int64(0x2B)
#: Without the privilege level: 32-bit code, data, 64-bit code, the number of the processor.
_CODE_32, _DATA, _CODE_64, _NUMBER = np.int64(0x20), np.int64(0x28), np.int64(0x30), np.int64(0x78)
_LOADABLE = (_CODE_32, _DATA, _CODE_64, _NUMBER)
#: As instructions number segment registers.
_CS, _SS, _FS = 1, 2, 4
#: Bytes of a segment register; of its base in it.
_SEGMENT, _BASE = 24, 8
_RSP, _RIP = REGS + 4 * 8, REGS + 16 * 8
_BREAKPOINT, _OVERFLOW, GENERAL_PROTECTION = 3, 4, np.int32(13)
#: Numbers in the place of an exception's: what is not emulated (`isa.table.Isa.refusals`).
NARROW_CODE, SEGMENT_LOADED = np.int32(0x100), np.int32(0x101)
#: Flags that a program may change by `iretq`, beside DF and the arithmetic ones: ID, AC, NT, TF; interrupts
#: and their level, which it may not; alignment checks.
_RESTORED, _GUARDED, _CHECKS = np.uint32(0x244100), np.uint32(0x3200), np.uint64(1 << 18)
_NO, _ONE = np.int32(0), np.int32(1)
_ZERO, _EIGHT = np.uint64(0), np.uint64(8)

_raise = types.ExternalFunction(
    "raise_exception_err_ra_x86_64", types.void(_ADDRESS, types.int32, types.int32, _ADDRESS)
)
_interrupt = types.ExternalFunction(
    "raise_interrupt_x86_64", types.void(_ADDRESS, types.int32, types.int32, types.int32, types.int32)
)
_write_flags = types.ExternalFunction(
    "helper_write_eflags_x86_64", types.void(_ADDRESS, types.uint64, types.uint32)
)
_load_32 = types.ExternalFunction("cpu_ldl_data_ra_x86_64", types.uint32(_ADDRESS, _ADDRESS, _ADDRESS))
_load_64 = types.ExternalFunction("cpu_ldq_data_ra_x86_64", types.uint64(_ADDRESS, _ADDRESS, _ADDRESS))
_load_16 = types.ExternalFunction("cpu_lduw_data_ra_x86_64", types.uint32(_ADDRESS, _ADDRESS, _ADDRESS))
_store_16 = types.ExternalFunction(
    "cpu_stw_data_ra_x86_64", types.void(_ADDRESS, _ADDRESS, types.uint32, _ADDRESS)
)
_store_32 = types.ExternalFunction(
    "cpu_stl_data_ra_x86_64", types.void(_ADDRESS, _ADDRESS, types.uint32, _ADDRESS)
)
_store_64 = types.ExternalFunction(
    "cpu_stq_data_ra_x86_64", types.void(_ADDRESS, _ADDRESS, types.uint64, _ADDRESS)
)


@njit
def begin_program(env):
    """CS and SS are the program's."""
    poke32(at(env, SEGMENTS + _CS * _SEGMENT), np.uint32(_CODE))
    poke32(at(env, SEGMENTS + _SS * _SEGMENT), np.uint32(_STACK))


@njit
def fault(env, number, code, caller):
    """caller: address in the generated code, from which the emulator knows the instruction; 0: it knows."""
    poke32(at(env, FAULT_CODE), np.uint32(code))
    _raise(env, number, np.int32(code), caller)


@njit
def interrupt(env, number, length, caller):
    """`int`: of the gates a program may use those of breakpoints and overflows (SDM volume 3, 6.12.1.2), of a
    kernel without 32-bit calls."""
    if number in (_BREAKPOINT, _OVERFLOW):
        _interrupt(env, number, _ONE, _NO, length)
    else:
        fault(env, GENERAL_PROTECTION, np.int64(number) * 8 + 2, _ZERO)


@njit
def load_segment(env, register, selector, caller):
    """A segment register is loaded (SDM volume 2, MOV). Of those that may be none is."""
    which, value = np.int64(register), np.int64(selector) & 0xFFFF
    segment = value & ~3
    if segment == 0 and which != _SS:
        if value != 0:
            _raise(env, SEGMENT_LOADED, _NO, caller)
        place = env + np.uint64(SEGMENTS + which * _SEGMENT)
        poke32(place, np.uint32(0))
        if which >= _FS:
            poke64(place + _EIGHT, _ZERO)
    elif which == _SS and value == _STACK:
        return
    elif which != _SS and segment in _LOADABLE:
        _raise(env, SEGMENT_LOADED, _NO, caller)
    else:
        fault(env, GENERAL_PROTECTION, segment, caller)


@njit
def _check_code(env, selector, deepest, caller):
    """A selector for CS: the program's own. deepest: the least privilege level that it may ask for."""
    segment = selector & ~3
    if segment == _CODE_64 and selector & 3 >= deepest:
        return
    if segment == _CODE_32 and selector & 3 >= deepest:
        _raise(env, NARROW_CODE, _NO, caller)
    fault(env, GENERAL_PROTECTION, segment, caller)


@njit
def _go_to(env, address, caller):
    """Raises for an address that no program has."""
    upper = np.int64(address) >> 47
    if upper not in (0, -1):
        fault(env, GENERAL_PROTECTION, 0, caller)
    poke64(at(env, _RIP), address)


@njit
def _popped(env, place, shift, caller):
    """A word of 2, 4 or 8 bytes (1 << shift + 1) on the stack."""
    if shift == 2:
        return _load_64(env, place, caller)
    if shift == 1:
        return np.uint64(_load_32(env, place, caller))
    return np.uint64(_load_16(env, place, caller))


@njit
def _push(env, place, value, shift, caller):
    if shift == 2:
        _store_64(env, place, value, caller)
    elif shift == 1:
        _store_32(env, place, np.uint32(value), caller)
    else:
        _store_16(env, place, np.uint32(value), caller)


@njit
def return_from_interrupt(env, shift, following, caller):
    """`iretq`, `iretd`, `iretw` to the program itself (SDM volume 2, IRET)."""
    size, stack = np.uint64(2 << np.int64(shift)), peek64(at(env, _RSP))
    address = _popped(env, stack, shift, caller)
    code = np.int64(_popped(env, stack + size, shift, caller)) & 0xFFFF
    flags = _popped(env, stack + np.uint64(2) * size, shift, caller)
    pointer = _popped(env, stack + np.uint64(3) * size, shift, caller)
    segment = np.int64(_popped(env, stack + np.uint64(4) * size, shift, caller)) & 0xFFFF
    _check_code(env, code, 3, caller)
    if segment != _STACK:
        fault(env, GENERAL_PROTECTION, segment & ~3, caller)
    _go_to(env, address, caller)
    poke64(at(env, _RSP), pointer)
    narrow = np.uint32(0xFFFF) if shift == 0 else np.uint32(0xFFFFFFFF)
    _note_checks(env, flags)
    _write_flags(env, flags, _RESTORED & narrow)


@njit
def return_far(env, shift, added, caller):
    """A far `ret` to the program itself (SDM volume 2, RET)."""
    size, stack = np.uint64(2 << np.int64(shift)), peek64(at(env, _RSP))
    address = _popped(env, stack, shift, caller)
    code = np.int64(_popped(env, stack + size, shift, caller)) & 0xFFFF
    _check_code(env, code, 3, caller)
    _go_to(env, address, caller)
    poke64(at(env, _RSP), stack + np.uint64(2) * size + np.uint64(np.int64(added)))


@njit
def jump_far(env, selector, address, following, caller):
    """A far `jmp` (SDM volume 2, JMP)."""
    _check_code(env, np.int64(selector) & 0xFFFF, 0, caller)
    _go_to(env, address, caller)


@njit
def call_far(env, selector, address, shift, following, caller):
    """A far `call` (SDM volume 2, CALL)."""
    size, stack = np.uint64(2 << np.int64(shift)), peek64(at(env, _RSP))
    _check_code(env, np.int64(selector) & 0xFFFF, 0, caller)
    try_store(env, stack - np.uint64(2) * size, np.uint64(2) * size, caller)
    _push(env, stack - size, np.uint64(_CODE), shift, caller)
    _push(env, stack - np.uint64(2) * size, following, shift, caller)
    _go_to(env, address, caller)
    poke64(at(env, _RSP), stack - np.uint64(2) * size)


@njit
def _note_checks(env, flags):
    if flags & _CHECKS != _ZERO:
        note(env, ALIGNMENT)


@njit
def write_flags(env, flags, mask):
    """`popf`: neither interrupts nor their level are a program's to change; alignment is not checked."""
    if np.uint64(mask) & _CHECKS != _ZERO:
        _note_checks(env, flags)
    _write_flags(env, flags, mask & ~_GUARDED)


_INT, _LONG = types.int32, types.uint64
#: Ours where a program runs, by the emulator's names: (kernel, signature, whether it is told its caller).
SEGMENTS_OF_PROGRAM = {
    "helper_raise_interrupt": (interrupt, types.void(_ADDRESS, _INT, _INT), True),
    "helper_load_seg": (load_segment, types.void(_ADDRESS, _INT, _INT), True),
    "helper_iret_protected": (return_from_interrupt, types.void(_ADDRESS, _INT, _INT), True),
    "helper_lret_protected": (return_far, types.void(_ADDRESS, _INT, _INT), True),
    "helper_ljmp_protected": (jump_far, types.void(_ADDRESS, _INT, _LONG, _LONG), True),
    "helper_lcall_protected": (call_far, types.void(_ADDRESS, _INT, _LONG, _INT, _LONG), True),
    "helper_write_eflags": (write_flags, types.void(_ADDRESS, _LONG, types.uint32), False),
}
