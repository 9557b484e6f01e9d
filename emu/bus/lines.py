"""The line bus: MESI per line and core, over private memories. Source: MICRO 2009, section 3.

Every fetch on a read or write miss is logged with the line as received, before any write (MICRO, 3.1).
An upgrade (SHARED to MODIFIED) invalidates the other copies and fetches nothing.

Seven kernels are all that the rest of a machine asks of a bus: `holds` (`emu.bus.line_state`), `need`,
`fetch_code`, `claim`, `give_back`, `forget_pages` and `image`. Whoever writes to another core's rows does so
behind `need`, `fetch_code` or `claim`. Which hooks call them is the bus's choice, too: `emu.core.line_bus`.

Under TSO a core's memory also holds stores that have not committed (`emu.bus.store_buffer`). Committed ones
go through to home memory, so nothing is ever written back from a core's memory there.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.event import OWNED
from corebraid.base.rows.record import MISS_FETCH, MISS_LATE, MISS_OWNED, MISS_WRITE
from emu.bus.cache import insert_line, remove_line, touch_line
from emu.bus.line_state import (
    EXCLUSIVE,
    INVALID,
    LOST,
    MESI,
    MODIFIED,
    SEEN,
    SHARED,
    TAKEN,
    forgotten,
    holds,
    line_states,
)
from emu.bus.losses import DOWNGRADED, note_loss
from emu.bus.losses import LOST as LINE_LOST
from emu.bus.miss_log import log_miss
from emu.bus.pages import receive_page, revoke
from emu.bus.private_memory import mark_dirty, put_line
from emu.bus.runs import came_late, end_run, note_lost
from emu.bus.store_buffer import lay_over
from emu.native.state import PAGE_SHIFT
from emu.native.unicorn import pointer

__all__ = [
    "claim", "fetch_code", "forget_pages", "give_back", "holds", "image", "image_of_pages", "need", "newest",
]  # fmt: skip

#: The bus's name for an agent: not a core.
_AGENT = np.uint64(0xFF)

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_NO_OWNER = np.uint8(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True)
def _owners(machine):
    """Of each line, one more than the core that has it alone, 0 for none: uint8[n_lines]."""
    return carray(pointer(machine.owner), np.int64(machine.n_lines), np.uint8)


@njit(cache=True)
def _sharers(machine):
    """Of each line, a bit for each core that holds it: uint64[n_lines]."""
    return carray(pointer(machine.sharers), np.int64(machine.n_lines), np.uint64)


@njit(cache=True)
def _drop_line(core, machine, line):
    """The core no longer holds the line. Its directory bit goes; its bytes stay, stale."""
    states = line_states(core, machine)
    states[line] = (states[line] & ~MESI) | np.uint8(INVALID)
    sharers = _sharers(machine)
    owner = _owners(machine)
    sharers[line] &= ~(_ONE << core.core_id)
    if owner[line] == np.uint8(core.core_id + _ONE):
        owner[line] = _NO_OWNER
    if core.sets != _ZERO:
        remove_line(core, line)
    if machine.paged != _ZERO:
        revoke(core)
    if core.mid_run != _ZERO:
        states[line] |= LOST
        note_lost(core, line)


@njit(cache=True)
def _write_back(core, machine, line):
    """Copy the core's line to home memory, unless that is current anyway."""
    if machine.tso != _ZERO:
        return
    base = line << core.line_shift
    n = np.int64(machine.line_bytes)
    home = carray(pointer(machine.home + base), n, np.uint8)
    mine = carray(pointer(core.memory + base), n, np.uint8)
    home[:] = mine


@njit(cache=True)
def _count_downgrade(core, machine, line, way):
    """A lost permission counts towards a stratum (MICRO, 5.2). way: see `emu.bus.losses`."""
    note_loss(core, machine, line, way)
    core.downgrades += _ONE
    if machine.downgrade_bound != _ZERO and core.downgrades % machine.downgrade_bound == _ZERO:
        machine.want_stratum = _ONE
        machine.attention = _ONE


@njit(cache=True)
def _claim_from_others(core_id, cores, machine, line, for_write):
    """Take the line from every other core: home memory becomes current.

    Reading leaves the others SHARED, writing leaves them INVALID. Returns True when another core held it.
    `core_id` may be past the last core: an agent.
    """
    sharers = _sharers(machine)
    owner = _owners(machine)
    held = False
    if owner[line] != _NO_OWNER and np.uint64(owner[line]) != core_id + _ONE:
        other = cores[np.int64(owner[line]) - 1]
        states = line_states(other, machine)
        if (states[line] & MESI) == np.uint8(MODIFIED):
            _write_back(other, machine, line)
        held = True
        if not for_write:
            states[line] = (states[line] & ~MESI) | np.uint8(SHARED)
            if machine.paged != _ZERO:
                revoke(other)
            _count_downgrade(other, machine, line, DOWNGRADED)
            owner[line] = _NO_OWNER
    others = sharers[line]
    if core_id < np.uint64(64):
        others &= ~(_ONE << core_id)
    if others != _ZERO and for_write:
        held = True
        for k in range(len(cores)):
            if (others >> np.uint64(k)) & _ONE:
                _drop_line(cores[k], machine, line)
                line_states(cores[k], machine)[line] |= TAKEN
                _count_downgrade(cores[k], machine, line, LINE_LOST)
    return held or others != _ZERO


