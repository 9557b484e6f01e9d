"""Decoding and disassembly by Capstone; nothing else in the project touches Capstone."""

from __future__ import annotations

from functools import lru_cache

import capstone
from capstone import x86_const as x86

from corebraid.base.errors import GuestFault
from isa.decoded import Block, RandomRead
from isa.x86_64.encoding import (
    has_two_prefixes,
    is_far_from_mmx,
    is_long_far_load,
    is_narrow_branch,
    is_not_offered,
    is_odd_frame,
    is_of_low_byte,
    is_other_move,
    is_other_pop,
    is_other_test,
    is_pause_or_exchange,
    is_reserved_shift,
    is_shift_beside_rip,
    is_vex,
    is_wrongly_prefixed,
    loses_its_segment,
    opcode_at,
    reserved_nop_length,
    settles_flags,
)
from isa.x86_64.plain import rewrites


@lru_cache(maxsize=1)
def _engine() -> capstone.Cs:
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    return engine


@lru_cache(maxsize=1)
def _printer() -> capstone.Cs:
    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


def detailed(code: bytes, address: int) -> capstone.CsInsn | None:
    """The instruction that begins `code`, with all that Capstone knows of it."""
    return next(_engine().disasm(code, address, 1), None)


#: Instructions whose memory accesses QEMU 5's x86 translator leaves to helper functions.
_HELPED = frozenset(
    getattr(x86, f"X86_INS_{name}")
    for name in (
        "FBLD", "FBSTP", "FLDENV", "FNSTENV", "FNSAVE", "FRSTOR", "FXSAVE", "FXSAVE64", "FXRSTOR",
        "FXRSTOR64", "XSAVE", "XSAVE64", "XSAVEOPT", "XSAVEOPT64", "XRSTOR", "XRSTOR64", "CMPXCHG8B",
        "CMPXCHG16B", "MASKMOVQ", "MASKMOVDQU", "ENTER",
    )
)  # fmt: skip


#: They have changed the carry flag before they store.
_ROTATED_WITH_CARRY = (x86.X86_INS_RCL, x86.X86_INS_RCR)


def _is_helped(instruction: capstone.CsInsn) -> bool:
    if instruction.id in _HELPED:
        return True
    if instruction.id in _ROTATED_WITH_CARRY and instruction.operands[0].type == x86.X86_OP_MEM:
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


def is_enter(instruction: capstone.CsInsn) -> bool:
    """Whether it makes a frame."""
    made: bool = instruction.id == x86.X86_INS_ENTER
    return made


#: What `lock` may stand before, if it writes memory (SDM volume 2, LOCK).
_LOCKABLE = frozenset(
    (
        "add", "adc", "and", "btc", "btr", "bts", "cmpxchg", "cmpxchg8b", "cmpxchg16b", "dec", "inc", "neg",
        "not", "or", "sbb", "sub", "xor", "xadd", "xchg",
    )
)  # fmt: skip


def _is_wrongly_locked(code: bytes, instruction: capstone.CsInsn | None) -> bool:
    """`lock` before anything else, which is illegal; the emulator takes no notice of some of these."""
    position, _ = opcode_at(code)
    if 0xF0 not in code[:position]:
        return False
    if instruction is None:
        # The decoder refuses what is locked; without, it must be an instruction.
        bare = bytes(byte for byte in code[:position] if byte != 0xF0) + code[position:]
        return detailed(bare, 0) is not None
    places = instruction.operands if instruction.id == x86.X86_INS_XCHG else instruction.operands[:1]
    written = any(operand.type == x86.X86_OP_MEM for operand in places)
    return instruction.mnemonic.split()[-1] not in _LOCKABLE or not written


def _is_reserved_pop(code: bytes) -> bool:
    """8f with anything but /0 (SDM volume 2, table A-6, group 1A): to processors with XOP, which no CPUID
    here offers, an instruction of that."""
    position, _ = opcode_at(code)
    return (
        code[position : position + 1] == b"\x8f"
        and code[position + 1 : position + 2] > b"\0"
        and (code[position + 1] >> 3 & 7 != 0)
    )


#: Bytes of an instruction at most (SDM volume 2, 2.3.11).
_LONGEST = 15


def _is_too_long(code: bytes) -> bool:
    """An instruction with so many prefixes, which is a general-protection fault."""
    position, _ = opcode_at(code)
    if position >= _LONGEST:
        return True
    bare = next((found for k in range(1, position + 1) if (found := detailed(code[k:], k))), None)
    return bare is not None and bare.address + bare.size > _LONGEST


