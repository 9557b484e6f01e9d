"""Large memory of the host, as it was at one moment.

A mapping that was anonymous becomes a private one of a file in memory that holds what it held: what is
written to it from then on are copies of pages (mmap(2), MAP_PRIVATE). To throw those away is to have it as it
was, which costs by what was written, not by how large it is. Where they are few they are kept and written
over with what the file holds: what was touched once is touched again in the next run, and a fault of the
host's for each page takes longer than its bytes. A page is copied by such a fault (getrusage(2), ru_minflt;
Linux, mm/memory.c, mm_account_fault): where there was none since, the copies are those of the last time.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import PAGE_BYTES
from emu.native.unicorn import pointer
from emu.snapshot.failure import UnsavableError
from emu.snapshot.pagemap import copies, entries, runs_there

_FIXED = 0x10
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
#: Runs of pages that are written over at most, and their pages: more are thrown away.
_MOST_RUNS, _MOST_PAGES = 4096, 8192


@njit(cache=True)
def write_over(runs, arenas):  # type: ignore[no-untyped-def]
    """Memory of the host becomes what other memory holds.

    runs: uint64[n, >= 2], addresses to be written to, (first, behind the last), ascending. arenas:
    uint64[m, 3], (first, behind the last, where its bytes are), ascending. Of a run only what lies in arenas
    is written. All are multiples of 8.
    """
    k = 0
    for i in range(len(runs)):
        first, end = runs[i, 0], runs[i, 1]
        while k < len(arenas) and arenas[k, 1] <= first:
            k += 1
        j = k
        while j < len(arenas) and arenas[j, 0] < end:
            low, high = max(first, arenas[j, 0]), min(end, arenas[j, 1])
            n = np.int64((high - low) >> np.uint64(3))
            target = carray(pointer(low), n, np.uint64)
            source = carray(pointer(arenas[j, 2] + (low - arenas[j, 0])), n, np.uint64)
            for word in range(n):
                target[word] = source[word]
            j += 1


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


class SavedArena:
    """A mapping of `corebraid.base.host_memory`, as it is now. Raises UnsavableError."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._bytes = np.frombuffer(memory, np.uint8)
        self.address = int(self._bytes.ctypes.data)
        #: Whole pages.
        self.size = -(-len(memory) // PAGE_BYTES) * PAGE_BYTES
        self._library = _library()
        #: The descriptor of what it is restored from.
        self.file = -1
        try:
            self.file = os.memfd_create("snapshot", os.MFD_CLOEXEC)
            os.ftruncate(self.file, self.size)
            self._copy()
        except OSError as error:
            raise UnsavableError(f"memory ({error.strerror})") from error
        self._map(self.address, mmap.MAP_PRIVATE | _FIXED)
        #: Where what it held is read. A mapping of the module `mmap` would keep a descriptor of its own.
        self.then = self._map(None, mmap.MAP_SHARED)
        self._then = np.ctypeslib.as_array((ctypes.c_ubyte * len(memory)).from_address(self.then))

    def _map(self, address: int | None, flags: int) -> int:
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        found = self._library.mmap(address, self.size, rights, flags | _NO_RESERVE, self.file, 0)
        if found in (None, ctypes.c_void_p(-1).value) or address not in (None, found):
            raise UnsavableError(f"memory ({os.strerror(ctypes.get_errno())})")
        return int(found)

    def _copy(self) -> None:
        for first, end in runs_there(self.address, self.size):
            left = self._bytes[first:end].data
            while left:
                done = os.pwrite(self.file, left, first)
                left, first = left[done:], first + done

    def close(self) -> None:
        """It is not restored any more."""
        del self._then
        self._library.munmap(self.then, self.size)
        os.close(self.file)

    def keep(self, offset: int, data: NDArray[np.uint8]) -> None:
        """It holds these bytes from now on, and is restored to them."""
        end = offset + len(data)
        self._then[offset:end] = self._bytes[offset:end] = data

    def throw_away(self) -> None:
        """It is as it was, and has no copies of pages."""
        if self._library.madvise(self.address, self.size, mmap.MADV_DONTNEED):
            raise OSError(ctypes.get_errno(), "madvise")


class Arenas:
    """Mappings, as they are now. Raises UnsavableError."""

    def __init__(self, mappings: Iterable[mmap.mmap]) -> None:
        arenas = sorted(map(SavedArena, mappings), key=lambda one: one.address)
        self._arenas = arenas
        rows = [(one.address, one.address + one.size, one.then) for one in arenas]
        self._rows = np.array(rows, np.uint64).reshape(-1, 3)
        self._spans = _spans(rows)
        self._found = np.zeros((_MOST_RUNS, 3), np.uint64)
        #: The process's faults when it was last looked for copies, and what `_written` said.
        self._faults = -1
        self._copies: NDArray[np.uint64] | None = None

    @property
    def files(self) -> set[int]:
        """Descriptors that are its own."""
        return {one.file for one in self._arenas}

    def close(self) -> None:
        """Nothing is restored any more."""
        for one in self._arenas:
            one.close()

    def keep(self, place: NDArray[np.uint8], data: NDArray[np.uint8]) -> None:
        """From now on `place`, a part of one of them, holds `data`, and is restored to that."""
        address = int(place.ctypes.data)
        k = int(np.searchsorted(self._rows[:, 1], np.uint64(address), side="right"))
        if k == len(self._arenas) or address < self._arenas[k].address:
            raise ValueError(f"no arena has {address:#x}")
        self._arenas[k].keep(address - self._arenas[k].address, data)

    def restore(self) -> None:
        """All are as they were."""
        if (faults := _faults()) != self._faults:
            self._faults, self._copies = faults, self._written()
        if self._copies is None:
            self._faults = -1
            for one in self._arenas:
                one.throw_away()
        else:
            self._write_over(self._copies, self._rows)

    @cached_property
    def _write_over(self) -> Callable[..., None]:
        called: Callable[..., None] = write_over.like(self._found, self._rows)
        return called

    def _written(self) -> NDArray[np.uint64] | None:
        """What may have been written to, as `write_over` has it; None: too much, or unknown."""
        with entries() as opened:
            n = copies(opened, self._spans, self._found)
        if n is None:
            return None
        runs = self._found[:n].copy()
        return runs if int((runs[:, 1] - runs[:, 0]).sum()) <= _MOST_PAGES * PAGE_BYTES else None


def _faults() -> int:
    """How often this process has been given a page."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_minflt + used.ru_majflt


def _spans(rows: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Addresses to ask for: (first, behind the last), ascending; neighbours are one."""
    spans = list[tuple[int, int]]()
    for first, end, _ in rows:
        if spans and first == spans[-1][1]:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((first, end))
    return spans
