"""Slices one after the other without a look at anything between them, as long as nothing is to be seen.

Between two slices there is work for whoever schedules, for devices or a kernel, and for a recorder; mostly
each finds that it has nothing to do, and takes longer to find that than a slice does. So they say beforehand
how long they will have nothing to do (`Room`, `Calm`). Buffered stores commit between slices as they always
do. What is recorded is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.bus.commit import commit_between_slices
from emu.core.core import Core
from emu.core.running import run_core
from emu.core.unfetch import give_back_fetch
from emu.native.state import STOP_SLICE
from emu.native.unicorn import peek64
from emu.schedule.moods import RUN, TASK, choose
from emu.schedule.policy import Ahead, Moods

#: Later than any count or cycle.
NEVER = 1 << 62
_NOBODY = np.int64(-1)
_ZERO, _NEVER = np.uint64(0), np.uint64(NEVER)
#: Limits that come before those of each core.
_HEAD = 5
#: Slices of one stretch, of those that are chosen one by one.
_MOST_SLICES = 256


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


def limits_of(room: Room, calm: Calm, instructions: int, lone: int) -> NDArray[np.uint64]:
    """How far a stretch may go, for the kernels: uint64[5 + cores + words], how much longer slices are than
    chosen (`lone`), their most, the instructions that may be passed, the clock, the rights that may be given,
    `Calm.counts`, `Calm.words`. instructions: of all cores so far."""
    clock = min(room.clock, calm.clock)
    may_pass = max(0, room.instructions - instructions)
    return np.array([lone, room.longest, may_pass, clock, room.events, *calm.counts, *calm.words], np.uint64)


@njit(cache=True)
def _length(asked, limits):  # type: ignore[no-untyped-def]
    lone = limits[0]
    return min(asked * lone if asked < _NEVER // lone else _NEVER, limits[1])


@njit(cache=True)
def _run_slice(row, machines, pcs, number, length, exact, events):  # type: ignore[no-untyped-def]
    """Run a core for a slice. row: CORE[1], its. Returns (whether it ended by its length or events,
    status)."""
    core, machine = row[0], machines[0]
    core.exact = exact
    machine.shared_stop = machine.shared + events if events else _ZERO
    core.stop_at = core.count + length
    status, pcs[number] = run_core(row, pcs[number], _ZERO, True)
    if core.stop_reason != np.uint64(STOP_SLICE) or machine.power != _ZERO:
        return False, status
    give_back_fetch(row, machines)
    return True, status


@njit(cache=True)
def _sums(cores):  # type: ignore[no-untyped-def]
    """Instructions of all cores, and rights that they have been given."""
    passed, given = _ZERO, _ZERO
    for k in range(len(cores)):
        passed += cores[k].count
        given += cores[k].misses + cores[k].upgrades
    return passed, given


@njit(cache=True)
def _is_over(cores, limits, number, passed, given):  # type: ignore[no-untyped-def]
    """Whether a limit is reached after a slice of core `number`. passed, given: in this stretch."""
    if passed >= limits[2] or given >= limits[4] or cores[number].count >= limits[_HEAD + number]:
        return True
    if fastest(cores) >= limits[3]:
        return True
    many = 0
    for k in range(_HEAD + len(cores), len(limits)):
        many += peek64(limits[k]) != _ZERO
    return many > 0


@njit(cache=True, nogil=True)
def run_slices(cores, machines, pcs, chosen, runnable, limits, ran):  # type: ignore[no-untyped-def]
    """Run `chosen` slices (`emu.schedule.policy.Ahead.rows`), at least one, until a limit is reached.

    cores: CORE[n]. machines: MACHINE[1]. pcs: uint64[n], changed in place. runnable: int64[r]. limits: see
    `limits_of`. ran: uint64[at least as many as chosen, 2], see `Ran`. Returns (slices that ended by their
    length, core whose slice is under way or -1, its status).
    """
    began, had = _sums(cores)
    for done in range(len(chosen)):
        if done > 0:
            commit_between_slices(cores, machines)
        number = runnable[np.int64(chosen[done, 0] % np.uint64(len(runnable)))]
        length, exact = _length(chosen[done, 1], limits), chosen[done, 2]
        row = cores[number : number + 1]
        ended, status = _run_slice(row, machines, pcs, number, length, exact, _ZERO)
        if not ended:
            return done, number, status
        ran[done, 0], ran[done, 1] = np.uint64(number), row[0].count
        passed, given = _sums(cores)
        if _is_over(cores, limits, number, passed - began, given - had):
            return done + 1, _NOBODY, status
    return len(chosen), _NOBODY, 0


@njit(cache=True, nogil=True)
def run_moods(cores, machines, pcs, runs, tasks, seats, limits, ran):  # type: ignore[no-untyped-def]
    """Run slices of which each is chosen when the one before has ended (`emu.schedule.moods.choose`), at
    least one, until a limit is reached or `ran` is full.

    runs, tasks, seats: see there. Else, and what is returned, as of `run_slices`.
    """
    began, had = _sums(cores)
    passed = began
    for done in range(len(ran)):
        if done > 0:
            commit_between_slices(cores, machines)
        shared = np.int64(machines[0].shared)
        picked, chosen, exact, events = choose(runs, tasks, seats, np.int64(passed), shared)
        number, length = seats[picked, 0], _length(np.uint64(chosen), limits)
        row = cores[number : number + 1]
        ended, status = _run_slice(row, machines, pcs, number, length, np.uint64(exact), np.uint64(events))
        if not ended:
            return done, number, status
        ran[done, 0], ran[done, 1] = np.uint64(number), row[0].count
        passed, given = _sums(cores)
        if _is_over(cores, limits, number, passed - began, given - had):
            return done + 1, _NOBODY, status
    return len(ran), _NOBODY, 0


class Stretches:
    """Stretches of a machine. core_rows: CORE[n], of its cores; machine_rows: MACHINE[1]."""

    def __init__(
        self, cores: Sequence[Core], core_rows: NDArray[np.void], machine_rows: NDArray[np.void]
    ) -> None:
        self._cores, self._rows = cores, (core_rows, machine_rows)

    def run(
        self, ahead: Ahead | Moods, runnable: list[int], who: Sequence[int] | None, limits: NDArray[np.uint64]
    ) -> Ran:
        """Run one. runnable, who: as of `emu.schedule.policy.Scheduler.next`. limits: see `limits_of`."""
        pcs = np.array([core.pc for core in self._cores], np.uint64)
        if isinstance(ahead, Moods):
            slices = np.empty((_MOST_SLICES, 2), np.uint64)
            seats = np.array([(k, k if who is None else who[k]) for k in runnable], np.int64)
            chosen = ahead.runs, ahead.tasks, seats
            done, number, status = self._run_moods(*self._rows, pcs, *chosen, limits, slices)
        else:
            slices = np.empty((len(ahead.rows), 2), np.uint64)
            cores = np.array(runnable)
            done, number, status = run_slices(*self._rows, pcs, ahead.rows, cores, limits, slices)
        for core, pc in zip(self._cores, pcs.tolist(), strict=True):
            core.pc = pc
        return Ran(slices[:done], number, status)

    @cached_property
    def _run_moods(self) -> Callable[..., Any]:
        words, pairs = np.zeros(1, np.uint64), np.zeros((1, 2), np.uint64)
        chosen = np.zeros(1, RUN), np.zeros(1, TASK), pairs.view(np.int64)
        return run_moods.like(*self._rows, words, *chosen, words, pairs)
