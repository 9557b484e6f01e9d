"""Decoding blocks of plain instructions natively; all others are for `isa.x86_64.decode`, with the same
result."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.code.blocks import REWRITES as STORED
from emu.native.unicorn import PLAIN_BLOCK, hook, peek8, pointer
from isa.x86_64.plain import (
    BARE,
    CONTROL,
    FULL,
    IMM8,
    IMMZ,
    INDIRECT,
    MEMORY,
    MODRM,
    NO_PREFIX,
    NO_REX,
    NO_REX_R,
    NOP,
    ONE_BYTE,
    P66,
    PF2,
    PF3,
    REG_SHIFT,
    REGISTER,
    REWRITES,
    TEST,
    THREE_BYTES_3A,
    THREE_BYTES_38,
    TWO_BYTES,
)

#: Bytes of an instruction at most (SDM volume 2, 2.3.11).
_LONGEST = 15
#: ModR/M of endbr64, the only plain one of 0f 1e.
_ENDBR64 = 0xFA
_ZERO, _ONE, _TWO = np.int64(0), np.uint64(1), np.uint64(2)
_NOTHING = np.uint16(0)


@njit(cache=True)
def _operand_length(at, left):
    """Length of the ModR/M byte at the address `at` (uint64), with SIB byte and displacement (SDM volume 2,
    2.1.3). left: bytes that may be looked at, at least 1."""
    modrm = np.int64(peek8(at))
    mode, base, length = modrm >> 6, modrm & 7, 1
    if mode == 3:
        return length
    if base == 4:
        if left < 2:
            return 2
        base, length = np.int64(peek8(at + np.uint64(1))) & 7, 2
    if mode == 2 or (mode == 0 and base == 5):
        return length + 4
    return length + mode


@njit(cache=True)
def _prefixes(at, left):
    """(bytes of prefixes, P66 or PF3 or PF2 or 0, segments, REX or 0) of the instruction at `at`; -1 bytes:
    too many, or some that change each other. segments: 1 for fs, 2 for cs."""
    position, width, repeat, segments = 0, 0, 0, 0
    while position < left:
        byte = np.int64(peek8(at + np.uint64(position)))
        if byte == 0x66:
            width = P66
        elif byte in (0xF2, 0xF3):
            kind = PF2 if byte == 0xF2 else PF3
            if repeat not in (0, kind):
                return -1, 0, 0, 0
            repeat = kind
        elif byte in (0x64, 0x2E):
            segments |= 1 if byte == 0x64 else 2
        elif width != 0 and repeat != 0:
            return -1, 0, 0, 0
        elif byte & 0xF0 == 0x40:
            return position + 1, width | repeat, segments, byte
        else:
            return position, width | repeat, segments, 0
        position += 1
    return -1, 0, 0, 0


@njit(cache=True)
def _opcode(at, left):
    """(bytes of the opcode at `at`, its properties). left: at least 1."""
    first = np.int64(peek8(at))
    if first != 0x0F:
        return 1, np.int64(ONE_BYTE[first])
    if left < 2:
        return 1, _ZERO
    # Where there is no third byte the length tells, or none is needed (`bswap`).
    second, third = np.int64(peek8(at + _ONE)), np.int64(peek8(at + _TWO)) if left > 2 else _ZERO
    if second == 0x38:
        return 3, np.int64(THREE_BYTES_38[third])
    if second == 0x3A:
        return 3, np.int64(THREE_BYTES_3A[third])
    if second == 0x1E and third != _ENDBR64:
        return 2, _ZERO
    return 2, np.int64(TWO_BYTES[second])


@njit(cache=True)
def _has_plain_operand(properties, modrm, fs):
    """Whether ModR/M names what the opcode takes. fs: there is a segment prefix, which needs memory."""
    register = modrm >> 6 == 3
    if properties >> REG_SHIFT >> (modrm >> 3 & 7) & 1 == 0 or (fs and register):
        return False
    return properties & (MEMORY if register else REGISTER) == 0


@njit(cache=True)
def _immediate_length(properties, wide, narrow):
    if properties & IMM8 != 0:
        return 1
    if properties & FULL != 0 and wide:
        return 8
    return 2 if narrow else 4


@njit(cache=True)
def plain_instruction(at, left):
    """(length of the instruction at the host address `at` (uint64), whether it may store where it has read).
    left: bytes that may be looked at. Length 0 unless it is plain and lies within them. A branch's is
    negative."""
    left, stored = min(left, _LONGEST), False
    start, prefix, segments, rex = _prefixes(at, left)
    if start < 0 or start >= left:
        return 0, False
    length, properties = _opcode(at + np.uint64(start), left - start)
    position, wide = start + length, rex & 8 != 0
    if properties & (prefix if prefix != 0 else NO_PREFIX) == 0:
        return 0, False
    if (properties & BARE != 0 and start != 0) or (properties & NO_REX != 0 and rex != 0):
        return 0, False
    if properties & NO_REX_R != 0 and rex & 4 != 0:
        return 0, False
    # A segment of cs is only in long forms of nop.
    if (segments & 2 != 0 and properties & NOP == 0) or (wide and prefix == P66 and properties & IMMZ != 0):
        return 0, False
    control, immediate = properties & CONTROL != 0, properties & (IMM8 | IMMZ) != 0
    if properties & MODRM != 0:
        if position >= left:
            return 0, False
        modrm = np.int64(peek8(at + np.uint64(position)))
        if not _has_plain_operand(properties, modrm, segments & 1 != 0):
            return 0, False
        if properties & INDIRECT != 0:
            control = modrm >> 3 & 7 in (2, 4)
        stored = properties & REWRITES != 0 and modrm >> 6 != 3
        if properties & TEST != 0:
            immediate = modrm >> 3 & 7 == 0
        position += _operand_length(at + np.uint64(position), left - position)
    elif segments != 0:
        return 0, False
    if immediate:
        position += _immediate_length(properties, wide, prefix == P66)
    if position > left:
        return 0, False
    return -position if control else position, stored


@njit(cache=True)
def plain_block(code, size, offsets):
    """Decode the `size` bytes of a translated block at the host address `code` (uint64) into `offsets`, the
    address of uint16[size] (`emu.code.blocks.REWRITES` where it applies). Returns how many instructions it
    has, negative if the last one is a branch; 0 unless all are plain."""
    out = carray(pointer(offsets), size, np.uint16)
    position, n, length = 0, 0, 0
    while position < size:
        length, stored = plain_instruction(code + np.uint64(position), size - position)
        if length == 0:
            return 0
        out[n] = np.uint16(position) | (STORED if stored else _NOTHING)
        position += abs(length)
        n += 1
    return -n if length < 0 else n


@hook(PLAIN_BLOCK)
def decode_plain_block(code, size, offsets):
    return plain_block(code, size, offsets)
