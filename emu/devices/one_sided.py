"""The put/get engine: one-sided communication between a core's memory and another's, asynchronous and
unordered until the core finds that none of its operations is outstanding (firmware/include/machine.h).

A core starts operations through its registers; an agent on the bus carries them out in pieces, between
slices, in an order that the machine's seed decides.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.bus.agents import agent_read, agent_write, reachable
from emu.native.unicorn import pointer

#: Registers, as offsets in the device page. SEGMENT_*: where the core's own partition of the global memory
#: lies; the machine keeps nothing of it, it is said for whoever watches.
RMA_LOCAL, RMA_REMOTE, RMA_LENGTH = np.uint64(0x200), np.uint64(0x208), np.uint64(0x210)
RMA_PUT, RMA_GET, RMA_OUTSTANDING = np.uint64(0x218), np.uint64(0x220), np.uint64(0x228)
SEGMENT_BASE, SEGMENT_LENGTH = np.uint64(0x230), np.uint64(0x238)
FIRST, LAST = np.uint64(0x200), np.uint64(0x27F)

#: Operations that a core may have outstanding; a start beyond that is ignored. Cores of a machine.
MOST_OUTSTANDING = 16
_MOST_CORES = 64

#: Causes of the agent's accesses: a put, or a get, of core K is CAUSE_PUT + K, CAUSE_GET + K.
CAUSE_PUT, CAUSE_GET = 64, 128

#: An operation: it moves `left` bytes from `source` to `target`; 0 left: a free place.
OPERATION = np.dtype([("source", "<u8"), ("target", "<u8"), ("left", "<u8"), ("cause", "<u8")])
#: A core's registers and operations.
ENGINE = np.dtype(
    [
        ("local", "<u8"),
        ("remote", "<u8"),
        ("length", "<u8"),
        ("outstanding", "<u8"),
        ("operations", OPERATION, (MOST_OUTSTANDING,)),
    ]
)

_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_WORD = np.uint64(7)


@njit(cache=True)
def longest_transfer(local, remote, length, limit):
    """Bytes that an operation moves: a multiple of 8; 0 if an end is not aligned or not below `limit`."""
    length &= ~_WORD
    if ((local | remote) & _WORD) != _ZERO or length > limit:
        return _ZERO
    if local > limit - length or remote > limit - length:
        return _ZERO
    return length


@njit(cache=True)
def _engine_of(core, machine):
    return carray(pointer(machine.engines), _MOST_CORES, ENGINE)[np.int64(core.core_id)]


@njit(cache=True)
def _start(core, machine, is_put):
    engine = _engine_of(core, machine)
    length = longest_transfer(engine.local, engine.remote, engine.length, core.memory_bytes)
    if length == _ZERO or engine.outstanding >= np.uint64(MOST_OUTSTANDING):
        return
    for k in range(MOST_OUTSTANDING):
        operation = engine.operations[k]
        if operation.left == _ZERO:
            operation.source = engine.local if is_put else engine.remote
            operation.target = engine.remote if is_put else engine.local
            operation.left = length
            operation.cause = core.core_id + np.uint64(CAUSE_PUT if is_put else CAUSE_GET)
            engine.outstanding += _ONE
            machine.transfers += _ONE
            return


@njit(cache=True)
def one_sided_write(core, machine, register, value):
    """A write to one of the engine's registers."""
    engine = _engine_of(core, machine)
    if register == RMA_LOCAL:
        engine.local = value
    elif register == RMA_REMOTE:
        engine.remote = value
    elif register == RMA_LENGTH:
        engine.length = value
    elif register == RMA_PUT:
        _start(core, machine, True)
    elif register == RMA_GET:
        _start(core, machine, False)


@njit(cache=True)
def one_sided_read(core, machine, register):
    """A read of one of the engine's registers. One that finds operations outstanding ends the slice: nothing
    can come of asking again before the agent has had its turn."""
    engine = _engine_of(core, machine)
    if register != RMA_OUTSTANDING:
        return _ZERO
    if engine.outstanding != _ZERO and core.stop_at > core.count:
        core.stop_at = core.count + _ONE
    return engine.outstanding


@njit(cache=True)
def _pick(engines, n_cores, number):
    """The outstanding operation with this number, counted over all cores: (core, place)."""
    for core in range(n_cores):
        held = np.int64(engines[core].outstanding)
        if number >= held:
            number -= held
            continue
        for k in range(MOST_OUTSTANDING):
            if engines[core].operations[k].left != _ZERO:
                if number == 0:
                    return core, k
                number -= 1
    return -1, -1


@njit(cache=True)
def step_transfers(cores, machines, number, words):
    """Move up to `words` words of the operation `number`; words outside the image's pages are left out.

    cores: CORE[n]. machines: MACHINE[1]. number: below the machine's `transfers`. Returns the words moved.
    """
    machine, moved = machines[0], 0
    engines = carray(pointer(machine.engines), _MOST_CORES, ENGINE)
    core, place = _pick(engines, len(cores), number)
    if core < 0:
        return 0
    operation = engines[core].operations[place]
    while moved < words and operation.left >= _EIGHT and machine.agent_n < machine.agent_limit:
        if reachable(cores, operation.source) and reachable(cores, operation.target):
            value = agent_read(cores, machine, operation.source, operation.cause)
            agent_write(cores, machine, operation.target, value, operation.cause)
        operation.source += _EIGHT
        operation.target += _EIGHT
        operation.left -= _EIGHT
        moved += 1
    if operation.left == _ZERO:
        engines[core].outstanding -= _ONE
        machine.transfers -= _ONE
    return moved
