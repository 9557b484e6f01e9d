"""Slices one after the other without a look at anything between them, as long as nothing is to be seen.

Between two slices there is work for whoever schedules, for devices or a kernel, and for a recorder; mostly
each finds that it has nothing to do, and takes longer to find that than a slice does. So they say beforehand
how long they will have nothing to do (`Room`, `Calm`). What is recorded is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.core.core import run_core
from emu.core.unfetch import give_back_fetch
from emu.native.state import STOP_SLICE
from emu.native.unicorn import peek64

#: Later than any count or cycle.
NEVER = 1 << 62
_NOBODY = np.int64(-1)
_ZERO, _NEVER = np.uint64(0), np.uint64(NEVER)


class Room(NamedTuple):
    """Until when a watcher need not be told of anything but where slices ended. instructions: of all cores.
    clock: the fastest core's cycles. longest: no slice is longer, instructions. events: rights that cores may
    yet be given (misses and upgrades)."""

    instructions: int = NEVER
    clock: int = NEVER
    longest: int = NEVER
    events: int = NEVER


class Calm(NamedTuple):
    """Until when nothing happens on a machine between slices. words: addresses of numbers (uint64) that are 0
    till then. counts: each core's instructions. clock: as in `Room`."""

    words: NDArray[np.uint64]
    counts: list[int]
    clock: int = NEVER


class Ran(NamedTuple):
    """A stretch. slices: uint64[n, 2], (core, its instruction count at the end) of those that ended by their
    length. core: whose slice is under way, -1: none's. status: libunicorn's, of that."""

    slices: NDArray[np.uint64]
    core: int
    status: int


@njit(cache=True)
def fastest(cores):  # type: ignore[no-untyped-def]
    """The highest cycle count. cores: CORE[n]."""
    most = _ZERO
    for k in range(len(cores)):
        most = max(most, cores[k].count + cores[k].latency)
    return most


@njit(cache=True)
def _set_words(words):  # type: ignore[no-untyped-def]
    """How many are not 0. words: uint64[n], addresses."""
    many = 0
    for word in words:
        many += peek64(word) != _ZERO
    return many


@njit(cache=True)
def _length(asked, lone, longest):  # type: ignore[no-untyped-def]
    return min(asked * lone if asked < _NEVER // lone else _NEVER, longest)


@njit(cache=True, nogil=True)
def run_slices(cores, machines, pcs, chosen, runnable, limits, words, ran):  # type: ignore[no-untyped-def]
    """Run `chosen` slices (`emu.schedule.policy.Ahead.rows`), at least one, until a limit is reached.

    cores: CORE[n]. machines: MACHINE[1]. pcs: uint64[n], changed in place. runnable: int64[r]. limits:
    uint64[5 + n]: how much longer a slice is than chosen, its most, the instructions that may be passed, the
    clock, the rights that may be given, `Calm.counts`. words: `Calm.words`. ran: uint64[at least as many as
    chosen, 2], see `Ran`. Returns (slices that ended by their length, core whose slice is under way or -1,
    its status).
    """
    lone, longest, room, clock, events = limits[0], limits[1], limits[2], limits[3], limits[4]
    counts = limits[5:]
    passed, given = _ZERO, _ZERO
    for done in range(len(chosen)):
        number = runnable[np.int64(chosen[done, 0] % np.uint64(len(runnable)))]
        row = cores[number : number + 1]
        core = row[0]
        core.exact = chosen[done, 2]
        machines[0].shared_stop = _ZERO
        began, had = core.count, core.misses + core.upgrades
        core.stop_at = began + _length(chosen[done, 1], lone, longest)
        status, pcs[number] = run_core(row, pcs[number], _ZERO, True)
        if core.stop_reason != np.uint64(STOP_SLICE) or machines[0].power != _ZERO:
            return done, number, status
        give_back_fetch(row, machines)
        ran[done, 0], ran[done, 1] = np.uint64(number), core.count
        passed += core.count - began
        given += core.misses + core.upgrades - had
        at_end = passed >= room or given >= events or core.count >= counts[number]
        if at_end or fastest(cores) >= clock or _set_words(words):
            return done + 1, _NOBODY, status
    return len(chosen), _NOBODY, 0
