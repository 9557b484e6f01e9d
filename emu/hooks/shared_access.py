"""Accesses to words that several tasks use: counted as they come, so that a slice can end before one.

Which words those are is known before the run (`emu.schedule.shared_words`). A line with such a word is marked
in the line states of every core, which sends its accesses the slow way; all others run as they always do.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.bus.watched_words import touches_watched

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def end_is_due(core, machine, address, size, count):
    """Count the access if the instruction at `count` touches a watched word and was not counted before.

    Returns whether the slice is to end before that instruction: not once the machine is powered off, which
    stops at the end of the block.
    """
    if machine.watched == _ZERO or machine.power != _ZERO or core.shared_at == count + _ONE:
        return False
    if not touches_watched(machine, address, size):
        return False
    return _counted(core, machine, count)


@njit(cache=True)
def end_is_due_at_device(core, machine, count):
    """The same of an access to a device register, of a machine that runs step by step; under TSO also of any
    other instruction before which the store buffer must be empty."""
    if machine.stepped == _ZERO or machine.power != _ZERO or core.shared_at == count + _ONE:
        return False
    core.drains = count + _ONE
    return _counted(core, machine, count)


@njit(cache=True)
def _counted(core, machine, count):
    core.shared_at = count + _ONE
    machine.shared += _ONE
    return machine.shared == machine.shared_stop
