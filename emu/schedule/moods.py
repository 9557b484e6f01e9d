"""How chaos chooses, as kernels: see `emu.schedule.chaos`, which begins a run and is told what happens.

Numbers are drawn as `random.Random` draws them, in this order; which schedule a seed gives rests on that.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.schedule.twister import STATE, below, bits, exponential, unit

#: Naps that are planned in a run, at most.
MOST_NAPS = 16

#: A run. coarse: bugs differ in how long somebody must stand still, so a run is fine or coarse on the whole.
#: total: instructions over all cores, events: shared ones, when `choose` was last asked. until: the total at
#: which the stretch ends. last: whose slice was the last; stayed: who may have the next one as well. known:
#: tasks that were met. napper, before: tasks that take a nap before their event of this number; a task's are
#: ascending. draws: see `emu.schedule.twister`.
RUN = np.dtype(
    [
        *((name, "<i8") for name in (
            "counted", "naps", "holds", "length", "until", "total", "events", "last", "stayed", "yields",
            "long_naps", "known",
        )),
        *((name, "<f8") for name in ("coarse", "grain", "stays")),
        *((name, "<i8", (MOST_NAPS,)) for name in ("napper", "before")),
        ("draws", "<u4", (STATE,)),
    ], align=True,
)  # fmt: skip
#: A task, in the order in which they were met. until: the total until which it rests, 0 if it does not.
#: total, yields: those since which it waits until nobody else can run. made: its shared events so far.
TASK = np.dtype([(name, "<i8") for name in ("who", "until", "total", "yields", "made")])

#: Instructions of a stretch with one mood, as powers of two.
_STRETCH_LOW, _STRETCH_HIGH = 6, 14
#: Longest slice of a stretch, in instructions, as powers of two: where shared events end slices, and where
#: not.
_LENGTH_LOW, _LENGTH_HIGH = 8, 14
_ALONE_LOW, _ALONE_HIGH = 3, 12
#: Shared events in a slice on average, of which each stretch draws one; how often who ran goes on.
_GRAINS, _STAYS = (1.0, 2.0, 4.0, 12.0), (0.0, 0.0, 0.5, 0.9)
_EVEN, _STARVE, _RUSH = 3, 3, 2
#: Instructions of a nap, as powers of two.
_NAP_LOW, _NAP_HIGH = 6, 12
#: From here on a rest lasts until nobody else can run, but no more than so many instructions over all cores,
#: and yields: who spins until the one that rests has done something could run for ever.
HELD = 1 << 62
_PATIENCE, _YIELDS = 1 << 20, 1 << 11
#: Slices shorter than this end inside a block too.
_EXACT = 64
_NOBODY = -1


@njit(cache=True)
def _find(run, tasks, who):
    """The task's row, or -1."""
    for k in range(run.known):
        if tasks[k].who == who:
            return k
    return _NOBODY


@njit(cache=True)
def _hold(run, task, until):
    """Let a task rest until nobody else can run: those whose `until` is less go on first."""
    task.until, task.total, task.yields = until, run.total, run.yields


@njit(cache=True)
def _meet(run, tasks, who):
    """Take note of a task that is new. Some runs let it wait until nobody else can run."""
    if _find(run, tasks, who) >= 0:
        return
    task = tasks[run.known]
    task.who, task.until, task.made = who, 0, 0
    run.known += 1
    if run.holds and run.total:
        _hold(run, task, HELD)


@njit(cache=True)
def _rests(run, tasks, who):
    """Whether a task rests. One that has waited for too long rests no more."""
    k = _find(run, tasks, who)
    if k < 0:
        return False
    task = tasks[k]
    if task.until < HELD:
        return task.until > run.total
    if run.total - task.total > _PATIENCE or run.yields - task.yields > _YIELDS:
        task.until = 0
        return False
    return True


@njit(cache=True)
def _next_nap(run, who, made):
    """Before which of its events a task that has made so many takes its next nap; 0: none."""
    for k in range(run.naps):
        if run.napper[k] == who and run.before[k] > made:
            return run.before[k]
    return 0


