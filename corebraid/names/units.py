"""Units of `.debug_info`: what of them says where their code and their lines are (DWARF 2 to 5, section 3.1).

Only the header and the outermost entry of a unit are read, and nothing is trusted. pyelftools reads them too,
but whatever there is of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from corebraid.names.aranges import Range
from corebraid.names.debug_sections import DebugSections, TooLarge
from corebraid.names.dwarf_fields import Reader

#: Most bytes of a unit's header and outermost entry, of a table of abbreviations up to the one that is
#: looked for, and most ranges of a unit.
_ENTRY, _ABBREVIATIONS, _MOST_RANGES = 1 << 12, 1 << 14, 1 << 16
#: What a unit takes besides, in bytes.
_HEAD = 64
#: DW_AT_stmt_list, low_pc, high_pc, ranges, addr_base (also GNU's), rnglists_base, loclists_base.
_LINES, _LOW, _HIGH, _RANGES, _ADDRESSES, _GNU_ADDRESSES, _LISTS = 0x10, 0x11, 0x12, 0x55, 0x73, 0x2133, 0x74
_LOCATIONS = 0x8C
#: DW_FORM_loclistx.
_LOCATION_INDEX = 0x22
_ADDRESS, _STRING, _SDATA, _INDIRECT, _IMPLICIT, _LIST_INDEX = 0x01, 0x08, 0x0D, 0x16, 0x21, 0x23
#: Forms of so many bytes; of an offset's; of a LEB128 number; blocks with a length of so many bytes (0: of a
#: LEB128 number).
_FIXED = {
    0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x19: 0, 0x1C: 4,
    0x1E: 16, 0x20: 8, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
}  # fmt: skip
_OFFSETS = frozenset({0x0E, 0x10, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21})
_LEB = frozenset({0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02})
_BLOCKS = {0x03: 2, 0x04: 4, 0x09: 0, 0x0A: 1, 0x18: 0}
#: Forms of an address that is a number in `.debug_addr`.
_INDEXED = frozenset({0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01})
#: Unit types of DWARF 5 with more in their headers: DW_UT_type, skeleton, split_compile, split_type.
_TYPE, _SKELETON, _SPLIT, _SPLIT_TYPE = 2, 4, 5, 6


@dataclass(frozen=True)
class Unit:
    """A unit. offset, end: in `.debug_info`. word, address: bytes of an offset and of an address in it.
    values: by attribute, (form, number)."""

    offset: int
    end: int
    version: int
    word: int
    address: int
    values: dict[int, tuple[int, int]]

    @property
    def lines(self) -> int | None:
        """Where its line program is in `.debug_line`."""
        found = self.values.get(_LINES)
        return found[1] if found else None

    @property
    def addresses(self) -> int | None:
        """Where in `.debug_addr` the addresses are that its entries give by numbers."""
        found = self.values.get(_ADDRESSES) or self.values.get(_GNU_ADDRESSES)
        return found[1] if found else None


def read_unit(sections: DebugSections, offset: int) -> Unit:
    """The unit at `offset`; one whose entry cannot be read has no values. Raises ValueError."""
    head = Reader(sections.section(".debug_info").part(offset, _ENTRY))
    length, word = head.length()
    end = offset + head.at + length
    version = head.number(2)
    if not 2 <= version <= 5 or not length:
        raise ValueError("no such version")
    kind = head.number(1) if version == 5 else 0
    if version == 5:
        address, table = head.number(1), head.number(word)
    else:
        table, address = head.number(word), head.number(1)
    head.skip({_SKELETON: 8, _SPLIT: 8, _TYPE: 8 + word, _SPLIT_TYPE: 8 + word}.get(kind, 0))
    try:
        specs = _abbreviation(sections, table, head.uleb())
        values = {name: (form, _value(head, form, word, address, const)) for name, form, const in specs}
    except TooLarge:
        raise
    except ValueError:
        values = {}
    return Unit(offset, end, version, word, address, values)


def iter_units(sections: DebugSections, most: int) -> Iterator[Unit]:
    """The units, one after the other. Raises ValueError where one cannot be read; TooLarge if there are more
    than `most`."""
    info, at, seen = sections.section(".debug_info"), 0, 0
    while info.part(at, 1):
        sections.effort.spend(_HEAD)
        seen += 1
        if seen > most:
            raise TooLarge(f"more than {most} units")
        unit = read_unit(sections, at)
        yield unit
        at = unit.end


def _abbreviation(sections: DebugSections, at: int, code: int) -> list[tuple[int, int, int]]:
    """(attribute, form, implicit value) of an entry with this code."""
    table, before = Reader(sections.section(".debug_abbrev").part(at, _ABBREVIATIONS)), 0
    while found := table.uleb():
        table.uleb()
        table.skip(1)
        specs = []
        while True:
            name, form = table.uleb(), table.uleb()
            const = table.sleb() if form == _IMPLICIT else 0
            sections.effort.spend(table.at - before)
            before = table.at
            if not name and not form:
                break
            specs.append((name, form, const))
        if found == code:
            return specs
    raise ValueError("no such abbreviation")


def _value(head: Reader, form: int, word: int, address: int, const: int) -> int:
    """The value of an attribute, 0 for what is no number."""
    if form == _INDIRECT:
        form = head.uleb()
    if form in _FIXED:
        return head.number(_FIXED[form])
    if form in _OFFSETS:
        return head.number(word)
    if form in _LEB:
        return head.uleb()
    if form in _BLOCKS:
        head.skip(head.number(_BLOCKS[form]) if _BLOCKS[form] else head.uleb())
        return 0
    if form == _ADDRESS:
        return head.number(address)
    if form == _STRING:
        head.string()
        return 0
    if form == _SDATA:
        return head.sleb()
    if form == _IMPLICIT:
        return const
    raise ValueError("no such form")


def code_of_entry(sections: DebugSections, unit: Unit, values: dict[int, tuple[int, int]]) -> list[Range]:
    """The ranges of the code of an entry of the unit, whose attributes are these: by attribute, (form,
    number). None where they cannot be read. Raises TooLarge."""
    code = {name: value for name, value in values.items() if name in (_LOW, _HIGH, _RANGES)}
    # Of an entry with ranges they count from where the unit's code begins (DWARF 4, section 2.17.3).
    kept = {name: value for name, value in unit.values.items() if name not in (_HIGH, _RANGES)}
    return code_of(sections, replace(unit, values=kept | code)) if code else []


def code_of(sections: DebugSections, unit: Unit) -> list[Range]:
    """The ranges of a unit's code; none where they cannot be read. Raises TooLarge."""
    try:
        low = _address(sections, unit, _LOW)
        if _RANGES in unit.values:
            pairs = _newer(sections, unit, low) if unit.version == 5 else _older(sections, unit, low)
            found = []
            for begin, end in pairs:
                found.append(Range(begin, end, unit.offset))
                if len(found) > _MOST_RANGES:
                    raise TooLarge(f"a unit of more than {_MOST_RANGES} ranges")
            return found
        if _HIGH in unit.values:
            form, high = unit.values[_HIGH]
            is_address = form == _ADDRESS or form in _INDEXED
            return [Range(low, _address(sections, unit, _HIGH) if is_address else low + high, unit.offset)]
    except TooLarge:
        raise
    except ValueError:
        pass
    return []


