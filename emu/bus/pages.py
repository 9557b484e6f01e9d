"""Pages as granules of the bus: what a core receives of a page is what differs from its own stale copy.

A bus that gives rights to whole pages is the line bus with lines of 4 KiB (`emu.bus.lines`), but for two
things. A miss record has those 64-byte lines of the page that differ, not the page. And a core uses what it
holds without asking, by the emulator's TLB: a right that another takes from it must be forgotten there before
the core runs again.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import MISS, PAGE_LINE, PAGE_LINES, RECORD
from emu.bus.line_state import is_received
from emu.bus.private_memory import mark_dirty
from emu.code.blocks import mark_unstable
from emu.code.broken_off import received_before
from emu.native.state import CODE, PADDED, PAGE_SHIFT
from emu.native.unicorn import peek64, pointer

_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_LINE = np.uint64(PAGE_LINE)


@njit(cache=True)
def _differs(ours, theirs):
    """Whether 64 bytes at one host address (uint64) are others than at another."""
    found = _ZERO
    for k in range(np.uint64(PAGE_LINE // 8)):
        found |= peek64(ours + k * _EIGHT) ^ peek64(theirs + k * _EIGHT)
    return found != _ZERO


@njit(cache=True)
def _is_set(place):
    """Whether one of 64 bytes at a host address (uint64) is not 0."""
    found = _ZERO
    for k in range(np.uint64(PAGE_LINE // 8)):
        found |= peek64(place + k * _EIGHT)
    return found != _ZERO


@njit(cache=True)
def put_page_line(core, address, source):
    """Copy a line (64 bytes at the host address `source`) to `address` in the core's memory. Translations of
    code there are marked stale, where it was another."""
    if not _differs(core.memory + address, source):
        return
    mine = carray(pointer(core.memory + address), PAGE_LINE, np.uint8)
    mine[:] = carray(pointer(source), PAGE_LINE, np.uint8)
    received_before(core, address, _LINE)
    page = address >> PAGE_SHIFT
    flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
    if (flags[page] & np.uint8(CODE | PADDED)) != np.uint8(0):
        # Blocks of a page may be known that has been forgotten since.
        if is_received(core, page) or (flags[page] & np.uint8(CODE)) != np.uint8(0):
            mark_unstable(core, page)
        core.stale_low = min(core.stale_low, address)
        core.stale_high = max(core.stale_high, address + _LINE)


@njit(cache=True)
def receive_page(core, machine, page, count, flags):
    """Bring the core's copy of a page up to date with home memory, and log what was not; of a page that it
    never received, or has forgotten, all but zeros: who replays may have nothing of it. Returns whether
    anything was logged.

    A record carries a byte with the number of lines, their numbers in the page (uint8, ascending), and their
    bytes (docs/format.md, section 4). It takes effect at the start of the block: the core had no right to the
    page all along, so no earlier access can have touched it. What came into the log in the middle of the
    block, a device's answer, has a higher count, which the record must not go back behind.
    """
    base = page << PAGE_SHIFT
    mark_dirty(core, page)
    rows = carray(pointer(core.rows), np.int64(core.rows_n) + 1, RECORD)
    start = core.blob + core.blob_n
    numbers = carray(pointer(start), 1 + PAGE_LINES, np.uint8)
    n, anew = 0, not is_received(core, page)
    for k in range(PAGE_LINES):
        at = base + np.uint64(k) * _LINE
        if _differs(core.memory + at, machine.home + at) or (anew and _is_set(machine.home + at)):
            n += 1
            numbers[n] = np.uint8(k)
    numbers[0] = np.uint8(n)
    for k in range(n):
        at = base + np.uint64(numbers[1 + k]) * _LINE
        put_page_line(core, at, machine.home + at)
        target = carray(pointer(start + np.uint64(1 + n + k * PAGE_LINE)), PAGE_LINE, np.uint8)
        target[:] = carray(pointer(core.memory + at), PAGE_LINE, np.uint8)
    row = rows[np.int64(core.rows_n)]
    row.count = count
    if core.rows_n != _ZERO:
        row.count = max(count, rows[np.int64(core.rows_n) - 1].count)
    row.addr = base
    row.value = _ZERO
    row.offset = np.uint32(core.blob_n)
    row.size = np.uint16(1 + n * (1 + PAGE_LINE))
    row.kind = np.uint8(MISS)
    row.flags = np.uint8(flags)
    core.rows_n += _ONE
    core.blob_n += np.uint64(row.size)
    if core.rows_n >= core.rows_limit or core.blob_n >= core.blob_limit:
        machine.attention = _ONE
    return n != 0


@njit(cache=True)
def put_page(core, base, source):
    """Lay the lines of a page's miss record (host address, uint64) over the core's memory."""
    mark_dirty(core, base >> PAGE_SHIFT)
    numbers = carray(pointer(source), 1 + PAGE_LINES, np.uint8)
    n = np.int64(numbers[0])
    for k in range(n):
        at = base + np.uint64(numbers[1 + k]) * _LINE
        put_page_line(core, at, source + np.uint64(1 + n + k * PAGE_LINE))


@njit(cache=True)
def revoke(core):
    """A right of the core's was taken: the emulator must ask again."""
    core.revoked = _ONE


assert PAGE_LINE * PAGE_LINES == PAGE_BYTES