def _is_illegal(code: bytes, instruction: capstone.CsInsn | None) -> bool:
    """Whether the processor refuses what the emulator would run, or the decoder cannot read."""
    of_bytes = _is_reserved_pop(code) or is_reserved_shift(code) or is_not_offered(code)
    return of_bytes or is_wrongly_prefixed(code) or _is_wrongly_locked(code, instruction)


def _is_reserved_comparison(code: bytes, size: int) -> bool:
    """`cmpps` and its like with more than 3 bits of an immediate byte, of which a processor takes no notice
    (SDM volume 2, CMPPS: reserved), and which are illegal to the emulator."""
    position, _ = opcode_at(code)
    return code[position : position + 2] == b"\x0f\xc2" and code[size - 1] > 7


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
        "LLDT", "LTR", "LMSW", "CLTS", "INVD", "WBINVD", "WBNOINVD", "INVLPG", "INVPCID", "RDMSR", "WRMSR",
        "RDPMC", "SYSRET", "SYSRETQ", "SYSEXIT", "SYSEXITQ", "SWAPGS",
    )
)  # fmt: skip
#: No instructions outside ring 0, or without what CPUID does not offer (SDM volume 2, MONITOR, XSAVE), or in
#: 64-bit code (AMD64 manual volume 3, SYSENTER; Intel would go to the kernel of 32-bit programs).
_RESERVED = frozenset(
    getattr(x86, f"X86_INS_{name}")
    for name in (
        "MONITOR", "MWAIT", "XSETBV", "XGETBV", "XSAVE", "XSAVE64", "XSAVEOPT", "XSAVEOPT64", "XRSTOR",
        "XRSTOR64", "SYSENTER",
    )
)  # fmt: skip
#: What tells of tables that only a kernel has, or of a processor's modes.
_TELLING = frozenset(
    getattr(x86, f"X86_INS_{name}")
    for name in ("LAR", "LSL", "VERR", "VERW", "SLDT", "STR", "SGDT", "SIDT", "SMSW")
)
_SYSTEM_REGISTERS = ("cr", "dr")


def _is_privileged(instruction: capstone.CsInsn) -> bool:
    if instruction.id in _PRIVILEGED:
        return True
    if instruction.id != x86.X86_INS_MOV:
        return False
    names = [instruction.reg_name(o.reg) for o in instruction.operands if o.type == x86.X86_OP_REG]
    return any(name[:2] in _SYSTEM_REGISTERS for name in names)


def _computed_wrongly(code: bytes, instruction: capstone.CsInsn | None) -> bool:
    """Whether the emulator would do otherwise than the processor."""
    if has_two_prefixes(code) or loses_its_segment(code) or is_of_low_byte(code) or is_other_pop(code):
        return True
    if is_shift_beside_rip(code) or is_far_from_mmx(code) or is_odd_frame(code) or is_other_move(code):
        return True
    if is_long_far_load(code) or is_pause_or_exchange(code):
        return True
    if instruction is None:
        # To the emulator the block may end with the opcode.
        return is_narrow_branch(code) or is_other_test(code)
    if instruction.id in _TELLING or is_vex(code) or _is_reserved_comparison(code, instruction.size):
        return True
    return is_narrow_branch(code) or is_other_test(code)


def _is_x87(mnemonic: str) -> bool:
    other = ("fxsave", "fxsave64", "fxrstor", "fxrstor64")
    return mnemonic == "wait" or (mnemonic[0] == "f" and mnemonic not in other)


