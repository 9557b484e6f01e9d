"""Where the tasks of a run met: pairs of accesses of two tasks to one word, one of them a write.

An access is known by its site, which is its place in the program and that of its task's access before it, so
that a lock function is told apart by who calls it when. Source of the idea to count and to turn such pairs:
Yu, Narayanasamy, Pereira, Pokam, "Maple: a coverage-driven testing tool for multithreaded programs" (OOPSLA
2012), idiom 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu.hooks.shared_access import NOTED_AGAIN, NOTED_WRITE
from emu.schedule.noting import Stay

#: How far apart two accesses to a word may be, in accesses to it, for their order to be one worth turning.
_NEAR = 6
#: More than so many words that a task has only once read and written are no locks.
_MOST_LOCKS = 16

#: Two accesses, in an order: the place of what its task did before the first one, the first one's, and the
#: same of the second one. Nothing before: 0.
Sites = tuple[int, int, int, int]


@dataclass(frozen=True, order=True)
class Chance:
    """Task `who` made its shared event number `at`, then `other` its event `past`, with one word; one of them
    wrote. Stopped before the first, until the other has happened, they might come the other way round.
    guarded: not likely, since both seem to be under one lock."""

    guarded: bool
    who: int
    at: int
    other: int
    past: int


@dataclass(frozen=True)
class Encounters:
    """seen: orders of two tasks' accesses that followed each other. chances: of orders that were not seen,
    but whose opposite was, in some distance, where they could be tried: the first time and the last one."""

    seen: frozenset[Sites]
    chances: dict[Sites, list[Chance]]


class _Accesses(NamedTuple):
    """Accesses to shared words, [n] each. who, number: the task, and which of its events it is. site: [n, 2],
    the place before and its own. wrote: also where it read before. when: ascending with time; negative: it
    has not happened. born: when its task could first run."""

    word: NDArray[np.uint64]
    who: NDArray[np.int64]
    number: NDArray[np.int64]
    site: NDArray[np.uint64]
    wrote: NDArray[np.bool_]
    when: NDArray[np.float64]
    born: NDArray[np.float64]

    def taken(self, which: NDArray[np.intp]) -> _Accesses:
        """Some of them."""
        return _Accesses(
            self.word[which], self.who[which], self.number[which], self.site[which], self.wrote[which],
            self.when[which], self.born[which],
        )  # fmt: skip


class _Held:
    """The words that tasks seem to hold as locks. updates: accesses in time, which read and write, as who
    takes a lock does, and mostly who gives it back."""

    def __init__(self, updates: _Accesses) -> None:
        #: Of each task numbers of events, and what it holds after each.
        self._after: dict[int, tuple[list[int], list[frozenset[int]]]] = {}
        columns = (updates.word.tolist(), updates.who.tolist(), updates.number.tolist())
        for word, who, number in zip(*columns, strict=True):
            numbers, words = self._after.setdefault(who, ([-1], [frozenset()]))
            numbers.append(number)
            now = words[-1] ^ {word}
            words.append(now if len(now) <= _MOST_LOCKS else frozenset())

    def by(self, who: int, number: int) -> frozenset[int]:
        """When the task is about to make an event."""
        numbers, words = self._after.get(who, ([-1], [frozenset()]))
        return words[bisect_left(numbers, number) - 1]


def encounters(
    log: NDArray[np.uint64], stays: Sequence[Stay], begins: Sequence[int], met: Mapping[int, int]
) -> Encounters:
    """Of a run. log: uint64[n, 4] (`emu.hooks.shared_access`), in the order of counting. stays: who ran when,
    slice by slice; begins: the machine's shared events before each. met: of each task how many stays there
    were before it could run first; no chance is where it could not have."""
    again = (log[:, 3] & np.uint64(NOTED_AGAIN)) != 0
    rows, writers = log[~again], np.unique(log[again, 1])
    stored = (rows[:, 3] & np.uint64(NOTED_WRITE)) != 0
    word = rows[:, 0] >> np.uint64(3)
    who, number, when = _placed(rows[:, 2].astype(np.int64), stays, begins)
    site = np.stack([_before(who, number, rows[:, 1]), rows[:, 1]], axis=1)
    updates = np.isin(rows[:, 1], writers) & ~stored
    accesses = _Accesses(word, who, number, site, stored | updates, when, _began(who, met, begins))
    happened = np.flatnonzero(when >= 0)
    updating = np.flatnonzero(updates & (when >= 0))
    held = _Held(accesses.taken(updating[np.argsort(when[updating], kind="stable")]))
    return _met(accesses.taken(happened[np.lexsort((when[happened], word[happened]))]), held)


def _met(of: _Accesses, held: _Held) -> Encounters:
    """of: word by word, in time."""
    named = _named(of.site)
    seen: frozenset[Sites] = frozenset()
    chances: dict[Sites, list[Chance]] = {}
    for apart in range(1, min(_NEAR, len(of.word) - 1) + 1):
        one, other = slice(None, -apart), slice(apart, None)
        conflict = (of.who[one] != of.who[other]) & (of.wrote[one] | of.wrote[other])
        meet = np.flatnonzero((of.word[one] == of.word[other]) & conflict)
        if apart == 1:
            some, _ = _first_and_last(named[meet], named[meet + 1], meet)
            seen = frozenset(map(tuple, np.hstack([of.site[some], of.site[some + 1]]).tolist()))
        meet = meet[of.born[meet + apart] < of.when[meet]]
        for k, last in np.stack(_first_and_last(named[meet], named[meet + apart], meet), axis=1).tolist():
            sites = (*of.site[k + apart].tolist(), *of.site[k].tolist())
            if sites in seen:
                continue
            known = chances.setdefault(sites, [])
            known += [_chance(of, at, at + apart, held) for at in dict.fromkeys((k, last))]
            known[1:] = known[1:][-1:]
    return Encounters(seen, chances)


def _named(site: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sites as numbers below 2**32: of a run there are fewer than 2**16 places."""
    places, numbers = np.unique(site, return_inverse=True)
    before, here = numbers.reshape(site.shape).astype(np.uint64).T
    return before * np.uint64(len(places)) + here


