"""Native memory hooks of Stride's replays: a core's access waits in its hook until it can happen, and reads
what the evidence says (`stream.py`); or reads what the read log says, where the core is replayed alone.

What they need stands in a table of addresses, to which `CORE.fed` points (`table.py`).
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.rows.event import FETCH, READ, RMW, WRITE, Access
from emu.bus.private_memory import put_bytes
from emu.hooks.access import stop
from emu.hooks.trace import low_bytes, trace_access, trace_position
from emu.hooks.trace_rows import append_row
from emu.hooks.trace_tso import EVENT_BYTES, event_at
from emu.hooks.undo import load_bytes
from emu.native.registers import read_pc
from emu.native.state import STOP_HELD, core_at
from emu.native.unicorn import MEMORY_HOOK, MEMORY_WRITE, hook, peek32, peek64
from recorder.evidence.linkage.kernels import slot as hashed
from recorder.evidence.linkage.kernels import variable_of
from solver.evidence.linkage.guarded import is_private
from solver.evidence.linkage.replay.memory import word_of
from solver.evidence.linkage.replay.stream import (
    MET,
    WROTE,
    Done,
    begin_access,
    is_logged,
    keep_open,
    make_version,
    read_value,
)
from solver.evidence.linkage.replay.table import BITS, FIRST, NAMED, SLOTS, STATE, SYMBOLS, replay_at
from solver.evidence.linkage.replay.turns import FAILED, FITS, STUCK, fail
from solver.evidence.linkage.values import next_value

_ZERO, _ONE, _TWO, _THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)


@njit(cache=True)
def _give_up(core, replay, why, done):  # type: ignore[no-untyped-def]
    fail(replay.turns, why, np.int64(core.core_id), done.number, done.address)
    stop(core, STOP_HELD)


@njit(cache=True)
def _fill_in(core, row, value):  # type: ignore[no-untyped-def]
    """The row's read finds this."""
    put_bytes(core, row.addr, np.int64(row.size), value)
    row.old = value
    row.new = value


@njit(cache=True)
def _link(core, row, kind):  # type: ignore[no-untyped-def]
    """An access that is new in the trace, to what is ever shared."""
    replay, stream = replay_at(core.fed), np.int64(core.core_id)
    done = Done(np.int64(row.seq), np.int64(kind), row.addr, np.int64(row.size), row.old)
    if replay.turns.state[FAILED] != 0:
        _give_up(core, replay, STUCK, done)
        return
    own = replay.own[stream]
    if done.number < own[MET]:
        # The instruction runs a second time: what it reads is there, and what it wrote has been made.
        return
    own[MET] = done.number + 1
    why, two = begin_access(replay, stream, done)
    if why == FITS and kind != WRITE:
        why, value = read_value(replay, stream, done, two)
        if why == FITS:
            _fill_in(core, row, value)
        if kind == RMW:
            keep_open(replay, stream, two)
    elif why == FITS:
        why = make_version(replay, stream, done, row.new)
    if why != FITS:
        _give_up(core, replay, why, done)


@njit(cache=True)
def _atomic_row(core, address, size):  # type: ignore[no-untyped-def]
    """The row of the trace, 1 from the end or 2, that the atomic instruction's write has just been joined
    with."""
    for back in (1, 2):
        if np.int64(core.trace_n) < back:
            break
        row = event_at(core.trace + (core.trace_n - np.uint64(back)) * EVENT_BYTES)
        if row.kind == np.uint8(RMW) and row.addr == address and row.size == np.uint8(size):
            return back
    return 0


@njit(cache=True)
def _link_write(core, address, size):  # type: ignore[no-untyped-def]
    """An atomic instruction writes what it has read."""
    back = _atomic_row(core, address, size)
    if back == 0:
        return
    row = event_at(core.trace + (core.trace_n - np.uint64(back)) * EVENT_BYTES)
    replay, stream = replay_at(core.fed), np.int64(core.core_id)
    done = Done(np.int64(row.seq), np.int64(WRITE), row.addr, np.int64(row.size), row.old)
    if done.number < replay.own[stream, WROTE] or replay.turns.state[FAILED] != 0:
        return
    why = make_version(replay, stream, done, row.new)
    if why != FITS:
        _give_up(core, replay, why, done)


@njit(cache=True)
def _slot_plus_one(table, address):  # type: ignore[no-untyped-def]
    """One more than the slot of the variable that holds the byte at `address`, 0 if that is never shared.
    table: the address of a `table_of`."""
    variable = _ZERO
    if peek64(table + NAMED) != _ZERO:
        variable = np.uint64(peek32(peek64(table + SYMBOLS) + ((address >> _THREE) << _TWO)))
    if variable != _ZERO:
        variable -= _ONE
    else:
        variable = peek64(table + FIRST) + (address >> peek64(table + BITS))
    return peek32(peek64(table + SLOTS) + (variable << _TWO))


@njit(cache=True)
def _ever_shared(core, address, size):  # type: ignore[no-untyped-def]
    """Whether anything of an access is ever shared: most are not, and need no more."""
    if address + np.uint64(size) > core.memory_bytes:
        return False
    if _slot_plus_one(core.fed, address) != np.uint32(0):
        return True
    final = address + np.uint64(size) - _ONE
    return final >> _THREE != address >> _THREE and _slot_plus_one(core.fed, final) != np.uint32(0)


