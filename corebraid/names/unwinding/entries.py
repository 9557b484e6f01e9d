"""The entries of `.eh_frame` and `.debug_frame` (DWARF 5, section 6.4.1; Linux Standard Base 5, section
10.6): which code each is of. Nothing is trusted.

pyelftools reads them too, but all of a section at once, with what they say, and raises what it meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corebraid.names.debug_sections import TooLarge
from corebraid.names.dwarf_fields import Reader
from corebraid.names.unwinding.pointers import ABSOLUTE, OMITTED, read_number, read_pointer

#: Entries of a section that are looked at, at most.
_MOST_ENTRIES = 1 << 18
_LONG_ID = 8


@dataclass(frozen=True)
class FrameSection:
    """A section. address: of its first byte, as the file counts addresses. for_debuggers: it is
    `.debug_frame`, not `.eh_frame`."""

    data: bytes
    address: int
    for_debuggers: bool = False


@dataclass(frozen=True)
class Common:
    """What entries have in common (CIE). encoding: of their pointers. code, data: factors. returns: the
    column of the return address. signal: their code is entered by a signal, not by a call. sized: entries say
    how long their augmentation is."""

    encoding: int
    code: int
    data: int
    returns: int
    signal: bool
    sized: bool
    instructions: bytes


@dataclass(frozen=True)
class Entry:
    """What is said of the code from `begin` up to, not including, `end` (FDE)."""

    common: Common
    begin: int
    end: int
    instructions: bytes


class Entries:
    """The entries of a section, each read when it is asked for. Every method raises ValueError where the
    section is damaged."""

    def __init__(self, section: FrameSection) -> None:
        self._section = section
        self._common: dict[int, Common] = {}

    def at(self, offset: int) -> Entry:
        """The entry at `offset`."""
        reader, owner = self._opened(offset)
        if owner is None:
            raise ValueError("no entry of code")
        common = self._common_at(owner)
        begin = read_pointer(reader, common.encoding, self._section.address)
        size = read_number(reader, common.encoding)
        if common.sized:
            reader.skip(reader.uleb())
        return Entry(common, begin, begin + size, reader.data[reader.at : reader.end])

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """(first address, end, offset of the entry) of all. Raises TooLarge, too."""
        at, seen = 0, 0
        while at + 4 <= len(self._section.data):
            seen += 1
            if seen > _MOST_ENTRIES:
                raise TooLarge(f"more than {_MOST_ENTRIES} entries")
            head = Reader(self._section.data, at)
            length, _ = head.length()
            if not length and not self._section.for_debuggers:
                return
            if length and self._opened(at)[1] is not None:
                entry = self.at(at)
                yield entry.begin, entry.end, at
            at = head.at + length

    def _opened(self, offset: int) -> tuple[Reader, int | None]:
        """(a reader behind the identifier, offset of the common part; None: it is one itself)."""
        reader = Reader(self._section.data, offset)
        length, word = reader.length()
        reader = Reader(self._section.data, reader.at, reader.at + length)
        here = reader.at
        if not self._section.for_debuggers:
            distance = reader.number(4)
            return reader, here - distance if distance else None
        owner = reader.number(word)
        return reader, None if owner == (1 << 8 * word) - 1 else owner

    def _common_at(self, offset: int) -> Common:
        if offset not in self._common:
            reader, owner = self._opened(offset)
            if owner is not None:
                raise ValueError("no common part there")
            self._common[offset] = self._read_common(reader)
        return self._common[offset]

    def _read_common(self, reader: Reader) -> Common:
        version = reader.number(1)
        if version not in (1, 3, 4):
            raise ValueError("no such version")
        letters = reader.string().decode("ascii", "replace")
        if version == 4 and (reader.number(1), reader.number(1)) != (_LONG_ID, 0):
            raise ValueError("addresses of another size")
        code, data = reader.uleb(), reader.sleb()
        returns = reader.number(1) if version == 1 else reader.uleb()
        encoding, signal = ABSOLUTE, False
        if letters and not letters.startswith("z"):
            raise ValueError("an augmentation that is not known")
        if letters:
            behind = reader.uleb() + reader.at
            for letter in letters[1:]:
                if letter == "R":
                    encoding = reader.number(1)
                elif letter == "L":
                    reader.number(1)
                elif letter == "P":
                    self._skip_pointer(reader)
                signal = signal or letter == "S"
            reader.skip(behind - reader.at)
        rest = reader.data[reader.at : reader.end]
        return Common(encoding, code, data, returns, signal, bool(letters), rest)

    def _skip_pointer(self, reader: Reader) -> None:
        encoding = reader.number(1)
        if encoding != OMITTED:
            read_number(reader, encoding)
