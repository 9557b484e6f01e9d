"""Registers as C sees them."""

from __future__ import annotations


def as_int(value: int) -> int:
    """The low 32 bits as a signed number: a C `int`."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def as_long(value: int) -> int:
    """The low 64 bits as a signed number: a C `long`."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def unsigned(value: int, size: int = 8) -> int:
    """The low `size` bytes of a number that may be negative."""
    return value & ((1 << 8 * size) - 1)
