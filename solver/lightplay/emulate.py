"""Emulating interleavings of a slice (LightPlay, section 3.1 and Figure 11): the kernel of the CPU back end.

An interleaving is correct if each operation finds in the emulated memory what its checkpoint before says, and
memory at the end is what the evidence says.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from solver.lightplay.slice_problem import GIVES, TAKES


@njit(cache=True, nogil=True)
def ends_well(memory, final):  # type: ignore[no-untyped-def]
    """Whether the emulated memory is the final one."""
    same = True
    for p in range(final.size):
        same = same and memory[p] == final[p]
    return same


@njit(cache=True, nogil=True)
def try_ranks(instance, ways, low, high, skip, most, found):  # type: ignore[no-untyped-def]
    """Try the interleavings of rank low to high (uint64) out of `ways`, and keep the correct ones' ranks in
    `found` (uint64) as far as there is room. skip: where an operation finds something else, no interleaving
    that begins so is correct, and the rest of them, whose ranks follow, is passed over; the paper tries each.
    most: how many to try at most.

    Returns (correct ones, interleavings tried, the first rank that was left out or `high`).
    """
    core_ptr, part_ptr, place, how, before, after, initial, final = instance
    cores, n = core_ptr.size - 1, part_ptr.size - 1
    at, memory = np.empty(cores, np.int64), np.empty(initial.size, np.uint64)
    correct, tried = 0, 0
    one = np.uint64(1)
    next_rank = low
    while next_rank < high and tried < most:
        tried += 1
        rank, now, begin = next_rank, ways, np.uint64(0)
        for core in range(cores):
            at[core] = core_ptr[core]
        for p in range(initial.size):
            memory[p] = initial[p]
        fits = True
        remaining = np.uint64(n)
        while fits and remaining > np.uint64(0):
            core = 0
            here = now * np.uint64(core_ptr[1] - at[0]) // remaining
            while rank >= here:
                rank -= here
                begin += here
                core += 1
                here = now * np.uint64(core_ptr[core + 1] - at[core]) // remaining
            now = here
            op = at[core]
            at[core] += 1
            remaining -= one
            for part in range(part_ptr[op], part_ptr[op + 1]):
                g = place[part]
                if how[part] & TAKES and memory[g] != before[part]:
                    fits = False
                    break
                if how[part] & GIVES:
                    memory[g] = after[part]
        if fits and ends_well(memory, final):
            if correct < found.size:
                found[correct] = next_rank
            correct += 1
        next_rank = begin + now if skip and not fits else next_rank + one
    return correct, tried, min(next_rank, high)


@njit(cache=True)
def is_correct(instance, order):  # type: ignore[no-untyped-def]
    """Whether one order of the operations (int64 (n,)) is correct. Program order is not looked at."""
    memory = instance.initial.copy()
    for op in order:
        for part in range(instance.part_ptr[op], instance.part_ptr[op + 1]):
            g = instance.place[part]
            if instance.how[part] & TAKES and memory[g] != instance.before[part]:
                return False
            if instance.how[part] & GIVES:
                memory[g] = instance.after[part]
    return ends_well(memory, instance.final)
