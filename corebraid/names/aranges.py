"""Which unit of `.debug_info` code belongs to: `.debug_aranges` (DWARF 5, section 6.1.2)."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

_LONG_FORM = 0xFFFFFFFF


class Range(NamedTuple):
    """Code from `begin` up to, not including, `end` is of the unit at the offset `unit`."""

    begin: int
    end: int
    unit: int


def read_aranges(section: bytes) -> list[Range]:
    """The ranges that the section lists, as far as it can be read. Of 64-bit addresses only."""
    found: list[Range] = []
    at = 0
    while at + 12 <= len(section):
        (length,) = struct.unpack_from("<I", section, at)
        word, begin = 4, at + 4
        if length == _LONG_FORM and at + 24 <= len(section):
            (length,) = struct.unpack_from("<Q", section, begin)
            word, begin = 8, begin + 8
        end = min(begin + length, len(section))
        # Version, offset of the unit, bytes of an address and of a segment.
        head = begin + 2 + word + 2
        if head <= end and section[head - 2] == 8 and section[head - 1] == 0:
            unit = int.from_bytes(section[begin + 2 : head - 2], "little")
            # Pairs begin at a multiple of their size from the beginning of the set.
            first = at + (head - at + 15) // 16 * 16
            words = np.frombuffer(section[first : first + max(end - first, 0) // 16 * 16], "<u8")
            found += [Range(a, a + n, unit) for a, n in words.reshape(-1, 2).tolist() if a and n]
        at = max(end, at + 12)
    return found