@njit(cache=True)
def _receive_line(core, machine, line, count):
    """Copy the line from home into the core's memory, under what instructions before `count` have buffered.
    Returns True when its bytes were others before."""
    base = line << core.line_shift
    home = carray(pointer(machine.home + base), np.int64(machine.line_bytes), np.uint8)
    if core.buffered != _ZERO:
        home = home.copy()
        lay_over(core, base, home, count)
    return put_line(core, base, home)


@njit(cache=True)
def _receive(core, machine, line, count, flags):
    """Receive a line that was missed on, and log it. Returns True when the core's bytes changed."""
    states, for_code = line_states(core, machine), (flags & MISS_FETCH) != 0
    # An instruction that is fetched has stored nothing; others see what they have stored so far.
    changed = _receive_line(core, machine, line, count if for_code else _ALL)
    # A line that this very instruction wrote to and pushed out comes back as it went: a record of it would
    # have replay begin the instruction with its own result. Under TSO that waits in the store buffer.
    comes_back = (states[line] & (LOST | TAKEN)) == LOST and core.evicted_at == count + _ONE
    if changed or for_code or machine.tso != _ZERO or not comes_back:
        log_miss(core, machine, line, count, flags)
    return changed


@njit(cache=True)
def _fetch_line(core, cores, machine, line, count, for_write, for_code):
    """Serve a miss: get the line, log it, set its state. Returns True when the core's bytes changed."""
    states = line_states(core, machine)
    sharers = _sharers(machine)
    owner = _owners(machine)
    was_owned = owner[line] != _NO_OWNER
    held = _claim_from_others(core.core_id, cores, machine, line, for_write)
    flags = np.int64(0)
    if for_write:
        flags |= MISS_WRITE
    if for_code:
        flags |= MISS_FETCH
    if came_late(core, line):
        flags |= MISS_LATE
    if was_owned:
        flags |= MISS_OWNED
    if machine.paged != _ZERO:
        changed = receive_page(core, machine, line, count, flags)
    else:
        changed = _receive(core, machine, line, count, flags)
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
            _evict_line(core, machine, victim - _ONE)
    return changed


@njit(cache=True)
def _evict_line(core, machine, line):
    """Capacity: give the line back. The run that evicts it may miss on it again (`MISS_LATE`)."""
    states = line_states(core, machine)
    if (states[line] & MESI) == np.uint8(MODIFIED):
        _write_back(core, machine, line)
    _drop_line(core, machine, line)
    core.evictions += _ONE


@njit(cache=True)
def need(core, cores, machine, line, count, for_write):
    """Make the line readable, or writable, by the core for its instruction at `count`. The slow side of
    every data access, and of stores that commit."""
    states = line_states(core, machine)
    state = states[line] & MESI
    if state == np.uint8(INVALID):
        _fetch_line(core, cores, machine, line, count, for_write, False)
    elif for_write and state != np.uint8(MODIFIED):
        if state == np.uint8(SHARED):
            _claim_from_others(core.core_id, cores, machine, line, True)
            core.upgrades += _ONE
            core.latency += machine.latency_shared
        states[line] = (states[line] & ~MESI) | np.uint8(MODIFIED)
        _owners(machine)[line] = np.uint8(core.core_id + _ONE)
    if core.sets != _ZERO and state != np.uint8(INVALID):
        touch_line(core, line)


@njit(cache=True)
def fetch_code(core, cores, machine, line, count):
    """Get a line that the core does not hold for the instruction fetch of its block at `count`. Returns True
    when the core's bytes changed."""
    return _fetch_line(core, cores, machine, line, count, False, True)


@njit(cache=True)
def claim(cores, machine, line, for_write):
    """Get the line for an agent, or take it from all cores: home memory has it. Returns (whether a core held
    it, the flag of the access: `OWNED` if one had it alone)."""
    flags = OWNED if _owners(machine)[line] != _NO_OWNER else 0
    return _claim_from_others(_AGENT, cores, machine, line, for_write), flags


@njit(cache=True)
def give_back(core, machine, line):
    """The line was fetched for an instruction that then did not run: unless the core has written to it, it
    holds it no longer."""
    if holds(core, line, False) and not holds(core, line, True):
        _drop_line(core, machine, line)


@njit(cache=True)
def forget_pages(cores, machines, number, pages):
    """A core gives back what it holds of these pages of memory (uint64[n], numbers), and is as if it had
    never received any of it: what it has changed goes to home memory. Where lines are pages each that it held
    is a loss, too. cores: CORE[n], machines: MACHINE[1]. The core must stand between two slices, and its
    store buffer be empty."""
    core, machine = cores[number], machines[0]
    states = line_states(core, machine)
    # A replay begins a new run here, too. What this one has pushed out does not come back to it as it went.
    end_run(core, machine)
    in_page = PAGE_SHIFT - core.line_shift
    for page in pages:
        for line in range(page << in_page, (page + _ONE) << in_page):
            state = states[line] & MESI
            if state == np.uint8(MODIFIED):
                _write_back(core, machine, line)
            if state != np.uint8(INVALID):
                _drop_line(core, machine, line)
                if machine.paged != _ZERO:
                    _count_downgrade(core, machine, line, LINE_LOST)
            states[line] = forgotten(states[line])
        mark_dirty(core, page)


@njit(cache=True)
def newest(cores, machine, line):
    """The host address of the memory that has the line's newest bytes, at the line's offset: some core's, or
    home. That is no access."""
    owner = _owners(machine)[line]
    if machine.tso == _ZERO and owner != _NO_OWNER:
        return cores[np.int64(owner) - 1].memory
    return machine.home


@njit(cache=True)
def image(machines, cores, image):
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
def image_of_pages(machines, cores, image, pages):
    """`image` for these pages only (int64[n])."""
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
