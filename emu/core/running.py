"""How a core runs until a hook stops it, and what is done to its engine, as kernels.

Those that Python calls take a core as an array of one row: to hand over the row costs 20 times as much.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.bus.store_buffer import drop_newest
from emu.code.blocks import block_info, position_of
from emu.hooks.undo import store_bytes, undo_stores
from emu.native.registers import read_pc
from emu.native.state import STOP_SPLIT, STOP_STALE
from emu.native.tlb import fit_tlb
from emu.native.unicorn import (
    FLUSH_TLB,
    REMOVE_CACHE,
    peek8,
    pointer,
    uc_ctl_plain,
    uc_ctl_range,
    uc_emu_start,
    uc_reg_read,
    uc_reg_write,
)

#: `CORE.stale_low` of a core without stale translations.
LATEST = np.uint64(0xFFFFFFFFFFFFFFFF)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def _leave_block(core, pc):
    """The core has stopped at `pc`, in or after the block that ran: count what has run of it."""
    undone = core.stop_pc != _ZERO and pc == core.stop_pc and core.undo_size != _ZERO
    if undone:
        store_bytes(core, core.undo_address, np.int64(core.undo_size), core.undo_old)
    position = position_of(core, pc)
    if core.stop_pc != _ZERO and position < position_of(core, core.stop_pc):
        # Past the stop and back inside the block: it ran to its end and was branched to again.
        position = block_info(core).n
    if core.exception == core.stepped and position == _ZERO:
        # A single step that led back to where it was: a string instruction repeats, or a branch is its own
        # target.
        position = _ONE
    core.count += position
    core.left, core.entered = core.entered, _ZERO
    if undone:
        drop_newest(core, core.count)


@njit(cache=True)
def _forget_stale(core):
    if core.stale_high != _ZERO:
        uc_ctl_range(core.handle, REMOVE_CACHE, core.stale_low, core.stale_high)
    core.stale_low = LATEST
    core.stale_high = _ZERO


@njit(cache=True, nogil=True)
def run_core(rows, pc, until, renew):
    """Run from `pc` until a hook stops the core (or `until`, unless 0). Returns (status, pc).

    Afterwards `count` is exact for the returned pc and no block is under way. renew: stale translations are
    thrown away and the core goes on.
    """
    core = rows[0]
    while True:
        core.stop_reason = _ZERO
        core.stop_pc = _ZERO
        core.exception = _ZERO
        if core.revoked != _ZERO:
            core.revoked = _ZERO
            fit_tlb(core)
            uc_ctl_plain(core.handle, FLUSH_TLB)
        status = uc_emu_start(core.handle, pc, until, _ZERO, _ZERO)
        core.unlocated = _ZERO
        pc = read_pc(core)
        if core.entered != _ZERO:
            _leave_block(core, pc)
        if renew and core.stop_reason == np.uint64(STOP_STALE):
            _forget_stale(core)
        elif core.stop_reason != np.uint64(STOP_SPLIT):
            return status, pc


@njit(cache=True)
def forget_code(rows, low, high):
    """Throw away the translations of [low, high)."""
    uc_ctl_range(rows[0].handle, REMOVE_CACHE, low, high)


@njit(cache=True)
def forget_stale(rows):
    """Throw away the translations of code bytes that changed under them."""
    _forget_stale(rows[0])


@njit(cache=True)
def flush_tlb(rows):
    """Forget all filled pages, so that the next write to each is asked for again."""
    fit_tlb(rows[0])
    uc_ctl_plain(rows[0].handle, FLUSH_TLB)


@njit(cache=True)
def take_back_stores(rows):
    """The instruction at which the core stopped has failed: undo what it stored."""
    core = rows[0]
    undo_stores(core)
    drop_newest(core, core.count)


@njit(cache=True)
def read_registers(rows, ids, offsets, context):
    """Read registers `ids` (int32[n]) into `context` (uint8[]) at `offsets` (int64[n + 1])."""
    core = rows[0]
    for k in range(len(ids)):
        uc_reg_read(core.handle, ids[k], pointer(core.scratch))
        for byte in range(offsets[k + 1] - offsets[k]):
            context[offsets[k] + byte] = peek8(core.scratch + np.uint64(byte))


@njit(cache=True)
def write_registers(rows, ids, offsets, context):
    """Write registers `ids` from `context`, in order; the opposite of `read_registers`."""
    core = rows[0]
    for k in range(len(ids)):
        uc_reg_write(core.handle, ids[k], context[offsets[k] :].ctypes)
