"""Decoding and disassembly by Capstone; nothing else in the project touches Capstone."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import capstone
from capstone import x86_const as x86

from corebraid.base.errors import GuestFault
from isa.decoded import Block, RandomRead


@lru_cache(maxsize=1)
def _engine() -> capstone.Cs:
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    return engine


@lru_cache(maxsize=1)
def _printer() -> capstone.Cs:
    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


#: Legacy prefixes (SDM volume 2, 2.1.1).
_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")


def _opcode_at(code: bytes) -> tuple[int, int]:
    """(where the opcode begins, behind all prefixes; the REX prefix right before it, or 0)."""
    position, rex = 0, 0
    while position < len(code) and (code[position] in _PREFIXES or code[position] & 0xF0 == 0x40):
        rex = code[position] if code[position] & 0xF0 == 0x40 else 0
        position += 1
    return position, rex


def _is_vex(code: bytes) -> bool:
    """VEX, EVEX or XOP encoding (SDM volume 2, 2.3 and 2.7): 64-bit code has no LDS/LES/BOUND."""
    position = 0
    while position < len(code) - 1 and code[position] in (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x67):
        position += 1
    return code[position] in (0xC4, 0xC5, 0x62) or (code[position] == 0x8F and code[position + 1] & 0x1F > 7)


def _is_narrow_branch(code: bytes) -> bool:
    """A near branch with an operand-size prefix and no REX.W: 16 bits wide to AMD and to the emulator (AMD64
    manual volume 3, CALL), of the usual width to Intel and to the decoder (SDM volume 2, CALL)."""
    position, rex = _opcode_at(code)
    opcode, second = (*code[position : position + 2], 0, 0)[:2]
    # The decoder has the length of `ret imm16` wrong with REX.W too.
    if 0x66 not in code[:position] or (rex & 8 and opcode != 0xC2):
        return False
    if opcode == 0x0F:
        return second & 0xF0 == 0x80
    if opcode == 0xFF:
        return second >> 3 & 7 in (2, 4)
    return opcode in (0xC2, 0xC3, 0xE8, 0xE9, 0xEB) or opcode & 0xF0 == 0x70 or opcode & 0xFC == 0xE0


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


def _reserved_nop_length(code: bytes) -> int:
    """Length of a reserved no-operation, 0f 19 to 0f 1f with a ModR/M byte (SDM volume 2, table A-3), or 0.

    The decoder refuses some of their forms; the emulator executes them all.
    """
    position, _ = _opcode_at(code)
    if len(code) < position + 3 or code[position] != 0x0F or not 0x19 <= code[position + 1] <= 0x1F:
        return 0
    if 0xF0 in code[:position]:
        return 0
    return position + 2 + _operand_length(code[position + 2 :])


#: Instructions whose memory accesses QEMU 5's x86 translator leaves to helper functions.
_HELPED = frozenset(
    getattr(x86, f"X86_INS_{name}")
    for name in (
        "FBLD", "FBSTP", "FLDENV", "FNSTENV", "FNSAVE", "FRSTOR", "FXSAVE", "FXSAVE64", "FXRSTOR",
        "FXRSTOR64", "XSAVE", "XSAVE64", "XSAVEOPT", "XSAVEOPT64", "XRSTOR", "XRSTOR64", "CMPXCHG8B",
        "CMPXCHG16B", "MASKMOVQ", "MASKMOVDQU", "ENTER",
    )
)  # fmt: skip


def _is_helped(instruction: capstone.CsInsn) -> bool:
    if instruction.id in _HELPED:
        return True
    if instruction.id not in (x86.X86_INS_FLD, x86.X86_INS_FSTP):
        return False
    return any(o.type == x86.X86_OP_MEM and o.size == 10 for o in instruction.operands)


#: `mfence`, and the serializing instructions (SDM volume 3, 9.3).
_FENCES = frozenset(
    getattr(x86, f"X86_INS_{name}")
    for name in (
        "MFENCE", "CPUID", "IRET", "IRETD", "IRETQ", "INVD", "WBINVD", "INVLPG", "LGDT", "LIDT", "LLDT",
        "LTR", "WRMSR", "RSM",
    )
)  # fmt: skip
_PAIRS = (x86.X86_INS_CMPXCHG8B, x86.X86_INS_CMPXCHG16B)


def _is_nested_enter(instruction: capstone.CsInsn) -> bool:
    return instruction.id == x86.X86_INS_ENTER and instruction.operands[1].imm & 31 != 0


def _is_locked_bit_test(code: bytes) -> bool:
    """`lock` before bt, bts, btr or btc of registers, which is illegal (SDM volume 2, LOCK)."""
    position, _ = _opcode_at(code)
    opcode, modrm = code[position : position + 2], code[position + 2 : position + 3]
    if 0xF0 not in code[:position] or modrm < b"\xc0":
        return False
    bit_tests = (b"\x0f\xa3", b"\x0f\xab", b"\x0f\xb3", b"\x0f\xbb")
    return opcode in bit_tests or (opcode == b"\x0f\xba" and modrm[0] >> 3 & 7 >= 4)


def _is_reserved_comparison(code: bytes, size: int) -> bool:
    """`cmpps` and its like with more than 3 bits of an immediate byte, of which a processor takes no notice
    (SDM volume 2, CMPPS: reserved), and which are illegal to the emulator."""
    position, _ = _opcode_at(code)
    return code[position : position + 2] == b"\x0f\xc2" and code[size - 1] > 7


def _computed_wrongly(code: bytes, size: int) -> bool:
    """Whether the emulator would do otherwise than the processor. size: the instruction's, 0: none known."""
    if size and (_is_vex(code) or _is_reserved_comparison(code, size)):
        return True
    return _is_narrow_branch(code) or _is_locked_bit_test(code)


