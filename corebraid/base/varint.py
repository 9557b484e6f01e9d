"""Variable-length integers in Numba kernels: little-endian base 128, LEB128 (docs/format.md, section 4).

Seven bits a byte, low bits first, the high bit set on every byte but the last; 1 to 10 bytes for 64 bits.
The shortest form is the only one accepted, so that equal records have equal bytes.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit

#: Longest encoding of 64 bits.
MAX_VARINT = 10

#: What `get_varint` returns as the next position when there is no valid integer.
CUT_SHORT, OVERLONG = -1, -2

_U0, _U1, _U7 = np.uint64(0), np.uint64(1), np.uint64(7)
_LOW, _MORE = np.uint64(0x7F), np.uint64(0x80)
_U63 = np.uint64(63)


@njit(cache=True)
def put_varint(out, pos, value):  # type: ignore[no-untyped-def]
    """Write `value` (uint64) at `pos` of `out` (uint8[]), which has room; returns the position after."""
    while value >= _MORE:
        out[pos] = np.uint8((value & _LOW) | _MORE)
        value >>= _U7
        pos += 1
    out[pos] = np.uint8(value)
    return pos + 1


@njit(cache=True)
def get_varint(raw, pos):  # type: ignore[no-untyped-def]
    """Read one integer at `pos` of `raw` (uint8[]): (value as uint64, position after or an error < 0)."""
    value = _U0
    shift = _U0
    for k in range(MAX_VARINT):
        if pos + k >= raw.shape[0]:
            return value, CUT_SHORT
        byte = np.uint64(raw[pos + k])
        value |= (byte & _LOW) << shift
        if byte < _MORE:
            if k > 0 and (byte == _U0 or (k == MAX_VARINT - 1 and byte > _U1)):
                return value, OVERLONG
            return value, pos + k + 1
        shift += _U7
    return value, OVERLONG


@njit(cache=True)
def zigzag(new, old):  # type: ignore[no-untyped-def]
    """The difference `new - old` (uint64, modulo 2**64) with its sign folded into bit 0: near is small."""
    delta = new - old
    return (delta << _U1) ^ (_U0 - (delta >> _U63))


@njit(cache=True)
def unzigzag(folded, old):  # type: ignore[no-untyped-def]
    """The inverse of `zigzag`: the uint64 that lies the folded difference away from `old`."""
    return old + ((folded >> _U1) ^ (_U0 - (folded & _U1)))
