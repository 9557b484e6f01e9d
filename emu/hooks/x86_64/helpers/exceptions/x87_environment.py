"""x87 instructions on its words and on all of its registers (SDM volume 2, FLDCW and so on)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.exceptions.memory import (
    load_long,
    store_long,
    store_ten_bytes,
    store_word,
    try_load,
    try_store,
)
from emu.hooks.x86_64.helpers.exceptions.x87_exceptions import begin, refresh, settle
from emu.hooks.x86_64.helpers.extended import IS_NORMAL, IS_ZERO, kind
from emu.hooks.x86_64.helpers.sse.mxcsr import check_mxcsr
from emu.hooks.x86_64.helpers.state import (
    CODE_SEGMENT,
    CONTROL_WORD,
    DATA_SEGMENT,
    INSTRUCTION,
    OPERAND_ADDRESS,
    STATUS_WORD,
    TOP,
    at,
)
from emu.hooks.x86_64.helpers.x87_state import is_empty, number_in
from emu.native.unicorn import peek16, peek32, peek64

_ADDRESS = types.uint64
_UPPER, _ALL_MASKED = np.uint32(0xFFFF0000), np.uint32(0x3F)
OF_ADDRESS = types.void(_ADDRESS, _ADDRESS)
_LOAD_CONTROL, _OF_STATE = types.void(_ADDRESS, types.uint32), types.void(_ADDRESS)
_load_emulators_control = types.ExternalFunction("helper_fldcw_x86_64", _LOAD_CONTROL)
_initialise = types.ExternalFunction("helper_fninit_x86_64", _OF_STATE)
_TOP_PLACE = np.uint32(11)
#: Tags (SDM volume 1, 8.1.7).
_VALID, _ZERO, _SPECIAL, _EMPTY = (np.uint32(tag) for tag in range(4))
#: Of the image of `fxsave`: a register's bytes, the first one, the last operation code, MXCSR.
_SLOT, _SLOTS, _FOP, _MXCSR = 16, 32, 6, 24
#: Bytes of that image; of an environment, short and long; of the registers behind it.
_IMAGE, _SHORT, _LONG, _NUMBERS = (np.uint64(size) for size in (512, 14, 28, 80))


@njit
def _load_control(env, word):
    _load_emulators_control(env, word)
    refresh(env)


@njit
def _fldcw(env, word, caller):
    begin(env, caller)
    _load_control(env, word)


@njit
def _status(env):
    word = np.uint32(peek16(at(env, STATUS_WORD))) & ~(np.uint32(7) << _TOP_PLACE)
    return np.uint32(word | (peek32(at(env, TOP)) & np.uint32(7)) << _TOP_PLACE)


@njit
def _fnstsw(env, caller):
    refresh(env)
    return _status(env)


@njit
def _fnstcw(env, caller):
    refresh(env)
    return np.uint32(peek16(at(env, CONTROL_WORD)))


@njit
def _tag(env, index):
    if is_empty(env, index):
        return _EMPTY
    of = kind(number_in(env, index))
    if of == IS_ZERO:
        return _ZERO
    return _VALID if of == IS_NORMAL else _SPECIAL


@njit
def _tags(env):
    """The tag word: by the registers' own numbers."""
    top, word = np.int64(peek32(at(env, TOP))), np.uint32(0)
    for index in range(8):
        word |= _tag(env, index) << np.uint32(2 * ((top + index) & 7))
    return np.uint32(word)


@njit
def _extended(word):
    return np.uint32(np.uint32(word) | _UPPER)


@njit
def _store_environment(env, address, long, caller):
    """28 bytes, or 14 with an operand-size prefix."""
    refresh(env)
    words = (
        _extended(peek16(at(env, CONTROL_WORD))),
        _extended(_status(env)),
        _extended(_tags(env)),
        np.uint32(peek64(at(env, INSTRUCTION))),
        np.uint32(peek16(at(env, CODE_SEGMENT))),
        np.uint32(peek64(at(env, OPERAND_ADDRESS))),
        _extended(peek16(at(env, DATA_SEGMENT))),
    )
    for place in range(7):
        if long != 0:
            store_long(env, address + np.uint64(4 * place), words[place], caller)
        else:
            store_word(env, address + np.uint64(2 * place), words[place], caller)


@njit
def _fnstenv(env, address, long, caller):
    try_store(env, address, _LONG if long != 0 else _SHORT, caller)
    _store_environment(env, address, long, caller)
    _load_control(env, np.uint32(np.uint32(peek16(at(env, CONTROL_WORD))) | _ALL_MASKED))


@njit
def _fnsave(env, address, long, caller):
    environment = _LONG if long != 0 else _SHORT
    try_store(env, address, environment + _NUMBERS, caller)
    _store_environment(env, address, long, caller)
    address += environment
    for index in range(8):
        store_ten_bytes(env, address + np.uint64(10 * index), number_in(env, index), caller)
    _initialise(env)


@njit
def _before_fldenv(env, address, long, caller):
    """The emulator reads only what it keeps of an environment, a processor all of it, and before it changes
    anything."""
    begin(env, caller)
    try_load(env, address, _LONG if long != 0 else _SHORT, caller)


@njit
def _before_frstor(env, address, long, caller):
    begin(env, caller)
    try_load(env, address, (_LONG if long != 0 else _SHORT) + _NUMBERS, caller)


@njit
def _fwait(env, caller):
    begin(env, caller)


@njit
def _before_clearing(env, caller):
    settle(env)


@njit
def before_fxsave(env, address, caller):
    """What the emulator leaves as it is in memory: the last operation code, what follows each register."""
    if address & np.uint64(15) == np.uint64(0):
        try_store(env, address, _IMAGE, caller)
        refresh(env)
        store_word(env, address + np.uint64(_FOP), np.uint32(0), caller)
        for index in range(8):
            rest = address + np.uint64(_SLOTS + _SLOT * index + 10)
            store_word(env, rest, np.uint32(0), caller)
            store_long(env, rest + np.uint64(2), np.uint32(0), caller)


@njit
def before_fxrstor(env, address, caller):
    """What a store before it has to say is told before, not after. MXCSR has no bits that are reserved."""
    settle(env)
    if address & np.uint64(15) == np.uint64(0):
        try_load(env, address, _IMAGE, caller)
        check_mxcsr(env, load_long(env, address + np.uint64(_MXCSR), caller), caller)


#: Ours by the emulator's names.
ENVIRONMENT = {
    "helper_fldcw": _fldcw,
    "helper_fwait": _fwait,
    "helper_fnstsw": _fnstsw,
    "helper_fnstcw": _fnstcw,
    "helper_fstenv": _fnstenv,
    "helper_fsave": _fnsave,
}
#: The same, and then the emulator's own follow.
BEFORE = {
    "helper_fldenv": _before_fldenv,
    "helper_frstor": _before_frstor,
    "helper_fclex": _before_clearing,
    "helper_fninit": _before_clearing,
}
