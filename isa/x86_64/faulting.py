"""What a fault tells of the instruction that caused it: which operand was refused, where a branch came from.

Capstone again, with details; nothing here is on a hot path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import capstone
from capstone import x86_const as x86

from isa.decoded import Access, Branch
from isa.x86_64.decode import detailed, is_enter

_MASK, _NARROW_MASK = (1 << 64) - 1, (1 << 32) - 1
_SEGMENT_BASES = {x86.X86_REG_FS: "fs_base", x86.X86_REG_GS: "gs_base"}
_SEGMENT_PREFIXES = {0x64: "fs_base", 0x65: "gs_base"}
_PROGRAM_COUNTER = (x86.X86_REG_RIP, x86.X86_REG_EIP)
_STACK_BASES = (x86.X86_REG_RSP, x86.X86_REG_ESP, x86.X86_REG_RBP, x86.X86_REG_EBP)
_BIT_TESTS = tuple(getattr(x86, f"X86_INS_{name}") for name in ("BT", "BTS", "BTR", "BTC"))
#: Instructions that write their memory operand although the decoder says that they only read it.
_WRITING = tuple(
    getattr(x86, f"X86_INS_{name}")
    for name in ("CMPXCHG8B", "CMPXCHG16B", "CMPXCHG", "XADD", "RCL", "RCR", "ROL", "ROR")
)
#: And how those begin that store to their first operand, though it says the same; one that reads, though it
#: says that it writes.
_STORING = ("mov", "set", "fst", "fist", "fnst", "stmxcsr", "pextr", "extractps")
_READING, _ORDERED = x86.X86_INS_FRSTOR, "cmpord"
#: Those that store where no operand says, and how many bytes at most.
_STORING_ELSEWHERE = {x86.X86_INS_MASKMOVQ: 8, x86.X86_INS_MASKMOVDQU: 16}
#: The prefix of 16-bit operands; what counts of the levels of a frame.
_NARROW, _LEVELS = 0x66, 31
#: Bytes of operands that the decoder takes for shorter ones.
_SIZES = {
    x86.X86_INS_FXSAVE: 512, x86.X86_INS_FXSAVE64: 512, x86.X86_INS_FXRSTOR: 512, x86.X86_INS_FXRSTOR64: 512,
    x86.X86_INS_FNSAVE: 108, x86.X86_INS_FRSTOR: 108,
}  # fmt: skip


def accesses(code: bytes, address: int, read: Callable[[str], int]) -> list[Access]:
    """What the instruction that begins `code` may access, by its operands; read: a register by its name in
    the ISA's table. An implicit access is at the stack pointer, or 8 below it, or where a frame begins."""
    instruction = detailed(code, address)
    if instruction is None:
        return []
    found = [
        _operand(instruction, number, read)
        for number, operand in enumerate(instruction.operands)
        if operand.type == x86.X86_OP_MEM
    ]
    # What reads one and stores another reads first.
    found.sort(key=lambda one: one.written)
    stack = read("rsp")
    if (most := _STORING_ELSEWHERE.get(instruction.id)) is not None:
        return [Access(_implied(instruction, read("rdi"), read), most, written=True, stack=False)]
    if instruction.id == x86.X86_INS_XLATB:
        place = _implied(instruction, read("rbx") + (read("rax") & 0xFF), read)
        return [Access(place, 1, written=False, stack=False)]
    if instruction.id == x86.X86_INS_LEAVE:
        return [*found, Access(read("rbp"), 8, written=False, stack=True)]
    if instruction.id == x86.X86_INS_POP and found:
        return _of_pop(instruction, found[0], stack)
    if is_enter(instruction):
        return _of_frame(instruction, read)
    return [
        *found,
        Access(stack, 8, written=False, stack=True),
        Access(stack - 8 & _MASK, 8, written=True, stack=True),
    ]


def _of_pop(instruction: capstone.CsInsn, to: Access, stack: int) -> list[Access]:
    """Of a `pop` to memory: the stack pointer has changed when its operand's address is computed."""
    if instruction.operands[0].mem.base == x86.X86_REG_RSP:
        to = replace(to, address=to.address + to.size & _MASK)
    return [Access(stack, to.size, written=False, stack=True), to]


def _of_frame(instruction: capstone.CsInsn, read: Callable[[str], int]) -> list[Access]:
    """Of an `enter`: it stores the frame pointer, copies those of the levels around, from the next one
    outwards, and stores the new one; then it looks whether it could store where the stack ends."""
    size, level = instruction.operands[0].imm, instruction.operands[1].imm & _LEVELS
    old, stack = read("rbp"), read("rsp")
    copied = [Access(old - 8 * k & _MASK, 8, written=False, stack=True) for k in range(1, level)]
    made = [Access(stack - 8 * k & _MASK, 8, written=True, stack=True) for k in range(1, level + 2)]
    return [*copied, *made, Access(stack - 8 * (level + 1) - size & _MASK, 1, written=True, stack=True)]


def _implied(instruction: capstone.CsInsn, place: int, read: Callable[[str], int]) -> int:
    """The address of an operand that no byte of the instruction names."""
    base = _SEGMENT_PREFIXES.get(instruction.prefix[1])
    place &= _MASK if instruction.addr_size == 8 else _NARROW_MASK
    return place + (read(base) if base else 0) & _MASK


