"""How instructions are encoded, as far as bytes alone tell (SDM volume 2, chapter 2)."""

from __future__ import annotations

#: Legacy prefixes (SDM volume 2, 2.1.1).
_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")


def opcode_at(code: bytes) -> tuple[int, int]:
    """(where the opcode begins, behind all prefixes; the REX prefix right before it, or 0)."""
    position, rex = 0, 0
    while position < len(code) and (code[position] in _PREFIXES or code[position] & 0xF0 == 0x40):
        rex = code[position] if code[position] & 0xF0 == 0x40 else 0
        position += 1
    return position, rex


def is_vex(code: bytes) -> bool:
    """VEX or EVEX encoding (SDM volume 2, 2.3 and 2.7): 64-bit code has no LDS/LES/BOUND."""
    position = 0
    while position < len(code) - 1 and code[position] in (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x67):
        position += 1
    return code[position] in (0xC4, 0xC5, 0x62)


def is_narrow_branch(code: bytes) -> bool:
    """A near branch with an operand-size prefix and no REX.W: 16 bits wide to AMD and to the emulator (AMD64
    manual volume 3, CALL), of the usual width to Intel and to the decoder (SDM volume 2, CALL)."""
    position, rex = opcode_at(code)
    opcode, second = (*code[position : position + 2], 0, 0)[:2]
    # The decoder has the length of `ret imm16` wrong with REX.W too.
    if 0x66 not in code[:position] or (rex & 8 and opcode != 0xC2):
        return False
    if opcode == 0x0F:
        return second & 0xF0 == 0x80
    if opcode == 0xFF:
        return second >> 3 & 7 in (2, 4)
    return opcode in (0xC2, 0xC3, 0xE8, 0xE9, 0xEB) or opcode & 0xF0 == 0x70 or opcode & 0xFC == 0xE0


#: Shifts of packed integers by a number, by the last byte of their opcode: which there are by ModRM.reg
#: (SDM volume 2, table A-6, groups 12 to 14), and more of them behind 66.
_SHIFTS, _SHIFTS_OF_XMM = {0x71: 0x54, 0x72: 0x54, 0x73: 0x44}, {0x73: 0xCC}


def is_reserved_shift(code: bytes) -> bool:
    """0f 71, 0f 72 and 0f 73 of memory, or with a ModRM.reg that is none of theirs."""
    position, _ = opcode_at(code)
    if len(code) < position + 3 or code[position] != 0x0F or code[position + 1] not in _SHIFTS:
        return False
    opcode, modrm, there = code[position + 1], code[position + 2], _SHIFTS
    if 0x66 in code[:position]:
        there = _SHIFTS | _SHIFTS_OF_XMM
    return modrm >> 6 != 3 or not there[opcode] >> (modrm >> 3 & 7) & 1


def is_other_test(code: bytes) -> bool:
    """f6 and f7 with /1: `test`, as /0 is, to processors (AMD64 manual volume 3, table A-6, group 3); illegal
    to the emulator."""
    position, _ = opcode_at(code)
    group = code[position : position + 1] in (b"\xf6", b"\xf7") and len(code) > position + 1
    return group and code[position + 1] >> 3 & 7 == 1


def is_other_move(code: bytes) -> bool:
    """c6 and c7 with REX.R, of which a processor takes no notice: `mov` of a number; illegal to the
    emulator."""
    position, rex = opcode_at(code)
    moves = code[position : position + 1] in (b"\xc6", b"\xc7") and len(code) > position + 1
    return moves and bool(rex & 4) and code[position + 1] >> 3 & 7 == 0


def is_long_far_load(code: bytes) -> bool:
    """`lss`, `lfs` and `lgs` with REX.W: of 16:64 bits to Intel's processors (SDM volume 2), of 16:32 bits to
    AMD's and to the emulator."""
    position, rex = opcode_at(code)
    return bool(rex & 8) and code[position : position + 2] in (b"\x0f\xb2", b"\x0f\xb4", b"\x0f\xb5")


def is_pause_or_exchange(code: bytes) -> bool:
    """f3 90 with REX.B: `pause` to Intel's processors, `xchg` of r8 and rax to AMD's and to the emulator."""
    position, rex = opcode_at(code)
    return code[position : position + 1] == b"\x90" and bool(rex & 1) and 0xF3 in code[:position]


def is_not_offered(code: bytes) -> bool:
    """Instructions of newer or other processors that the emulator takes for none, or for another: `xbegin`,
    `xabort` (SDM volume 2); `extrq`, `insertq`, `movntss`, `movntsd` (AMD64 manual volume 4). No CPUID here
    offers them, so they are illegal."""
    position, _ = opcode_at(code)
    opcode, second = (*code[position : position + 2], 0, 0)[:2]
    if opcode in (0xC6, 0xC7):
        return second == 0xF8
    if opcode != 0x0F:
        return False
    repeated = 0xF2 in code[:position] or 0xF3 in code[:position]
    return second in (0x78, 0x79) or (second == 0x2B and repeated)


def is_wrongly_prefixed(code: bytes) -> bool:
    """0f ae, `movnti`, and `movlps` and its like with a prefix or an operand that they do not take (SDM
    volume 2: NP): illegal, or what no CPUID here offers (`incssp`, `umonitor`, `tpause`, `clwb`)."""
    position, _ = opcode_at(code)
    first, second, third = (*code[position : position + 3], 0, 0, 0)[:3]
    if first != 0x0F or second not in _PREFIXED or len(code) < position + 3:
        return False
    chosen = {0x66, 0xF2, 0xF3}.intersection(code[:position])
    if second in (0xAE, 0xC3):
        return bool(chosen)
    return third >> 6 == 3 and (second in (0x13, 0x17) or chosen == {0x66})


