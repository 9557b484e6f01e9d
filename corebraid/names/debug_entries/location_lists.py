"""Where something is, address by address: `.debug_loclists` (DWARF 5, section 7.7.3) and `.debug_loc`
(DWARF 4, section 2.6.2). Nothing is trusted."""

from __future__ import annotations

from collections.abc import Iterator

from corebraid.names.debug_sections import DebugSections, Section
from corebraid.names.dwarf_fields import Reader
from corebraid.names.units import Unit, indexed_address, list_at, low_address

#: Most bytes of an expression, and of an entry without it.
_EXPRESSION, _ENTRY = 1 << 12, 32
#: Bytes that an entry takes of what looking may take.
_COST = 16
_SECTION, _OLD_SECTION = ".debug_loclists", ".debug_loc"
#: DW_LLE_*: end_of_list, base_addressx, startx_endx, startx_length, offset_pair, default_location,
#: base_address, start_end, start_length.
_END, _BASE_X, _X_X, _X_LENGTH, _PAIR, _DEFAULT, _BASE, _START_END, _START_LENGTH = range(9)
_MOST = 1 << 64


def expression_at(sections: DebugSections, unit: Unit, value: tuple[int, int], address: int) -> bytes | None:
    """The expression of the list that an attribute (form, number) of an entry of the unit names, for the
    instruction at an address; None: the list says of none. Raises ValueError where it is damaged."""
    if unit.version >= 5:
        entries = _entries(sections, unit, list_at(sections, unit, value, _SECTION))
    else:
        entries = _old_entries(sections, unit, value[1])
    by_default = None
    for begin, end, code in entries:
        if begin <= address < end:
            return code
        by_default = code if (begin, end) == (_MOST, _MOST) else by_default
    return by_default


def _block(section: Section, at: int, size: int) -> bytes:
    if size > _EXPRESSION:
        raise ValueError("too long an expression")
    found = section.part(at, size)
    if len(found) < size:
        raise ValueError("cut short")
    return found


def _entries(sections: DebugSections, unit: Unit, at: int) -> Iterator[tuple[int, int, bytes]]:
    """(first address, end, expression); one by default stands at the greatest address and ends there."""
    section, size, base = sections.section(_SECTION), unit.address, low_address(sections, unit)
    while True:
        sections.effort.spend(_COST)
        entry = Reader(section.part(at, _ENTRY))
        kind = entry.number(1)
        if kind == _END:
            return
        if kind > _START_LENGTH:
            raise ValueError("no such entry")
        first, second = _numbers(entry, kind, size)
        if kind in (_BASE_X, _X_X, _X_LENGTH):
            first = indexed_address(sections, unit, first)
        second = indexed_address(sections, unit, second) if kind == _X_X else second
        if kind in (_BASE_X, _BASE):
            base = first
            at += entry.at
            continue
        length = entry.uleb()
        at += entry.at
        begin, end = first, first + second if kind in (_X_LENGTH, _START_LENGTH) else second
        if kind == _PAIR:
            begin, end = base + first, base + second
        if kind == _DEFAULT:
            begin = end = _MOST
        yield begin, end, _block(section, at, length)
        at += length


def _numbers(entry: Reader, kind: int, size: int) -> tuple[int, int]:
    """The two numbers of an entry, 0 where it has fewer."""
    if kind == _DEFAULT:
        return 0, 0
    first = entry.number(size) if kind in (_BASE, _START_END, _START_LENGTH) else entry.uleb()
    if kind in (_BASE_X, _BASE):
        return first, 0
    return first, entry.number(size) if kind == _START_END else entry.uleb()


def _old_entries(sections: DebugSections, unit: Unit, at: int) -> Iterator[tuple[int, int, bytes]]:
    section, size, base = sections.section(_OLD_SECTION), unit.address, low_address(sections, unit)
    while True:
        sections.effort.spend(_COST)
        entry = Reader(section.part(at, _ENTRY))
        begin, end = entry.number(size), entry.number(size)
        if not begin and not end:
            return
        if begin == (1 << 8 * size) - 1:
            base, at = end, at + entry.at
            continue
        length = entry.number(2)
        yield base + begin, base + end, _block(section, at + entry.at, length)
        at += entry.at + length
