"""Accesses to words that several tasks use: counted as they come, so that a slice can end before one.

Which words those are is known before the run (`emu.schedule.shared_words`). A line with such a word is marked
in the line states of every core, which sends its accesses the slow way; all others run as they always do.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.native.unicorn import peek8

_ZERO, _ONE, _THREE, _SEVEN = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(7)


@njit(cache=True)
def _is_watched(machine, address, size):
    word, last = address >> _THREE, (address + size - _ONE) >> _THREE
    while word <= last:
        if (np.uint64(peek8(machine.watched + (word >> _THREE))) >> (word & _SEVEN)) & _ONE:
            return True
        word += _ONE
    return False


@njit(cache=True)
def end_is_due(core, machine, address, size, count):
    """Count the access if the instruction at `count` touches a watched word and was not counted before.

    Returns whether the slice is to end before that instruction: not once the machine is powered off, which
    stops at the end of the block.
    """
    if machine.watched == _ZERO or machine.power != _ZERO or core.shared_at == count + _ONE:
        return False
    if not _is_watched(machine, address, size):
        return False
    return _counted(core, machine, count)


@njit(cache=True)
def end_is_due_at_device(core, machine, count):
    """The same of an access to a device register, of a machine that runs step by step."""
    if machine.stepped == _ZERO or machine.power != _ZERO or core.shared_at == count + _ONE:
        return False
    return _counted(core, machine, count)


@njit(cache=True)
def _counted(core, machine, count):
    core.shared_at = count + _ONE
    machine.shared += _ONE
    return machine.shared == machine.shared_stop