_PREFIXED = frozenset((0x12, 0x13, 0x16, 0x17, 0xAE, 0xC3))


def is_shift_beside_rip(code: bytes) -> bool:
    """`shld` and `shrd` by a number of an operand relative to rip: the emulator takes one a byte lower."""
    position, _ = opcode_at(code)
    shift = code[position : position + 2] in (b"\x0f\xa4", b"\x0f\xac")
    return shift and len(code) > position + 2 and code[position + 2] & 0xC7 == 0x05


def is_far_from_mmx(code: bytes) -> bool:
    """0f 38 and 0f 3a of MMX registers with REX.R, of which a processor takes no notice (SDM volume 2,
    2.2.1.2): the emulator writes past its registers."""
    position, rex = opcode_at(code)
    if code[position : position + 2] not in (b"\x0f\x38", b"\x0f\x3a") or not rex & 4:
        return False
    third = (*code[position + 2 : position + 3], 0)[0]
    of_mmx = third < 0x20 if code[position + 1] == 0x38 else third == 0x0F
    return of_mmx and {0x66, 0xF2, 0xF3}.isdisjoint(code[:position])


def is_odd_frame(code: bytes) -> bool:
    """`ret` that takes 32 KiB or more of arguments, which the emulator subtracts, and `enter` of 16 bits,
    after which it has changed all of rbp."""
    position, rex = opcode_at(code)
    opcode = code[position : position + 1]
    if opcode in (b"\xc2", b"\xca"):
        return code[position + 2 : position + 3] >= b"\x80"
    return opcode == b"\xc8" and 0x66 in code[:position] and not rex & 8


def settles_flags(code: bytes) -> bool:
    """`loope` and `loopne`: where the count is used up the emulator has not worked the flags out."""
    position, _ = opcode_at(code)
    return code[position : position + 1] in (b"\xe0", b"\xe1")


def is_of_low_byte(code: bytes) -> bool:
    """`lahf` and `sahf` with REX: the emulator takes SPL for AH."""
    position, rex = opcode_at(code)
    return rex != 0 and code[position : position + 1] in (b"\x9e", b"\x9f")


def is_other_pop(code: bytes) -> bool:
    """d9 d8 to d9 df: to processors an `fstp` that does not look whether its operand is there (FSTPNCE)."""
    position, _ = opcode_at(code)
    return code[position : position + 1] == b"\xd9" and code[position + 1 : position + 2] in _OTHER_POPS


_OTHER_POPS = tuple(bytes([byte]) for byte in range(0xD8, 0xE0))


#: Second bytes of opcodes of SSE and MMX; 0f 38 f0 and what follows are others.
_SSE = frozenset((*range(0x10, 0x18), *range(0x28, 0x30), *range(0x50, 0x80), 0xC2, *range(0xC4, 0xC7),
                  *range(0xD0, 0x100), 0x38, 0x3A))  # fmt: skip


def has_two_prefixes(code: bytes) -> bool:
    """An instruction of SSE, `popcnt` or `crc32` with two of the prefixes 66, f3 and f2. To a processor the
    last of f3 and f2 says which one it is (SDM volume 2, 2.1.2), to the emulator 66, or else f3; `popcnt` and
    `crc32` with both are illegal to it."""
    position, _ = opcode_at(code)
    if len({0x66, 0xF2, 0xF3}.intersection(code[:position])) < 2 or code[position : position + 1] != b"\x0f":
        return False
    second, third = (*code[position + 1 : position + 3], 0, 0)[:2]
    if second == 0x38 and third >= 0xF0:
        return {0xF2, 0xF3} <= set(code[:position])
    return second in _SSE or (second == 0xB8 and {0xF2, 0xF3} <= set(code[:position]))


def loses_its_segment(code: bytes) -> bool:
    """A prefix of fs or gs with one of es, cs, ss or ds behind it. To a processor those mean nothing in
    64-bit code (SDM volume 2, 2.1.1), to the emulator the last one counts."""
    prefixes = code[: opcode_at(code)[0]]
    last = max(prefixes.rfind(b"\x64"), prefixes.rfind(b"\x65"))
    return last >= 0 and any(byte in b"\x26\x2e\x36\x3e" for byte in prefixes[last:])


def _operand_length(code: bytes) -> int:
    """Length of the ModR/M byte that begins `code`, with SIB byte and displacement (SDM volume 2, 2.1.3)."""
    mode, base, length = code[0] >> 6, code[0] & 7, 1
    if mode == 3:
        return length
    if base == 4:
        base, length = (code[1] & 7 if len(code) > 1 else 0), 2
    if mode == 2 or (mode == 0 and base == 5):
        return length + 4
    return length + mode


def reserved_nop_length(code: bytes) -> int:
    """Length of a reserved no-operation, 0f 19 to 0f 1f with a ModR/M byte (SDM volume 2, table A-3), or 0.

    The decoder refuses some of their forms; the emulator executes them all.
    """
    position, _ = opcode_at(code)
    if len(code) < position + 3 or code[position] != 0x0F or not 0x19 <= code[position + 1] <= 0x1F:
        return 0
    if 0xF0 in code[:position]:
        return 0
    return position + 2 + _operand_length(code[position + 2 :])
