"""Places in a program as people give them: addresses, and every name that is printed of one.

What is accepted: an address (0x hexadecimal, or decimal); a symbol, of the program, or of a library as
LIBRARY!symbol; either with +OFFSET; 'accounts[3].balance' where types are known, with +OFFSET too; and
'file.c:22', which is the code of that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase, shown
from corebraid.names.debug_places import DebugPlaces
from corebraid.names.program import GuestProgram
from corebraid.names.selection import AddressRange
from corebraid.names.symbols import Symbol, several

_MOST = (1 << 64) - 1
#: No file's name that a line is asked of: symbols of libraries, distances, elements. A folder may have any.
_LINE = re.compile(r"(?P<file>(?:[^:!\[\]]*/)?[^:!+/\[\]]+\.[A-Za-z][^:!+/\[\]]*):(?P<line>[0-9]{1,9})")
_FUNCTIONS = (
    "give the name of a function, or an address in it; one that was compiled into its callers has no code "
    "of its own"
)
_COLON = re.compile("(?<!:):(?!:)")
_REMEDY = (
    "write hexadecimal as 0x1000, decimal, the name of a symbol of the program, NAME+OFFSET, "
    "NAME[3].member or LIBRARY!NAME"
)


class AskedPlaces:
    """Of the program of a recording."""

    def __init__(self, program: GuestProgram) -> None:
        self._program, self._debug = program, DebugPlaces(program)

    def addresses(self, text: str, option: str = "addr") -> AddressRange:
        """From 'A:B' (B not included), or one place: a symbol alone, and a part of a variable, is all its
        bytes, what has an offset, and an address, is one byte. Raises UsageError."""
        line = self._line(text)
        if line is not None:
            return _whole(line, text)
        # Names of C++ and Rust have two together.
        first, *rest = _COLON.split(text, maxsplit=1)
        one = self._place(first, text, option)
        if not rest:
            return one
        low, high = one.low, self._place("".join(rest), text, option).low
        if high <= low:
            raise UsageError(
                "an address range that holds nothing",
                found=repr(text),
                remedy=Phrase("write ", Option(option), " FIRST:END with END above FIRST"),
            )
        return AddressRange(low, high)

    def bytes_of(self, text: str, most: int) -> AddressRange:
        """From 'PLACE' or 'PLACE:BYTES', as `addresses` of one place. most: bytes. Raises UsageError."""
        line, head, tail = self._line(text), *text.rpartition(":")[::2]
        if line is not None:
            found, rest = _whole(line, text), list[str]()
        elif _LINE.fullmatch(head) and (line := self._line(head)) is not None:
            found, rest = _whole(line, head), [tail]
        else:
            first, *rest = _COLON.split(text, maxsplit=1)
            found = self._place(first, text, "place")
        if rest:
            length = _number(rest[0])
            if length is None or not length or found.low + length > _MOST:
                raise UsageError(
                    "not a number of bytes", found=repr(rest[0]), remedy="write PLACE or PLACE:BYTES"
                )
            found = AddressRange(found.low, found.low + length)
        if found.high - found.low > most:
            raise UsageError(
                "too many bytes",
                expected=f"at most {most}",
                found=f"{found.high - found.low} of {shown(text)}",
                remedy="write PLACE:BYTES for some of them",
            )
        return found

    def instruction(self, text: str) -> tuple[AddressRange, ...]:
        """Where code is: an address or a name is the instruction that begins there, 'A:B' all from A up to
        (not) B, 'file.c:22' all of that line. Raises UsageError."""
        line = self._line(text)
        if line is not None:
            return tuple(AddressRange(low, high) for low, high in line)
        if len(_COLON.split(text)) > 1:
            return (self.addresses(text, "pc"),)
        low = self._place(text, text, "pc").low
        return (AddressRange(low, low + 1),)

    def function(self, text: str) -> tuple[AddressRange, ...]:
        """All code of a function, with what a compiler has split off or cloned as NAME.cold, NAME.part.0; of
        an address, of the symbol that it is in. Raises UsageError."""
        symbols = self._program.symbols
        number = _number(text)
        if number is not None:
            index, _ = symbols.find(np.array([number], np.uint64))
            if index[0] < 0:
                raise _no_such(text, Option("function", text), "give the name of a function")
            start = int(symbols.address[index[0]])
            return (AddressRange(start, start + symbols.size(int(index[0]))),)
        clones = symbols.clones(text)
        whole = symbols.named(text) or (None if clones else self._debug.named(text))
        if whole is None and not clones:
            raise _no_such(text, Option("function", text), _FUNCTIONS)
        return tuple(
            AddressRange(s.address, s.address + s.size) for s in [*([whole] if whole else []), *clones]
        )

    def _place(self, text: str, whole: str, option: str) -> AddressRange:
        """One place, without a colon."""
        symbol = self._program.symbols.named(text)
        if symbol is not None:
            return _of_symbol(symbol)
        value = _number(text)
        if value is not None and value <= _MOST:
            return AddressRange(value, value + 1)
        part = self._program.data_names.place(text)
        if part is not None:
            return AddressRange(part[0], part[0] + max(part[1], 1))
        name, plus, rest = text.rpartition("+")
        offset = _number(rest)
        if plus and offset is not None and name:
            low = self._place(name, whole, option).low + offset
            if low <= _MOST:
                return AddressRange(low, low + 1)
        # Last, since files of debug information are large.
        if (symbol := self._debug.named(text)) is not None:
            return _of_symbol(symbol)
        raise _no_such(text, Option(option, whole), _REMEDY)

    def _line(self, text: str) -> list[tuple[int, int]] | None:
        """The code of 'file.c:22', ascending; None: that is no line. Raises UsageError if there is no code of
        it, or several files are called so."""
        found = _LINE.fullmatch(text)
        if found is None or self._program.symbols.named(found["file"]) is not None:
            return None
        file, number = found["file"], int(found["line"])
        if self._program.data_names.place(file) is not None:
            return None
        known = (self._program.lines.of_line, self._debug.of_line)
        each = ([one for one in of_line(number) if _is_called(one[0], file)] for of_line in known)
        spans = next(filter(None, each), [])
        if not spans:
            shows = self._program.lines.known
            remedy = "give a line that 'corebraid trace' shows" if shows else "the program has no lines (-g)"
            raise UsageError(f"no code of the line {shown(text)}", remedy=remedy)
        names = {name: low for name, low, _ in reversed(spans)}
        if len(names) > 1:
            raise several(
                "several files of that name", [(f"{n}:{number}", a) for n, a in names.items()], text
            )
        return _joined((low, high) for _, low, high in spans)


def _of_symbol(symbol: Symbol) -> AddressRange:
    return AddressRange(symbol.address, symbol.address + max(symbol.size, 1))


def _whole(spans: list[tuple[int, int]], text: str) -> AddressRange:
    if len(spans) > 1:
        found = [(text, low) for low, _ in spans]
        raise several("a line whose code is at several places", found, text)
    return AddressRange(*spans[0])


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _is_called(path: str, asked: str) -> bool:
    """Whether a file is called so: by its whole path, or by its last parts."""
    return path == asked or path.endswith(f"/{asked}")


def _number(text: str) -> int | None:
    """A number as it is typed; None: it is none."""
    digits = text[2:] if text[:2].lower() == "0x" else text
    try:
        value = int(digits, 16 if digits is not text else 10)
    except ValueError:
        return None
    return value if digits.isascii() and digits.isalnum() else None


def _no_such(text: str, found: Option, remedy: str) -> UsageError:
    return UsageError(f"no such address or symbol {shown(text)!r}", found=found, remedy=remedy)
