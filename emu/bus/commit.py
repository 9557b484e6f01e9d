"""Stores leave a core's store buffer: each obtains its lines and goes through to home memory (TSO).

When: before a fence, an atomic instruction or a device access of the core all of them; before a load that
the buffer answers only in part, those up to the newest it overlaps; the oldest when the buffer is full or a
store in it is old; and some at random, while the core accesses memory and between slices.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.random_bits import next_random
from emu.bus.lines import need
from emu.bus.store_buffer import ADDRESS, COUNT, OLDEST, SIZE, VALUE, buffer_rows, drop_oldest, nth
from emu.code.blocks import position_of
from emu.native.state import CORE, STOP_MISPLACED, core_at, machine_at
from emu.native.unicorn import BLOCK_HOOK, hook, pointer

#: A core that accesses memory lets stores go once in so many accesses (a power of two).
_ONCE_IN = np.uint64(16)
#: Words of a row of `commits`: the core's instruction count, and how many of its stores had committed then.
COMMIT_WORDS = 2

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def _note_commit(core, machine, count):
    """For the sealed truth: at `count` the core's stores below `committed` had left its buffer."""
    rows = carray(pointer(core.commits), (np.int64(core.commits_n) + 1, COMMIT_WORDS), np.uint64)
    last = np.int64(core.commits_n) - 1
    if last >= 0 and rows[last, 0] == count:
        rows[last, 1] = core.committed
        return
    rows[last + 1, 0] = count
    rows[last + 1, 1] = core.committed
    core.commits_n += _ONE
    if core.commits_n >= core.commits_limit:
        machine.attention = _ONE


@njit(cache=True)
def store_home(machine, address, size, value):
    """Put the low `size` bytes of `value` into home memory."""
    home = carray(pointer(machine.home + address), np.int64(size), np.uint8)
    for k in range(home.size):
        home[k] = np.uint8((value >> np.uint64(8 * k)) & np.uint64(0xFF))


@njit(cache=True)
def commit_oldest(core, cores, machine, count):
    """The oldest buffered store commits, while the core stands at `count`."""
    row = buffer_rows(core)[nth(core, _ZERO)]
    address, size, value = row[ADDRESS], row[SIZE], row[VALUE]
    line = address >> core.line_shift
    last = (address + size - _ONE) >> core.line_shift
    while line <= last:
        need(core, cores, machine, line, count, True)
        line += _ONE
    store_home(machine, address, size, value)
    drop_oldest(core)
    _note_commit(core, machine, count)


@njit(cache=True)
def _oldest_count(core):
    return buffer_rows(core)[nth(core, _ZERO), COUNT]


@njit(cache=True)
def commit_some(core, cores, machine, count, n):
    """The n oldest stores commit, those of the instruction at `count` excepted: it has not retired."""
    while n != _ZERO and core.buffered != _ZERO and _oldest_count(core) < count:
        commit_oldest(core, cores, machine, count)
        n -= _ONE


@njit(cache=True)
def commit_all(core, cores, machine, count):
    """All stores of earlier instructions commit."""
    commit_some(core, cores, machine, count, core.buffered)


@njit(cache=True)
def commit_due(core, cores, machine, count):
    """What is old commits, and at random some."""
    while core.buffered != _ZERO and _oldest_count(core) + OLDEST <= count:
        commit_oldest(core, cores, machine, count)
    if core.buffered != _ZERO:
        core.buffer_random, drawn = next_random(core.buffer_random)
        if drawn % _ONCE_IN == _ZERO:
            commit_some(core, cores, machine, count, _ONE + (drawn // _ONCE_IN) % core.buffered)


@njit(cache=True)
def commit_between_slices(cores, machines):
    """Every core lets some stores go with a chance of one half. Returns how many cores did.

    cores: CORE[n]. machines: MACHINE[1].
    """
    moved = 0
    for k in range(len(cores)):
        core = cores[k]
        if core.buffered == _ZERO:
            continue
        core.buffer_random, drawn = next_random(core.buffer_random)
        if drawn & _ONE:
            commit_some(core, cores, machines[0], core.count, _ONE + (drawn >> _ONE) % core.buffered)
            moved += 1
    return moved


@njit(cache=True)
def commit_core(cores, machines, number):
    """All stores of a core that stands between slices commit."""
    commit_all(cores[number], cores, machines[0], cores[number].count)


@hook(BLOCK_HOOK)
def on_fence(handle, address, size, user):
    """Before an instruction that waits until the store buffer is empty (SDM volume 3, 12.10)."""
    core = core_at(user)
    if core.entered == _ZERO or core.buffered == _ZERO or core.stop_reason == np.uint64(STOP_MISPLACED):
        return
    cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
    commit_all(core, cores, machine_at(core.machine), core.count + position_of(core, address))
