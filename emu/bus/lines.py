"""The coherent bus: MESI per line and core, over private memories. Source: MICRO 2009, section 3.

Every fetch on a read or write miss is logged with the line as received, before any write (MICRO, 3.1).
An upgrade (SHARED to MODIFIED) invalidates the other copies and fetches nothing.

Under TSO a core's memory also holds stores that have not committed (`emu.bus.store_buffer`). Committed ones
go through to home memory, so nothing is ever written back from a core's memory there.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from corebraid.base.rows.record import MISS, MISS_FETCH, MISS_LATE, MISS_OWNED, MISS_WRITE, RECEIVED, RECORD
from emu.bus.cache import insert_line, remove_line, touch_line
from emu.bus.losses import DOWNGRADED, note_loss
from emu.bus.losses import LOST as LINE_LOST
from emu.bus.store_buffer import lay_over
from emu.code.blocks import mark_unstable
from emu.native.state import (
    CODE,
    DIRTY,
    EXCLUSIVE,
    INVALID,
    LOST,
    MESI,
    MODIFIED,
    PADDED,
    PAGE_SHIFT,
    SEEN,
    SHARED,
    TAKEN,
)
from emu.native.unicorn import pointer

#: Lines a core can lose in the middle of one run before the run counts as having lost all of them.
LOST_LIMIT = 4096

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_NO_OWNER = np.uint8(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True)
def line_states(core, machine):
    """The core's line bytes, uint8[n_lines]."""
    return carray(pointer(core.line_state), np.int64(machine.n_lines), np.uint8)


@njit(cache=True)
def mark_dirty(core, page):
    """List a page as changed since the last digest."""
    flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
    if (flags[page] & np.uint8(DIRTY)) == np.uint8(0):
        flags[page] |= np.uint8(DIRTY)
        carray(pointer(core.dirty_pages), np.int64(core.dirty_n) + 1, np.uint64)[core.dirty_n] = page
        core.dirty_n += _ONE


@njit(cache=True)
def note_lost(core, line):
    """Remember a line that the core lost in the middle of a run of instructions (`MISS_LATE`)."""
    if core.lost_n < np.uint64(LOST_LIMIT):
        carray(pointer(core.lost), LOST_LIMIT, np.uint64)[core.lost_n] = line
    core.lost_n += _ONE


@njit(cache=True)
def note_forwarded(core, line):
    """The store buffer has answered a load from a line that the core does not hold. Should the line come in
    this run, it may bring what a later store of the run has buffered (`MISS_LATE`)."""
    states = carray(pointer(core.line_state), np.int64(line) + 1, np.uint8)
    if (states[line] & (MESI | LOST)) == np.uint8(INVALID):
        states[line] |= LOST
        note_lost(core, line)


@njit(cache=True)
def end_run(core, machine):
    """A new run of instructions begins: what was lost in the last one matters no longer."""
    core.mid_run = _ZERO
    if core.lost_n != _ZERO:
        states = line_states(core, machine)
        lost = carray(pointer(core.lost), LOST_LIMIT, np.uint64)
        n = min(int(core.lost_n), LOST_LIMIT)
        for k in range(n):
            states[lost[k]] &= ~LOST
        core.lost_n = _ZERO


@njit(cache=True)
def begin_run(cores, machines, number):
    """`end_run` of a core, called from outside hooks. cores: CORE[n], machines: MACHINE[1]."""
    end_run(cores[number], machines[0])


@njit(cache=True)
def drop_line(core, machine, line):
    """The core no longer holds the line. Its directory bit goes; its bytes stay, stale."""
    states = line_states(core, machine)
    states[line] = (states[line] & ~MESI) | np.uint8(INVALID)
    sharers = carray(pointer(machine.sharers), np.int64(machine.n_lines), np.uint64)
    owner = carray(pointer(machine.owner), np.int64(machine.n_lines), np.uint8)
    sharers[line] &= ~(_ONE << core.core_id)
    if owner[line] == np.uint8(core.core_id + _ONE):
        owner[line] = _NO_OWNER
    if core.sets != _ZERO:
        remove_line(core, line)
    if core.mid_run != _ZERO:
        states[line] |= LOST
        note_lost(core, line)


@njit(cache=True)
def write_back(core, machine, line):
    """Copy the core's line to home memory, unless that is current anyway."""
    if machine.tso != _ZERO:
        return
    base = line << core.line_shift
    n = np.int64(machine.line_bytes)
    home = carray(pointer(machine.home + base), n, np.uint8)
    mine = carray(pointer(core.memory + base), n, np.uint8)
    home[:] = mine


