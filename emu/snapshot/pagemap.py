"""Which pages of this process's memory the host has, as pagemap(5) says it."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from corebraid.base.memory import PAGE_BYTES

#: Pages whose entries of pagemap(5) are read at once, and their bits for "present" and "swapped".
_AT_ONCE, _THERE = 1 << 20, np.uint64(62)
#: Its ioctl(2), and what that is asked with (linux/fs.h, struct pm_scan_arg): size, flags, from, to, how far
#: it came, regions, their number, pages at most, categories inverted, all of, some of, to be told.
_PAGEMAP_SCAN, _SCAN = 0xC0606610, struct.Struct("<12Q")
#: Regions that it tells at once, and the categories "present" or "swapped", and "of a file".
_REGIONS, _IS_THERE, _IS_OF_FILE = 1024, 0b11000, 0b100


@contextmanager
def entries() -> Iterator[int]:
    """A descriptor of pagemap(5). It is of the process that opened it, also in one that was forked."""
    opened = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


def runs_there(address: int, size: int) -> Iterator[tuple[int, int]]:
    """What the host has of a mapping, by whole pages: (first byte, byte behind the last), from its begin."""
    found = np.zeros((_REGIONS, 3), np.uint64)
    with entries() as opened:
        at = address
        try:
            while at < address + size:
                n, at = _ask(opened, at, address + size, found)
                yield from ((first - address, end - address) for first, end, _ in found[:n].tolist())
        except OSError as error:
            if error.errno not in (errno.ENOTTY, errno.EINVAL, errno.ENOSYS):
                raise
            yield from _read(opened, address, size)


def copies(opened: int, spans: list[tuple[int, int]], found: NDArray[np.uint64]) -> int | None:
    """Pages that are not those of a file that is mapped there: what was written to of private mappings.

    opened: of `entries`. spans: addresses, (first, behind the last). found: uint64[m, 3], whose first rows
    are given runs of whole pages, their addresses, ascending as the spans are, the third column aside.
    Returns how many; None: more than it has room for, or the host cannot tell (before Linux 6.7).
    """
    n = 0
    for at, end in spans:
        while at < end:
            if n == len(found):
                return None
            try:
                more, at = _ask(opened, at, end, found[n:], _IS_OF_FILE)
            except OSError:
                return None
            n += more
    return n


def _ask(opened: int, at: int, end: int, found: NDArray[np.uint64], without: int = 0) -> tuple[int, int]:
    """By ioctl(2) PAGEMAP_SCAN, which passes over what is not there. without: a category whose pages are not
    wanted. Returns how many rows of `found` it gave, and where it stopped."""
    asked = bytearray(_SCAN.pack(
        _SCAN.size, 0, at, end, 0, found.ctypes.data, len(found), 0, without, without, _IS_THERE, _IS_THERE
    ))  # fmt: skip
    n = fcntl.ioctl(opened, _PAGEMAP_SCAN, asked)
    return n, _SCAN.unpack(asked)[4]


def _read(opened: int, address: int, size: int) -> Iterator[tuple[int, int]]:
    """By the entries of all its pages."""
    n = size // PAGE_BYTES
    for first in range(0, n, _AT_ONCE):
        data = os.pread(opened, 8 * min(_AT_ONCE, n - first), 8 * (address // PAGE_BYTES + first))
        pages = first + np.flatnonzero(np.frombuffer(data, np.uint64) >> _THERE)
        for run in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
            if len(run):
                yield int(run[0]) * PAGE_BYTES, (int(run[-1]) + 1) * PAGE_BYTES
