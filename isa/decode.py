"""Decoding and disassembly by Capstone; nothing else in the project touches Capstone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import capstone
from capstone import x86_const as x86

from isa.errors import GuestFault


@dataclass(frozen=True)
class Block:
    """A translated block, decoded.

    offsets: byte offset of every instruction. atomic: positions of those that are one indivisible access
    (`lock`, and `xchg` with memory: SDM volume 3, 8.1.2). helped: positions of those whose accesses the
    emulator makes in a helper, from which it cannot be stopped. ends_run: the last one transfers control, so
    that what follows it is another run of instructions. repeats: the last one is a repeated string
    instruction, which the emulator runs as a block of its own from its second iteration on. unsupported:
    offset of the first instruction that the emulator would compute wrongly, or -1, and its text.
    """

    offsets: tuple[int, ...]
    atomic: tuple[int, ...]
    helped: tuple[int, ...]
    ends_run: bool
    repeats: bool
    unsupported: int
    unsupported_text: str


@lru_cache(maxsize=1)
def _engine() -> capstone.Cs:
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    return engine


@lru_cache(maxsize=1)
def _printer() -> capstone.Cs:
    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


def _is_vex(code: bytes) -> bool:
    """VEX, EVEX or XOP encoding (SDM volume 2, 2.3 and 2.7): 64-bit code has no LDS/LES/BOUND."""
    position = 0
    while position < len(code) - 1 and code[position] in (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x67):
        position += 1
    return code[position] in (0xC4, 0xC5, 0x62) or (code[position] == 0x8F and code[position + 1] & 0x1F > 7)


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


def _is_atomic(instruction: capstone.CsInsn) -> bool:
    if instruction.prefix[0] == x86.X86_PREFIX_LOCK:
        return True
    return instruction.id == x86.X86_INS_XCHG and any(
        operand.type == x86.X86_OP_MEM for operand in instruction.operands
    )


@lru_cache(maxsize=65536)
def decode_block(code: bytes, address: int) -> Block:
    """Decode the bytes of one translated block.

    Bytes that Capstone cannot decode (an illegal instruction ends a block) count as one instruction.
    """
    offsets: list[int] = []
    atomic: list[int] = []
    helped: list[int] = []
    ends_run, repeats, unsupported, text, position = False, False, -1, "", 0
    while position < len(code):
        instruction = next(_engine().disasm(code[position:], address + position, 1), None)
        offsets.append(position)
        if instruction is None:
            ends_run = True
            break
        raw = bytes(instruction.bytes)
        if unsupported < 0 and _is_vex(raw):
            unsupported, text = position, f"{instruction.mnemonic} {instruction.op_str}".strip()
        if _is_atomic(instruction):
            atomic.append(len(offsets) - 1)
        if _is_helped(instruction):
            helped.append(len(offsets) - 1)
        groups = instruction.groups
        ends_run = any(
            group in groups
            for group in (x86.X86_GRP_JUMP, x86.X86_GRP_CALL, x86.X86_GRP_RET, x86.X86_GRP_IRET)
        )
        repeats = instruction.prefix[0] in (0xF2, 0xF3) and instruction.mnemonic.startswith("rep")
        position += instruction.size
    return Block(tuple(offsets), tuple(atomic), tuple(helped), ends_run, repeats, unsupported, text)


@lru_cache(maxsize=65536)
def disassemble(code: bytes, address: int) -> str:
    """Text of the instruction that starts `code`, or '(bad)'."""
    for _, _, mnemonic, operands in _printer().disasm_lite(code, address, 1):
        return f"{mnemonic} {operands}".strip()
    return "(bad)"


@dataclass(frozen=True)
class RandomRead:
    """An RDRAND or RDSEED: destination register's name, operand size and length, in bytes."""

    register: str
    size: int
    length: int


_FULL = {
    "ax": "rax", "bx": "rbx", "cx": "rcx", "dx": "rdx", "si": "rsi", "di": "rdi", "bp": "rbp", "sp": "rsp"
}  # fmt: skip


def decode_random_read(code: bytes, address: int) -> RandomRead | None:
    """RDRAND/RDSEED at the start of `code` (SDM volume 2, RDRAND), else None."""
    instruction = next(_engine().disasm(code, address, 1), None)
    if instruction is None or instruction.id not in (x86.X86_INS_RDRAND, x86.X86_INS_RDSEED):
        return None
    operand = instruction.operands[0]
    name = instruction.reg_name(operand.reg).lower()
    stem = name.lstrip("re") if name[-1] in "xipbs" and name.lstrip("re") in _FULL else name
    full = _FULL.get(stem) or "r" + "".join(c for c in name if c.isdigit())
    if full == "r":
        raise GuestFault("random-number instruction with an unknown register", found=name)
    return RandomRead(full, operand.size, instruction.size)
