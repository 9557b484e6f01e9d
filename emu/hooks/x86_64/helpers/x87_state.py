"""The x87's stack, control and status in an emulated processor's state (SDM volume 1, 8.1).

A number is (low, high), both uint64. An empty register that is read, and a full one that is pushed onto, is a
stack fault, whose masked answer is the indefinite number (8.5.1.1).
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import C1, CONDITIONS, INDEFINITE, INVALID
from emu.hooks.x86_64.helpers.state import (
    CONTROL_WORD,
    OPERAND,
    REGISTERS,
    STATUS_WORD,
    TAGS,
    TOP,
    at,
    share,
)
from emu.native.unicorn import peek8, peek16, peek32, peek64, poke8, poke16, poke32, poke64

_EIGHT, _SEVEN, _TEN, _THREE = np.uint64(8), np.uint64(7), np.uint64(10), np.uint64(3)
STACK_FAULT = np.uint64(0x40)
#: Exceptions that the control word masks, in both words; that one is not masked (error summary and busy).
_EXCEPTIONS, _SUMMARY = np.uint64(0x3F), np.uint64(0x8080)
_FULL, _EMPTY = np.uint8(0), np.uint8(1)
#: Whether the operand of the instruction under way came from an empty register; whether it has made room on
#: the stack, or would have, but that the register there was full.
_NO_OPERAND, _ROOM = share("no_operand"), share("room")
_NONE_MADE, _MADE, _NO_ROOM = np.uint8(0), np.uint8(1), np.uint8(2)


@njit(cache=True)
def rounding_of(env):
    """Rounding control."""
    return (np.uint64(peek16(at(env, CONTROL_WORD))) >> _TEN) & _THREE


@njit(cache=True)
def _physical(env, index):
    return (np.uint64(peek32(at(env, TOP))) + np.uint64(index)) & _SEVEN


@njit(cache=True)
def _place(env, index):
    return at(env, REGISTERS) + np.uint64(16) * _physical(env, index)


@njit(cache=True)
def is_empty(env, index):
    """Whether ST(index) is."""
    return peek8(at(env, TAGS) + _physical(env, index)) != _FULL


@njit(cache=True)
def number_in(env, index):
    """ST(index)."""
    place = _place(env, index)
    return peek64(place), np.uint64(peek16(place + _EIGHT))


@njit(cache=True)
def put(env, index, number):
    """Set ST(index), which is full then."""
    place = _place(env, index)
    poke64(place, number[0])
    poke16(place + _EIGHT, np.uint16(number[1]))
    poke8(at(env, TAGS) + _physical(env, index), _FULL)


@njit(cache=True)
def pop(env):
    """ST(0) is empty, and ST(1) the next ST(0)."""
    poke8(at(env, TAGS) + _physical(env, 0), _EMPTY)
    poke32(at(env, TOP), np.uint32(_physical(env, 1)))


@njit(cache=True)
def tell(env, status, conditions):
    """Exceptions of an instruction are added to the status word, `conditions` are those bits of `status`."""
    place = at(env, STATUS_WORD)
    word = np.uint64(peek16(place)) & ~conditions | status & (conditions | _EXCEPTIONS | STACK_FAULT)
    if word & ~np.uint64(peek16(at(env, CONTROL_WORD))) & _EXCEPTIONS != np.uint64(0):
        word |= _SUMMARY
    poke16(place, np.uint16(word))


@njit(cache=True)
def condition_bits(env):
    """The status word's condition codes."""
    return np.uint64(peek16(at(env, STATUS_WORD))) & CONDITIONS


@njit(cache=True)
def underflow(env):
    """An empty register was read. Gives the answer."""
    tell(env, INVALID | STACK_FAULT, C1)
    return INDEFINITE


@njit(cache=True)
def overflow(env):
    """A full register was pushed onto. Gives the answer."""
    tell(env, INVALID | STACK_FAULT | C1, C1)
    return INDEFINITE


@njit(cache=True)
def make_room(env):
    """The stack's top goes down by one; whether there was room is for `push_into` to know."""
    poke32(at(env, TOP), np.uint32(_physical(env, -1)))
    poke8(at(env, _ROOM), _MADE if is_empty(env, 0) else _NO_ROOM)


@njit(cache=True)
def has_made_room(env):
    """Whether the instruction under way pushes."""
    return peek8(at(env, _ROOM)) != _NONE_MADE


@njit(cache=True)
def had_room(env):
    """Whether the register that `make_room` made the top was empty."""
    return peek8(at(env, _ROOM)) != _NO_ROOM


@njit(cache=True)
def room_is_used(env):
    """The instruction under way has pushed, or not."""
    poke8(at(env, _ROOM), _NONE_MADE)


@njit(cache=True)
def lower_top(env):
    """ST(7) is the next ST(0)."""
    poke32(at(env, TOP), np.uint32(_physical(env, -1)))


@njit(cache=True)
def raise_top(env):
    """ST(1) is the next ST(0)."""
    poke32(at(env, TOP), np.uint32(_physical(env, 1)))


@njit(cache=True)
def set_empty(env, index):
    """ST(index) is empty."""
    poke8(at(env, TAGS) + _physical(env, index), _EMPTY)


@njit(cache=True)
def operand(env):
    """The second operand of the instruction under way."""
    place = at(env, OPERAND)
    return peek64(place), np.uint64(peek16(place + _EIGHT))


@njit(cache=True)
def push_into(env, number):
    """What `make_room` made room for."""
    put(env, 0, overflow(env) if peek8(at(env, _ROOM)) == _NO_ROOM else number)
    poke8(at(env, _ROOM), _NONE_MADE)


@njit(cache=True)
def push(env, number):
    """One more on the stack."""
    make_room(env)
    push_into(env, number)


@njit(cache=True)
def set_operand(env, number, missing):
    """The second operand of what follows. missing: it is from an empty register."""
    place = at(env, OPERAND)
    poke64(place, number[0])
    poke16(place + _EIGHT, np.uint16(number[1]))
    poke8(at(env, _NO_OPERAND), np.uint8(missing))


@njit(cache=True)
def operand_is_there(env):
    """The second operand is not from an empty register."""
    poke8(at(env, _NO_OPERAND), _FULL)


@njit(cache=True)
def operand_is_missing(env):
    """Whether the second operand is from an empty register."""
    return peek8(at(env, _NO_OPERAND)) != _FULL