def low_address(sections: DebugSections, unit: Unit) -> int:
    """Where the code of a unit begins, from which lists of its entries count; 0 if it does not say. Raises
    ValueError."""
    return _address(sections, unit, _LOW)


def indexed_address(sections: DebugSections, unit: Unit, index: int) -> int:
    """An address that an entry of the unit gives by its number in `.debug_addr`. Raises ValueError."""
    return _indexed(sections, unit, index)


def list_at(sections: DebugSections, unit: Unit, value: tuple[int, int], section: str) -> int:
    """Where in a section the list is that an attribute (form, number) names: by its place, or by its number
    among those of the unit. Raises ValueError."""
    form, at = value
    if form != _LOCATION_INDEX:
        return at
    table = unit.values.get(_LOCATIONS, (0, 0))[1]
    return table + Reader(sections.section(section).part(table + at * unit.word, unit.word)).number(unit.word)


def _address(sections: DebugSections, unit: Unit, name: int) -> int:
    """The address that an attribute says, 0 if there is none."""
    form, value = unit.values.get(name, (_ADDRESS, 0))
    return _indexed(sections, unit, value) if form in _INDEXED else value


def _indexed(sections: DebugSections, unit: Unit, index: int) -> int:
    at = (unit.addresses or 0) + index * unit.address
    return Reader(sections.section(".debug_addr").part(at, unit.address)).number(unit.address)


def _older(sections: DebugSections, unit: Unit, base: int) -> Iterator[tuple[int, int]]:
    """Of `.debug_ranges` (DWARF 4, section 2.17.3)."""
    size, at = unit.address, unit.values[_RANGES][1]
    while True:
        sections.effort.spend(2 * size)
        pair = Reader(sections.section(".debug_ranges").part(at, 2 * size))
        begin, end = pair.number(size), pair.number(size)
        if not begin and not end:
            return
        if begin == (1 << 8 * size) - 1:
            base = end
        else:
            yield base + begin, base + end
        at += 2 * size


def _newer(sections: DebugSections, unit: Unit, base: int) -> Iterator[tuple[int, int]]:
    """Of `.debug_rnglists` (DWARF 5, section 2.17.3)."""
    section = sections.section(".debug_rnglists")
    form, at = unit.values[_RANGES]
    if form == _LIST_INDEX:
        table = unit.values.get(_LISTS, (0, 0))[1]
        at = table + Reader(section.part(table + at * unit.word, unit.word)).number(unit.word)
    size = unit.address
    while True:
        sections.effort.spend(2 * size)
        entry = Reader(section.part(at, 32))
        kind = entry.number(1)
        if kind == 0:
            return
        # DW_RLE_base_addressx, startx_endx, startx_length, offset_pair, base_address, start_end, and
        # start_length.
        first = entry.number(size) if kind >= 5 else entry.uleb()
        first = _indexed(sections, unit, first) if kind <= 3 else first
        second = 0
        if kind not in (1, 5):
            second = entry.number(size) if kind == 6 else entry.uleb()
            second = _indexed(sections, unit, second) if kind == 2 else second
        if kind in (1, 5):
            base = first
        elif kind == 4:
            yield base + first, base + second
        elif kind in (2, 6):
            yield first, second
        elif kind in (3, 7):
            yield first, first + second
        else:
            raise ValueError("no such entry")
        at += entry.at