def _is_atomic(instruction: capstone.CsInsn) -> bool:
    if instruction.prefix[0] == x86.X86_PREFIX_LOCK:
        return True
    return instruction.id == x86.X86_INS_XCHG and any(
        operand.type == x86.X86_OP_MEM for operand in instruction.operands
    )


#: Instructions that fault outside ring 0 (SDM volume 3, 5.9), or with I/O privilege level 0 (18.5.1).
_PRIVILEGED = frozenset(
    getattr(x86, f"X86_INS_{name}")
    for name in (
        "HLT", "CLI", "STI", "IN", "INSB", "INSW", "INSD", "OUT", "OUTSB", "OUTSW", "OUTSD", "LGDT", "LIDT",
        "LLDT", "LTR", "LMSW", "CLTS", "INVD", "WBINVD", "INVLPG", "INVPCID", "RDMSR", "WRMSR", "RDPMC",
        "SYSRET", "SYSEXIT", "SWAPGS", "XSETBV", "MONITOR", "MWAIT",
    )
)  # fmt: skip
_SYSTEM_REGISTERS = ("cr", "dr")


def _is_privileged(instruction: capstone.CsInsn) -> bool:
    if instruction.id in _PRIVILEGED:
        return True
    if instruction.id != x86.X86_INS_MOV:
        return False
    names = [instruction.reg_name(o.reg) for o in instruction.operands if o.type == x86.X86_OP_REG]
    return any(name[:2] in _SYSTEM_REGISTERS for name in names)


def _is_x87(mnemonic: str) -> bool:
    return mnemonic[0] == "f" and mnemonic not in ("fxsave", "fxsave64", "fxrstor", "fxrstor64")


