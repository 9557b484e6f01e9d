"""Names of addresses: the symbol table of a program, as sorted arrays."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from numpy.typing import NDArray

_TYPES = ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE")
_ABSENT = ("SHN_UNDEF", "SHN_ABS")
_PAST_THE_LAST = 1 << 64


@dataclass(frozen=True)
class Symbol:
    """A name for `size` bytes from `address` on."""

    address: int
    size: int
    name: str


class Symbols:
    """Symbols by address. Where several hold an address, the one that begins last names it.

    A symbol without a size reaches to the next one, unless it is a label inside a sized symbol, which
    names nothing. address: uint64[n], names: the n names. Between start[k] and start[k + 1] (uint64[m]) the
    symbol holder[k] (int64[m], -1 for none) names every address.
    """

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        self._symbols = _sized(sorted(set(symbols), key=lambda s: (s.address, -s.size, s.name)))
        self.names = [symbol.name for symbol in self._symbols]
        self.address: NDArray[np.uint64] = np.array([s.address for s in self._symbols], np.uint64)
        changes = _changes(self._symbols)
        self.start: NDArray[np.uint64] = np.array(list(changes), np.uint64)
        self.holder: NDArray[np.int64] = np.array(list(changes.values()), np.int64)

    @classmethod
    def of_elf(cls, raw: bytes, more: Iterable[Symbol] = ()) -> Symbols:
        """The functions and objects of an ELF file, and `more`; a file without a table has none."""
        return cls([*_read(raw), *more])

    def find(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """(index int64[n], -1 where there is none; offset uint64[n] into the symbol) of each address."""
        if not self.names:
            return np.full(len(addresses), -1, np.int64), np.zeros(len(addresses), np.uint64)
        at = np.searchsorted(self.start, addresses, side="right").astype(np.int64) - 1
        index = np.where(at < 0, -1, self.holder[np.maximum(at, 0)])
        offset = np.where(index < 0, np.uint64(0), addresses - self.address[np.maximum(index, 0)])
        return index, offset

    def name(self, address: int) -> str:
        """'symbol+0x12', 'symbol' at its start, or '' where there is none."""
        index, offset = self.find(np.array([address], np.uint64))
        return "" if index[0] < 0 else with_offset(self.names[index[0]], int(offset[0]))

    def named(self, name: str) -> Symbol | None:
        """The first symbol called `name`."""
        return next((symbol for symbol in self._symbols if symbol.name == name), None)


def objects_of_elf(raw: bytes) -> list[Symbol]:
    """The objects (variables) of an ELF file that have a size, by address, the longest first."""
    objects = [symbol for symbol in _read(raw, ("STT_OBJECT",)) if symbol.size]
    return sorted(set(objects), key=lambda s: (s.address, -s.size, s.name))


def with_offset(name: str, offset: int) -> str:
    """A symbol's name with the offset into it, unless that is 0."""
    return f"{name}+{offset:#x}" if offset else name


def _sized(symbols: list[Symbol]) -> list[Symbol]:
    """The symbols that name something, each with a size; `symbols` are sorted by address, sized first."""
    kept: list[Symbol] = []
    end = 0
    for index, symbol in enumerate(symbols):
        if symbol.size:
            kept.append(symbol)
            end = max(end, symbol.address + symbol.size)
        elif symbol.address >= end:
            after = next((s.address for s in symbols[index + 1 :] if s.address > symbol.address), None)
            size = 1 if after is None else after - symbol.address
            kept.append(Symbol(symbol.address, size, symbol.name))
            end = symbol.address + size
    return kept


def _changes(symbols: list[Symbol]) -> dict[int, int]:
    """Address -> number of the symbol that names it and what follows (-1: none), ascending."""
    changes: dict[int, int] = {}
    open_ones: list[int] = []

    def end(number: int) -> int:
        return symbols[number].address + symbols[number].size

    def close(until: int) -> None:
        while open_ones and end(open_ones[-1]) <= until:
            at = end(open_ones.pop())
            while open_ones and end(open_ones[-1]) <= at:
                open_ones.pop()
            if at < _PAST_THE_LAST:
                changes[at] = open_ones[-1] if open_ones else -1

    for number, symbol in enumerate(symbols):
        close(symbol.address)
        open_ones.append(number)
        changes[symbol.address] = number
    close(_PAST_THE_LAST << 1)
    return changes


def _read(raw: bytes, kinds: tuple[str, ...] = _TYPES) -> list[Symbol]:
    found = []
    try:
        for section in ELFFile(io.BytesIO(raw)).iter_sections():
            if not isinstance(section, SymbolTableSection):
                continue
            for symbol in section.iter_symbols():
                kind = symbol["st_info"]["type"]
                if symbol.name and kind in kinds and symbol["st_shndx"] not in _ABSENT:
                    found.append(Symbol(symbol["st_value"], symbol["st_size"], symbol.name))
    except (ELFError, ValueError, KeyError, IndexError, TypeError, AssertionError, OverflowError):
        # Names are a convenience: a table that cannot be read names nothing.
        return []
    return found
