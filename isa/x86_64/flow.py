"""What of an instruction's operands goes where: which values what it writes is made of, addresses apart."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import capstone
from capstone import x86_const as x86

from isa.decoded import Flow, Move
from isa.x86_64.decode import detailed

_FLAGS = frozenset({"rflags", "eflags", "flags", "rip", "fpsw", "mxcsr"})
_OLD = {"a": "rax", "b": "rbx", "c": "rcx", "d": "rdx"}
#: Without operands for it they use the stack, or strings.
_POPS = frozenset({"pop", "popf", "popfq", "leave"})
_STRINGS = {"movs": True, "lods": True, "stos": False}
#: What they set comes from elsewhere than registers and memory.
_OUTSIDE = {
    "syscall": "a system call", "rdtsc": "the time stamp counter", "rdtscp": "the time stamp counter",
    "cpuid": "CPUID", "rdrand": "a random number", "rdseed": "a random number", "in": "a port",
}  # fmt: skip
_CLEARING = frozenset({"xor", "sub", "pxor", "xorps", "xorpd", "psubb", "psubw", "psubd", "psubq"})
#: That only copy, from their first byte on, as many as the smaller operand has.
_COPIES = frozenset(
    {
        "mov", "movabs", "movnti", "movzx", "push", "pop", "movups", "movupd", "movaps", "movapd", "movdqu",
        "movdqa", "lddqu", "movntps", "movntpd", "movntdq", "movntdqa", "movq", "movd", "movss", "movsd",
        "movlps", "movlpd",
    }
)  # fmt: skip
#: That copy half a register: to which byte and from which, of eight; from memory, or a register; to memory.
_HALVES = {
    "movhps": ((8, 0), (0, 8)), "movhpd": ((8, 0), (0, 8)), "movlhps": ((8, 0), None),
    "movhlps": ((0, 8), None), "punpcklqdq": ((8, 0), None), "unpcklpd": ((8, 0), None),
}  # fmt: skip
#: What they do not set of a register of SSE stays: always, or where they copy from a register.
_LEAVING, _LEAVING_REGISTERS = frozenset({*_HALVES, "movlps", "movlpd"}), frozenset({"movss", "movsd"})
#: Bytes that are copied at most: an operand that is a register of SSE counts as all of it.
_AT_MOST = {"movss": 4, "movsd": 8, "movd": 4, "movq": 8}
#: Bytes that do not begin their registers.
_SECOND = frozenset({"ah", "bh", "ch", "dh"})
_HALF = 8
_NARROW = 4
_WIDE = 16


def family(name: str) -> str:
    """The whole register that one is a part of: 'rax' of 'al', 'xmm3' of 'ymm3'."""
    if name[:3] in ("xmm", "ymm", "zmm"):
        return f"xmm{name[3:]}"
    if name[:1] == "r" and name[1:2].isdigit():
        return name.rstrip("bwd")
    if len(name) == 2 and name[1] in "lh" and name[0] in _OLD:
        return _OLD[name[0]]
    if len(name) == 3 and name[0] in "er" and name[1:] in _PAIRS:
        return f"r{name[1:]}"
    short = name[:-1] if len(name) == 3 and name[2] == "l" else name
    return f"r{short}" if short in _PAIRS else name


_PAIRS = frozenset({"ax", "bx", "cx", "dx", "si", "di", "bp", "sp"})


@lru_cache(maxsize=1 << 14)
def flow(code: bytes, address: int) -> Flow:
    """Of the instruction that begins `code`. One that cannot be read is made of nothing."""
    found = detailed(code, address)
    if found is None:
        return Flow()
    name = found.mnemonic.split()[-1]
    if name in _OUTSIDE:
        more = {"rax"} if name == "syscall" else set()
        return Flow(written=_named(found, found.regs_access()[1]) | more, outside=_OUTSIDE[name])
    if name == "call":
        return Flow(written=frozenset({"rsp"}))
    string = next((loads for start, loads in _STRINGS.items() if _is_string(name, start, found)), None)
    if string is not None:
        values = frozenset() if string else frozenset({"rax"})
        sets = frozenset({"rax"}) if name.startswith("lods") else frozenset()
        moves = (Move(0, 0, found.operands[0].size),) if name.startswith("movs") else ()
        return Flow(sets, values, string, moves=moves)
    return _copying(_plain(found, name), found, name)


def _copying(plain: Flow, found: capstone.CsInsn, name: str) -> Flow:
    """The same with what is copied, if that is all that it does."""
    operands = found.operands
    if name not in _COPIES | _HALVES.keys() or not operands or len(operands) > 2:
        return plain
    registers = [o for o in operands if o.type == x86.X86_OP_REG]
    if any(found.reg_name(o.reg) in _SECOND for o in registers):
        return plain
    if any(o.type not in (x86.X86_OP_REG, x86.X86_OP_MEM) for o in operands):
        return plain
    # `push` and `pop` do not name the stack.
    target = None if name == "push" else operands[0]
    source = None if name == "pop" else operands[-1]
    names = tuple(
        family(found.reg_name(o.reg)) if o is not None and o.type == x86.X86_OP_REG else ""
        for o in (target, source)
    )
    size = min(_AT_MOST.get(name, _WIDE), *(o.size for o in (target, source) if o is not None))
    at = _HALVES[name][0 if names[0] else 1] if name in _HALVES else (0, 0)
    if at is None:
        return plain
    move = Move(*at, _HALF if name in _HALVES else size)
    kept = plain.kept
    if names[0].startswith("xmm"):
        leaves = name in _LEAVING or (name in _LEAVING_REGISTERS and bool(names[1]))
        kept = frozenset({names[0]}) if leaves else frozenset()
    return replace(plain, moves=(move,), source=names[1], target=names[0], kept=kept)


def _is_string(name: str, start: str, found: capstone.CsInsn) -> bool:
    """Whether it is that instruction on strings, and not one of SSE by the same name."""
    registers = [o for o in found.operands if o.type == x86.X86_OP_REG]
    wide = any(family(found.reg_name(o.reg)).startswith("xmm") for o in registers)
    return name[:-1] == start and name[-1] in "bwdq" and not wide


def _plain(found: capstone.CsInsn, name: str) -> Flow:
    memory = [o for o in found.operands if o.type == x86.X86_OP_MEM]
    registers = [o for o in found.operands if o.type == x86.X86_OP_REG]
    is_address = name == "lea"
    written = frozenset(
        family(found.reg_name(o.reg)) for o in registers if o.access & capstone.CS_AC_WRITE
    ) | _named(found, found.regs_write)
    loads = name in _POPS or any(o.access & capstone.CS_AC_READ for o in memory)
    loads = loads and not is_address
    if name in _CLEARING and len(registers) >= 2 and len({o.reg for o in registers}) == 1:
        return Flow(written)
    values = {family(found.reg_name(o.reg)) for o in registers if o.access & capstone.CS_AC_READ}
    implied = set() if name in _POPS or name in ("push", "ret", "cmpxchg") else _named(found, found.regs_read)
    values |= implied - {"rsp"}
    if is_address:
        values |= {family(found.reg_name(r)) for o in memory for r in (o.mem.base, o.mem.index) if r}
    if name == "xchg" and memory:
        # To memory goes the register, to the register what was there.
        return Flow(written, frozenset(values), True, swaps=True)
    if name in ("cmpxchg", "xadd"):
        return Flow(written, frozenset(values), True, swaps=bool(memory), adds=name == "xadd")
    kept = frozenset(
        family(found.reg_name(o.reg)) for o in registers
        if o.access & capstone.CS_AC_WRITE and _keeps(o, found)
    )  # fmt: skip
    return Flow(written - _FLAGS, frozenset(values - _FLAGS), loads, kept=kept)


def _keeps(operand: capstone.x86.X86Op, found: capstone.CsInsn) -> bool:
    """Whether a register that is written keeps some of what it held."""
    name = found.reg_name(operand.reg)
    return bool(operand.size < (_WIDE if name.startswith("xmm") else _NARROW))


def _named(found: capstone.CsInsn, registers: object) -> frozenset[str]:
    return frozenset(family(found.reg_name(r)) for r in registers) - _FLAGS  # type: ignore[attr-defined]
