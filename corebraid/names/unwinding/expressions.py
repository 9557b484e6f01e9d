"""DWARF expressions (DWARF 5, sections 2.5 and 2.6), computed on the registers and the memory of a frame.

What is not known, or not done here, is an error: there is never a guess in the place of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from corebraid.names.dwarf_fields import Reader

_64_BITS, _SIGN = (1 << 64) - 1, 1 << 63
#: Operations that are run, and values that are on the stack, at most.
_MOST_STEPS, _MOST_VALUES = 1 << 12, 1 << 8
_WORD = 8


class Machine(Protocol):
    """What expressions are computed on. Every method raises ValueError for what is not known."""

    def register(self, number: int) -> int:
        """The register of DWARF's number."""

    def read(self, address: int, size: int) -> int:
        """An unsigned number in memory."""

    def address(self, value: int) -> int:
        """Where an address that the file counts is in the guest."""

    def frame_address(self) -> int:
        """DW_OP_call_frame_cfa: where the frame ends, as unwinding counts it."""

    def frame_base(self) -> int:
        """DW_OP_fbreg counts from there."""


class In(Enum):
    """What a location is."""

    MEMORY = "memory, at an address"
    REGISTER = "a register, of a number"
    NOWHERE = "nowhere: a value alone is known"


@dataclass(frozen=True)
class Location:
    """number: the address, the register's number, or the value itself."""

    what: In
    number: int


def value_of(code: bytes, machine: Machine, *initial: int) -> int:
    """What an expression leaves on top of the stack. initial: what is there before. Raises ValueError."""
    found = location_of(code, machine, *initial)
    if found.what is In.REGISTER:
        raise ValueError("a register where a number is wanted")
    return found.number


def location_of(code: bytes, machine: Machine, *initial: int) -> Location:
    """Where an expression says that something is. Raises ValueError; also of what is in several pieces."""
    return _Evaluation(code, machine, list(initial)).run()


class _Evaluation:
    """One expression, being computed."""

    def __init__(self, code: bytes, machine: Machine, stack: list[int]) -> None:
        self.reader, self.machine, self.stack = Reader(code), machine, stack
        self._location: Location | None = None

    def run(self) -> Location:
        """Compute it."""
        reader = self.reader
        for _ in range(_MOST_STEPS):
            if reader.at == reader.end:
                return self._location or Location(In.MEMORY, self.pop())
            if self._location is not None:
                raise ValueError("something in pieces")
            self._step(reader.number(1))
        raise ValueError("too long an expression")

    def push(self, value: int) -> None:
        """A value comes on top."""
        if len(self.stack) == _MOST_VALUES:
            raise ValueError("too many values")
        self.stack.append(value & _64_BITS)

    def pop(self) -> int:
        """Take the one on top away."""
        return self.pick(0, take=True)

    def pick(self, depth: int, *, take: bool = False) -> int:
        """The value that lies so deep."""
        if depth >= len(self.stack):
            raise ValueError("no value there")
        return self.stack.pop(-1 - depth) if take else self.stack[-1 - depth]

    def drop(self) -> None:
        """The one on top goes."""
        self.pop()

    def found(self, what: In, number: int) -> None:
        """That is where it is; nothing may follow."""
        self._location = Location(what, number)

    def jump(self, distance: int) -> None:
        """Go on elsewhere."""
        at = self.reader.at + distance
        if not 0 <= at <= self.reader.end:
            raise ValueError("a branch to nowhere")
        self.reader.at = at

    def _step(self, opcode: int) -> None:
        # DW_OP_lit, DW_OP_reg and DW_OP_breg: 32 of each.
        if 0x30 <= opcode < 0x50:
            self.push(opcode - 0x30)
        elif 0x50 <= opcode < 0x70:
            self.found(In.REGISTER, opcode - 0x50)
        elif 0x70 <= opcode < 0x90:
            self.push(self.machine.register(opcode - 0x70) + self.reader.sleb())
        elif opcode in _CONSTANTS:
            self.push(_CONSTANTS[opcode](self.reader))
        elif opcode in _UNARY:
            self.push(_UNARY[opcode](self.pop()))
        elif opcode in _BINARY:
            top = self.pop()
            self.push(_BINARY[opcode](self.pop(), top))
        elif opcode in _OTHER:
            _OTHER[opcode](self)
        else:
            raise ValueError("an operation that is not done")


def _signed(value: int) -> int:
    return value - (_SIGN << 1) if value & _SIGN else value


