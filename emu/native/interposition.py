"""Functions of libunicorn that are ours in this process: symbol interposition, as by LD_PRELOAD, but later.

What the emulator computes wrongly it computes in functions that its generated code calls ("helpers"), with
the operands already fetched. libunicorn exports them all, and reaches them through its global offset table;
so a slot there, set to another function of the same type, is all it takes (System V ABI, AMD64 supplement,
5.2). The function that was there stays where it was, for ours to call.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import CorebraidError
from emu.native.unicorn import library

_SECTION = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"),
     ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("alignment", "<u8"), ("entry", "<u8")]
)  # fmt: skip
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_DYNAMIC_SYMBOLS, _RELOCATIONS, _HASHES = 11, 4, 0x6FFFFFF6
#: What a word that points to a function is for: it stands in a table of the library's own; the library takes
#: the function's address; the library calls it (R_X86_64_64, GLOB_DAT, JUMP_SLOT).
IN_TABLE, FOR_ADDRESS, FOR_CALLS = 1, 6, 7
EVERYWHERE = (IN_TABLE, FOR_ADDRESS, FOR_CALLS)
_REMEDY = "install unicorn 2.1.4 as PyPI has it for Linux"


def _refused(what: str) -> CorebraidError:
    return CorebraidError(f"the emulator cannot be corrected: {what}", where=library._name, remedy=_REMEDY)


class SharedObject:
    """A loaded ELF file (gABI, chapters 4 and 5): where its symbols are, and the slots that point to them.

    Read by numpy, and no more of it than is asked for: there are 75,000 relocations and 30,000 symbols, and
    this happens whenever a recorder or replayer starts.
    """

    def __init__(self, path: str, known: str, address: int) -> None:
        """known: a function of it, at `address` in this process. Raises CorebraidError."""
        self._file = np.memmap(path, np.uint8, "r")
        if bytes(self._file[:6]) != b"\x7fELF\x02\x01":
            raise _refused("it is no 64-bit little-endian ELF file")
        sections = self._sections()
        symbols, hashes = (sections[sections["type"] == kind] for kind in (_DYNAMIC_SYMBOLS, _HASHES))
        if len(symbols) != 1 or len(hashes) != 1:
            raise _refused("it exports no symbols")
        self._symbols = self._rows(symbols[0], _SYMBOL)
        self._names = self._bytes(sections[symbols[0]["link"]]).tobytes()
        self._hashes = HashedNames(self._rows(hashes[0], np.dtype("<u4")))
        tables = [self._rows(row, _RELOCATION) for row in sections[sections["type"] == _RELOCATIONS]]
        self._relocations = np.concatenate(tables)
        self._of_symbol = self._relocations["info"] >> np.uint64(32)
        self._base = address - int(self._symbols["value"][self._index(known)])

    def _sections(self) -> NDArray[np.void]:
        header = self._file[:64]
        at = int(header[40:48].view("<u8")[0])
        size, number = (int(header[k : k + 2].view("<u2")[0]) for k in (58, 60))
        if size != _SECTION.itemsize:
            raise _refused("its section headers are of an unknown size")
        return self._file[at : at + size * number].view(_SECTION)

    def _bytes(self, section: np.void) -> NDArray[np.uint8]:
        at = int(section["offset"])
        return self._file[at : at + int(section["size"])]

    def _rows(self, section: np.void, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._bytes(section).view(dtype)

    def _index(self, symbol: str) -> int:
        name = symbol.encode() + b"\0"
        for at in self._hashes.candidates(name[:-1]):
            if self._names.startswith(name, int(self._symbols["name"][at])):
                return at
        raise _refused(f"it has no function {symbol}")

    def slots(
        self, symbols: Iterable[str], uses: Collection[int] = EVERYWHERE
    ) -> list[tuple[int, list[int]]]:
        """Of each symbol (address of the function, addresses of the words of these uses that point to it).
        Raises CorebraidError."""
        indices = [self._index(symbol) for symbol in symbols]
        wanted = np.zeros(len(self._symbols), np.bool_)
        wanted[indices] = True
        places: dict[int, list[int]] = {index: [] for index in indices}
        for offset, info, _ in self._relocations[wanted[self._of_symbol]].tolist():
            if info & 0xFFFFFFFF in uses:
                places[info >> 32].append(self._base + offset)
        values = self._symbols["value"][indices].tolist()
        return [(self._base + value, places[at]) for value, at in zip(values, indices, strict=True)]


class HashedNames:
    """Which symbols of an ELF file may have a name: its hash table (DT_GNU_HASH; Drepper, How to write shared
    libraries, appendix; glibc, elf/dl-lookup.c). words: uint32[n], the table."""

    def __init__(self, words: NDArray[np.uint32]) -> None:
        n, self._first, of_filter, _ = words[:4].tolist()
        buckets = 4 + 2 * of_filter
        self._buckets, self._chains = words[buckets : buckets + n], words[buckets + n :]

    def candidates(self, name: bytes) -> Iterator[int]:
        """Indices of symbols whose names have the same hash."""
        hashed = 5381
        for byte in name:
            hashed = hashed * 33 + byte & 0xFFFFFFFF
        at, last = int(self._buckets[hashed % len(self._buckets)]), 0
        while at >= self._first and not last:
            there = int(self._chains[at - self._first])
            last = there & 1
            if there | 1 == hashed | 1:
                yield at
            at += 1


@lru_cache(maxsize=1)
def _libunicorn() -> SharedObject:
    known = ctypes.cast(library.uc_open, ctypes.c_void_p).value or 0
    return SharedObject(library._name, "uc_open", known)


class Interposition:
    """Some functions of libunicorn and, for each, one that takes its place in this process.

    An engine knows a function only if it was there when the engine was made.
    """

    def __init__(self, ours: Mapping[str, int], uses: Collection[int] = EVERYWHERE) -> None:
        """ours: addresses of native functions by the names of those they replace. uses: of the words that
        point to these. Raises CorebraidError."""
        loaded = _libunicorn()
        self._slots: list[tuple[int, int, int]] = []
        self._originals: list[int] = []
        found = loaded.slots(ours, uses)
        for (symbol, address), (original, places) in zip(ours.items(), found, strict=True):
            if not places or any(_word(place).value != original for place in places):
                raise _refused(f"calls of {symbol} cannot be led elsewhere")
            self._originals.append(original)
            self._slots += [(place, original, address) for place in places]

    @property
    def originals(self) -> list[int]:
        """Addresses of the emulator's own, in the order of `ours`."""
        return self._originals

    def begin(self) -> None:
        """Ours take their places. Raises CorebraidError."""
        for page in self._pages:
            _make_writable(page)
        for place, _, address in self._slots:
            _word(place).value = address

    @cached_property
    def _pages(self) -> list[int]:
        return sorted({place & -mmap.PAGESIZE for place, _, _ in self._slots})


def _word(address: int) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(address)


def _make_writable(page: int) -> None:
    """Tables that the loader has set are read-only from then on (PT_GNU_RELRO)."""
    rights = mmap.PROT_READ | mmap.PROT_WRITE
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), ctypes.c_int(rights)):
        raise _refused("this system lets no table of a library be changed")
