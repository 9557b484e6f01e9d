"""Large memory of the host, as it was at one moment.

A mapping that was anonymous becomes a private one of a file in memory that holds what it held: what is
written to it from then on are copies of pages (mmap(2), MAP_PRIVATE). To throw those away is to have it as it
was, which costs by what was written, not by how large it is.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.memory import PAGE_BYTES
from emu.snapshot.failure import UnsavableError

#: Pages whose entries of pagemap(5) are read at once, and their bits for "present" and "swapped".
_AT_ONCE, _THERE = 1 << 20, np.uint64(62)
#: Its ioctl(2), what that is asked with (linux/fs.h, struct pm_scan_arg: size, flags, from, to, how far it
#: came, regions, their number, pages at most, categories inverted, all of, some of, to be told), regions that
#: it tells at once, and the categories "present" and "swapped".
_PAGEMAP_SCAN, _SCAN, _REGIONS, _IS_THERE = 0xC0606610, struct.Struct("<12Q"), 1024, 0b11000
_FIXED = 0x10
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


def _runs(address: int, size: int) -> Iterator[tuple[int, int]]:
    """What the host has of a mapping, by whole pages: (first byte, byte behind the last), from its begin."""
    entries = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from _scanned(entries, address, size)
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EINVAL, errno.ENOSYS):
            raise
        yield from _read(entries, address, size)
    finally:
        os.close(entries)


def _scanned(entries: int, address: int, size: int) -> Iterator[tuple[int, int]]:
    """By ioctl(2) PAGEMAP_SCAN (Linux 6.7), which passes over what is not there."""
    found = np.zeros((_REGIONS, 3), np.uint64)
    at, end = address, address + size
    while at < end:
        asked = bytearray(_SCAN.pack(
            _SCAN.size, 0, at, end, 0, found.ctypes.data, _REGIONS, 0, 0, 0, _IS_THERE, _IS_THERE
        ))  # fmt: skip
        n = fcntl.ioctl(entries, _PAGEMAP_SCAN, asked)
        yield from ((first - address, last - address) for first, last, _ in found[:n].tolist())
        at = _SCAN.unpack(asked)[4]


def _read(entries: int, address: int, size: int) -> Iterator[tuple[int, int]]:
    """By the entries of all its pages."""
    n = size // PAGE_BYTES
    for first in range(0, n, _AT_ONCE):
        data = os.pread(entries, 8 * min(_AT_ONCE, n - first), 8 * (address // PAGE_BYTES + first))
        pages = first + np.flatnonzero(np.frombuffer(data, np.uint64) >> _THERE)
        for run in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
            if len(run):
                yield int(run[0]) * PAGE_BYTES, (int(run[-1]) + 1) * PAGE_BYTES


class SavedArena:
    """A mapping of `corebraid.base.host_memory`, as it is now. Raises UnsavableError."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._bytes = np.frombuffer(memory, np.uint8)
        self._address = int(self._bytes.ctypes.data)
        self._size = -(-len(memory) // PAGE_BYTES) * PAGE_BYTES
        self._library = _library()
        self._file = -1
        try:
            self._file = os.memfd_create("snapshot", os.MFD_CLOEXEC)
            os.ftruncate(self._file, self._size)
            self._copy()
        except OSError as error:
            raise UnsavableError(f"memory ({error.strerror})") from error
        found = self._library.mmap(
            self._address, self._size, mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_PRIVATE | _FIXED | _NO_RESERVE, self._file, 0,
        )  # fmt: skip
        if found != self._address:
            raise UnsavableError(f"memory ({os.strerror(ctypes.get_errno())})")

    def _copy(self) -> None:
        for first, end in _runs(self._address, self._size):
            self.keep(first, self._bytes[first:end])

    @property
    def extent(self) -> tuple[int, int]:
        """Its address and its size, whole pages."""
        return self._address, self._size

    @property
    def file(self) -> int:
        """The descriptor of what it is restored from."""
        return self._file

    def close(self) -> None:
        """It is not restored any more."""
        os.close(self._file)

    def keep(self, offset: int, data: NDArray[np.uint8]) -> None:
        """From now on these bytes are part of what it is restored to."""
        left = np.ascontiguousarray(data).data.cast("B")
        while left:
            done = os.pwrite(self._file, left, offset)
            left, offset = left[done:], offset + done

    def restore(self) -> None:
        """It is as it was."""
        if self._library.madvise(self._address, self._size, mmap.MADV_DONTNEED):
            raise OSError(ctypes.get_errno(), "madvise")