def decode_in_detail(code: bytes, address: int) -> Block:
    """What `decode_block` gives, from every instruction's details; slow."""
    offsets: list[int] = []
    atomic: list[int] = []
    helped: list[int] = []
    pairs: list[int] = []
    fences: list[int] = []
    privileged: list[int] = []
    ends_run, repeats, nested, coprocessor, position = False, False, False, False, 0
    unsupported, text, unknown = -1, "", -1
    while position < len(code):
        instruction = next(_engine().disasm(code[position:], address + position, 1), None)
        offsets.append(position)
        rest = code[position:]
        if unsupported < 0 and _computed_wrongly(rest, instruction.size if instruction else 0):
            unsupported = position
            shown = rest[: instruction.size if instruction else 15]
            text = f"{shown.hex(' ')} {disassemble(shown, address + position)}"
        if instruction is None:
            ends_run = repeats = False
            length = _reserved_nop_length(rest)
            if length:
                position += length
                continue
            ends_run, unknown = True, position
            break
        if _is_atomic(instruction):
            atomic.append(len(offsets) - 1)
        if _is_helped(instruction):
            helped.append(len(offsets) - 1)
        if instruction.id in _PAIRS:
            pairs.append(position)
        if instruction.id in _FENCES:
            fences.append(position)
        if _is_privileged(instruction):
            privileged.append(position)
        nested = nested or _is_nested_enter(instruction)
        coprocessor = coprocessor or _is_x87(instruction.mnemonic)
        groups = instruction.groups
        ends_run = any(
            group in groups
            for group in (x86.X86_GRP_JUMP, x86.X86_GRP_CALL, x86.X86_GRP_RET, x86.X86_GRP_IRET)
        )
        repeats = instruction.prefix[0] in (0xF2, 0xF3) and instruction.mnemonic.startswith("rep")
        position += instruction.size
    return Block(
        tuple(offsets), tuple(atomic), tuple(helped), ends_run, repeats, nested, tuple(pairs),
        tuple(fences), tuple(privileged), unsupported, text, unknown, coprocessor,
    )  # fmt: skip


@lru_cache(maxsize=65536)
def decode_block(code: bytes, address: int) -> Block:
    """Decode the bytes of one translated block.

    Bytes that Capstone cannot decode count as one instruction, the last: an illegal instruction ends a
    block. Whether they are one, only the emulator knows (`Block.unknown`).
    """
    return _decode_plain(code, address) or decode_in_detail(code, address)


#: Of an instruction, by its mnemonic: nothing special; it transfers control; only its details tell.
_PLAIN, _CONTROL, _DETAIL = 0, 1, 2
_SPECIAL = frozenset(
    (
        "bound", "clts", "cmppd", "cmpps", "cmpsd", "cmpss", "cmpxchg16b", "cmpxchg8b", "cpuid",
        "enter", "fbld", "fbstp", "fld", "fldenv",
        "fnsave", "fnstenv", "frstor", "fstp", "fxrstor", "fxrstor64", "fxsave", "fxsave64", "hlt", "cli",
        "sti", "in", "invd", "invlpg", "invpcid", "jcxz", "jecxz", "jrcxz", "lgdt", "lidt", "lldt", "lmsw",
        "ltr", "maskmovdqu", "maskmovq", "mfence", "monitor", "mwait", "rdmsr", "rdpmc", "rsm", "swapgs",
        "wbinvd", "wrmsr", "xabort", "xbegin", "xchg", "xend", "xsetbv",
    )
)  # fmt: skip
_SPECIAL_BEGINNINGS = (
    "int", "iret", "lcall", "ljmp", "lock", "loop", "out", "ins", "rep", "retf", "sys", "ud", "v", "xrstor",
    "xsave",
)  # fmt: skip
_SEGMENTS = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x67")
_VEX_BEGINNINGS = frozenset(b"\xc4\xc5\x62\x8f")


@lru_cache(maxsize=4096)
def _kind_of(mnemonic: str) -> int:
    if " " in mnemonic or mnemonic in _SPECIAL or mnemonic.startswith(_SPECIAL_BEGINNINGS):
        return _DETAIL
    return _CONTROL if mnemonic[0] == "j" or mnemonic in ("call", "ret") else _PLAIN


