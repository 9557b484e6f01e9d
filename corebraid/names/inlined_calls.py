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

    def stands_there(self, pc: int, line: str) -> bool:
        """Whether a line, of code at `pc` or of a call of which that is a part, is one of the compiled file
        itself."""
        placed = self._lines.of(pc)
        return placed is not None and _file(line) == self._compiled(placed.table, pc - placed.bias)

    def _call(self, table: LineTable, address: int) -> str:
        line, compiled = table.at(address), self._compiled(table, address)
        if not line or not compiled or _file(line) == compiled:
            return ""
        found = self._scopes_of(table).at(address)
        return next((one.called for one in found if _file(one.called) == compiled), "")

    def _compiled(self, table: LineTable, address: int) -> str:
        """The name of the file that was compiled to the code at an address; '' where nothing tells."""
        if (unit := table.unit_of(address)) is None:
            return ""
        entries = self._scopes_of(table).entries
        try:
            return PurePath(entries.text(entries.unit(unit), "DW_AT_name")).name
        except ENTRY_DAMAGE:
            return ""

    def _scopes_of(self, table: LineTable) -> Scopes:
        if id(table) not in self._scopes:
            self._scopes[id(table)] = Scopes(table)
        return self._scopes[id(table)]


def _file(line: str) -> str:
    """Of 'dir/file.c:42'."""
    return PurePath(line.rpartition(":")[0]).name
