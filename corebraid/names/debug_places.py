"""Functions and lines that only files of debug information know, which are kept apart from libraries and
programs: call stacks show them, so they are accepted."""

from __future__ import annotations

from collections.abc import Iterator

from corebraid.names.lines import LineTable
from corebraid.names.placed_files import PlacedPart
from corebraid.names.program import GuestProgram
from corebraid.names.symbols import Symbol, Symbols


class DebugPlaces:
    """Of a recorded program and its libraries."""

    def __init__(self, program: GuestProgram) -> None:
        self._program = program

    def named(self, text: str) -> Symbol | None:
        """The function, or variable, of a name as it is shown: 'libc.so.6!start_thread'; without what is
        before it, the first. Raises UsageError where several are called so."""
        for part, debug in self._parts():
            name = text.removeprefix(part.prefix)
            if "!" not in name and (found := Symbols.of_elf(debug).named(name)) is not None:
                return found._replace(address=found.address + part.bias)
        return None

    def of_line(self, line: int) -> Iterator[tuple[str, int, int]]:
        """(path, first address, address behind the last) of code of lines of this number."""
        for part, debug in self._parts():
            for path, low, high in LineTable(debug, part.name).of_line(line):
                yield path, low + part.bias, high + part.bias

    def _parts(self) -> Iterator[tuple[PlacedPart, bytes]]:
        """One of each file for which there is such another one."""
        for part in self._program.files.one_of_each():
            debug = self._program.debug_files.of(part)
            if debug is not None:
                yield part, debug
