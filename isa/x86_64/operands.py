"""What SSE instructions take from memory, as data (SDM volume 2; volume 1, 11.6.10.2 and 11.6.12).

Legacy SSE instructions of 16 bytes want them aligned, but for those that say that they do not (`movups`,
`movupd`, `movdqu`, `lddqu`, comparisons of strings). Some take less than an XMM register holds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

#: Any: nothing is to be said of it. ALIGNED: 16 bytes at a multiple of 16. EIGHT, FOUR: so many bytes.
ANY, ALIGNED, EIGHT, FOUR = range(4)
#: Opcode maps: 0f, 0f 38, 0f 3a. Prefixes: none, 66, f3, f2.
TWO_BYTES, THREE_BYTES_38, THREE_BYTES_3A = range(3)
NO_PREFIX, P66, PF3, PF2 = range(4)

_FLOATS = (0x14, 0x15, 0x28, 0x29, 0x2B, 0x51, *range(0x54, 0x5A), *range(0x5B, 0x60), 0xC2, 0xC6)
_INTEGERS = (
    *range(0x60, 0x6E), 0x6F, 0x70, 0x74, 0x75, 0x76, 0x7F, *range(0xD1, 0xD6), *range(0xD8, 0xF0),
    *range(0xF1, 0xF7), *range(0xF8, 0xFF),
)  # fmt: skip
_ALIGNED: dict[tuple[int, int], Iterable[int]] = {
    (TWO_BYTES, NO_PREFIX): (*_FLOATS, 0x52, 0x53),
    (TWO_BYTES, P66): (*_FLOATS, *_INTEGERS, 0x2C, 0x2D, 0x5A, 0x7C, 0x7D, 0xD0),
    (TWO_BYTES, PF3): (0x12, 0x16, 0x5B, 0x70),
    (TWO_BYTES, PF2): (0x70, 0x7C, 0x7D, 0xD0, 0xE6),
    (THREE_BYTES_38, P66): (
        *range(0x0C), 0x10, 0x14, 0x15, 0x17, 0x1C, 0x1D, 0x1E, *range(0x28, 0x2C), *range(0x37, 0x42),
        *range(0xDB, 0xE0),
    ),
    (THREE_BYTES_3A, P66): (0x08, 0x09, *range(0x0C, 0x10), 0x40, 0x41, 0x42, 0x44, 0xDF),
}  # fmt: skip
#: cvttps2pi, cvtps2pi, cvtps2pd; cvtdq2pd; roundsd.
_EIGHT: dict[tuple[int, int], Iterable[int]] = {
    (TWO_BYTES, NO_PREFIX): (0x2C, 0x2D, 0x5A),
    (TWO_BYTES, PF3): (0xE6,),
    (THREE_BYTES_3A, P66): (0x0B,),
}
#: punpcklbw, punpcklwd, punpckldq of MMX; roundss.
_FOUR: dict[tuple[int, int], Iterable[int]] = {
    (TWO_BYTES, NO_PREFIX): (0x60, 0x61, 0x62),
    (THREE_BYTES_3A, P66): (0x0A,),
}


def _operands() -> NDArray[np.uint8]:
    table = np.zeros((3, 4, 256), np.uint8)
    for kind, opcodes in ((ALIGNED, _ALIGNED), (EIGHT, _EIGHT), (FOUR, _FOUR)):
        for (opcode_map, prefix), those in opcodes.items():
            table[opcode_map, prefix, list(those)] = kind
    return table


#: uint8[map, prefix, opcode], of a form with memory.
MEMORY_OPERANDS = _operands()
