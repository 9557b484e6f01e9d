"""Instructions that the emulator's translator writes wrongly as intermediate code: it is ours in parts.

`cmpxchg` of 32 bits. A processor writes only one of what it compares: rax is as it was where they are equal,
a register as it was where they are not (SDM volume 2, CMPXCHG). The translator clears the upper halves of
both. Of `lock neg` it takes the flags from the value before it. Our functions watch for the pattern of these
instructions: its parts follow one another at once, as the number of operations written so far tells. What
was found is kept, while a block is translated, in a word of the translator's state that nothing else reads.

`lock` before `bts` and its like of registers is illegal. The translator has it read an address that nobody
has written, and ends the process. So that is written when the opcode behind a `lock` is read; an address is
of one instruction, so that nothing is lost where these bytes are something else.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import ENTERING, at, share
from emu.hooks.x86_64.helpers.translation.accesses import check_alignment
from emu.hooks.x86_64.helpers.translation.bit_tests import forget_operation
from emu.hooks.x86_64.helpers.translation.intermediate import (
    LONG,
    NOT_LOCAL,
    OPERAND_PLACE,
    TRANSLATOR,
    begin_block,
    free_value,
    note_value,
    state_of,
    wanted,
    write_and,
)
from emu.hooks.x86_64.helpers.translation.intermediate import new_value as _new_value
from emu.hooks.x86_64.helpers.translation.x87_translation import is_conditional_move, tell_of_move
from emu.native.unicorn import peek8, peek32, peek64, poke8, poke64

_ADDRESS, _INT, _VALUE = types.uint64, types.int32, types.int64
EXTEND = types.void(_ADDRESS, _VALUE, _VALUE)
CHOOSE = types.void(_ADDRESS, _INT, _VALUE, _VALUE, _VALUE, _VALUE, _VALUE)
BRANCH = types.void(_ADDRESS, _INT, _VALUE, _VALUE, _ADDRESS)
EXCHANGE = types.void(_ADDRESS, _VALUE, _VALUE, _VALUE, _VALUE, _ADDRESS, _INT)
START = types.void(_ADDRESS)
VALUE = _ADDRESS(_ADDRESS, _INT, _INT)
CODE = types.uint32(_ADDRESS, _ADDRESS)

#: Of TCGContext: the number of operations, a counter that only statistics read.
_OPERATIONS, _NOTES = np.uint64(56), np.uint64(216)
_EQUAL, _NOT_EQUAL = np.int32(8), np.int32(9)
_SIZE, _FOUR_BYTES = np.int32(3), np.int32(2)
#: Which of a block's values is the address of operands in memory.
_OPERAND_ADDRESS = 2
#: Of a processor's state, for `code_byte`: where a byte was read last, and what was read before it: nothing
#: of interest, `lock` and perhaps more prefixes, 0f behind those.
_LAST_READ, _READ = share("last_read"), share("read")
_ROTATED = share("rotated")
_NO_PREFIX, _LOCKED, _ESCAPED = np.uint8(0), np.uint8(1), np.uint8(2)
_LOCK, _ESCAPE, _FOUR, _NEXT = np.uint32(0xF0), np.uint32(0x0F), np.uint32(4), np.uint64(1)
_PREFIXES = (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF2, 0xF3)
_BIT_TESTS = (0xA3, 0xAB, 0xB3, 0xBB, 0xBA)

#: Stages, with up to three values. One and two extended in place; chosen by what they compare: what was in
#: memory or a register, what goes there, what it was compared with; an exchange with memory; one for `neg`;
#: what remains to be written is a register; a block's first values are made, so many.
_ONE, _TWO, _CHOSEN, _EXCHANGED, _NEGATED, _REGISTER, _BEGUN = 1, 2, 3, 4, 5, 6, 7

_start = types.ExternalFunction("tcg_func_start_x86_64", START)
_extend = types.ExternalFunction("tcg_gen_ext32u_i64_x86_64", EXTEND)
_choose = types.ExternalFunction("tcg_gen_movcond_i64_x86_64", CHOOSE)
_branch = types.ExternalFunction("tcg_gen_brcond_i64_x86_64", BRANCH)
_exchange = types.ExternalFunction("tcg_gen_atomic_cmpxchg_i64_x86_64", EXCHANGE)
_subtract_from = types.ExternalFunction(
    "tcg_gen_subfi_i64_x86_64", types.void(_ADDRESS, _VALUE, _VALUE, _VALUE)
)
_code_byte = types.ExternalFunction("cpu_ldub_code_x86_64", CODE)


@njit
def _operations(context):
    return np.int64(peek32(context + _OPERATIONS)) & 0x1FFF


@njit
def _note(context, stage, first, second, third):
    """After the last operation so far."""
    word = stage | _operations(context) << 3 | first << 16 | second << 32 | third << 48
    poke64(context + _NOTES, np.uint64(word))


@njit
def _forget(context):
    poke64(context + _NOTES, np.uint64(0))


@njit
def start(context):
    """`tcg_func_start`: a block begins. Nothing is noted of another, whose number of operations may be the
    same; and blocks that were thrown away have been counted where the notes are."""
    _start(context)
    _note(context, _BEGUN, 0, 0, 0)


@njit
def _noted(context):
    """(stage, whether nothing was written since, the three values)."""
    word = peek64(context + _NOTES)
    values = np.int64(word >> np.uint64(16))
    at_once = np.int64(word >> np.uint64(3)) & 0x1FFF == _operations(context)
    return np.int64(word) & 7, at_once, values & 0xFFFF, values >> 16 & 0xFFFF, values >> 32 & 0xFFFF


@njit
def new_value(context, kind, local):
    """`tcg_temp_new_internal`: the first values of a block are the same in all."""
    stage, _, count, _, _ = _noted(context)
    value = _new_value(context, kind, local)
    if kind == LONG and local == NOT_LOCAL:
        note_value(context, value)
    if stage == _BEGUN:
        if count == _OPERAND_ADDRESS:
            _forget(context)
            state = state_of(context)
            poke64(state + np.uint64(TRANSLATOR), context)
            poke64(state + np.uint64(OPERAND_PLACE), value - context)
            poke8(state + np.uint64(_READ), _NO_PREFIX)
            poke64(state + np.uint64(ENTERING), np.uint64(0))
            poke8(state + np.uint64(_ROTATED), np.uint8(0))
            check_alignment(context)
            begin_block(context)
        else:
            _note(context, _BEGUN, count + 1, 0, 0)
    return value


@njit
def code_byte(env, place):
    """`cpu_ldub_code`: a byte of the instruction that is translated."""
    byte = _code_byte(env, place)
    goes_on = peek64(at(env, _LAST_READ)) + _NEXT == place
    read = peek8(at(env, _READ)) if goes_on else _NO_PREFIX
    poke64(at(env, _LAST_READ), place)
    context = peek64(at(env, TRANSLATOR))
    escaped = goes_on and byte in _BIT_TESTS and _code_byte(env, place - _NEXT) == _ESCAPE
    if escaped and wanted(context):
        forget_operation(env, context)
    now = _NO_PREFIX
    if byte == _LOCK or (read == _LOCKED and (byte in _PREFIXES or byte >> _FOUR == _FOUR)):
        now = _LOCKED
    elif read == _LOCKED and byte == _ESCAPE:
        now = _ESCAPED
    elif read == _ESCAPED and byte in _BIT_TESTS:
        address = np.int64(peek64(at(env, OPERAND_PLACE)))
        write_and(peek64(at(env, TRANSLATOR)), address, address, 0)
    poke8(at(env, _READ), now)
    return byte


@njit
def _keep_if_same(context, target, value):
    """The target gets the value, 32 bits and zeros, unless its lower half is that."""
    here, there = _new_value(context, LONG, NOT_LOCAL), _new_value(context, LONG, NOT_LOCAL)
    now, new = np.int64(here - context), np.int64(there - context)
    _extend(context, now, target)
    _extend(context, new, value)
    _choose(context, _EQUAL, target, now, new, target, new)
    free_value(context, here)
    free_value(context, there)


@njit
def _keep_unless_equal(context, target, value, first, second):
    """The target gets the value, 32 bits and zeros, if the two others are equal."""
    there = _new_value(context, LONG, NOT_LOCAL)
    new = np.int64(there - context)
    _extend(context, new, value)
    _choose(context, _EQUAL, target, first, second, new, target)
    free_value(context, there)


@njit
def extend(context, target, value):
    """`tcg_gen_ext32u_i64`: how 32 bits are written to a register, and made a number of 64."""
    stage, at_once, first, second, third = _noted(context)
    if target == value:
        _extend(context, target, value)
        if at_once and stage in (_ONE, _TWO):
            _note(context, _TWO, second if stage == _TWO else first, target, 0)
        else:
            _note(context, _ONE, target, 0, 0)
        return
    if stage == _CHOSEN and value == first:
        _forget(context)
        _keep_if_same(context, target, value)
        if at_once:
            _note(context, _REGISTER, first, second, third)
    elif stage == _EXCHANGED and value == first and at_once:
        _forget(context)
        _keep_if_same(context, target, value)
    elif stage == _REGISTER and value == second and at_once:
        _forget(context)
        _keep_unless_equal(context, target, value, first, third)
    else:
        _extend(context, target, value)


@njit
def choose(context, condition, target, first, second, then, otherwise):
    """`tcg_gen_movcond_i64`: what `cmpxchg` without `lock` writes."""
    stage, at_once, old, compared, _ = _noted(context)
    _choose(context, condition, target, first, second, then, otherwise)
    if stage != _TWO or not at_once or condition != _EQUAL or not wanted(context):
        return
    if first == old and second == compared and then == target and otherwise == first:
        _note(context, _CHOSEN, first, target, second)


@njit
def exchange(context, old, place, compared, new, index, operation):
    """`tcg_gen_atomic_cmpxchg_i64`: of `lock cmpxchg`, and of `lock neg`, which compares with its own."""
    _exchange(context, old, place, compared, new, index, operation)
    if not wanted(context):
        return
    if old == compared:
        _note(context, _NEGATED, old, 0, 0)
    elif operation & _SIZE == _FOUR_BYTES:
        _note(context, _EXCHANGED, old, 0, 0)


@njit
def branch(context, condition, first, second, label):
    """`tcg_gen_brcond_i64`: `lock neg` tries again, or is done, and its flags are those of the new value."""
    if wanted(context) and is_conditional_move(context):
        tell_of_move(context, condition, first, second)
        return
    stage, at_once, old, _, _ = _noted(context)
    _branch(context, condition, first, second, label)
    if stage == _NEGATED and at_once and condition == _NOT_EQUAL and first == old:
        _forget(context)
        _subtract_from(context, first, 0, first)


#: Ours by the emulator's names.
REWRITTEN = {
    "tcg_func_start": (start, START),
    "tcg_temp_new_internal": (new_value, VALUE),
    "cpu_ldub_code": (code_byte, CODE),
    "tcg_gen_ext32u_i64": (extend, EXTEND),
    "tcg_gen_movcond_i64": (choose, CHOOSE),
    "tcg_gen_brcond_i64": (branch, BRANCH),
    "tcg_gen_atomic_cmpxchg_i64": (exchange, EXCHANGE),
}