@njit(cache=True)
def count_downgrade(core, machine, line, way):
    """A lost permission counts towards a stratum (MICRO, 5.2). way: see `emu.bus.losses`."""
    note_loss(core, machine, line, way)
    core.downgrades += _ONE
    if machine.downgrade_bound != _ZERO and core.downgrades % machine.downgrade_bound == _ZERO:
        machine.want_stratum = _ONE
        machine.attention = _ONE


@njit(cache=True)
def claim_from_others(core_id, cores, machine, line, for_write):
    """Take the line from every other core: home memory becomes current.

    Reading leaves the others SHARED, writing leaves them INVALID. Returns True when another core held it.
    `core_id` may be past the last core: an agent.
    """
    sharers = carray(pointer(machine.sharers), np.int64(machine.n_lines), np.uint64)
    owner = carray(pointer(machine.owner), np.int64(machine.n_lines), np.uint8)
    held = False
    if owner[line] != _NO_OWNER and np.uint64(owner[line]) != core_id + _ONE:
        other = cores[np.int64(owner[line]) - 1]
        states = line_states(other, machine)
        if (states[line] & MESI) == np.uint8(MODIFIED):
            write_back(other, machine, line)
        held = True
        if not for_write:
            states[line] = (states[line] & ~MESI) | np.uint8(SHARED)
            count_downgrade(other, machine, line, DOWNGRADED)
            owner[line] = _NO_OWNER
    others = sharers[line]
    if core_id < np.uint64(64):
        others &= ~(_ONE << core_id)
    if others != _ZERO and for_write:
        held = True
        for k in range(len(cores)):
            if (others >> np.uint64(k)) & _ONE:
                drop_line(cores[k], machine, line)
                line_states(cores[k], machine)[line] |= TAKEN
                count_downgrade(cores[k], machine, line, LINE_LOST)
    return held or others != _ZERO


@njit(cache=True)
def receive_line(core, machine, line, count):
    """Copy the line from home into the core's memory, under what instructions before `count` have buffered.
    Returns True when its bytes were others before."""
    base = line << core.line_shift
    n = np.int64(machine.line_bytes)
    home = carray(pointer(machine.home + base), n, np.uint8)
    if core.buffered != _ZERO:
        home = home.copy()
        lay_over(core, base, home, count)
    mine = carray(pointer(core.memory + base), n, np.uint8)
    changed = False
    for k in range(n):
        if home[k] != mine[k]:
            changed = True
            mine[k] = home[k]
    page = base >> PAGE_SHIFT
    mark_dirty(core, page)
    flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
    if changed and (flags[page] & np.uint8(CODE | PADDED)) != np.uint8(0):
        # No known block holds bytes of a line that never was here: not even the padding.
        if (line_states(core, machine)[line] & SEEN) != np.uint8(0):
            mark_unstable(core, page)
        core.stale_low = min(core.stale_low, base)
        core.stale_high = max(core.stale_high, base + np.uint64(n))
    return changed


@njit(cache=True)
def _log_line(core, kind, flags, count, base, value, line):
    rows = carray(pointer(core.rows), np.int64(core.rows_n) + 1, RECORD)
    row = rows[np.int64(core.rows_n)]
    row.count = count
    row.addr = base
    row.value = value
    row.offset = np.uint32(core.blob_n)
    row.size = np.uint16(line.size)
    row.kind = np.uint8(kind)
    row.flags = np.uint8(flags)
    core.rows_n += _ONE
    blob = carray(pointer(core.blob + core.blob_n), line.size, np.uint8)
    blob[:] = line
    core.blob_n += np.uint64(line.size)


@njit(cache=True)
def log_miss(core, machine, line, count, flags):
    """Append a miss record with the line as the core's memory holds it before the instruction at `count`,
    which replay begins with it; and one with the line as received where buffered stores make them differ."""
    base = line << core.line_shift
    n = np.int64(machine.line_bytes)
    if core.buffered == _ZERO:
        mine = carray(pointer(core.memory + base), n, np.uint8)
        _log_line(core, MISS, flags, count, base, core.committed, mine)
    else:
        home = carray(pointer(machine.home + base), n, np.uint8)
        before = home.copy()
        lay_over(core, base, before, count)
        _log_line(core, MISS, flags, count, base, core.committed, before)
        differs = False
        for k in range(n):
            differs = differs or home[k] != before[k]
        if differs:
            _log_line(core, RECEIVED, 0, count, base, _ZERO, home)
    if core.rows_n >= core.rows_limit or core.blob_n >= core.blob_limit:
        machine.attention = _ONE


