"""A Linux guest's kernel as an agent on the bus: copies between guest memory and buffers of ours.

A copy is a row for each aligned word, or part of one, that it touches; the first of each line says whether a
core had that alone. Kernels stop when the buffer of the agents' rows, or of what cores lost, is full, and say
how far they came.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.event import READ, RMW, WRITE, Access
from emu.bus.agent_log import log_agent
from emu.bus.lines import claim, newest
from emu.native.unicorn import peek64, pointer, poke64

_ZERO, _ONE, _SEVEN, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(8)
_NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True)
def _number(data, at, size):
    value = _ZERO
    for k in range(size):
        value |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return value


@njit(cache=True)
def _put(data, at, size, value):
    for k in range(size):
        data[at + k] = np.uint8((value >> np.uint64(8 * k)) & np.uint64(0xFF))


@njit(cache=True)
def _piece(address, left):
    """Bytes from `address` to the end of its word, at most `left`."""
    return np.int64(min(_EIGHT - (address & _SEVEN), left))


@njit(cache=True)
def _room(machine):
    """Whether the buffers of what agents do, and of what cores lose by it, go on."""
    return machine.agent_n < machine.agent_limit and machine.losses_full == _ZERO


@njit(cache=True)
def read_bytes(cores, machines, address, out, start, cause):
    """Read guest memory at `address` (uint64) + start into out[start:] (uint8[n]).

    Returns how far it came.
    """
    machine = machines[0]
    shift, held, flags = cores[0].line_shift, _NOWHERE, 0
    at = start
    while at < out.size and _room(machine):
        here = address + np.uint64(at)
        if here >> shift != held:
            held = here >> shift
            _, flags = claim(cores, machine, held, False)
        size = _piece(here, np.uint64(out.size - at))
        home = carray(pointer(machine.home + here), size, np.uint8)
        value = _number(home, 0, size)
        log_agent(machine, len(cores), Access(READ, here, size, value, value), cause, flags)
        flags = 0
        _put(out, at, size, value)
        at += size
    return at


@njit(cache=True)
def write_bytes(cores, machines, address, data, start, cause):
    """Write data[start:] (uint8[n]) at `address` (uint64) + start. Returns how far it came."""
    machine = machines[0]
    shift, held, flags = cores[0].line_shift, _NOWHERE, 0
    at = start
    while at < data.size and _room(machine):
        here = address + np.uint64(at)
        if here >> shift != held:
            held = here >> shift
            _, flags = claim(cores, machine, held, True)
        size = _piece(here, np.uint64(data.size - at))
        home = carray(pointer(machine.home + here), size, np.uint8)
        old, new = _number(home, 0, size), _number(data, at, size)
        log_agent(machine, len(cores), Access(WRITE, here, size, old, new), cause, flags)
        flags = 0
        _put(home, 0, size, new)
        at += size
    return at


@njit(cache=True)
def fill_bytes(cores, machines, address, data, start, cause):
    """Make memory at `address` (uint64, whole pages that no core may reach now) hold `data` (uint8[n]); words
    that do so already are left alone, but for one of a line that some core still held: whoever loses a line
    has lost it to a write. Returns how far it came."""
    machine = machines[0]
    line, source = np.int64(machine.line_bytes), np.uint64(data.ctypes.data)
    at = start
    while at < data.size and _room(machine):
        held, flags = claim(cores, machine, (address + np.uint64(at)) >> cores[0].line_shift, True)
        end = min(at + line, data.size)
        while at < end:
            here = address + np.uint64(at)
            old, new = peek64(machine.home + here), peek64(source + np.uint64(at))
            at += 8
            if old != new or (held and at >= end):
                log_agent(machine, len(cores), Access(WRITE, here, 8, old, new), cause, flags)
                poke64(machine.home + here, new)
                held, flags = False, 0
    return at


@njit(cache=True)
def read_modify_write(cores, machines, address, size, new, cause):
    """Replace the number at `address` (uint64, inside one word) by `new`, as one access."""
    machine = machines[0]
    _, flags = claim(cores, machine, address >> cores[0].line_shift, True)
    home = carray(pointer(machine.home + address), size, np.uint8)
    log_agent(machine, len(cores), Access(RMW, address, size, _number(home, 0, size), new), cause, flags)
    _put(home, 0, size, new)


@njit(cache=True)
def peek_number(cores, machines, address, size):
    """The number at `address` (uint64, inside one word) as the bus has it. That is no access: it leaves no
    row in the trace, and takes nothing from anybody."""
    memory = newest(cores, machines[0], address >> cores[0].line_shift)
    return _number(carray(pointer(memory + address), size, np.uint8), 0, size)
