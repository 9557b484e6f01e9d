"""The call stack: from the registers of a thread to those of each of its callers (DWARF 5, section 6.4.4).

A caller is told by frame tables, never guessed, but for one case: where the thread stands in no code at all,
as after a call of a null pointer, the return address that the call has stored is taken, if it follows a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from corebraid.names.debug_files import DebugFiles
from corebraid.names.debug_sections import Effort
from corebraid.names.placed_files import PlacedFiles, PlacedPart
from corebraid.names.unwinding.entries import Entry
from corebraid.names.unwinding.expressions import value_of
from corebraid.names.unwinding.frame_tables import FrameTables
from corebraid.names.unwinding.machine import FrameMachine, Memory
from corebraid.names.unwinding.rules import Kind, Rule, Rules, rules_at
from isa.frame_registers import FrameRegisters

#: Frames that are gone through at most.
_MOST_FRAMES = 300_000
_64_BITS, _WORD = (1 << 64) - 1, 8


@dataclass(frozen=True)
class Frame:
    """A function that has not returned. pc: where it is. exact: that is the instruction that comes next, not
    one behind a call. registers: those that are known, by DWARF's number. address: where the frame ends, as
    `DW_OP_call_frame_cfa` says; None: not known. signal: it was not called, a signal has led here."""

    pc: int
    exact: bool
    registers: Mapping[int, int]
    address: int | None = None
    signal: bool = False

    @property
    def place(self) -> int:
        """An address inside the instruction where it is: behind a call another line may begin, or another
        function."""
        return self.pc if self.exact else self.pc - 1


class _Ends(Exception):
    """There is no caller to be told. remark: why, '' where the stack is at its end."""

    def __init__(self, remark: str = "") -> None:
        super().__init__(remark)
        self.remark = remark


class CallStack:
    """Frames of a thread, from the innermost on.

    registers: by name. called_before: whether a call ends right before an address. debug_files: where frame
    tables may be, too. remark: why it ends, '' where it ends as stacks do; known when `frames` has ended.
    """

    def __init__(
        self,
        registers: Mapping[str, int],
        memory: Memory,
        files: PlacedFiles,
        numbering: FrameRegisters,
        called_before: Callable[[int], bool],
        debug_files: DebugFiles,
    ) -> None:
        self._memory, self._files, self._numbering = memory, files, numbering
        self._called_before, self._debug_files = called_before, debug_files
        self._first = {n: registers[name] for name, n in numbering.numbers.items() if name in registers}
        self._effort = Effort()
        self._tables: dict[int, list[FrameTables]] = {}
        self._known: dict[int, tuple[Entry, Rules] | None] = {}
        self.remark = ""

    def frames(self) -> Iterator[Frame]:
        """The frames; one at least."""
        pc = self._first[self._numbering.return_address]
        frame = Frame(pc, True, self._first)
        # Where the stack goes on elsewhere, which only a signal may do, it must not come back.
        entered: set[tuple[int, int]] = set()
        for _ in range(_MOST_FRAMES):
            try:
                found, caller = self._step(frame)
            except _Ends as end:
                self.remark = end.remark
                yield self._with_address(frame)
                return
            yield found
            if caller.exact:
                at = caller.pc, caller.registers.get(self._numbering.stack_pointer, 0)
                if at in entered:
                    self.remark = "the stack leads back to where it was: it may have been overwritten"
                    return
                entered.add(at)
            frame = caller
        self.remark = f"more than {_MOST_FRAMES} frames"

    def _with_address(self, frame: Frame) -> Frame:
        """The same with its address, though its caller is not known."""
        known = self._rules(frame.place)
        try:
            return frame if known is None else replace(frame, address=self._address(frame, known[1]))
        except ValueError:
            return frame

    def _step(self, frame: Frame) -> tuple[Frame, Frame]:
        """(the same frame with its address, its caller). Raises _Ends."""
        known = self._rules(frame.place)
        if self._rules(frame.pc) is None and self._returns_from_signal(frame.pc):
            return replace(frame, signal=True), self._interrupted(frame)
        if known is None:
            return frame, self._called_from(frame)
        entry, rules = known
        returns = rules.registers.get(entry.common.returns)
        if returns is not None and returns.kind is Kind.UNDEFINED:
            raise _Ends
        try:
            address = self._address(frame, rules)
            registers = self._callers(frame, rules, address)
        except ValueError as error:
            raise _Ends(f"the caller is not known: {error}") from None
        pc, stack = registers.get(entry.common.returns), self._numbering.stack_pointer
        if pc is None:
            raise _Ends("the caller is not known: its return address is not kept")
        if not pc:
            raise _Ends
        if stack not in registers:
            raise _Ends("the caller is not known: nothing tells where its stack is")
        if not entry.common.signal and registers[stack] <= frame.registers.get(stack, 0):
            raise _Ends("the stack leads back to where it was: it may have been overwritten")
        registers[self._numbering.return_address] = pc
        signal = entry.common.signal
        return replace(frame, address=address, signal=signal), Frame(pc, signal, registers)

    def _address(self, frame: Frame, rules: Rules) -> int:
        """Raises ValueError."""
        rule, machine = rules.frame, FrameMachine(frame.registers, self._memory, self._bias(frame.place))
        if rule.kind is Kind.REGISTER:
            return machine.register(rule.register) + rule.number & _64_BITS
        if rule.kind is Kind.VALUE_EXPRESSION:
            return value_of(rule.code, machine)
        raise ValueError("nothing tells where the frame ends")

    def _callers(self, frame: Frame, rules: Rules, address: int) -> dict[int, int]:
        """The caller's registers, as far as they are known. Raises ValueError where one is kept in memory
        that is not."""
        machine = FrameMachine(frame.registers, self._memory, self._bias(frame.place), address)
        found = {n: frame.registers[n] for n in self._numbering.kept if n in frame.registers}
        found[self._numbering.stack_pointer] = address
        for number, rule in rules.registers.items():
            value = self._value(number, rule, machine, address)
            if value is None:
                found.pop(number, None)
            else:
                found[number] = value & _64_BITS
        return found

    def _value(self, number: int, rule: Rule, machine: FrameMachine, address: int) -> int | None:
        kind = rule.kind
        if kind is Kind.OFFSET:
            return machine.read(address + rule.number, _WORD)
        if kind is Kind.VALUE_OFFSET:
            return address + rule.number
        if kind is Kind.EXPRESSION:
            return machine.read(value_of(rule.code, machine, address), _WORD)
        if kind is Kind.VALUE_EXPRESSION:
            return value_of(rule.code, machine, address)
        if kind is Kind.UNDEFINED:
            return None
        try:
            return machine.register(rule.register if kind is Kind.REGISTER else number)
        except ValueError:
            return None

    def _returns_from_signal(self, pc: int) -> bool:
        """Whether a handler returns there: not all C libraries have a frame table for it."""
        code = self._numbering.signal_return
        return self._memory.read(pc, len(code)) == code

    def _interrupted(self, frame: Frame) -> Frame:
        """What the signal has interrupted, of which the kernel has stored all registers. Raises _Ends."""
        top = frame.registers.get(self._numbering.stack_pointer, 0)
        stored = {n: self._memory.read(top + at, _WORD) for n, at in self._numbering.saved.items()}
        registers = {n: int.from_bytes(raw, "little") for n, raw in stored.items() if raw is not None}
        pc = registers.get(self._numbering.return_address)
        if pc is None:
            raise _Ends(f"the caller is not known: nothing is known of the memory at {top:#x}")
        return Frame(pc, True, registers)

    def _called_from(self, frame: Frame) -> Frame:
        """The caller of what is no code, or has no table. Raises _Ends."""
        if self._files.at(frame.place) is not None:
            raise _Ends("the caller is not known: no frame table tells of this code")
        what = "there is no code that is known: the stack may have been overwritten"
        if not frame.exact:
            raise _Ends(what)
        top = frame.registers.get(self._numbering.stack_pointer, 0)
        stored = self._memory.read(top, _WORD)
        pc = int.from_bytes(stored or b"", "little")
        if self._rules(pc - 1) is None or not self._called_before(pc):
            raise _Ends("there is no code that is known, and no call has led there")
        registers = {n: frame.registers[n] for n in self._numbering.kept if n in frame.registers}
        registers |= {self._numbering.stack_pointer: top + _WORD, self._numbering.return_address: pc}
        return Frame(pc, False, registers)

    def _bias(self, address: int) -> int:
        one = self._files.at(address)
        return 0 if one is None else one.bias

    def _rules(self, address: int) -> tuple[Entry, Rules] | None:
        """What frame tables say of the code at an address; None: nothing."""
        if address not in self._known:
            one = self._files.at(address)
            self._known[address] = None if one is None else self._read_rules(one, address - one.bias)
        return self._known[address]

    def _tables_of(self, one: PlacedPart) -> Iterator[FrameTables]:
        for raw in (one.raw, self._debug_files.of(one)):
            if raw is not None:
                yield FrameTables(raw, one.name, self._effort, self._numbering.table_type)

    def _read_rules(self, one: PlacedPart, address: int) -> tuple[Entry, Rules] | None:
        if id(one.raw) not in self._tables:
            self._tables[id(one.raw)] = list(self._tables_of(one))
        for tables in self._tables[id(one.raw)]:
            try:
                entry = tables.entry(address)
                if entry is not None:
                    return entry, rules_at(entry, address)
            except ValueError:
                continue
        return None
