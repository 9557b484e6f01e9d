"""Emulating interleavings of a slice (LightPlay, section 3.1 and Figure 11).

An interleaving is correct if each operation finds in the emulated memory what its checkpoint before says, and
memory at the end is what the evidence says. `emulate_one` is the body that all permutation back ends share.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from solver.evidence.lightplay.slice_problem import GIVES, TAKES

_ZERO, _ONE = np.uint64(0), np.uint64(1)


def emulate_one(rank, ways, core_ptr, part_ptr, place, how, before, after, initial, final, at, memory):  # type: ignore[no-untyped-def]
    """Make the interleaving of a rank (uint64) out of `ways`, operation by operation, and emulate each.

    at: int64 (cores,), memory: uint64 (places,), both scratch. Returns (whether it is correct, the first rank
    whose interleaving does not begin like the part of this one that was emulated).
    """
    begin, last = _ZERO, core_ptr.size - 2
    for core in range(core_ptr.size - 1):
        at[core] = core_ptr[core]
    for p in range(initial.size):
        memory[p] = initial[p]
    for left in range(part_ptr.size - 1, 0, -1):
        core, rest = 0, ways
        here = ways * np.uint64(core_ptr[1] - at[0]) // np.uint64(left)
        while rank >= here:
            rank -= here
            begin += here
            rest -= here
            core += 1
            # What is left over is the last core's: a division less.
            here = rest
            if core < last:
                here = ways * np.uint64(core_ptr[core + 1] - at[core]) // np.uint64(left)
        ways = here
        op = at[core]
        at[core] += 1
        for part in range(part_ptr[op], part_ptr[op + 1]):
            g = place[part]
            if how[part] & TAKES and memory[g] != before[part]:
                return False, begin + ways
            if how[part] & GIVES:
                memory[g] = after[part]
    for p in range(final.size):
        if memory[p] != final[p]:
            return False, begin + _ONE
    return True, begin + _ONE


emulate_inline = njit(cache=True, nogil=True, _nrt=False, error_model="numpy")(emulate_one)


@njit(cache=True, nogil=True, error_model="numpy")
def try_ranks(instance, ways, low, high, skip, most, found):  # type: ignore[no-untyped-def]
    """Try the interleavings of rank low to high (uint64) out of `ways`, and keep the correct ones' ranks in
    `found` (uint64) as far as there is room. skip: where an operation finds something else, no interleaving
    that begins so is correct, and the rest of them, whose ranks follow, is passed over; the paper tries each.
    most: how many to try at most.

    Returns (correct ones, interleavings tried, the first rank that was left out or `high`).
    """
    core_ptr, part_ptr, place, how, before, after, initial, final = instance
    at, memory = np.empty(core_ptr.size - 1, np.int64), np.empty(initial.size, np.uint64)
    correct, tried = 0, 0
    rank = low
    while rank < high and tried < most:
        tried += 1
        fits, other = emulate_inline(
            rank, ways, core_ptr, part_ptr, place, how, before, after, initial, final, at, memory
        )
        if fits:
            if correct < found.size:
                found[correct] = rank
            correct += 1
        rank = other if skip else rank + _ONE
    return correct, tried, min(rank, high)


@njit(cache=True)
def is_correct(instance, order):  # type: ignore[no-untyped-def]
    """Whether an order of the operations (int64 (n,)) keeps program order and is correct. Knows nothing of
    ranks, so that a search cannot vouch for itself."""
    core_ptr, part_ptr, place, how, before, after, initial, final = instance
    at, memory = core_ptr[:-1].copy(), initial.copy()
    if order.size != part_ptr.size - 1:
        return False
    for op in order:
        core = np.searchsorted(core_ptr, op, side="right") - 1
        if core < 0 or core >= at.size or at[core] != op:
            return False
        at[core] += 1
        for part in range(part_ptr[op], part_ptr[op + 1]):
            if how[part] & TAKES and memory[place[part]] != before[part]:
                return False
            if how[part] & GIVES:
                memory[place[part]] = after[part]
    same = True
    for p in range(final.size):
        same = same and memory[p] == final[p]
    return same
