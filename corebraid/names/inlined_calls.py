"""Where code that stands in another file, such as a header of the C++ library, is called from in the file
that was compiled."""

from __future__ import annotations

from pathlib import PurePath

from corebraid.names.debug_entries.entries import ENTRY_DAMAGE
from corebraid.names.debug_entries.scopes import Scopes
from corebraid.names.lines import Lines, LineTable


class InlinedCalls:
    """Of a program's code. lines: its lines."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._scopes: dict[int, Scopes] = {}
        self._found: dict[int, str] = {}

    def at(self, pc: int) -> str:
        """'file.c:42' of the innermost call in the compiled file itself of which the code at `pc` is a part;
        '' where that code stands there itself, or nothing tells."""
        if pc not in self._found:
            placed = self._lines.of(pc)
            self._found[pc] = "" if placed is None else self._call(placed.table, pc - placed.bias)
        return self._found[pc]

    def _call(self, table: LineTable, address: int) -> str:
        unit, line = table.unit_of(address), table.at(address)
        if unit is None or not line:
            return ""
        if id(table) not in self._scopes:
            self._scopes[id(table)] = Scopes(table)
        scopes = self._scopes[id(table)]
        try:
            compiled = PurePath(scopes.entries.text(scopes.entries.unit(unit), "DW_AT_name")).name
        except ENTRY_DAMAGE:
            return ""
        if _file(line) == compiled:
            return ""
        return next((one.called for one in scopes.at(address) if _file(one.called) == compiled), "")


def _file(line: str) -> str:
    """Of 'dir/file.c:42'."""
    return PurePath(line.rpartition(":")[0]).name
