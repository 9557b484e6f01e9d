"""A line's byte in one core: what the core may do with the line, and marks on it.

Only this package reads these bytes; hooks ask `holds` and `ready`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import carray, njit
from emu.native.unicorn import peek8, pointer

#: MESI state, in the low two bits.
INVALID, SHARED, EXCLUSIVE, MODIFIED = 0, 1, 2, 3
MESI = np.uint8(3)
#: Lost in the middle of the present run of instructions, or loaded from there though not held, by way of the
#: store buffer.
LOST = np.uint8(4)
#: Received at least once.
SEEN = np.uint8(8)
#: Accesses to some of the line's words are counted (emu/hooks/shared_access.py).
WATCHED = np.uint8(16)
#: Lost to another, not by eviction, since it was last received.
TAKEN = np.uint8(32)
#: Was received once, though it counts as never received (where an interval of a ring begins).
FORGOTTEN = np.uint8(64)


@njit(cache=True)
def line_states(core, machine):
    """The core's line bytes, uint8[n_lines]."""
    return carray(pointer(core.line_state), np.int64(machine.n_lines), np.uint8)


@njit(cache=True, inline="always")
def holds(core, line, for_write):
    """Whether the core may read the line, or write to it, as it is."""
    state = peek8(core.line_state + line) & MESI
    return state == np.uint8(MODIFIED) if for_write else state != np.uint8(INVALID)


@njit(cache=True, inline="always")
def ready(core, line, for_write):
    """`holds`, and nobody counts accesses to the line."""
    state = peek8(core.line_state + line) & (MESI | WATCHED)
    return state == np.uint8(MODIFIED) if for_write else state != np.uint8(INVALID) and state < WATCHED


@njit(cache=True)
def is_watched(core, line):
    """Whether accesses to some of the line's words are counted."""
    return (peek8(core.line_state + line) & WATCHED) != np.uint8(0)


def watch(states: NDArray[np.uint8], lines: NDArray[np.uint64]) -> None:
    """Have accesses to these lines counted. states: a core's line bytes."""
    states[lines] |= WATCHED


@njit(cache=True)
def is_received(core, line):
    """Whether the core has ever received the line."""
    return (peek8(core.line_state + line) & SEEN) != np.uint8(0)


@njit(cache=True, inline="always")
def was_here(core, line):
    """Whether the core has received the line, even if it has forgotten that."""
    return (peek8(core.line_state + line) & (SEEN | FORGOTTEN)) != np.uint8(0)


@njit(cache=True, inline="always")
def forgotten(state):
    """A line's byte, as it is once the core has forgotten the line, which it does not hold."""
    kept = state & ~(SEEN | TAKEN | LOST)
    return kept | FORGOTTEN if state & SEEN else kept


@njit(cache=True)
def mark_never_received(core, line):
    """The core has not received the line, or has forgotten it."""
    states = carray(pointer(core.line_state), np.int64(line) + 1, np.uint8)
    states[line] = forgotten(states[line])


@njit(cache=True)
def mark_received(core, line):
    """The core has received the line."""
    carray(pointer(core.line_state), np.int64(line) + 1, np.uint8)[line] |= SEEN