def decode_in_detail(code: bytes, address: int) -> Block:
    """What `decode_block` gives, from every instruction's details; slow."""
    offsets: list[int] = []
    atomic: list[int] = []
    helped: list[int] = []
    pairs: list[int] = []
    fences: list[int] = []
    privileged: list[int] = []
    reserved: list[int] = []
    illegal: list[int] = []
    stored: list[int] = []
    calls: list[int] = []
    ends_run, repeats, frames, coprocessor, position = False, False, False, False, 0
    unsupported, text, unknown = -1, "", -1
    while position < len(code):
        instruction = next(_engine().disasm(code[position:], address + position, 1), None)
        offsets.append(position)
        rest = code[position:]
        if instruction is not None and instruction.id in _RESERVED:
            reserved.append(position)
        if instruction is None and _is_too_long(rest):
            privileged.append(position)
            ends_run, repeats = True, False
            break
        if _is_illegal(rest, instruction):
            illegal.append(position)
            ends_run, repeats = True, False
            break
        if unsupported < 0 and _computed_wrongly(rest, instruction):
            unsupported = position
            shown = rest[: instruction.size if instruction else 15]
            text = f"{shown.hex(' ')} {disassemble(shown, address + position)}"
        if instruction is None:
            ends_run = repeats = False
            length = reserved_nop_length(rest)
            if length:
                position += length
                continue
            ends_run, unknown = True, position
            break
        if _is_atomic(instruction):
            atomic.append(len(offsets) - 1)
        if _is_helped(instruction):
            helped.append(len(offsets) - 1)
        if rewrites(rest):
            stored.append(len(offsets) - 1)
        if (instruction.id in _PAIRS and "cmpxchg" in instruction.mnemonic) or settles_flags(rest):
            pairs.append(position)
        if instruction.id in _FENCES:
            fences.append(position)
        if instruction.id == x86.X86_INS_SYSCALL:
            calls.append(position)
        if _is_privileged(instruction):
            privileged.append(position)
        frames = frames or is_enter(instruction)
        coprocessor = coprocessor or _is_x87(instruction.mnemonic)
        groups = instruction.groups
        ends_run = any(
            group in groups
            for group in (x86.X86_GRP_JUMP, x86.X86_GRP_CALL, x86.X86_GRP_RET, x86.X86_GRP_IRET)
        )
        repeats = instruction.prefix[0] in (0xF2, 0xF3) and instruction.mnemonic.startswith("rep")
        position += instruction.size
    return Block(
        tuple(offsets), tuple(atomic), tuple(helped), ends_run, repeats, frames, tuple(pairs),
        tuple(fences), tuple(privileged), unsupported, text, unknown, coprocessor, tuple(reserved),
        tuple(illegal), tuple(stored), tuple(calls),
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
        "enter", "extrq", "fbld", "fbstp", "fld", "fldenv", "fnsave", "fnstenv", "frstor", "fstp", "fstpnce",
        "fxrstor", "fxrstor64", "fxsave", "fxsave64", "hlt", "cli", "sti", "in", "invd", "invlpg", "insertq",
        "invpcid", "jcxz", "jecxz", "jrcxz", "lahf", "lgdt", "lidt", "lldt", "lmsw", "ltr", "maskmovdqu",
        "maskmovq", "mfence", "monitor", "movntsd", "movntss", "mwait", "rdmsr", "rdpmc", "rsm", "sahf",
        "swapgs", "wbinvd", "wbnoinvd", "wrmsr", "xabort", "xbegin", "xchg", "xend", "xgetbv", "xsetbv",
        "lar", "lfs", "lgs", "lsl", "lss", "verr", "verw", "sldt", "str", "sgdt", "sidt", "smsw",
    )
)  # fmt: skip
_SPECIAL_BEGINNINGS = (
    "incssp", "int", "iret", "lcall", "ljmp", "lock", "loop", "out", "ins", "rep", "retf", "sys", "tpause",
    "ud", "umonitor", "umwait", "v", "xrstor", "xsave",
)  # fmt: skip
_SEGMENTS = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x67")
_MANDATORY = frozenset(b"\x66\xf2\xf3")
_VEX_BEGINNINGS = frozenset(b"\xc4\xc5\x62\x8f")


@lru_cache(maxsize=4096)
def _kind_of(mnemonic: str) -> int:
    if " " in mnemonic or mnemonic in _SPECIAL or mnemonic.startswith(_SPECIAL_BEGINNINGS):
        return _DETAIL
    return _CONTROL if mnemonic[0] == "j" or mnemonic in ("call", "ret") else _PLAIN


def _decode_plain(code: bytes, address: int) -> Block | None:
    """A block in which nothing is special, as nearly all are; None of another."""
    offsets: list[int] = []
    stored: list[int] = []
    position, kind, coprocessor = 0, _PLAIN, False
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
        here = code[position : position + size]
        if not _MANDATORY.isdisjoint(here) and (has_two_prefixes(here) or is_wrongly_prefixed(here)):
            return None
        if is_shift_beside_rip(here) or is_far_from_mmx(here) or is_odd_frame(here):
            return None
        if (0x64 in here or 0x65 in here) and loses_its_segment(here):
            return None
        if (mnemonic in ("rcl", "rcr") and "[" in operands) or (mnemonic == "test" and is_other_test(here)):
            return None
        if mnemonic == "mov" and is_other_move(here):
            return None
        if (mnemonic == "pop" and 0x8F in here) or (0xF0 in here and 0xF0 in here[: opcode_at(here)[0]]):
            return None
        coprocessor = coprocessor or _is_x87(mnemonic)
        if rewrites(here):
            stored.append(len(offsets))
        offsets.append(position)
        position += size
    if position != len(code):
        return None
    return Block(
        tuple(offsets), (), (), kind == _CONTROL, False, False, (), (), (), -1, "", -1, coprocessor,
        rewrites=tuple(stored),
    )  # fmt: skip


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
