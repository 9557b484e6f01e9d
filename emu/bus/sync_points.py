"""Sync points: where a core and an agent meet, so that what one did comes before what the other does next.

A system call, a page fill, a signal frame, an interrupt frame, the start of a transfer, a message that is
posted or taken: the agent notes which core it met, at which instruction count of that core, and which thread
it works for. The notes stand among the agent's own accesses, in its order. They say nothing of other cores.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.native.unicorn import pointer

#: Ways in which order goes at a sync point. ENTER: what the core did below its count comes before all that
#: agents do from there on. LEAVE: what agents did up to there comes before all that the core does from its
#: count on. Both: first the one, then the other.
ENTER, LEAVE = 1, 2

#: A sync point. number: accesses that the agents had made. count: of the core. stratum: strata before it,
#: filled in when it is written down. who: the thread that enters, or runs on the core from there on; 0 of
#: firmware.
SYNC_POINT = np.dtype(
    [
        ("number", "<u8"),
        ("count", "<u8"),
        ("stratum", "<u4"),
        ("who", "<u4"),
        ("core", "u1"),
        ("way", "u1"),
        ("unused", "<u2"),
        ("unused_too", "<u4"),
    ]
)
assert SYNC_POINT.itemsize == 32

#: Room for sync points between two times that they are taken; from half of it on the running core is stopped
#: for that. An instruction passes fewer than the rest: a repeated store to devices ends with their page.
ROOM = 1 << 14

_ONE = np.uint64(1)


@njit(cache=True)
def note_sync(machine, core, count, way, who):
    """Note that an agent meets core number `core` at its instruction count `count`. Where it meets it for the
    same thread as just before, with no access since, the two are one: ENTER, then LEAVE."""
    rows = carray(pointer(machine.syncs), ROOM, SYNC_POINT)
    n = np.int64(machine.sync_n)
    if n > 0:
        last = rows[n - 1]
        same = last.core == np.uint8(core) and last.count == count and last.who == np.uint32(who)
        if same and last.number == machine.agent_number and (way == LEAVE or last.way == ENTER):
            last.way |= np.uint8(way)
            return
    row = rows[n]
    row.number = machine.agent_number
    row.count = count
    row.stratum = np.uint32(0)
    row.who = np.uint32(who)
    row.core = np.uint8(core)
    row.way = np.uint8(way)
    row.unused = np.uint16(0)
    row.unused_too = np.uint32(0)
    machine.sync_n += _ONE
    if way & ENTER:
        machine.entered += _ONE
    if machine.sync_n >= np.uint64(ROOM // 2):
        machine.attention = _ONE


@njit(cache=True)
def note_left(core, machine, count):
    """Note LEAVE for a core that asks a device, unless agents have met nobody and done nothing since it last
    did."""
    done = machine.agent_number + machine.entered + _ONE
    if core.left_at != done:
        core.left_at = done
        note_sync(machine, core.core_id, count, LEAVE, 0)


@njit(cache=True)
def note_sync_of(machines, core, count, way, who):
    """`note_sync` for callers outside of hooks. machines: MACHINE[1]."""
    note_sync(machines[0], core, count, way, who)
