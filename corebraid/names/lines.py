"""Which line of source an instruction comes from: DWARF's line tables, read when asked.

Only the units whose addresses are asked for are decoded, each once. Lines are a convenience: a table that is
missing, damaged or compressed beyond measure tells none.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from elftools.common.exceptions import DWARFError
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.ranges import BaseAddressEntry, RangeEntry
from elftools.elf.elffile import ELFFile

from corebraid.names.aranges import Range, read_aranges
from corebraid.names.line_program import LineRows, Strings, read_lines
from corebraid.names.symbols import ELF_DAMAGE

#: What pyelftools raises on damaged tables.
_DAMAGE = (*ELF_DAMAGE, DWARFError, NotImplementedError, RecursionError, OSError)
#: Most bytes that compressed sections may become, and most units that are looked at.
_MOST_UNPACKED, _MOST_UNITS = 256 << 20, 1 << 17
#: Most rows of units that are kept decoded.
_MOST_KEPT = 1 << 21
#: Sections that are compressed the old way do not say in their headers what they become.
_OLD_COMPRESSED = ".zdebug_"


class _Unit:
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


class LineTable:
    """The line tables of the ELF file `raw`."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._units: dict[int, _Unit] = {}

    def at(self, address: int) -> str:
        """'file.c:42' of the instruction at `address`, as the file counts addresses, or ''."""
        starts, ranges = self._ranges
        index = bisect_right(starts, address) - 1
        if index < 0 or address >= ranges[index].end:
            return ""
        unit = ranges[index].unit
        if unit not in self._units:
            decoded = self._decode(unit)
            if len(decoded) + sum(map(len, self._units.values())) > _MOST_KEPT:
                self._units.clear()
            self._units[unit] = decoded
        return self._units[unit].at(address)

    @cached_property
    def known(self) -> bool:
        """Whether there are line tables."""
        try:
            elf = ELFFile(io.BytesIO(self._raw))
            unpacked = 0
            for section in elf.iter_sections():
                if section.name.startswith(_OLD_COMPRESSED):
                    return False
                if section.compressed:
                    unpacked += section.data_size
            names = (".debug_line", ".debug_info")
            return unpacked <= _MOST_UNPACKED and all(elf.get_section_by_name(name) for name in names)
        except _DAMAGE:
            return False

    @cached_property
    def _dwarf(self) -> DWARFInfo | None:
        if not self.known:
            return None
        try:
            # Nothing outside the recording is read: no links to other files.
            elf = ELFFile(io.BytesIO(self._raw))
            return elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        except _DAMAGE:
            return None

    @cached_property
    def _ranges(self) -> tuple[list[int], list[Range]]:
        """(where they begin; the ranges of code that each unit has), ascending."""
        dwarf = self._dwarf
        if dwarf is None:
            return [], []
        found = read_aranges(_bytes(dwarf.debug_aranges_sec))
        listed = {one.unit for one in found}
        for unit in _units(dwarf):
            # Some compilers write no .debug_aranges.
            if unit.cu_offset not in listed:
                found += _code_of(dwarf, unit)
        # Code that the linker threw away stands at 0.
        ranges = sorted({one for one in found if 0 < one.begin < one.end})
        return [one.begin for one in ranges], ranges

    def _decode(self, offset: int) -> _Unit:
        dwarf = self._dwarf
        assert dwarf is not None
        try:
            attributes = dwarf.get_CU_at(offset).get_top_DIE().attributes
            section = _bytes(dwarf.debug_line_sec)
            return _Unit(read_lines(section, attributes["DW_AT_stmt_list"].value, self._strings))
        except _DAMAGE:
            return _Unit(LineRows())

    @cached_property
    def _strings(self) -> Strings:
        dwarf = self._dwarf
        assert dwarf is not None
        return Strings(_bytes(dwarf.debug_line_str_sec), _bytes(dwarf.debug_str_sec))


def _bytes(section: Any) -> bytes:
    """What a section of pyelftools holds, if there is one."""
    return section.stream.getvalue() if section is not None else b""


def _units(dwarf: DWARFInfo) -> Iterator[CompileUnit]:
    try:
        yield from islice(dwarf.iter_CUs(), _MOST_UNITS)
    except _DAMAGE:
        return


def _code_of(dwarf: DWARFInfo, unit: CompileUnit) -> list[Range]:
    """The ranges of a unit's code, from its outermost entry."""
    try:
        attributes = unit.get_top_DIE().attributes
        low = attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in attributes else 0
        if "DW_AT_ranges" in attributes:
            return list(_listed(dwarf, unit, attributes["DW_AT_ranges"].value, low))
        if "DW_AT_high_pc" in attributes:
            high = attributes["DW_AT_high_pc"]
            end = high.value if high.form == "DW_FORM_addr" else low + high.value
            return [Range(low, end, unit.cu_offset)]
    except _DAMAGE:
        pass
    return []


def _listed(dwarf: DWARFInfo, unit: CompileUnit, where: int, base: int) -> Iterator[Range]:
    lists: Any = dwarf.range_lists()
    for entry in lists.get_range_list_at_offset(where, cu=unit) if lists else ():
        if isinstance(entry, BaseAddressEntry):
            base = entry.base_address
        elif isinstance(entry, RangeEntry):
            shift = 0 if entry.is_absolute else base
            yield Range(entry.begin_offset + shift, entry.end_offset + shift, unit.cu_offset)


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
        index = bisect_right(self._starts, pc) - 1
        if index < 0 or pc >= self._placed[index].end:
            return ""
        one = self._placed[index]
        return one.table.at(pc - one.bias)
