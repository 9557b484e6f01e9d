"""Payloads taken as lists of varints, to be changed and written in their shortest forms again."""

from __future__ import annotations

_MOST = 10


def split(raw: bytes) -> list[int]:
    """The varints of `raw`, one after the other; what is left at its end makes one more."""
    found, value, shift = [], 0, 0
    for byte in raw:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80 or shift >= 7 * _MOST:
            found.append(value)
            value = shift = 0
    if shift:
        found.append(value)
    return found


def one(value: int) -> bytes:
    """The shortest form of `value` modulo 2**64."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def join(values: list[int]) -> bytes:
    """The bytes of `values`."""
    return b"".join(map(one, values))
