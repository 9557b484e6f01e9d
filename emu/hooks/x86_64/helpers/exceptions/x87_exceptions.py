"""Exceptions of the x87 (SDM volume 1, 8.4 to 8.7): told in the status word, and raised where not masked.

An exception that is not masked is raised by the next x87 or MMX instruction that waits. Where one is found
before anything is computed (invalid, denormal, zero divide) operands stay as they are. A store that fails
(also by overflow and underflow) leaves memory and the stack as they are (`x87_translation`).

What a store has to say is told when it has happened: it may fail, or be where a slice ends. The emulator says
so by the data segment that it notes after the store; until then that is one that there is not.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.extended import (
    C1,
    DENORMAL,
    INDEFINITE,
    INVALID,
    NOTHING,
    ZERO_DIVIDE,
)
from emu.hooks.x86_64.helpers.state import (
    CONTROL_WORD,
    DATA_SEGMENT,
    KEEPS,
    KEPT_SEGMENT,
    NO_SEGMENT,
    PENDING,
    STATUS_WORD,
    at,
)
from emu.hooks.x86_64.helpers.x87_state import STACK_FAULT, put, tell
from emu.native.unicorn import peek8, peek16, poke8, poke16

_EXCEPTIONS, _SUMMARY = np.uint64(0x3F), np.uint64(0x8080)
_EARLY = INVALID | DENORMAL | ZERO_DIVIDE
#: Overflow and underflow.
_SCALED, _PRECISION_CONTROL, _TEN, _THREE = np.uint64(0x18), np.uint64(0x300), np.uint64(10), np.uint64(3)
_RESERVED_OFF, _RESERVED_ON = np.uint16(0x1F3F), np.uint16(0x40)
_NONE, _NO_SEGMENT = np.uint16(0), np.uint16(NO_SEGMENT)
#: Beside what a store has to say: that there is something.
_SOMETHING = np.uint64(0x8000)
_NO, _YES = np.uint8(0), np.uint8(1)
#: An empty register is read; a full one is pushed onto.
UNDERFLOWED, OVERFLOWED = INVALID | STACK_FAULT, INVALID | STACK_FAULT | C1
_FLOATING_POINT_ERROR = np.int32(16)
_raise = types.ExternalFunction(
    "raise_exception_ra_x86_64", types.void(types.uint64, types.int32, types.uint64)
)


@njit(cache=True)
def _control(env):
    return np.uint64(peek16(at(env, CONTROL_WORD)))


@njit(cache=True)
def modes_of(env):
    """Rounding and precision control, and which of overflow and underflow are not masked: as
    `emu.hooks.x86_64.helpers.exceptions.arithmetic` takes them."""
    control = _control(env)
    return control >> _TEN & _THREE | ~control & _SCALED | control & _PRECISION_CONTROL


@njit(cache=True)
def unmasked(env, status):
    """Those of the exceptions that are not masked."""
    return status & ~_control(env) & _EXCEPTIONS


@njit(cache=True)
def settle(env):
    """What the last store had to say is told if it happened."""
    status = peek16(at(env, PENDING))
    if status == _NONE:
        return
    poke16(at(env, PENDING), _NONE)
    if peek16(at(env, DATA_SEGMENT)) == _NO_SEGMENT:
        poke16(at(env, DATA_SEGMENT), peek16(at(env, KEPT_SEGMENT)))
    else:
        tell(env, np.uint64(status), C1)


@njit(cache=True)
def settle_now(env):
    """The store under way has happened, and its end is still to be noted."""
    status = peek16(at(env, PENDING))
    if status != _NONE:
        poke16(at(env, PENDING), _NONE)
        tell(env, np.uint64(status), C1)


@njit(cache=True)
def refresh(env):
    """The words that a program sees: whatever was loaded into them, reserved bits are as they always are, and
    the summary says whether an exception is not masked."""
    settle(env)
    control = peek16(at(env, CONTROL_WORD)) & _RESERVED_OFF | _RESERVED_ON
    poke16(at(env, CONTROL_WORD), control)
    status = np.uint64(peek16(at(env, STATUS_WORD))) & ~_SUMMARY
    if unmasked(env, status) != NOTHING:
        status |= _SUMMARY
    poke16(at(env, STATUS_WORD), np.uint16(status))


@njit(cache=True)
def begin(env, caller):
    """An instruction begins that waits. caller: address in the generated code, from which the emulator knows
    the instruction."""
    settle(env)
    if unmasked(env, np.uint64(peek16(at(env, STATUS_WORD)))) != NOTHING:
        _raise(env, _FLOATING_POINT_ERROR, caller)
    poke8(at(env, KEEPS), _NO)


@njit(cache=True)
def keeps(env):
    """Whether the instruction under way is one that failed: the stack stays as it is."""
    return peek8(at(env, KEEPS)) != _NO


@njit(cache=True)
def fails(env, status, conditions):
    """Whether an exception is found before anything is computed and is not masked, which is told then."""
    if unmasked(env, status & _EARLY) == NOTHING:
        return False
    stack = status & STACK_FAULT
    kept = _EARLY | STACK_FAULT | conditions if stack != NOTHING else _EARLY
    tell(env, status & kept, C1)
    poke8(at(env, KEEPS), _YES)
    return True


@njit(cache=True)
def answer(env, index, number, status):
    """ST(index) becomes `number`, unless the instruction fails."""
    if not fails(env, status, C1):
        put(env, index, number)
        tell(env, status, C1)


@njit(cache=True)
def answer_missing(env, index):
    """The same where an operand is empty."""
    answer(env, index, INDEFINITE, UNDERFLOWED)


@njit(cache=True)
def stores(env, status):
    """A store is under way, unless it fails."""
    if unmasked(env, status & (INVALID | _SCALED)) != NOTHING:
        tell(env, status & (INVALID | STACK_FAULT | _SCALED), C1)
        poke8(at(env, KEEPS), _YES)
        return
    if status & _EXCEPTIONS == NOTHING and np.uint64(peek16(at(env, STATUS_WORD))) & C1 == NOTHING:
        return
    poke16(at(env, PENDING), np.uint16(status | _SOMETHING))
    poke16(at(env, KEPT_SEGMENT), peek16(at(env, DATA_SEGMENT)))
    poke16(at(env, DATA_SEGMENT), _NO_SEGMENT)
