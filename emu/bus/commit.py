"""Stores leave a core's store buffer: each obtains its lines and goes through to home memory (TSO).

When: before a fence, an atomic instruction or a device access of the core all of them; before a load that
the buffer answers only in part, those up to the newest it overlaps; the oldest when the buffer is full or a
store in it is old; and some at random, while the core accesses memory and between slices.

Of a machine that runs step by step nothing is random: somebody chooses when the oldest store commits
(`commit_step`). Stores to words that are not watched, which nobody else looks at, commit as soon as they are
the oldest. What has to commit within a step all the same is noted in `MACHINE.forced`.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.random_bits import next_random
from emu.bus.lines import need
from emu.bus.store_buffer import ADDRESS, COUNT, OLDEST, SIZE, VALUE, buffer_rows, drop_oldest, nth
from emu.bus.watched_words import touches_watched
from emu.native.unicorn import pointer

#: A core that accesses memory lets stores go once in so many accesses (a power of two).
_ONCE_IN = np.uint64(16)
#: Words of a row of `commits`: the core's instruction count, and how many of its stores had committed then.
COMMIT_WORDS = 2
#: Why stores had to commit within a step: one was old; the buffer was full; a load overlaps one in part; the
#: core could not be stopped before it waits until the buffer is empty; the kernel interrupted the core; a
#: page to which one is was taken away, or may not be written to any more.
FORCED_OLD, FORCED_FULL, FORCED_PART, FORCED_DRAIN, FORCED_KERNEL, FORCED_PAGE = 1, 2, 4, 8, 16, 32

_ZERO, _ONE, _TWO, _THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)


@njit(cache=True)
def _note_commit(core, machine, count):
    """For the sealed truth, where there is one: at `count` the core's stores below `committed` had left its
    buffer."""
    if core.commits == _ZERO:
        return
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
def note_forced(machine, why):
    """Stores have to commit within a step, if the machine makes steps and has not been powered off."""
    if machine.stepped != _ZERO and machine.power == _ZERO:
        machine.forced |= np.uint64(why)


@njit(cache=True)
def commit_unwatched(core, cores, machine, count):
    """The oldest stores of instructions before `count` commit, up to the first one to a watched word."""
    while core.buffered != _ZERO and _oldest_count(core) < count:
        row = buffer_rows(core)[nth(core, _ZERO)]
        if machine.watched != _ZERO and touches_watched(machine, row[ADDRESS], row[SIZE]):
            return
        commit_oldest(core, cores, machine, count)


@njit(cache=True)
def commit_due(core, cores, machine, count):
    """What is old commits, and at random some; step by step what nobody looks at."""
    if machine.stepped != _ZERO:
        commit_unwatched(core, cores, machine, count)
    while core.buffered != _ZERO and _oldest_count(core) + OLDEST <= count:
        note_forced(machine, FORCED_OLD)
        commit_oldest(core, cores, machine, count)
    if core.buffered != _ZERO and machine.stepped == _ZERO:
        core.buffer_random, drawn = next_random(core.buffer_random)
        if drawn % _ONCE_IN == _ZERO:
            commit_some(core, cores, machine, count, _ONE + (drawn // _ONCE_IN) % core.buffered)


@njit(cache=True)
def commit_between_slices(cores, machines):
    """Every core lets some stores go with a chance of one half; of one in eight where shared events are
    counted, and slices are many: somebody is to come between a read and the write that belongs to it. Returns
    how many cores did.

    cores: CORE[n]. machines: MACHINE[1].
    """
    moved, seldom = 0, machines[0].watched != _ZERO
    for k in range(len(cores)):
        core = cores[k]
        if core.buffered == _ZERO:
            continue
        core.buffer_random, drawn = next_random(core.buffer_random)
        drawn, goes = drawn >> _ONE, drawn & _ONE
        if seldom:
            drawn, goes = drawn >> _TWO, goes & np.uint64(drawn & _THREE == _ZERO)
        if goes:
            commit_some(core, cores, machines[0], core.count, _ONE + drawn % core.buffered)
            moved += 1
    return moved


@njit(cache=True)
def commit_core(cores, machines, number):
    """All stores of a core that stands between slices commit."""
    commit_all(cores[number], cores, machines[0], cores[number].count)


@njit(cache=True)
def commit_step(cores, machines, number, own):
    """Of a core that stands between steps the oldest store commits, if own is nonzero, and then those that
    nobody looks at."""
    core = cores[number]
    if own != 0 and core.buffered != _ZERO:
        commit_oldest(core, cores, machines[0], core.count)
    commit_unwatched(core, cores, machines[0], core.count)