@njit(cache=True)
def fetch_line(core, cores, machine, line, count, for_write, for_code):
    """Serve a miss: get the line, log it, set its state. Returns True when the core's bytes changed."""
    states = line_states(core, machine)
    sharers = carray(pointer(machine.sharers), np.int64(machine.n_lines), np.uint64)
    owner = carray(pointer(machine.owner), np.int64(machine.n_lines), np.uint8)
    was_owned = owner[line] != _NO_OWNER
    held = claim_from_others(core.core_id, cores, machine, line, for_write)
    # An instruction that is fetched has stored nothing; others see what they have stored so far.
    changed = receive_line(core, machine, line, count if for_code else _ALL)
    flags = np.int64(0)
    if for_write:
        flags |= MISS_WRITE
    if for_code:
        flags |= MISS_FETCH
    if (states[line] & LOST) != np.uint8(0) or core.lost_n > np.uint64(LOST_LIMIT):
        flags |= MISS_LATE
    if was_owned:
        flags |= MISS_OWNED
    # A line that this very instruction wrote to and pushed out comes back as it went: a record of it would
    # have replay begin the instruction with its own result. Under TSO that waits in the store buffer.
    comes_back = (states[line] & (LOST | TAKEN)) == LOST and core.evicted_at == count + _ONE
    if changed or for_code or machine.tso != _ZERO or not comes_back:
        log_miss(core, machine, line, count, flags)
    core.misses += _ONE
    if was_owned:
        core.latency += machine.latency_core
    elif held or (states[line] & SEEN) != np.uint8(0):
        core.latency += machine.latency_shared
    else:
        core.latency += machine.latency_memory
    state = MODIFIED if for_write else (SHARED if held else EXCLUSIVE)
    states[line] = (states[line] & ~(MESI | LOST | TAKEN)) | np.uint8(state) | SEEN
    sharers[line] |= _ONE << core.core_id
    if state != SHARED:
        owner[line] = np.uint8(core.core_id + _ONE)
    if core.sets != _ZERO:
        victim = insert_line(core, line)
        if victim != _ZERO:
            core.evicted_at = count + _ONE
            evict_line(core, machine, victim - _ONE)
    return changed


@njit(cache=True)
def evict_line(core, machine, line):
    """Capacity: give the line back. The run that evicts it may miss on it again (`MISS_LATE`)."""
    states = line_states(core, machine)
    if (states[line] & MESI) == np.uint8(MODIFIED):
        write_back(core, machine, line)
    drop_line(core, machine, line)
    core.evictions += _ONE


@njit(cache=True)
def obtain(core, cores, machine, line, count, for_write):
    """Make the line readable, or writable, by the core. The slow side of every data access."""
    states = line_states(core, machine)
    state = states[line] & MESI
    if state == np.uint8(INVALID):
        fetch_line(core, cores, machine, line, count, for_write, False)
    elif for_write and state != np.uint8(MODIFIED):
        owner = carray(pointer(machine.owner), np.int64(machine.n_lines), np.uint8)
        if state == np.uint8(SHARED):
            claim_from_others(core.core_id, cores, machine, line, True)
            core.upgrades += _ONE
            core.latency += machine.latency_shared
        states[line] = (states[line] & ~MESI) | np.uint8(MODIFIED)
        owner[line] = np.uint8(core.core_id + _ONE)
    if core.sets != _ZERO and state != np.uint8(INVALID):
        touch_line(core, line)


@njit(cache=True)
def coherent_image(machines, cores, image):
    """Memory as the bus would give it now: home, with every MODIFIED line of a core laid over it.

    machines: MACHINE[1]. cores: CORE[n]. image: uint8[memory], holding home memory, changed in place.
    """
    machine = machines[0]
    if machine.tso != _ZERO:
        return
    n = np.int64(machine.line_bytes)
    for k in range(len(cores)):
        core = cores[k]
        states = line_states(core, machine)
        for page in range(np.int64(core.memory_bytes >> PAGE_SHIFT)):
            _overlay_page(core, states, image, page, n)


@njit(cache=True)
def coherent_pages(machines, cores, image, pages):
    """`coherent_image` for these pages only (int64[n])."""
    machine = machines[0]
    if machine.tso != _ZERO:
        return
    n = np.int64(machine.line_bytes)
    for k in range(len(cores)):
        core = cores[k]
        states = line_states(core, machine)
        for page in pages:
            _overlay_page(core, states, image, page, n)


@njit(cache=True)
def _overlay_page(core, states, image, page, n):
    rights = carray(pointer(core.page_rights), page + 1, np.uint8)
    if rights[page] == np.uint8(0):
        return
    lines = np.int64(4096) // n
    for line in range(page * lines, (page + 1) * lines):
        if (states[line] & MESI) == np.uint8(MODIFIED):
            mine = carray(pointer(core.memory + np.uint64(line * n)), n, np.uint8)
            image[line * n : (line + 1) * n] = mine
