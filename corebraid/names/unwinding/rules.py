"""Where a frame's registers are kept: the instructions of an entry, run up to an address (DWARF 5, section
6.4.2; GNU's two of Linux Standard Base 5, section 10.5.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from corebraid.names.dwarf_fields import Reader
from corebraid.names.unwinding.entries import Common, Entry

#: States that an entry remembers at a time, at most.
_MOST_REMEMBERED = 64


class Kind(Enum):
    """How a register, or the frame's address, is found (DWARF 5, section 6.4.1)."""

    UNDEFINED = "undefined"
    SAME = "the value it has"
    OFFSET = "stored at the frame's address and a number"
    VALUE_OFFSET = "the frame's address and a number"
    REGISTER = "another register and a number"
    EXPRESSION = "stored at what an expression computes"
    VALUE_EXPRESSION = "what an expression computes"


class Rule(NamedTuple):
    """number: to be added. register: the other one. code: the expression."""

    kind: Kind
    number: int = 0
    register: int = 0
    code: bytes = b""


_UNKNOWN = Rule(Kind.UNDEFINED)


@dataclass
class Rules:
    """The address of the frame, and its caller's registers by DWARF's number; of those that are not there the
    ABI says what becomes of them."""

    frame: Rule = _UNKNOWN
    registers: dict[int, Rule] = field(default_factory=dict)


def rules_at(entry: Entry, address: int) -> Rules:
    """What holds at the instruction at `address`. Raises ValueError where the entry is damaged."""
    initial = _Run(entry.common, entry.begin, address, {})
    initial.run(entry.common.instructions)
    run = _Run(entry.common, entry.begin, address, initial.rules.registers)
    run.rules = Rules(initial.rules.frame, dict(initial.rules.registers))
    run.run(entry.instructions)
    return run.rules


class _Run:
    """A run of instructions that ends before those for code behind `until`. initial: what
    `DW_CFA_restore` restores."""

    def __init__(self, common: Common, begin: int, until: int, initial: dict[int, Rule]) -> None:
        self.rules = Rules()
        self._common, self._at, self._until, self._initial = common, begin, until, initial
        self._remembered: list[Rules] = []

    def run(self, code: bytes) -> None:
        """Run them."""
        reader = Reader(code)
        while reader.at < reader.end and self._at <= self._until:
            opcode = reader.number(1)
            low = opcode & 0x3F
            if opcode >> 6 == 1:
                self._advance(low)
            elif opcode >> 6 == 2:
                self._set(low, Rule(Kind.OFFSET, reader.uleb() * self._common.data))
            elif opcode >> 6 == 3:
                self._restore(low)
            elif opcode in _STEPS:
                _STEPS[opcode](self, reader)
            else:
                raise ValueError("no such instruction")

    def _advance(self, by: int) -> None:
        self._at += by * self._common.code

    def _ignore(self, _: int) -> None:
        """What does not say where registers are."""

    def _go_to(self, reader: Reader) -> None:
        self._at = reader.number(8)

    def _set(self, register: int, rule: Rule) -> None:
        self.rules.registers[register] = rule

    def _restore(self, register: int) -> None:
        self.rules.registers.pop(register, None)
        if register in self._initial:
            self.rules.registers[register] = self._initial[register]

    def _remember(self, _: Reader) -> None:
        if len(self._remembered) == _MOST_REMEMBERED:
            raise ValueError("too many states")
        self._remembered.append(Rules(self.rules.frame, dict(self.rules.registers)))

    def _recall(self, _: Reader) -> None:
        if not self._remembered:
            raise ValueError("nothing is remembered")
        self.rules = self._remembered.pop()

    def _frame(self, reader: Reader, *, factored: bool = False) -> None:
        register = reader.uleb()
        number = reader.sleb() * self._common.data if factored else reader.uleb()
        self.rules.frame = Rule(Kind.REGISTER, number, register)

    def _frame_register(self, reader: Reader) -> None:
        self.rules.frame = self._frame_rule()._replace(register=reader.uleb())

    def _frame_offset(self, reader: Reader, *, factored: bool = False) -> None:
        number = reader.sleb() * self._common.data if factored else reader.uleb()
        self.rules.frame = self._frame_rule()._replace(number=number)

    def _frame_rule(self) -> Rule:
        if self.rules.frame.kind is not Kind.REGISTER:
            raise ValueError("a frame that is no register's")
        return self.rules.frame

    def _offset(self, reader: Reader, kind: Kind, *, signed: bool = False, sign: int = 1) -> None:
        register = reader.uleb()
        number = reader.sleb() if signed else reader.uleb()
        self._set(register, Rule(kind, sign * number * self._common.data))

    def _plain(self, reader: Reader, kind: Kind) -> None:
        self._set(reader.uleb(), Rule(kind))

    def _register(self, reader: Reader) -> None:
        self._set(reader.uleb(), Rule(Kind.REGISTER, register=reader.uleb()))

    def _expression(self, reader: Reader, kind: Kind) -> None:
        self._set(reader.uleb(), Rule(kind, code=_block(reader)))

    def _frame_expression(self, reader: Reader) -> None:
        self.rules.frame = Rule(Kind.VALUE_EXPRESSION, code=_block(reader))


def _block(reader: Reader) -> bytes:
    size = reader.uleb()
    at = reader.at
    reader.skip(size)
    return reader.data[at : at + size]


#: By opcode: DW_CFA_nop, set_loc, ... in the order of DWARF 5, table 7.29.
_STEPS: dict[int, Callable[[_Run, Reader], None]] = {
    0x00: lambda run, reader: None,
    0x01: _Run._go_to,
    0x02: lambda run, reader: run._advance(reader.number(1)),
    0x03: lambda run, reader: run._advance(reader.number(2)),
    0x04: lambda run, reader: run._advance(reader.number(4)),
    0x05: lambda run, reader: run._offset(reader, Kind.OFFSET),
    0x06: lambda run, reader: run._restore(reader.uleb()),
    0x07: lambda run, reader: run._plain(reader, Kind.UNDEFINED),
    0x08: lambda run, reader: run._plain(reader, Kind.SAME),
    0x09: _Run._register,
    0x0A: _Run._remember,
    0x0B: _Run._recall,
    0x0C: _Run._frame,
    0x0D: _Run._frame_register,
    0x0E: _Run._frame_offset,
    0x0F: _Run._frame_expression,
    0x10: lambda run, reader: run._expression(reader, Kind.EXPRESSION),
    0x11: lambda run, reader: run._offset(reader, Kind.OFFSET, signed=True),
    0x12: lambda run, reader: run._frame(reader, factored=True),
    0x13: lambda run, reader: run._frame_offset(reader, factored=True),
    0x14: lambda run, reader: run._offset(reader, Kind.VALUE_OFFSET),
    0x15: lambda run, reader: run._offset(reader, Kind.VALUE_OFFSET, signed=True),
    0x16: lambda run, reader: run._expression(reader, Kind.VALUE_EXPRESSION),
    # DW_CFA_GNU_args_size, DW_CFA_GNU_negative_offset_extended.
    0x2E: lambda run, reader: run._ignore(reader.uleb()),
    0x2F: lambda run, reader: run._offset(reader, Kind.OFFSET, sign=-1),
}
