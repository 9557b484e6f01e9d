"""Accesses to words that several tasks use: counted as they come, so that a slice can end before one.

Which words those are is known before the run (`emu.schedule.shared_words`). A line with such a word is marked
in the line states of every core, which sends its accesses the slow way; all others run as they always do.

Who wants to know what they were (`emu.core.shared_log`) has a log of them.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.bus.store_buffer import ADDRESS, SIZE, buffer_rows, nth
from emu.bus.watched_words import touches_watched
from emu.native.registers import read_pc
from emu.native.unicorn import pointer

_ZERO, _ONE = np.uint64(0), np.uint64(1)
#: `CORE.shared_at` of a core whose next event has been counted, and is still to come.
AHEAD = np.uint64(0xFFFFFFFFFFFFFFFF)
#: A row of the log, uint64[4]: address, place of the instruction, which of the machine's shared events it is,
#: from 1, and what it was: these bits and the core's number above them. AGAIN: a further access of an
#: instruction that has been counted, or the one before which a slice has ended, now that it happens.
NOTED_WORDS, NOTED_WRITE, NOTED_AGAIN, NOTED_CORE = 4, 1, 2, 2


@njit(cache=True)
def end_is_due(core, machine, is_write, address, size, count):
    """Count the access if the instruction at `count` touches a watched word and was not counted before.

    Returns whether the slice is to end before that instruction: not once the machine is powered off, which
    stops at the end of the block.
    """
    if machine.watched == _ZERO or machine.power != _ZERO:
        return False
    again = core.shared_at == count + _ONE
    if again and (machine.noted == _ZERO or not is_write):
        return False
    if not touches_watched(machine, address, size):
        return False
    if core.shared_at == AHEAD:
        core.shared_at, again = count + _ONE, True
    due = not again and _counted(core, machine, count)
    if machine.noted != _ZERO:
        _note(core, machine, is_write, again, address)
    return due


@njit(cache=True)
def _note(core, machine, is_write, again, address):
    """Take the access down, as long as there is room."""
    at = machine.noted_n
    if at == machine.noted_limit:
        return
    rows = carray(pointer(machine.noted), (np.int64(machine.noted_limit), NOTED_WORDS), np.uint64)
    what = np.uint64(core.core_id) << np.uint64(NOTED_CORE)
    if is_write:
        what |= np.uint64(NOTED_WRITE)
    if again:
        what |= np.uint64(NOTED_AGAIN)
    rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3] = address, read_pc(core), machine.shared, what
    machine.noted_n = at + _ONE


@njit(cache=True)
def end_is_due_at_device(core, machine, count):
    """The same of an access to a device register, of a machine that runs step by step; under TSO also of any
    other instruction before which the store buffer must be empty."""
    if machine.stepped == _ZERO or machine.power != _ZERO or core.shared_at == count + _ONE:
        return False
    core.drains = count + _ONE
    return _counted(core, machine, count)


@njit(cache=True)
def event_is_due(core, machine, count):
    """Count the instruction at `count`, whatever it uses. Returns whether the slice is to end before it."""
    if machine.power != _ZERO or core.shared_at == count + _ONE:
        return False
    if core.shared_at == AHEAD:
        core.shared_at = count + _ONE
        return False
    return _counted(core, machine, count)


@njit(cache=True)
def holds_back(core, machine):
    """Whether stores wait: the slice is to end before the next event, and one of them is to a watched word,
    so that others would come between what its instruction has read and that. Not where events are taken
    down, which are known by what they access."""
    if machine.stepped != _ZERO or machine.watched == _ZERO or machine.noted != _ZERO:
        return False
    if core.shared_at == AHEAD or machine.shared + _ONE != machine.shared_stop:
        return False
    for k in range(np.int64(core.buffered)):
        row = buffer_rows(core)[nth(core, np.uint64(k))]
        if touches_watched(machine, row[ADDRESS], row[SIZE]):
            return True
    return False


@njit(cache=True)
def drain_is_due(core, machine):
    """Of an instruction before which stores have to commit: whether the slice is to end before it, since they
    wait (`holds_back`). The next event is counted now."""
    if machine.power != _ZERO or not holds_back(core, machine):
        return False
    core.shared_at = AHEAD
    machine.shared += _ONE
    return True


@njit(cache=True)
def _counted(core, machine, count):
    core.shared_at = count + _ONE
    machine.shared += _ONE
    return machine.shared == machine.shared_stop
