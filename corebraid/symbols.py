"""Names of addresses: the symbol table of a program, as sorted arrays."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from numpy.typing import NDArray

_TYPES = ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE")
_ABSENT = ("SHN_UNDEF", "SHN_ABS")


@dataclass(frozen=True)
class Symbol:
    """A name for `size` bytes from `address` on."""

    address: int
    size: int
    name: str


class Symbols:
    """Symbols sorted by address. start, size: uint64[n]; names: the n names.

    A symbol without a size reaches to the next one. Of several at one address, one that has a size wins;
    a label without a size inside a sized symbol does not end it and is left out.
    """

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        kept: list[Symbol] = []
        end = 0
        for symbol in sorted(symbols, key=lambda s: (s.address, -s.size, s.name)):
            if kept and (symbol.address == kept[-1].address or (symbol.address < end and not symbol.size)):
                continue
            kept.append(symbol)
            end = max(end, symbol.address + symbol.size)
        self.start: NDArray[np.uint64] = np.array([s.address for s in kept], np.uint64)
        self.size: NDArray[np.uint64] = np.array(
            [symbol.size or after - symbol.address for symbol, after in _with_next(kept)], np.uint64
        )
        self.names = [s.name for s in kept]

    @classmethod
    def of_elf(cls, raw: bytes, more: Iterable[Symbol] = ()) -> Symbols:
        """The functions and objects of an ELF file, and `more`; a file without a table has none."""
        return cls([*_read(raw), *more])

    def find(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """(index int64[n], -1 where there is none; offset uint64[n] into the symbol) of each address."""
        if not self.names:
            return np.full(len(addresses), -1, np.int64), np.zeros(len(addresses), np.uint64)
        index = np.searchsorted(self.start, addresses, side="right").astype(np.int64) - 1
        near = np.maximum(index, 0)
        offset = addresses - self.start[near]
        missing = (index < 0) | (offset >= self.size[near])
        index[missing] = -1
        offset[missing] = 0
        return index, offset

    def name(self, address: int) -> str:
        """'symbol+0x12', 'symbol' at its start, or '' where there is none."""
        index, offset = self.find(np.array([address], np.uint64))
        return "" if index[0] < 0 else with_offset(self.names[index[0]], int(offset[0]))

    def named(self, name: str) -> Symbol | None:
        """The first symbol called `name`."""
        if name not in self.names:
            return None
        index = self.names.index(name)
        return Symbol(int(self.start[index]), int(self.size[index]), name)


def with_offset(name: str, offset: int) -> str:
    """A symbol's name with the offset into it, unless that is 0."""
    return f"{name}+{offset:#x}" if offset else name


def _with_next(kept: list[Symbol]) -> Iterator[tuple[Symbol, int]]:
    for index, symbol in enumerate(kept):
        after = kept[index + 1].address if index + 1 < len(kept) else symbol.address + 1
        yield symbol, after


def _read(raw: bytes) -> list[Symbol]:
    found = []
    try:
        for section in ELFFile(io.BytesIO(raw)).iter_sections():
            if not isinstance(section, SymbolTableSection):
                continue
            for symbol in section.iter_symbols():
                kind = symbol["st_info"]["type"]
                if symbol.name and kind in _TYPES and symbol["st_shndx"] not in _ABSENT:
                    found.append(Symbol(symbol["st_value"], symbol["st_size"], symbol.name))
    except (ELFError, ValueError, KeyError, IndexError, TypeError, AssertionError, OverflowError):
        # Names are a convenience: a table that cannot be read names nothing.
        return []
    return found
