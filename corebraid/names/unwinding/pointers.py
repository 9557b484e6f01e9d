"""Pointers as `.eh_frame` and its index write them (Linux Standard Base 5, core specification, section
10.5.1, DW_EH_PE_*)."""

from __future__ import annotations

from corebraid.names.dwarf_fields import Reader

ABSOLUTE, OMITTED = 0x00, 0xFF
_SIZES = {0x0: 8, 0x2: 2, 0x3: 4, 0x4: 8, 0xA: 2, 0xB: 4, 0xC: 8}
_ULEB, _SLEB, _SIGNED = 0x1, 0x9, 0x8
_FORMAT, _RELATIVE = 0x0F, 0xF0
_TO_ITSELF, _TO_BASE = 0x10, 0x30
_64_BITS = (1 << 64) - 1


def read_pointer(reader: Reader, encoding: int, start: int, base: int = 0) -> int:
    """The pointer at `reader.at`, an address. start: the address of the reader's first byte. base: what
    `DW_EH_PE_datarel` counts from. Raises ValueError for encodings that compilers do not write there."""
    here = start + reader.at
    value = read_number(reader, encoding)
    relative = encoding & _RELATIVE
    if relative not in (ABSOLUTE, _TO_ITSELF, _TO_BASE):
        raise ValueError("no such pointer")
    return (value + {_TO_ITSELF: here, _TO_BASE: base}.get(relative, 0)) & _64_BITS


def read_number(reader: Reader, encoding: int) -> int:
    """The number that an encoding stores, whatever it counts from. Raises ValueError."""
    form = encoding & _FORMAT
    if form == _ULEB:
        return reader.uleb()
    if form == _SLEB:
        return reader.sleb()
    if form not in _SIZES:
        raise ValueError("no such pointer")
    size = _SIZES[form]
    value = reader.number(size)
    return value - (1 << 8 * size) if form & _SIGNED and value >> (8 * size - 1) else value