def _first_and_last(
    one: NDArray[np.uint64], other: NDArray[np.uint64], pairs: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Of `pairs`, whose sites these are, the first and the last of all that have the same sites, in the order
    of the former."""
    keys = one << np.uint64(32) | other
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.concatenate([[True], keys[order][1:] != keys[order][:-1]])[: len(keys)])
    ends = np.append(begins[1:], len(keys)) - 1
    first, last = order[begins], order[ends[: len(begins)]]
    in_turn = np.argsort(first)
    return pairs[first[in_turn]], pairs[last[in_turn]]


def _chance(of: _Accesses, first: int, then: int, held: _Held) -> Chance:
    one, other = ((int(of.who[k]), int(of.number[k])) for k in (first, then))
    return Chance(not held.by(*one).isdisjoint(held.by(*other)), *one, *other)


def _placed(
    events: NDArray[np.int64], stays: Sequence[Stay], begins: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Of the machine's shared events with these numbers: whose they are, their numbers among the task's, and
    an order of when they happened, negative for those that did not. A slice that ends before an event has
    counted it: it happens when its task goes on."""
    starts = np.array(begins, np.int64)
    names = np.array([stay.who for stay in stays], np.int64)
    made = np.array([stay.made for stay in stays], np.int64)
    if not len(starts):
        return np.zeros(len(events), np.int64), np.zeros(len(events), np.int64), np.full(len(events), -1.0)
    before: dict[int, int] = {}
    earlier = np.zeros(len(stays), np.int64)
    goes_on = np.full(len(stays), -1.0)
    last: dict[int, int] = {}
    for k, stay in enumerate(stays):
        earlier[k] = before.get(stay.who, 0)
        before[stay.who] = stay.made
        if stay.who in last:
            goes_on[last[stay.who]] = _moment(begins, k) + 1 / (len(begins) + 1)
        last[stay.who] = k
    at = np.maximum(np.searchsorted(starts, events - 1, side="right") - 1, 0)
    number = earlier[at] + events - starts[at]
    held = np.array([stay.before for stay in stays])[at] & (number == made[at])
    when = np.where(held, goes_on[at], events.astype(np.float64))
    when[(number > made[at]) | (events <= starts[at])] = -1.0
    return names[at], number, when


def _moment(begins: Sequence[int], stay: int) -> float:
    """When a stay begins: after the event that was counted last, and after the stays before."""
    return begins[stay] + stay / (len(begins) + 1)


def _began(who: NDArray[np.int64], met: Mapping[int, int], begins: Sequence[int]) -> NDArray[np.float64]:
    """When these tasks could first run."""
    found = np.zeros(len(who))
    for task, stays in met.items():
        found[who == task] = _moment(begins, stays) if stays < len(begins) else np.inf
    return found


def _before(
    who: NDArray[np.int64], number: NDArray[np.int64], places: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Where each access's task made its access before that one, 0 if there is none."""
    order = np.lexsort((number, who))
    before = np.zeros(len(places), np.uint64)
    same = who[order][1:] == who[order][:-1]
    before[order[1:]] = np.where(same, places[order[:-1]], np.uint64(0))
    return before
