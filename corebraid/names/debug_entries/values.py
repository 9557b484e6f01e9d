"""Values as text, by their types (DWARF 5, section 5.1)."""

from __future__ import annotations

import math
import struct

from corebraid.names.debug_entries.entries import DebugEntries, Entry
from corebraid.names.debug_entries.types import POINTERS, Types

_BASE, _ENUMERATION, _ENUMERATOR = "DW_TAG_base_type", "DW_TAG_enumeration_type", "DW_TAG_enumerator"
#: DW_ATE_*: boolean, float, signed, signed_char, unsigned, unsigned_char, UTF.
_BOOLEAN, _FLOAT, _SIGNED, _UNSIGNED = 0x02, 0x04, (0x05, 0x06), (0x07, 0x08, 0x10)
_FLOATS = {4: "<f", 8: "<d"}
_MOST_BYTES = 8


class Values:
    """Of a file's types. Every method raises one of `ENTRY_DAMAGE` where they are damaged."""

    def __init__(self, entries: DebugEntries) -> None:
        self._entries, self.types = entries, Types(entries)

    def size(self, kind: Entry | None) -> int | None:
        """Bytes of a value of the type that can be told; None: it cannot."""
        plain = self.types.plain(kind)
        if plain is None:
            return None
        size = self.types.size(plain) if plain.tag in (*POINTERS, _BASE, _ENUMERATION) else None
        return size if size is not None and 1 <= size <= _MOST_BYTES else None

    def text(self, kind: Entry | None, value: int) -> str | None:
        """A value, of which so many bytes count as `size` says, as text; None: it cannot be told."""
        plain, size = self.types.plain(kind), self.size(kind)
        if plain is None or size is None:
            return None
        value &= (1 << 8 * size) - 1
        if plain.tag in POINTERS:
            return f"{value:#x}"
        if plain.tag == _ENUMERATION:
            return self._enumerator(plain, value, size)
        encoding = self._entries.number(plain, "DW_AT_encoding")
        if encoding == _BOOLEAN:
            return ("false", "true")[value] if value < 2 else str(value)
        if encoding == _FLOAT:
            return _float(value, size)
        if encoding in _SIGNED:
            return str(_signed(value, size))
        return str(value) if encoding in _UNSIGNED else None

    def _enumerator(self, kind: Entry, value: int, size: int) -> str:
        for entry in self._entries.children(kind):
            said = self._entries.number(entry, "DW_AT_const_value") if entry.tag == _ENUMERATOR else None
            if said is not None and said & (1 << 8 * size) - 1 == value:
                return self._entries.text(entry, "DW_AT_name") or str(value)
        return str(_signed(value, size))


def _signed(value: int, size: int) -> int:
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def _float(value: int, size: int) -> str | None:
    if size not in _FLOATS:
        return None
    found: float = struct.unpack(_FLOATS[size], value.to_bytes(size, "little"))[0]
    return f"{found:.9g}" if size == 4 and math.isfinite(found) else repr(found)
