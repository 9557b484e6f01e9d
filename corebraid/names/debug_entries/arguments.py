"""What functions were called with, as far as it can still be told (DWARF 5, section 3.3.4).

A value that is not known is left out: one whose register was not kept, or that the compiler has only for
where the function was entered.
"""

from __future__ import annotations

from collections.abc import Iterator

from corebraid.names.debug_entries.entries import ENTRY_DAMAGE, DebugEntries, Entry
from corebraid.names.debug_entries.scopes import Scope
from corebraid.names.debug_entries.values import Values
from corebraid.names.lines import LineTable
from corebraid.names.unwinding.expressions import In, location_of
from corebraid.names.unwinding.machine import FrameMachine, Memory
from corebraid.names.unwinding.stack import Frame

_PARAMETER, _LOCATION, _CONSTANT = "DW_TAG_formal_parameter", "DW_AT_location", "DW_AT_const_value"
_BASE = "DW_AT_frame_base"
#: Parameters of a function, at most.
_MOST = 32


class Arguments:
    """Of functions of a file, whose lines are `table`. bias: from the addresses that it counts to those of
    the guest."""

    def __init__(self, table: LineTable, entries: DebugEntries, memory: Memory, bias: int) -> None:
        self._table, self._entries, self._memory, self._bias = table, entries, memory, bias
        self._values = Values(entries)

    def of(self, scope: Scope, function: Scope, frame: Frame) -> list[tuple[str, str]]:
        """(name, value) of each argument that is known, of a function in a frame. function: the one that was
        called, which `scope` is, or was compiled into."""
        try:
            base = self._frame_base(function.blocks[0], frame)
            machine = FrameMachine(frame.registers, self._memory, self._bias, frame.address, base)
            early = frame.exact and self._in_prologue(function.blocks[0], frame.place - self._bias)
            return list(self._told(scope.blocks[0], machine, frame.place - self._bias, early))
        except ENTRY_DAMAGE:
            return []

    def _frame_base(self, function: Entry, frame: Frame) -> int | None:
        found = self._entries.location(function, _BASE, frame.place - self._bias)
        if found is None:
            return None
        machine = FrameMachine(frame.registers, self._memory, self._bias, frame.address)
        try:
            place = location_of(found[0], machine)
            return machine.register(place.number) if place.what is In.REGISTER else place.number
        except ValueError:
            return None

    def _in_prologue(self, function: Entry, address: int) -> bool:
        """Whether arguments need not be yet where the function keeps them, as compilers tell who does not say
        where they are before: that is done where its second line begins."""
        code = self._entries.code(function)
        begin = next((one.begin for one in code if one.begin <= address < one.end), address)
        return address < self._table.next_line(function.cu.cu_offset, begin)

    def _told(
        self, function: Entry, machine: FrameMachine, address: int, early: bool
    ) -> Iterator[tuple[str, str]]:
        parameters = [e for e in self._entries.children(function) if e.tag == _PARAMETER]
        for entry in parameters[:_MOST]:
            name = self._entries.text(entry, "DW_AT_name")
            try:
                text = self._text(entry, machine, address, early)
            except ENTRY_DAMAGE:
                continue
            if name and text is not None:
                yield name, text

    def _text(self, entry: Entry, machine: FrameMachine, address: int, early: bool) -> str | None:
        kind = self._values.types.type_of(entry)
        size = self._values.size(kind)
        if size is None:
            return None
        constant = self._entries.number(entry, _CONSTANT)
        if constant is not None:
            return self._values.text(kind, constant)
        found = self._entries.location(entry, _LOCATION, address)
        if found is None:
            return None
        place = location_of(found[0], machine)
        if place.what is In.MEMORY:
            return None if early and found[1] else self._values.text(kind, machine.read(place.number, size))
        value = machine.register(place.number) if place.what is In.REGISTER else place.number
        return self._values.text(kind, value)
