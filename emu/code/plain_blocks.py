"""Blocks of plain instructions enter the block table from the block hook, without stopping the core."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.code.blocks import (
    ENDS_RUN,
    INFO_BYTES,
    N_SHIFT,
    ROW_SHIFT,
    VALID,
    block_key,
    find_block,
    find_slot,
    info_at,
)
from emu.code.broken_off import keep_before
from emu.native.state import CODE, PAGE_SHIFT, UNSTABLE, WRITTEN
from emu.native.unicorn import call_plain_block, peek8, pointer

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def _mark_executed(core, page):
    """As `BlockTable.insert` does."""
    flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
    flags[page] |= np.uint8(CODE)
    if (flags[page] & np.uint8(WRITTEN)) != np.uint8(0):
        flags[page] |= np.uint8(UNSTABLE)
        core.unstable = _ONE


@njit(cache=True)
def learn_plain(core, address, size):
    """Make the block known if its instructions are plain and there is room. Returns its entry, or 0."""
    if core.plain_block == _ZERO:
        return _ZERO
    no_room = core.known >= core.known_limit or core.offsets_n + size > core.offsets_limit
    if no_room or core.code_n + size > core.code_limit:
        return _ZERO
    where = core.offsets + (core.offsets_n << _ONE)
    found = call_plain_block(core.plain_block, core.memory + address, np.int64(size), where)
    if found == 0:
        return _ZERO
    n = np.uint64(abs(found))
    entry = VALID | (ENDS_RUN if found < 0 else _ZERO) | (n << N_SHIFT) | (core.known << ROW_SHIFT)
    info = info_at(core.infos + core.known * INFO_BYTES)
    info.address, info.size, info.first, info.code, info.n = address, size, core.offsets_n, core.code_n, n
    kept = carray(pointer(core.code_bytes + core.code_n), np.int64(size), np.uint8)
    for k in range(size):
        kept[k] = peek8(core.memory + address + np.uint64(k))
    carray(pointer(core.entries), np.int64(core.known) + 1, np.uint64)[core.known] = entry
    key = block_key(address, size)
    slot = carray(pointer(find_slot(core.table, core.key_mask, core.key_shift, key)), 2, np.uint64)
    slot[0], slot[1] = key, entry
    core.known += _ONE
    core.offsets_n += n
    core.code_n += size
    _mark_executed(core, address >> PAGE_SHIFT)
    _mark_executed(core, (address + size - _ONE) >> PAGE_SHIFT)
    return entry


@njit(cache=True)
def known_block(core, address, size):
    """`find_block`, which learns plain blocks meanwhile; 0 when the block must be decoded outside."""
    entry = find_block(core, address, size) if core.doubtful == _ZERO else _ZERO
    if entry == _ZERO and core.doubtful == _ZERO:
        entry = learn_plain(core, address, size)
    if core.unstable != _ZERO:
        keep_before(core, address)
    return entry
