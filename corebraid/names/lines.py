"""Which line of source an instruction comes from: DWARF's line tables, read when asked.

Only the units whose addresses are asked for are decoded, each once, and sections are unpacked no further than
that takes. Lines are a convenience: where a table is missing there are none; where it is damaged, or larger
than any compiler writes, there are none either, and `left_out` is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from corebraid.names.aranges import Range, read_aranges
from corebraid.names.debug_sections import DebugSections, Effort, TooLarge
from corebraid.names.dwarf_fields import Reader
from corebraid.names.left_out import tell_left_out
from corebraid.names.line_program import LineRows, Strings, read_lines
from corebraid.names.units import Unit, code_of, iter_units, read_unit

#: Most bytes of the index of units, most units that are looked at, most ranges of them, and most bytes of
#: line programs that are run of a file: some seconds of work.
_MOST_INDEX, _MOST_UNITS, _MOST_RANGES, _MOST_RUN = 16 << 20, 1 << 15, 1 << 20, 8 << 20
#: Most rows of units that are kept decoded.
_MOST_KEPT = 1 << 21
#: Units that are looked at first.
_FIRST_BATCH = 16
_LONGEST_HEAD = 12


class _Decoded:
    """The line table of a unit, by ascending address."""

    def __init__(self, found: LineRows) -> None:
        self._found = found
        self._starts = sorted(found.rows)

    def __len__(self) -> int:
        return len(self._starts)

    def at(self, address: int) -> str:
        """'file.c:42', or ''."""
        index = bisect_right(self._starts, address) - 1
        return self._found.text(self._found.rows[self._starts[index]]) if index >= 0 else ""

    def after(self, address: int) -> int:
        """The first address behind this one at which a line begins; the greatest where there is none."""
        index = bisect_right(self._starts, address)
        return self._starts[index] if index < len(self._starts) else _LAST

    def text(self, file: int, line: int) -> str:
        """The same of a file's number and a line, or ''."""
        return self._found.text(file << 32 | line) if 0 < line < 1 << 32 else ""

    def of_line(self, line: int) -> Iterator[tuple[str, int, int]]:
        """('dir/file.c', start, end) of all code of the lines with this number."""
        rows = self._found.rows
        for start, end in zip(self._starts, self._starts[1:], strict=False):
            if rows[start] & 0xFFFFFFFF == line:
                yield self._found.text(rows[start]).rpartition(":")[0], start, end


