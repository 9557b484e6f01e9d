"""Pages of a core's memory, as much as it has received of them: taken from a core, and put into another.

What a core never received is no part of its state: its log has not brought it, and lines of code that are not
there hold padding (`emu.hooks.fill`), which each core lays by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import PAGE_BYTES
from emu.bus.line_state import is_received, mark_never_received, mark_received
from emu.bus.private_memory import mark_dirty
from emu.core.core import Core
from emu.native.state import CORE_AT, PAGE_SHIFT
from emu.native.unicorn import pointer

#: 256 KiB.
PAGES_AT_ONCE = 64

_ONE, _SEVEN, _THREE = np.uint64(1), np.uint64(7), np.uint64(3)


class SavedPages(NamedTuple):
    """numbers: uint64[n], of pages, ascending. received: uint8[n, mask_bytes(line)], a bit for each line of a
    page, from the lowest on: whether the core ever received it. content: uint8[n, PAGE_BYTES], 0 where it did
    not."""

    numbers: NDArray[np.uint64]
    received: NDArray[np.uint8]
    content: NDArray[np.uint8]


def mask_bytes(line_bytes: int) -> int:
    """Bytes that say which lines of a page are there."""
    return max(1, PAGE_BYTES // line_bytes // 8)


@njit(cache=True)
def _take(rows, numbers, received, content, line_bytes):  # type: ignore[no-untyped-def]
    core = rows[0]
    lines = np.uint64(PAGE_BYTES // line_bytes)
    for k in range(numbers.size):
        for n in range(lines):
            if not is_received(core, numbers[k] * lines + n):
                continue
            at = np.int64(n) * line_bytes
            source = core.memory + (numbers[k] << PAGE_SHIFT) + np.uint64(at)
            received[k, n >> _THREE] |= np.uint8(_ONE << (n & _SEVEN))
            content[k, at : at + line_bytes] = carray(pointer(source), line_bytes, np.uint8)


@njit(cache=True)
def _put(rows, numbers, received, content, line_bytes, second):  # type: ignore[no-untyped-def]
    core = rows[0]
    lines = np.uint64(PAGE_BYTES // line_bytes)
    for k in range(numbers.size):
        base = numbers[k] << PAGE_SHIFT
        for n in range(lines):
            if received[k, n >> _THREE] >> np.uint8(n & _SEVEN) & np.uint8(1) == np.uint8(0):
                continue
            at = np.int64(n) * line_bytes
            here = base + np.uint64(at)
            carray(pointer(core.memory + here), line_bytes, np.uint8)[:] = content[k, at : at + line_bytes]
            if second != np.uint64(0):
                carray(pointer(second + here), line_bytes, np.uint8)[:] = content[k, at : at + line_bytes]
            mark_received(core, numbers[k] * lines + n)
        mark_dirty(core, numbers[k])


@njit(cache=True)
def _drop(rows, numbers, line_bytes):  # type: ignore[no-untyped-def]
    core = rows[0]
    lines = np.uint64(PAGE_BYTES // line_bytes)
    for k in range(numbers.size):
        for n in range(lines):
            mark_never_received(core, numbers[k] * lines + n)
        mark_dirty(core, numbers[k])


def drop_pages(core: Core, numbers: NDArray[np.uint64], line_bytes: int) -> None:
    """Nothing of these pages (uint64[n]) was ever received, in a core that no bus serves."""
    _drop(core.rows, np.ascontiguousarray(numbers), line_bytes)


def take_pages(core: Core, numbers: NDArray[np.uint64], line_bytes: int) -> Iterator[SavedPages]:
    """The core's pages with these numbers (uint64[n] in any order), ascending, PAGES_AT_ONCE at a time; those
    of which it has received something."""
    numbers = np.sort(numbers)
    for start in range(0, len(numbers), PAGES_AT_ONCE):
        some = numbers[start : start + PAGES_AT_ONCE]
        received = np.zeros((len(some), mask_bytes(line_bytes)), np.uint8)
        content = np.zeros((len(some), PAGE_BYTES), np.uint8)
        _take(core.rows, some, received, content, line_bytes)
        kept = received.any(axis=1)
        if kept.all():
            yield SavedPages(some, received, content)
        elif kept.any():
            yield SavedPages(some[kept], received[kept], content[kept])


@njit(cache=True)
def _is_plain(received, content, line_bytes):  # type: ignore[no-untyped-def]
    lines = np.uint64(PAGE_BYTES // line_bytes)
    for k in range(received.shape[0]):
        some = np.uint8(0)
        for n in range(np.uint64(8 * received.shape[1])):
            there = received[k, n >> _THREE] >> np.uint8(n & _SEVEN) & np.uint8(1)
            some |= there
            if n >= lines and there != np.uint8(0):
                return False
            if n >= lines or there != np.uint8(0):
                continue
            at = np.int64(n) * line_bytes
            for byte in content[k, at : at + line_bytes]:
                if byte != np.uint8(0):
                    return False
        if some == np.uint8(0):
            return False
    return True


def is_plain(pages: SavedPages, line_bytes: int) -> bool:
    """Whether something of each page is received, and all that is not is 0."""
    return bool(_is_plain(pages.received, pages.content, line_bytes))


def put_pages(core: Core, pages: SavedPages, line_bytes: int) -> None:
    """Lay pages into a core's memory, which are listed as changed then. The core must not have translated
    code there; numbers must lie in its memory. Memory as it is without the core's buffered stores
    (`CORE.received`), where there is such, gets the same."""
    second = np.uint64(core.words[CORE_AT.received])
    _put(core.rows, pages.numbers, pages.received, pages.content, line_bytes, second)