def _fixed(reader: Reader, size: int) -> int:
    value = reader.number(size)
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def _divided(a: int, b: int) -> int:
    """Rounded to zero, as processors do."""
    a, b = _signed(a), _signed(b)
    if not b:
        raise ValueError("divided by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    if not b:
        raise ValueError("divided by zero")
    return a % b


#: DW_OP_const1u, const1s, ..., constu, consts.
_CONSTANTS: dict[int, Callable[[Reader], int]] = {
    0x08: lambda reader: reader.number(1),
    0x09: lambda reader: _fixed(reader, 1),
    0x0A: lambda reader: reader.number(2),
    0x0B: lambda reader: _fixed(reader, 2),
    0x0C: lambda reader: reader.number(4),
    0x0D: lambda reader: _fixed(reader, 4),
    0x0E: lambda reader: reader.number(8),
    0x0F: lambda reader: _fixed(reader, 8),
    0x10: lambda reader: reader.uleb(),
    0x11: lambda reader: reader.sleb(),
}
#: DW_OP_abs, neg, not.
_UNARY: dict[int, Callable[[int], int]] = {
    0x19: lambda a: abs(_signed(a)),
    0x1F: lambda a: -a,
    0x20: lambda a: ~a,
}
#: DW_OP_and, div, minus, mod, mul, or, plus, shl, shr, shra, xor; eq, ge, gt, le, lt, ne, of signed numbers.
_BINARY: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda a, b: a & b,
    0x1B: _divided,
    0x1C: lambda a, b: a - b,
    0x1D: _remainder,
    0x1E: lambda a, b: a * b,
    0x21: lambda a, b: a | b,
    0x22: lambda a, b: a + b,
    0x24: lambda a, b: a << b if b < 64 else 0,
    0x25: lambda a, b: a >> b if b < 64 else 0,
    0x26: lambda a, b: _signed(a) >> min(b, 63),
    0x27: lambda a, b: a ^ b,
    0x29: lambda a, b: int(a == b),
    0x2A: lambda a, b: int(_signed(a) >= _signed(b)),
    0x2B: lambda a, b: int(_signed(a) > _signed(b)),
    0x2C: lambda a, b: int(_signed(a) <= _signed(b)),
    0x2D: lambda a, b: int(_signed(a) < _signed(b)),
    0x2E: lambda a, b: int(a != b),
}


def _swap(run: _Evaluation) -> None:
    run.push(run.pick(1, take=True))


def _rotate(run: _Evaluation) -> None:
    top = run.pop()
    run.pick(1)
    run.stack.insert(-2, top)


def _branch(run: _Evaluation) -> None:
    distance = _fixed(run.reader, 2)
    if run.pop():
        run.jump(distance)


def _dereference_part(run: _Evaluation) -> None:
    size = run.reader.number(1)
    if not 1 <= size <= _WORD:
        raise ValueError("no such size")
    run.push(run.machine.read(run.pop(), size))


def _based(run: _Evaluation) -> None:
    register = run.reader.uleb()
    run.push(run.machine.register(register) + run.reader.sleb())


def _implicit(run: _Evaluation) -> None:
    size = run.reader.uleb()
    if size > _WORD:
        raise ValueError("more than a word")
    run.found(In.NOWHERE, run.reader.number(size))


#: DW_OP_addr, deref, dup, drop, over, pick, swap, rot, plus_uconst, bra, skip, regx, fbreg, bregx,
#: deref_size, nop, call_frame_cfa, implicit_value, stack_value.
_OTHER: dict[int, Callable[[_Evaluation], None]] = {
    0x03: lambda run: run.push(run.machine.address(run.reader.number(_WORD))),
    0x06: lambda run: run.push(run.machine.read(run.pop(), _WORD)),
    0x12: lambda run: run.push(run.pick(0)),
    0x13: lambda run: run.drop(),
    0x14: lambda run: run.push(run.pick(1)),
    0x15: lambda run: run.push(run.pick(run.reader.number(1))),
    0x16: _swap,
    0x17: _rotate,
    0x23: lambda run: run.push(run.pop() + run.reader.uleb()),
    0x28: _branch,
    0x2F: lambda run: run.jump(_fixed(run.reader, 2)),
    0x90: lambda run: run.found(In.REGISTER, run.reader.uleb()),
    0x91: lambda run: run.push(run.machine.frame_base() + run.reader.sleb()),
    0x92: _based,
    0x94: _dereference_part,
    0x96: lambda run: None,
    0x9C: lambda run: run.push(run.machine.frame_address()),
    0x9E: _implicit,
    0x9F: lambda run: run.found(In.NOWHERE, run.pop()),
}
