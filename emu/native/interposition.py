"""Functions of libunicorn that are ours in this process: symbol interposition, as by LD_PRELOAD, but later.

What the emulator computes wrongly it computes in functions that its generated code calls ("helpers"), with
the operands already fetched. libunicorn exports them all, and reaches them through its global offset table;
so a slot there, set to another function of the same type, is all it takes (System V ABI, AMD64 supplement,
5.2). The function that was there stays where it was, for ours to call.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache

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
_DYNAMIC_SYMBOLS, _RELOCATIONS = 11, 4
#: What a word that points to a function is for: it stands in a table of the library's own; the library takes
#: the function's address; the library calls it (R_X86_64_64, GLOB_DAT, JUMP_SLOT).
IN_TABLE, FOR_ADDRESS, FOR_CALLS = 1, 6, 7
EVERYWHERE = (IN_TABLE, FOR_ADDRESS, FOR_CALLS)
_REMEDY = "install unicorn 2.1.4 as PyPI has it for Linux"


def _refused(what: str) -> CorebraidError:
    return CorebraidError(f"the emulator cannot be corrected: {what}", where=library._name, remedy=_REMEDY)


class SharedObject:
    """A loaded ELF file (gABI, chapters 4 and 5): where its symbols are, and the slots that point to them.

    Read by numpy: there are 45,000 relocations, and this happens whenever a recorder or replayer starts.
    """

    def __init__(self, path: str, known: str, address: int) -> None:
        """known: a function of it, at `address` in this process. Raises CorebraidError."""
        self._file = np.memmap(path, np.uint8, "r")
        if bytes(self._file[:6]) != b"\x7fELF\x02\x01":
            raise _refused("it is no 64-bit little-endian ELF file")
        sections = self._sections()
        found = sections[sections["type"] == _DYNAMIC_SYMBOLS]
        if len(found) != 1:
            raise _refused("it exports no symbols")
        self._symbols = self._rows(found[0], _SYMBOL)
        self._names = self._bytes(sections[found[0]["link"]]).tobytes()
        tables = [self._rows(row, _RELOCATION) for row in sections[sections["type"] == _RELOCATIONS]]
        relocations = np.concatenate(tables)
        self._relocations = relocations[np.argsort(relocations["info"] >> np.uint64(32), kind="stable")]
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

    def _rows(self, section: np.void, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        rows: NDArray[np.void] = np.frombuffer(self._bytes(section).tobytes(), dtype)
        return rows

    def _index(self, symbol: str) -> int:
        at = self._names.find(b"\0" + symbol.encode() + b"\0") + 1
        found = np.flatnonzero(self._symbols["name"] == at)
        if not at or len(found) != 1:
            raise _refused(f"it has no function {symbol}")
        return int(found[0])

    def slots(self, symbol: str, uses: Collection[int] = EVERYWHERE) -> tuple[int, list[int]]:
        """(address of the function, addresses of the words of these uses that point to it). Raises
        CorebraidError."""
        index = self._index(symbol)
        function = self._base + int(self._symbols["value"][index])
        first, after = np.searchsorted(self._of_symbol, np.array([index, index + 1], np.uint64)).tolist()
        its = self._relocations[first:after]
        found = zip(its["offset"].tolist(), its["info"].tolist(), strict=True)
        return function, [self._base + offset for offset, info in found if info & 0xFFFFFFFF in uses]


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
        for symbol, address in ours.items():
            original, places = loaded.slots(symbol, uses)
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
