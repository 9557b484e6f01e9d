"""Plain x86-64 instructions, as data: those of which only the length matters and whether they branch.

Four opcode maps (SDM volume 2, appendix A: one byte, 0f, 0f 38, 0f 3a) have a word of properties for each
opcode. 0: it may be special in some form (`isa.x86_64.decode.Block` says what is), or is rare, or is none: it
is left to the decoder.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from isa.x86_64.encoding import opcode_at

#: Legacy prefixes that may stand before the opcode: none, 66, f3, f2.
NO_PREFIX, P66, PF3, PF2 = 1, 2, 4, 8
#: MODRM: a ModR/M byte follows. IMM8, IMMZ: an immediate of 1 byte; of 4, with 66 of 2. CONTROL: a branch.
#: MEMORY, REGISTER: only if ModR/M names one. BARE: no prefix whatever. FULL: the immediate has 8 bytes with
#: REX.W. TEST: the immediate is there only with ModR/M's /0. INDIRECT: with /2 and /4 it is a branch. NO_REX:
#: without REX. NOP: a segment prefix does nothing.
MODRM, IMM8, IMMZ, CONTROL, MEMORY, REGISTER = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 9
BARE, FULL, TEST, INDIRECT, NO_REX, NOP = 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15
#: From this bit on: which of ModR/M's /0 to /7 are plain.
REG_SHIFT = 16
#: It may store where it has read, if ModR/M names memory.
REWRITES = 1 << 24
#: Only without REX.R.
NO_REX_R = 1 << 25

_WIDTHS = NO_PREFIX | P66
_SSE = NO_PREFIX | P66 | PF3 | PF2

Map = NDArray[np.uint32]


def _set(table: Map, opcodes: Iterable[int], properties: int, digits: Iterable[int] = range(8)) -> None:
    for opcode in opcodes:
        table[opcode] = properties | sum(1 << digit for digit in digits) << REG_SHIFT


def _one_byte() -> Map:
    table = np.zeros(256, np.uint32)
    for operation in range(0, 0x40, 8):
        _set(table, range(operation, operation + 4), _WIDTHS | MODRM)
        _set(table, [operation + 4], NO_PREFIX | IMM8)
        _set(table, [operation + 5], _WIDTHS | IMMZ)
    _set(table, range(0x50, 0x60), NO_PREFIX)
    _set(table, [0x63], NO_PREFIX | MODRM)
    _set(table, [0x68], NO_PREFIX | IMMZ)
    _set(table, [0x69], _WIDTHS | MODRM | IMMZ)
    _set(table, [0x6A], NO_PREFIX | IMM8)
    _set(table, [0x6B], _WIDTHS | MODRM | IMM8)
    _set(table, range(0x70, 0x80), NO_PREFIX | IMM8 | CONTROL | BARE)
    _set(table, [0x80, 0x83], _WIDTHS | MODRM | IMM8)
    _set(table, [0x81], _WIDTHS | MODRM | IMMZ)
    _set(table, [0x84, 0x85, 0x88, 0x89, 0x8A, 0x8B], _WIDTHS | MODRM)
    # With memory it is atomic.
    _set(table, [0x86, 0x87], _WIDTHS | MODRM | REGISTER)
    _set(table, [0x8D], _WIDTHS | MODRM | MEMORY)
    # nop; with f3 pause.
    _set(table, [0x90], _WIDTHS | PF3 | NO_REX)
    _set(table, [0x98, 0x99], _WIDTHS)
    _set(table, [0xA8], NO_PREFIX | IMM8)
    _set(table, [0xA9], _WIDTHS | IMMZ)
    _set(table, range(0xB0, 0xB8), NO_PREFIX | IMM8)
    _set(table, range(0xB8, 0xC0), _WIDTHS | IMMZ | FULL)
    _set(table, [0xC0, 0xC1], _WIDTHS | MODRM | IMM8, (0, 1, 4, 5, 7))
    _set(table, range(0xD0, 0xD4), _WIDTHS | MODRM, (0, 1, 4, 5, 7))
    _set(table, [0xC3], NO_PREFIX | CONTROL | BARE)
    _set(table, [0xC6], NO_PREFIX | MODRM | IMM8 | NO_REX_R, [0])
    _set(table, [0xC7], _WIDTHS | MODRM | IMMZ | NO_REX_R, [0])
    _set(table, [0xC9, 0xF5, 0xF8, 0xF9, 0xFC, 0xFD], NO_PREFIX | BARE)
    _set(table, [0xE8, 0xE9], NO_PREFIX | IMMZ | CONTROL | BARE)
    _set(table, [0xEB], NO_PREFIX | IMM8 | CONTROL | BARE)
    _set(table, [0xF6], NO_PREFIX | MODRM | IMM8 | TEST, (0, 2, 3, 4, 5, 6, 7))
    _set(table, [0xF7], _WIDTHS | MODRM | IMMZ | TEST, (0, 2, 3, 4, 5, 6, 7))
    _set(table, [0xFE], NO_PREFIX | MODRM, (0, 1))
    _set(table, [0xFF], NO_PREFIX | MODRM | INDIRECT, (0, 1, 2, 4, 6))
    operations = [k for k in range(0x38) if k % 8 < 2]
    groups = [0x80, 0x81, 0x83, 0x8F, 0xC0, 0xC1, *range(0xD0, 0xD4), 0xF6, 0xF7, 0xFE, 0xFF]
    table[[*operations, 0x86, 0x87, *groups]] |= REWRITES
    return table


def _two_bytes() -> Map:
    table = np.zeros(256, np.uint32)
    _set(table, [0x10, 0x11, 0x51, 0x58, 0x59, 0x5A, 0x5C, 0x5D, 0x5E, 0x5F], _SSE | MODRM)
    _set(table, [0x12, 0x16], NO_PREFIX | MODRM)
    _set(table, [0x13, 0x17], _WIDTHS | MODRM | MEMORY)
    _set(table, [0x14, 0x15, 0x28, 0x29, 0x2E, 0x2F, 0x54, 0x55, 0x56, 0x57], _WIDTHS | MODRM)
    # endbr64 only: its ModR/M byte is looked at.
    _set(table, [0x1E], PF3 | MODRM | REGISTER | NO_REX, [7])
    _set(table, [0x1F], _WIDTHS | MODRM | MEMORY | NOP, [0])
    _set(table, [0x2A, 0x2C, 0x2D], PF3 | PF2 | MODRM)
    _set(table, [0x2B], _WIDTHS | MODRM | MEMORY)
    _set(table, range(0x40, 0x50), _WIDTHS | MODRM)
    _set(table, [0x50], _WIDTHS | MODRM | REGISTER)
    _set(table, [0x52, 0x53], NO_PREFIX | PF3 | MODRM)
    _set(table, [0x5B], NO_PREFIX | P66 | PF3 | MODRM)
    _set(table, [*range(0x60, 0x6F), 0x74, 0x75, 0x76, 0xD6], P66 | MODRM)
    _set(table, [0x6F, 0x7F], P66 | PF3 | MODRM)
    _set(table, [0x70], P66 | PF3 | PF2 | MODRM | IMM8)
    _set(table, [0x71, 0x72], P66 | MODRM | IMM8 | REGISTER, (2, 4, 6))
    _set(table, [0x73], P66 | MODRM | IMM8 | REGISTER, (2, 3, 6, 7))
    _set(table, [0x7E], P66 | PF3 | MODRM)
    _set(table, range(0x80, 0x90), NO_PREFIX | IMMZ | CONTROL | BARE)
    _set(table, range(0x90, 0xA0), NO_PREFIX | MODRM)
    _set(table, [0xA3, 0xA5, 0xAB, 0xAD, 0xAF, 0xB1, 0xB3, 0xBB, 0xBC, 0xBD, 0xC1], _WIDTHS | MODRM)
    # Of memory it may be relative to rip.
    _set(table, [0xA4, 0xAC], _WIDTHS | MODRM | IMM8 | REGISTER)
    _set(table, [0xB0, 0xC0], NO_PREFIX | MODRM)
    _set(table, [0xB6, 0xB7, 0xBE, 0xBF], _WIDTHS | MODRM)
    _set(table, [0xB8], PF3 | MODRM)
    _set(table, [0xBA], _WIDTHS | MODRM | IMM8, (4, 5, 6, 7))
    _set(table, [0xC3], NO_PREFIX | MODRM | MEMORY)
    _set(table, [0xC4], P66 | MODRM | IMM8)
    _set(table, [0xC5], P66 | MODRM | IMM8 | REGISTER)
    _set(table, [0xC6], _WIDTHS | MODRM | IMM8)
    _set(table, range(0xC8, 0xD0), NO_PREFIX)
    integer = [*range(0xD1, 0xD6), *range(0xD8, 0xE6), *range(0xE8, 0xF0), *range(0xF1, 0xF7)]
    _set(table, [*integer, *range(0xF8, 0xFF)], P66 | MODRM)
    _set(table, [0xD7], P66 | MODRM | REGISTER)
    _set(table, [0xE6], P66 | PF3 | PF2 | MODRM)
    _set(table, [0xE7], P66 | MODRM | MEMORY)
    table[[0xA4, 0xA5, 0xAB, 0xAC, 0xAD, 0xB0, 0xB1, 0xB3, 0xBA, 0xBB, 0xC0, 0xC1, 0xC7]] |= REWRITES
    return table


def _three_bytes() -> tuple[Map, Map]:
    """0f 38 and 0f 3a: SSSE3 and SSE4 on XMM registers."""
    first, second = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    _set(first, [*range(0x0C), 0x10, 0x14, 0x15, 0x17, 0x1C, 0x1D, 0x1E], P66 | MODRM)
    _set(first, [*range(0x20, 0x26), 0x28, 0x29, 0x2B, *range(0x30, 0x36), *range(0x37, 0x42)], P66 | MODRM)
    _set(second, [*range(0x08, 0x10), *range(0x40, 0x43), *range(0x60, 0x64)], P66 | MODRM | IMM8)
    _set(second, [*range(0x14, 0x18), *range(0x20, 0x23)], P66 | MODRM | IMM8)
    return first, second


ONE_BYTE, TWO_BYTES = _one_byte(), _two_bytes()
THREE_BYTES_38, THREE_BYTES_3A = _three_bytes()


def rewrites(code: bytes) -> bool:
    """Whether the instruction at the start of `code` may store where it has read: with a ModR/M operand in
    memory, or as `movs` does."""
    position, _ = opcode_at(code)
    opcode, second, third = (*code[position : position + 3], 0, 0, 0)[:3]
    if opcode == 0x0F:
        return bool(TWO_BYTES[second] & REWRITES) and third >> 6 != 3
    return opcode in (0xA4, 0xA5) or (bool(ONE_BYTE[opcode] & REWRITES) and second >> 6 != 3)