@njit(cache=True)
def linked_access(core, is_write, address, size, value):  # type: ignore[no-untyped-def]
    """One access of a core, before it happens: traced, and held against the evidence."""
    number, pc = core.trace_sequence, read_pc(core)
    trace_access(core, pc, is_write, address, size, value)
    if peek64(peek64(core.fed + STATE)) != _ZERO:
        # Another one has failed, or the user has had enough.
        stop(core, STOP_HELD)
        return
    if not _ever_shared(core, address, size):
        return
    if core.trace_sequence == number:
        if is_write:
            _link_write(core, address, size)
        return
    row = event_at(core.trace + (core.trace_n - _ONE) * EVENT_BYTES)
    kind = row.kind
    if not is_write and trace_position(core, pc)[1]:
        kind = np.uint8(RMW)
    _link(core, row, kind)


@hook(MEMORY_HOOK)
def on_linked_access(handle, kind, address, size, value, user):  # type: ignore[no-untyped-def]
    core = core_at(user)
    linked_access(core, kind == MEMORY_WRITE, address, size, np.uint64(value))
    core.unlocated = _ZERO


@njit(cache=True)
def _in_log(core, replay, number, kind, address, size):  # type: ignore[no-untyped-def]
    """Whether the read log has to do with an access, which is to something that is ever shared."""
    log, stream = replay.log, np.int64(core.core_id)
    first = np.int64(log.shares.slot_of[variable_of(log.names, address)]) - 1
    final = address + np.uint64(size) - _ONE
    second = first
    if final >> _THREE != address >> _THREE:
        second = np.int64(log.shares.slot_of[variable_of(log.names, final)]) - 1
    return is_logged(log, stream, number, kind, first) or is_logged(log, stream, number, kind, second)


@njit(cache=True)
def _recall(core, row):  # type: ignore[no-untyped-def]
    """A row's read finds what the read log says, if that has to do with it."""
    replay = replay_at(core.fed)
    if not _in_log(core, replay, np.int64(row.seq), READ, row.addr, row.size):
        return
    values = replay.log.values
    value = next_value(values, np.int64(core.core_id), hashed(row.addr, values.shadow_bits))
    _fill_in(core, row, low_bytes(value, np.int64(row.size)))


@njit(cache=True)
def _remember(core, row):  # type: ignore[no-untyped-def]
    """A row's write is what its core last knows there."""
    replay = replay_at(core.fed)
    if _in_log(core, replay, np.int64(row.seq), WRITE, row.addr, row.size):
        values = replay.log.values
        values.last[np.int64(core.core_id), hashed(row.addr, values.shadow_bits)] = row.new


@njit(cache=True)
def lone_access(core, is_write, address, size, value):  # type: ignore[no-untyped-def]
    """One access of a core that is replayed alone from its read log, before it happens."""
    number, pc = core.trace_sequence, read_pc(core)
    trace_access(core, pc, is_write, address, size, value)
    if not _ever_shared(core, address, size):
        return
    back = 1
    if core.trace_sequence == number:
        back = _atomic_row(core, address, size) if is_write else 0
    if back == 0:
        return
    row = event_at(core.trace + (core.trace_n - np.uint64(back)) * EVENT_BYTES)
    own = replay_at(core.fed).own[np.int64(core.core_id)]
    if is_write:
        _remember(core, row)
    elif np.int64(row.seq) >= own[MET]:
        own[MET] = np.int64(row.seq) + 1
        _recall(core, row)


@hook(MEMORY_HOOK)
def on_lone_access(handle, kind, address, size, value, user):  # type: ignore[no-untyped-def]
    core = core_at(user)
    lone_access(core, kind == MEMORY_WRITE, address, size, np.uint64(value))
    core.unlocated = _ZERO


@njit(cache=True, nogil=True)
def fetch_words(rows, address, n, alone):  # type: ignore[no-untyped-def]
    """The core (CORE[1]) fetches n words of code: reads of 8 bytes each, before its next instruction."""
    core = rows[0]
    for k in range(n):
        at = address + np.uint64(8 * k)
        held = load_bytes(core, at, 8)
        append_row(core, core.count, core.block_address, Access(READ, at, 8, held, held), FETCH)
        if not _ever_shared(core, at, 8):
            continue
        row = event_at(core.trace + (core.trace_n - _ONE) * EVENT_BYTES)
        if alone:
            _recall(core, row)
        else:
            _link(core, row, np.uint8(READ))


@njit(cache=True)
def _made_by_others(core, replay, word, memories):  # type: ignore[no-untyped-def]
    """What others have made of a word, as it is now; what the core has there if they have made nothing."""
    memory, at = replay.memory, word << _THREE
    held = load_bytes(core, at, 8)
    slot = np.int64(replay.log.shares.slot_of[variable_of(replay.log.names, at)]) - 1
    if slot >= 0:
        if is_private(replay.log, np.int64(core.core_id), np.int64(core.trace_sequence), slot):
            return held
        return word_of(memory, word, np.int64(memory.newest[word]))
    # A word that is never shared is changed by one stream alone.
    initial = word_of(memory, word, 0)
    if held == initial:
        for k in range(memories.size):
            there = peek64(memories[k] + at)
            if there != initial:
                return there
    return held


@njit(cache=True, nogil=True)
def renew_code(rows, address, size, fetched, memories):  # type: ignore[no-untyped-def]
    """A block of code that the core (CORE[1]) does not know yet: of its words, those that it has not fetched
    are what others have made of them, since they came with data. fetched: uint8[words]. memories: uint64[n],
    addresses of what each stream has itself. Whether anything changed."""
    core, changed = rows[0], False
    replay = replay_at(core.fed)
    for word in range(address >> _THREE, ((address + size - _ONE) >> _THREE) + _ONE):
        at = np.uint64(word) << _THREE
        if fetched[word] or at >= core.memory_bytes:
            continue
        value = _made_by_others(core, replay, np.uint64(word), memories)
        if load_bytes(core, at, 8) != value:
            put_bytes(core, at, 8, value)
            changed = True
    return changed