def _decode_plain(code: bytes, address: int) -> Block | None:
    """A block in which nothing is special, as nearly all are; None of another."""
    offsets, position, kind, coprocessor = [], 0, _PLAIN, False
    for _, size, mnemonic, operands in _printer().disasm_lite(code, address):
        kind = _kind_of(mnemonic)
        first = code[position]
        if first in _SEGMENTS:
            first = next((byte for byte in code[position : position + size] if byte not in _SEGMENTS), 0)
        if (
            kind == _DETAIL
            or first in _VEX_BEGINNINGS
            or (kind == _CONTROL and 0x66 in code[position : position + 4])
        ):
            return None
        if mnemonic == "mov" and any(name in operands for name in _SYSTEM_REGISTERS):
            return None
        coprocessor = coprocessor or _is_x87(mnemonic)
        offsets.append(position)
        position += size
    if position != len(code):
        return None
    return Block(tuple(offsets), (), (), kind == _CONTROL, False, False, (), (), (), -1, "", -1, coprocessor)


@lru_cache(maxsize=65536)
def disassemble(code: bytes, address: int) -> str:
    """Text of the instruction that starts `code`, or '(bad)'."""
    for _, _, mnemonic, operands in _printer().disasm_lite(code, address, 1):
        return f"{mnemonic} {operands}".strip()
    return "(bad)"


_FULL = {
    "ax": "rax", "bx": "rbx", "cx": "rcx", "dx": "rdx", "si": "rsi", "di": "rdi", "bp": "rbp", "sp": "rsp"
}  # fmt: skip


#: OF, SF, ZF, AF, PF and CF; CF.
_ARITHMETIC_FLAGS, _CARRY = 0x8D5, 1


def decode_random_read(code: bytes, address: int) -> RandomRead | None:
    """RDRAND/RDSEED at the start of `code` (SDM volume 2, RDRAND), else None. CF is set; OF, SF, ZF, AF and
    PF are cleared."""
    instruction = next(_engine().disasm(code, address, 1), None)
    if instruction is None or instruction.id not in (x86.X86_INS_RDRAND, x86.X86_INS_RDSEED):
        return None
    operand = instruction.operands[0]
    name = instruction.reg_name(operand.reg).lower()
    stem = name.lstrip("re") if name[-1] in "xipbs" and name.lstrip("re") in _FULL else name
    full = _FULL.get(stem) or "r" + "".join(c for c in name if c.isdigit())
    if full == "r":
        raise GuestFault("random-number instruction with an unknown register", found=name)
    # A 32-bit destination clears the upper half; a 16-bit one keeps the rest (SDM volume 1, 3.4.1.1).
    kept = ~0xFFFF if operand.size == 2 else 0
    return RandomRead(full, operand.size, instruction.size, kept, (~_ARITHMETIC_FLAGS, _CARRY))


def accessed_addresses(code: bytes, address: int, read: Callable[[str], int]) -> list[int]:
    """Where the instruction that begins `code` may access memory, by its operands; read: a register by its
    name in the ISA's table. An implicit stack access is at the stack pointer, and 8 below it."""
    instruction = next(_engine().disasm(code, address, 1), None)
    if instruction is None:
        return []
    found = []
    for operand in instruction.operands:
        if operand.type != x86.X86_OP_MEM:
            continue
        place, memory = operand.mem.disp, operand.mem
        for register, scale in ((memory.base, 1), (memory.index, memory.scale)):
            if register in (x86.X86_REG_RIP, x86.X86_REG_EIP):
                place += address + instruction.size
            elif register != x86.X86_REG_INVALID:
                place += _register_value(instruction.reg_name(register), read) * scale
        if memory.segment in (x86.X86_REG_FS, x86.X86_REG_GS):
            place += read("fs_base" if memory.segment == x86.X86_REG_FS else "gs_base")
        found.append(place & (1 << 64) - 1)
    stack = read("rsp")
    return [*found, stack, stack - 8 & (1 << 64) - 1]


def _register_value(name: str, read: Callable[[str], int]) -> int:
    """A general register, whole or its low half."""
    if name[0] == "e":
        return read("r" + name[1:]) & 0xFFFFFFFF
    if name[-1] == "d" and name[0] == "r":
        return read(name[:-1]) & 0xFFFFFFFF
    return read(name)
