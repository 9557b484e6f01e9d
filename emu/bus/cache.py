"""Finite caches: set-associative, least recently used, one private cache for each core.

`sets` is 0 for an unbounded cache. tags: uint64[sets * ways], line number + 1, 0 when empty.
stamps: uint64[sets * ways], the core's access clock at the last use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.errors import UsageError
from emu.native.unicorn import pointer

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@njit(cache=True)
def touch_line(core, line):
    """Mark a line that the cache holds as just used."""
    ways = np.int64(core.ways)
    first = np.int64(line % core.sets) * ways
    tags = carray(pointer(core.tags), first + ways, np.uint64)
    stamps = carray(pointer(core.stamps), first + ways, np.uint64)
    core.clock += _ONE
    for k in range(first, first + ways):
        if tags[k] == line + _ONE:
            stamps[k] = core.clock


@njit(cache=True)
def insert_line(core, line):
    """Give a line a place. Returns the evicted line's number + 1, or 0."""
    ways = np.int64(core.ways)
    first = np.int64(line % core.sets) * ways
    tags = carray(pointer(core.tags), first + ways, np.uint64)
    stamps = carray(pointer(core.stamps), first + ways, np.uint64)
    core.clock += _ONE
    oldest = int(first)
    for k in range(first, first + ways):
        if tags[k] == line + _ONE or tags[k] == _ZERO:
            oldest = k
            break
        if stamps[k] < stamps[oldest]:
            oldest = k
    victim = tags[oldest]
    tags[oldest] = line + _ONE
    stamps[oldest] = core.clock
    return _ZERO if victim == line + _ONE else victim


@njit(cache=True)
def remove_line(core, line):
    """Free the place of a line that another core took."""
    ways = np.int64(core.ways)
    first = np.int64(line % core.sets) * ways
    tags = carray(pointer(core.tags), first + ways, np.uint64)
    for k in range(first, first + ways):
        if tags[k] == line + _ONE:
            tags[k] = _ZERO


def _number(text: str) -> int:
    """Of ASCII digits alone. Raises ValueError."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


@dataclass(frozen=True)
class CacheGeometry:
    """Size of a private cache. sets == 0: unbounded. line: bytes of a coherence line."""

    sets: int
    ways: int
    line: int

    @classmethod
    def parse(cls, text: str) -> CacheGeometry:
        """From 'unbounded' or 'SIZE:WAYS:LINE', as in 32k:4:32. Raises UsageError."""
        if text == "unbounded":
            return cls(0, 0, 64)
        remedy = "write SIZE:WAYS:LINE as in 32k:4:32, or 'unbounded'"
        parts = text.lower().split(":")
        if len(parts) != 3:
            raise UsageError("a cache geometry has three parts", found=repr(text), remedy=remedy)
        try:
            unit = _UNITS.get(parts[0][-1:], 1)
            size = _number(parts[0][:-1] if unit > 1 else parts[0]) * unit
            ways, line = _number(parts[1]), _number(parts[2])
        except ValueError:
            raise UsageError("a cache geometry is made of numbers", found=repr(text), remedy=remedy) from None
        return cls._checked(size, ways, line, remedy)

    @classmethod
    def _checked(cls, size: int, ways: int, line: int, remedy: str) -> CacheGeometry:
        if line not in (16, 32, 64, 128, 256):
            raise UsageError(
                "a cache line has 16 to 256 bytes, a power of two", found=f"{line}", remedy=remedy
            )
        if not 1 <= ways <= 64:
            raise UsageError("a cache has 1 to 64 ways", found=f"{ways}", remedy=remedy)
        sets, rest = divmod(size, ways * line)
        if rest or sets < 1 or sets & (sets - 1) or sets * ways < 2 or size > 1 << 30:
            raise UsageError(
                "a cache's size is ways * line * a power of two, two lines to 1g",
                found=f"{size} bytes for {ways} ways of {line} bytes",
                remedy=remedy,
            )
        return cls(sets, ways, line)

    def __str__(self) -> str:
        return f"{self.sets * self.ways * self.line}:{self.ways}:{self.line}" if self.sets else "unbounded"
