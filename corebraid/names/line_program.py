"""Line number programs of `.debug_line` (DWARF 2 to 5, section 6.2), run into rows. Nothing is trusted.

pyelftools reads them too, but keeps some hundred bytes for each opcode, and believes counts in their headers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from corebraid.names.debug_sections import TooLarge
from corebraid.names.dwarf_fields import LONGEST_NAME, Reader
from corebraid.names.symbols import printable

#: Standard opcodes, extended opcodes, and contents of file entries, as DWARF calls them (DW_LNS_*, ...).
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_PATH, _DIRECTORY_INDEX = 1, 2
_STRING, _LINE_STRP, _STRP, _UDATA, _BLOCK = 0x08, 0x1F, 0x0E, 0x0F, 0x09
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
#: Most bytes of a unit's program, most rows of it, and most directories or files: no compiler comes near, and
#: a compressed section of a few kilobytes could ask for all memory.
_MOST_BYTES, _MOST_ROWS, _MOST_FILES = 4 << 20, 1 << 20, 1 << 16
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Strings:
    """The sections that file names may lie in: `.debug_line_str` and `.debug_str`."""

    line: bytes = b""
    common: bytes = b""


@dataclass
class LineRows:
    """rows: from each address on up to the next, the number of the file << 32 and the line; 0: no line.

    directories, files (name, directory): by number, from 0.
    """

    directories: list[bytes] = field(default_factory=list)
    files: list[tuple[bytes, int]] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)

    def text(self, row: int) -> str:
        """'file.c:42' of a row, the file as the compiler was told it, or ''."""
        number, line = row >> 32, row & 0xFFFFFFFF
        if not line:
            return ""
        if number >= len(self.files):
            return f"?:{line}"
        name, at = self.files[number]
        # Directory 0 is where the compiler ran.
        if 0 < at < len(self.directories) and not name.startswith(b"/"):
            name = self.directories[at] + b"/" + name
        return f"{printable(name[:LONGEST_NAME])}:{line}"


def read_lines(section: bytes, offset: int, strings: Strings) -> LineRows:
    """The rows of the program at `offset` in `.debug_line`. Raises ValueError where it is damaged."""
    head = Reader(section, offset, len(section))
    length, word = head.length()
    if length > head.end - head.at:
        raise ValueError("cut short")
    if length > _MOST_BYTES:
        raise TooLarge("too long a program")
    return _Program(Reader(section, head.at, head.at + length), word, strings).run()


class _Program:
    """One program. word: bytes of an offset in it."""

    def __init__(self, reader: Reader, word: int, strings: Strings) -> None:
        self._reader, self._word, self._strings = reader, word, strings
        self._found = LineRows()
        version = reader.number(2)
        if not 2 <= version <= 5:
            raise ValueError("no such version")
        if version == 5:
            reader.skip(2)
        first = reader.number(word) + reader.at
        self._unit = reader.number(1)
        if version >= 4:
            reader.skip(1)
        reader.skip(1)
        self._line_base = reader.number(1)
        self._line_base -= 256 if self._line_base > 127 else 0
        self._line_range, self._opcode_base = reader.number(1), reader.number(1)
        if not self._line_range or not self._opcode_base:
            raise ValueError("a range of nothing")
        self._arguments = [0] + [reader.number(1) for _ in range(self._opcode_base - 1)]
        if version == 5:
            self._found.directories = [name for name, _ in self._entries()]
            self._found.files = self._entries()
        else:
            self._old_files()
        if not reader.at <= first <= reader.end:
            raise ValueError("no such place")
        reader.at = first

    def _old_files(self) -> None:
        """Directories and files count from 1 before version 5."""
        reader, found = self._reader, self._found
        found.directories, found.files = [b""], [(b"?", 0)]
        while name := reader.string():
            found.directories.append(name)
            _count(found.directories)
        while name := reader.string():
            found.files.append((name, reader.uleb()))
            _count(found.files)
            reader.uleb(), reader.uleb()

    def _entries(self) -> list[tuple[bytes, int]]:
        """A table of directories or files (DWARF 5, section 6.2.4): (name, directory) of each."""
        reader = self._reader
        formats = [(reader.uleb(), reader.uleb()) for _ in range(reader.number(1))]
        count = reader.uleb()
        # Each has a byte at least, so that a count is never more than the bytes that are there.
        if count > (reader.end - reader.at if formats else 0):
            raise ValueError("more entries than bytes")
        if count > _MOST_FILES:
            raise TooLarge("too many files")
        found = []
        for _ in range(count):
            name, directory = b"?", 0
            for content, form in formats:
                value = self._value(form)
                if content == _PATH and isinstance(value, bytes):
                    name = value
                elif content == _DIRECTORY_INDEX and isinstance(value, int):
                    directory = value
            found.append((name, directory))
        return found

    def _value(self, form: int) -> bytes | int:
        reader = self._reader
        if form == _STRING:
            return reader.string()
        if form in (_LINE_STRP, _STRP):
            text = self._strings.line if form == _LINE_STRP else self._strings.common
            return Reader(text, reader.number(self._word), len(text)).string()
        if form == _UDATA:
            return reader.uleb()
        if form == _BLOCK:
            reader.skip(reader.uleb())
            return 0
        if form not in _FIXED:
            raise ValueError("no such form")
        return reader.number(_FIXED[form])

    def run(self) -> LineRows:
        """Run the program to its end."""
        reader, rows = self._reader, self._found.rows
        data, base, span, unit = reader.data, self._opcode_base, self._line_range, self._unit
        lowest = self._line_base
        steps: dict[int, Callable[[_State], None]] = {
            _ADVANCE_PC: lambda state: state.advance(unit * reader.uleb()),
            _ADVANCE_LINE: lambda state: state.move(reader.sleb()),
            _SET_FILE: lambda state: state.set_file(reader.uleb()),
            _CONST_ADD_PC: lambda state: state.advance(unit * ((255 - base) // span)),
            _FIXED_ADVANCE_PC: lambda state: state.advance(reader.number(2)),
        }
        state = _State(rows)
        while reader.at < reader.end:
            opcode = data[reader.at]
            reader.at += 1
            if opcode >= base:
                opcode -= base
                state.advance(unit * (opcode // span))
                state.move(lowest + opcode % span)
                state.emit()
            elif opcode == 0:
                if self._extended(state):
                    state = _State(rows)
            elif opcode == _COPY:
                state.emit()
            elif opcode in steps:
                steps[opcode](state)
            else:
                for _ in range(self._arguments[opcode]):
                    reader.uleb()
        return self._found

    def _extended(self, state: _State) -> bool:
        """An extended opcode. True at the end of a sequence."""
        reader = self._reader
        length = reader.uleb()
        body = Reader(reader.data, reader.at, reader.at + length)
        reader.skip(length)
        opcode = body.number(1) if length else 0
        if opcode == _SET_ADDRESS:
            state.address = body.number(body.end - body.at) if length <= 9 else 0
        elif opcode == _END_SEQUENCE:
            state.end()
            return True
        return False


def _count(entries: list[Any]) -> None:
    if len(entries) > _MOST_FILES:
        raise TooLarge("too many files")


class _State:
    """The registers that matter, and what they have told so far of one sequence."""

    def __init__(self, rows: dict[int, int]) -> None:
        self._every = rows
        self._rows: dict[int, int] = {}
        self.address, self._file, self._line = 0, 1, 1

    def advance(self, by: int) -> None:
        """Go on in the code."""
        self.address = (self.address + by) & _64_BITS

    def move(self, by: int) -> None:
        """Go on in the source."""
        self._line += by

    def set_file(self, number: int) -> None:
        """Another file."""
        self._file = number

    def emit(self) -> None:
        """A row; of several at one address the last one tells."""
        line = self._line if 0 < self._line < 1 << 32 else 0
        self._rows[self.address] = self._file << 32 | line if line else 0
        if len(self._rows) + len(self._every) > _MOST_ROWS:
            raise TooLarge("too many rows")

    def end(self) -> None:
        """The sequence ends here. Code that the linker threw away begins at 0."""
        if self._rows and min(self._rows):
            self._every.update(self._rows)
            self._every.setdefault(self.address, 0)