def accessed_addresses(code: bytes, address: int, read: Callable[[str], int]) -> list[int]:
    """Where `accesses` are."""
    return [access.address for access in accesses(code, address, read)]


def frame_made(code: bytes, address: int, read: Callable[[str], int]) -> Access | None:
    """What the instruction that begins `code` stores from its first store to its last, if it may fail between
    them: an `enter` (SDM volume 2, ENTER), at a frame pointer that it copies or at the end of the stack.
    None: it is another."""
    instruction = detailed(code, address)
    if instruction is None or not is_enter(instruction):
        return None
    narrow = instruction.prefix[2] == _NARROW
    size = (2 if narrow else 8) * ((instruction.operands[1].imm & _LEVELS) + 1)
    return Access(read("rsp") - size & _MASK, size, written=True, stack=True)


def may_store(code: bytes, address: int) -> bool:
    """Whether an instruction of those at `address`, which are `code`, may store to memory: one that changes
    the stack pointer may too."""
    position = 0
    while (instruction := detailed(code[position:], address + position)) is not None:
        places = [k for k, operand in enumerate(instruction.operands) if operand.type == x86.X86_OP_MEM]
        if any(_is_written(instruction, k) for k in places) or instruction.id in _STORING_ELSEWHERE:
            return True
        if x86.X86_REG_RSP in instruction.regs_access()[1]:
            return True
        position += instruction.size
    return position < len(code)


def _is_written(instruction: capstone.CsInsn, number: int) -> bool:
    """Whether its operand of this number, one in memory, is."""
    if instruction.id == _READING:
        return False
    # A comparison with the last predicate goes by a number that is another instruction's.
    writing = instruction.id in _WRITING and not instruction.mnemonic.startswith(_ORDERED)
    if instruction.operands[number].access & capstone.CS_AC_WRITE or writing:
        return True
    return number == 0 and instruction.mnemonic.startswith(_STORING)


def _operand(instruction: capstone.CsInsn, number: int, read: Callable[[str], int]) -> Access:
    operand = instruction.operands[number]
    memory, place = operand.mem, operand.mem.disp
    for register, scale in ((memory.base, 1), (memory.index, memory.scale)):
        if register in _PROGRAM_COUNTER:
            place += address_after(instruction)
        elif register != x86.X86_REG_INVALID:
            place += _register_value(instruction.reg_name(register), read) * scale
    if instruction.id in _BIT_TESTS and instruction.operands[1].type == x86.X86_OP_REG:
        place += _bits_away(instruction, read)
    # An address of 32 bits wraps there, before a segment's base is added (SDM volume 1, 3.3.7.1).
    place &= _MASK if instruction.addr_size == 8 else _NARROW_MASK
    if memory.segment in _SEGMENT_BASES:
        place += read(_SEGMENT_BASES[memory.segment])
    return Access(
        place & _MASK,
        _SIZES.get(instruction.id, operand.size),
        written=_is_written(instruction, number),
        stack=memory.base in _STACK_BASES and memory.segment not in _SEGMENT_BASES,
    )


def address_after(instruction: capstone.CsInsn) -> int:
    """Of the instruction that follows."""
    found: int = instruction.address + instruction.size
    return found


def _bits_away(instruction: capstone.CsInsn, read: Callable[[str], int]) -> int:
    """Bytes from the operand to the word that holds the bit (SDM volume 2, BT)."""
    size = instruction.operands[1].size
    bit = _register_value(instruction.reg_name(instruction.operands[1].reg), read) & (1 << 8 * size) - 1
    bit -= (bit >> 8 * size - 1) << 8 * size
    return bit // (8 * size) * size


_STEMS = {name: "r" + name for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")}


def _register_value(name: str, read: Callable[[str], int]) -> int:
    """A general register, whole or a lower part; "riz" and "eiz" are no index at all."""
    if name[1:] == "iz":
        return 0
    if name in _STEMS:
        return read(_STEMS[name]) & 0xFFFF
    if name[0] == "e":
        return read("r" + name[1:]) & 0xFFFFFFFF
    if name[0] == "r" and name[-1] in "dw":
        return read(name[:-1]) & (0xFFFFFFFF if name[-1] == "d" else 0xFFFF)
    return read(name)


def branch(code: bytes, address: int) -> Branch | None:
    """The near branch that begins `code`, or None."""
    instruction = detailed(code, address)
    if instruction is None or not {x86.X86_GRP_JUMP, x86.X86_GRP_CALL, x86.X86_GRP_RET} & set(
        instruction.groups
    ):
        return None
    if x86.X86_GRP_CALL in instruction.groups:
        return Branch(-8)
    if x86.X86_GRP_RET in instruction.groups:
        return Branch(8 + (instruction.operands[0].imm if instruction.operands else 0))
    return Branch(0)


def length_of_trap(code: bytes, address: int) -> int:
    """Bytes of an instruction that asks for a debugger (`int1`) at the start of `code`, else 0."""
    instruction = detailed(code, address)
    return instruction.size if instruction is not None and instruction.id == x86.X86_INS_INT1 else 0