class LineTable:
    """The line tables of the ELF file `raw`. name: what it is called in messages. effort: what looking at
    them may take, with others."""

    def __init__(self, raw: bytes, name: str = "the program", effort: Effort | None = None) -> None:
        self._raw, self.name, self._effort = raw, name, effort
        self._decoded: dict[int, _Decoded] = {}
        self._run, self._batch, self._looked_at = 0, _FIRST_BATCH // 2, 0

    def at(self, address: int) -> str:
        """'file.c:42' of the instruction at `address`, as the file counts addresses, or ''."""
        offset = self.unit_of(address)
        return "" if offset is None else self._of_unit(offset).at(address)

    def of_line(self, line: int) -> Iterator[tuple[str, int, int]]:
        """('dir/file.c', start, end), as the file counts addresses, of all code of the lines with this
        number: all units are looked at, within the bounds that hold for all of them."""
        if not self.known:
            return
        while self._look_further():
            pass
        for offset in sorted({one.unit for one in self._ranges}):
            yield from self._of_unit(offset).of_line(line)

    def of_unit(self, offset: int, file: int, line: int) -> str:
        """'file.c:42' of a line of the file that the unit at `offset` gives this number, or ''."""
        return self._of_unit(offset).text(file, line)

    def next_line(self, offset: int, address: int) -> int:
        """The first address behind this one at which a line begins of the unit at `offset`; one behind all
        where none does."""
        return self._of_unit(offset).after(address)

    def _of_unit(self, offset: int) -> _Decoded:
        if offset not in self._decoded:
            decoded = self._decode(offset)
            if len(decoded) + sum(map(len, self._decoded.values())) > _MOST_KEPT:
                self._decoded.clear()
            self._decoded[offset] = decoded
        return self._decoded[offset]

    @cached_property
    def known(self) -> bool:
        """Whether there are line tables."""
        return {".debug_line", ".debug_info"} <= self.sections.names

    @cached_property
    def sections(self) -> DebugSections:
        """The file's debug sections."""
        return DebugSections(self._raw, self._effort)

    def _leave_out(self, what: str) -> None:
        tell_left_out(f"lines of {self.name} are left out: {what}")

    # -- whose code it is ---------------------------------------------------------------------------------

    def unit_of(self, address: int) -> int | None:
        """Where in `.debug_info` the unit is that has code there, None: nowhere. Of units that no index lists
        as many are looked at as it takes."""
        if not self.known:
            return None
        found = self._covering(address)
        while found is None and self._look_further():
            found = self._covering(address)
        return found

    def _covering(self, address: int) -> int | None:
        index = bisect_right(self._ranges, (address, _LAST)) - 1
        if index < 0 or address >= self._ranges[index].end:
            return None
        return self._ranges[index].unit

    @cached_property
    def _ranges(self) -> list[Range]:
        """The ranges of code that are known so far, ascending; first those of the index."""
        try:
            found = read_aranges(self.sections.section(".debug_aranges").whole(_MOST_INDEX))
        except ValueError as error:
            self._leave_out(f".debug_aranges: {error}")
            found = []
        return sorted({one for one in found if _is_code(one)})

    @cached_property
    def _unlisted(self) -> Generator[list[Range], None, None]:
        """The ranges of each unit that the index does not list: some compilers write none."""
        listed = {one.unit for one in self._ranges}
        for unit in iter_units(self.sections, _MOST_UNITS):
            if unit.offset not in listed:
                yield code_of(self.sections, unit)

    def _look_further(self) -> bool:
        """Whether there were units more to look at: each time twice as many, since they have to be sorted."""
        if not self._batch:
            return False
        n, self._batch = 0, 2 * self._batch
        try:
            for found in islice(self._unlisted, self._batch):
                n += 1
                self._looked_at += len(found)
                self._ranges.extend(one for one in found if _is_code(one))
                if self._looked_at > _MOST_RANGES:
                    self._unlisted.close()
                    raise TooLarge(f"more than {_MOST_RANGES} ranges of code")
        except ValueError as error:
            # The iterator is at its end with that.
            self._leave_out(f".debug_info: {error}")
        self._ranges.sort()
        self._batch = self._batch if n == self._batch else 0
        return n > 0

    # -- its lines ----------------------------------------------------------------------------------------

    def _decode(self, offset: int) -> _Decoded:
        try:
            unit = read_unit(self.sections, offset)
            return _Decoded(LineRows() if unit.lines is None else self._read(unit, unit.lines))
        except ValueError as error:
            self._leave_out(f".debug_line: {error}")
            return _Decoded(LineRows())

    def _read(self, unit: Unit, at: int) -> LineRows:
        section = self.sections.section(".debug_line")
        head = Reader(section.part(at, _LONGEST_HEAD))
        size, _ = head.length()
        size += head.at
        if self._run + size > _MOST_RUN:
            raise TooLarge(f"programs of more than {_MOST_RUN >> 20} MiB")
        self._run += size
        self.sections.effort.spend(size)
        return read_lines(section.part(at, size), 0, self._strings)

    @cached_property
    def _strings(self) -> Strings:
        found = [b"", b""]
        for k, name in enumerate((".debug_line_str", ".debug_str")):
            try:
                found[k] = self.sections.section(name).whole()
            except ValueError as error:
                self._leave_out(f"{name}: {error}")
        return Strings(*found)


_LAST = 1 << 64


def _is_code(one: Range) -> bool:
    """Code that the linker threw away stands at 0."""
    return 0 < one.begin < one.end


@dataclass(frozen=True)
class PlacedLines:
    """The lines of a file at the guest addresses [start, end), `bias` above those that the file counts."""

    start: int
    end: int
    bias: int
    table: LineTable


class Lines:
    """Lines of everything that was mapped."""

    def __init__(self, placed: Iterable[PlacedLines] = ()) -> None:
        self._placed = sorted(placed, key=lambda one: one.start)
        self._starts = [one.start for one in self._placed]

    @property
    def known(self) -> bool:
        """Whether any file tells lines."""
        return any(one.table.known for one in self._placed)

    def at(self, pc: int) -> str:
        """'file.c:42' of the instruction at `pc`, or ''."""
        one = self.of(pc)
        return "" if one is None else one.table.at(pc - one.bias)

    def of(self, pc: int) -> PlacedLines | None:
        """Those of the file that has code there; None: none has."""
        index = bisect_right(self._starts, pc) - 1
        if index < 0 or pc >= self._placed[index].end:
            return None
        return self._placed[index]

    def of_line(self, line: int) -> Iterator[tuple[str, int, int]]:
        """('dir/file.c', start, end) of all code of the lines with this number."""
        for one in self._placed:
            for file, start, end in one.table.of_line(line):
                low, high = max(start + one.bias, one.start), min(end + one.bias, one.end)
                if low < high:
                    yield file, low, high
