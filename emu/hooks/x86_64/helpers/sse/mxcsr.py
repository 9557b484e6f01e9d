"""MXCSR: the modes of SSE arithmetic, and its exceptions, noted and raised (SDM volume 1, 10.2.3 and 11.5).

The emulator collects exceptions (`RAISED`) and never looks at them. In a processor of revision 2 those that
MXCSR masks and already has are there at the beginning of each instruction, and no others. So an instruction
that brings nothing new is found by one comparison; and the emulator has the host add and multiply, which is
only where an inexact result is nothing new.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.segments import GENERAL_PROTECTION, begin_program, fault
from emu.hooks.x86_64.helpers.state import (
    DUE,
    FLUSH_RESULTS,
    FLUSHES,
    MXCSR,
    PROGRAM,
    RAISED,
    REVISION,
    SSE_STATUS,
    X87_STATUS,
    at,
)
from emu.native.unicorn import peek8, peek32, poke8, poke32

_ADDRESS = types.uint64
OF_STATE = types.void(_ADDRESS)
#: Exceptions, in MXCSR and in `RAISED`: invalid operation, denormal operand, huge, tiny, inexact result.
NOTHING, INVALID, DENORMAL, OVERFLOW, UNDERFLOW, INEXACT = (np.uint8(bit) for bit in (0, 1, 2, 8, 16, 32))
#: Those that the emulator finds; what else it has in the byte are operands and results that it took for zero.
_EXCEPTIONS, _EMULATORS = np.uint32(0x3F), np.uint8(0x3D)
#: Found before anything is computed: invalid operation, denormal operand, division by zero.
_BEFORE = np.uint32(7)
#: Bits of `FLUSHES`: tiny results are zero; tiny ones raise an exception, also if exact; huge ones raise one.
FLUSHED, TINY_TOLD, HUGE_TOLD = np.uint8(1), np.uint8(2), np.uint8(4)
#: MXCSR: tiny results are zero, if they raise nothing; those and huge ones raise nothing; no bits but these
#: may be set.
_FLUSH, _TINY_MASKED, _HUGE_MASKED = np.uint32(1 << 15 | 1 << 11), np.uint32(1 << 11), np.uint32(1 << 10)
_KNOWN = 0xFFFF
#: How far the bits that mask exceptions are above them.
_MASKS = np.uint32(7)
_NO_BITS, _WITH_FLAGS = np.uint32(0), np.uint8(2)
_SSE_ERROR = np.int32(19)

_theirs_of_mxcsr = types.ExternalFunction("update_mxcsr_status_x86_64", OF_STATE)
_load_mxcsr = types.ExternalFunction("helper_ldmxcsr_x86_64", types.void(_ADDRESS, types.uint32))
_raise = types.ExternalFunction(
    "raise_exception_err_ra_x86_64", types.void(_ADDRESS, types.int32, types.int32, _ADDRESS)
)


@njit
def has_flags(env):
    """Whether this processor notes and raises exceptions of SSE arithmetic."""
    return peek8(at(env, REVISION)) >= _WITH_FLAGS


@njit
def flag(status, exceptions):
    """They are found. status: address of the `float_status`."""
    place = at(status, RAISED)
    poke8(place, peek8(place) | exceptions)


@njit
def _known(mxcsr):
    """Exceptions that are masked and set."""
    return np.uint8(mxcsr & (mxcsr >> _MASKS) & _EXCEPTIONS)


@njit
def _settle_new(env, mxcsr, found, caller):
    unmasked = ~(mxcsr >> _MASKS) & _EXCEPTIONS
    if found & unmasked & _BEFORE != _NO_BITS:
        # Nothing was computed, so of the result nothing is known.
        found &= _BEFORE
    if found & unmasked != _NO_BITS:
        # An instruction that fails is not replayed, so it changes nothing before its exception is delivered.
        poke8(at(env, SSE_STATUS + RAISED), _known(mxcsr))
        poke8(at(env, DUE), np.uint8(found))
        _raise(env, _SSE_ERROR, np.int32(0), caller)
    mxcsr = np.uint32(mxcsr | found)
    poke32(at(env, MXCSR), mxcsr)
    poke8(at(env, SSE_STATUS + RAISED), _known(mxcsr))


@njit(forceinline=True)
def settle(env, more, caller):
    """MXCSR gets what an instruction found (`RAISED`, and `more`: uint8), before its result is written.

    Does not return where one of them is not masked: the instruction faults. caller: address in the generated
    code, from which the emulator knows the instruction.
    """
    mxcsr = peek32(at(env, MXCSR))
    found = np.uint32((peek8(at(env, SSE_STATUS + RAISED)) & _EMULATORS) | more)
    if found & ~(mxcsr & (mxcsr >> _MASKS)) != _NO_BITS:
        _settle_new(env, mxcsr, found, caller)


@njit
def update_mxcsr(env):
    """MXCSR has changed: rounding, small operands, small results, exceptions. It is also what `run_programs`
    writes, to have a program's processor begin."""
    _theirs_of_mxcsr(env)
    poke8(at(env, X87_STATUS + FLUSH_RESULTS), NOTHING)
    mxcsr = peek32(at(env, MXCSR))
    flushes = FLUSHED if mxcsr & _FLUSH == _FLUSH else NOTHING
    if has_flags(env):
        poke8(at(env, SSE_STATUS + RAISED), _known(mxcsr))
        flushes |= NOTHING if mxcsr & _TINY_MASKED else TINY_TOLD
        flushes |= NOTHING if mxcsr & _HUGE_MASKED else HUGE_TOLD
    poke8(at(env, SSE_STATUS + FLUSHES), flushes)
    if peek8(at(env, PROGRAM)) != NOTHING:
        begin_program(env)


@njit
def check_mxcsr(env, value, caller):
    """Raises for bits that are reserved. caller: as for `settle`."""
    if np.int64(value) & ~_KNOWN:
        fault(env, GENERAL_PROTECTION, 0, caller)


@njit
def load_mxcsr(env, value, caller):
    """`ldmxcsr`. caller: as for `settle`."""
    check_mxcsr(env, value, caller)
    _load_mxcsr(env, value)