@njit(cache=True)
def _account(run, tasks, events):
    """Events since the last slice were its task's, which may be due for a nap: for a time, or until nobody
    else can run, whoever did so first being the first to go on."""
    made, run.events = events - run.events, events
    if run.last < 0:
        return
    task = tasks[_find(run, tasks, run.last)]
    nap = _next_nap(run, task.who, task.made)
    task.made += made
    if nap == 0 or task.made < nap:
        return
    if bits(run.draws, 1):
        run.long_naps += 1
        _hold(run, task, HELD + run.long_naps)
    else:
        task.until = run.total + (1 << _between(run.draws, _NAP_LOW, _NAP_HIGH))


@njit(cache=True)
def _between(draws, low, high):
    """`randint(low, high)`."""
    return low + below(draws, high - low + 1)


@njit(cache=True)
def _begin_stretch(run, tasks):
    span = np.int64(np.rint((_STRETCH_HIGH - _STRETCH_LOW) * run.coarse))
    run.until = run.total + (1 << _between(run.draws, _STRETCH_LOW, _STRETCH_LOW + span))
    run.grain = _GRAINS[below(run.draws, len(_GRAINS))]
    run.stays = _STAYS[below(run.draws, len(_STAYS))]
    if run.counted:
        run.length = 1 << _between(run.draws, _LENGTH_LOW, _LENGTH_HIGH)
    else:
        run.length = 1 << _between(run.draws, _ALONE_LOW, _ALONE_HIGH)
    mood = below(run.draws, _EVEN + _STARVE + _RUSH)
    alone = _NOBODY
    if run.known and mood >= _EVEN + _STARVE:
        alone = below(run.draws, run.known)
    for k in range(run.known):
        starved = False
        if mood >= _EVEN + _STARVE:
            starved = k != alone
        elif mood >= _EVEN:
            starved = bits(run.draws, 1) == 1
        if tasks[k].until < HELD:
            tasks[k].until = run.until if starved else 0


@njit(cache=True)
def _wake(run, tasks, seats):
    """All that can run rest: those that are new begin together, or whose rest is over first goes on."""
    least = np.int64(0)
    for k in range(len(seats)):
        until = tasks[_find(run, tasks, seats[k, 1])].until
        least = until if k == 0 else min(least, until)
    for k in range(len(seats)):
        task = tasks[_find(run, tasks, seats[k, 1])]
        if task.until == least:
            task.until = 0


@njit(cache=True)
def _pick(run, tasks, seats):
    """A random task that does not rest, or who ran. Returns its row of `seats`; -1: all rest."""
    awake, staying, n = np.empty(len(seats), np.int64), _NOBODY, 0
    for k in range(len(seats)):
        if _rests(run, tasks, seats[k, 1]):
            continue
        awake[n] = k
        n += 1
        if staying < 0 and seats[k, 1] == run.stayed:
            staying = k
    if n == 0:
        return _NOBODY
    if staying >= 0 and unit(run.draws) < run.stays:
        return staying
    return awake[below(run.draws, n)]


@njit(cache=True)
def meet(runs, tasks, who):
    """Take note of a task before anything is chosen. runs, tasks: as of `choose`."""
    _meet(runs[0], tasks, who)


@njit(cache=True)
def rests(runs, tasks, who):
    """Whether a task rests, 0 or 1. runs, tasks: as of `choose`."""
    return int(_rests(runs[0], tasks, who))


@njit(cache=True)
def choose(runs, tasks, seats, total, events):
    """The next slice: (row of `seats`, length, exact, events), as of `emu.schedule.policy.Slice`.

    runs: RUN[1], tasks: TASK[at least as many as are known and can come], changed in place. seats: int64
    [n, 2], (core, task) of all that can run, cores ascending. total: instructions over all cores. events:
    shared ones.
    """
    run = runs[0]
    run.total = total
    for k in range(len(seats)):
        _meet(run, tasks, seats[k, 1])
    _account(run, tasks, events)
    if run.total >= run.until:
        _begin_stretch(run, tasks)
    picked = _pick(run, tasks, seats)
    if picked < 0:
        _wake(run, tasks, seats)
        picked = _pick(run, tasks, seats)
    who = seats[picked, 1]
    run.last, run.stayed = who, who
    length = 1 + below(run.draws, run.length)
    if not run.counted:
        return picked, length, 1, 0
    if run.naps:
        made = tasks[_find(run, tasks, who)].made
        nap = _next_nap(run, who, made)
        until = nap - made if nap else 0
    else:
        until = 1 + np.int64(exponential(run.draws, 1.0 / run.grain))
    return picked, length, np.int64(length < _EXACT), until
