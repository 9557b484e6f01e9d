"""Who ran, from where to where: a policy that is looked on at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from emu.schedule.policy import Ints, Runner, Scheduler, Slice
from emu.schedule.switches import Switch


class Stay(NamedTuple):
    """A task has run on a core from instruction count `begin` to `end`. made, own: its shared events and
    instructions up to then. before: the last of these events has not happened yet. able: it could have gone
    on."""

    who: int
    core: int
    begin: int
    end: int
    made: int
    own: int
    before: bool
    able: bool


class Noting(Runner):
    """What `policy` does, and `stays`: what became of it, a row for each slice. first: the task that would
    have begun under `Switches`."""

    follows = True

    def __init__(self, policy: Scheduler) -> None:
        self.policy, self.eager = policy, policy.eager
        self.stays: list[Stay] = []
        #: The machine's shared events before each of them.
        self.begins: list[int] = []
        #: Of each task that could run on a core how many there were when it first could.
        self.met: dict[int, int] = {}
        self.first: int | None = None
        self._made: dict[int, int] = {}
        self._own: dict[int, int] = {}
        self._events = 0
        self._piece, self._who, self._began = Slice(0, 0), -1, 0

    def take_over(self, names: Ints) -> None:
        """The policy does."""
        self.first = names[0]
        self.policy.take_over(names)

    def yielded(self, who: int) -> None:
        """The policy hears of it."""
        self.policy.yielded(who)

    def rank(self, who: int) -> float:
        """The policy's."""
        return self.policy.rank(who)

    def next(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> Slice:
        """The policy's."""
        for core in runnable:
            self.met.setdefault(core if who is None else who[core], len(self.stays))
        piece = self.policy.next(runnable, counts, events, who)
        self._piece, self._began, self._events = piece, counts[piece.core], events
        self._who = piece.core if who is None else who[piece.core]
        if self.first is None:
            self.first = min(k if who is None else who[k] for k in runnable)
        return piece

    def ended(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> None:
        """Note the slice."""
        core, name = self._piece.core, self._who
        made = events - self._events
        self._made[name] = self._made.get(name, 0) + made
        self._own[name] = self._own.get(name, 0) + counts[core] - self._began
        able = core in runnable and (core if who is None else who[core]) == name
        before = made == self._piece.events > 0
        self.begins.append(self._events)
        self.stays.append(
            Stay(name, core, self._began, counts[core], self._made[name], self._own[name], before, able)
        )
        if self.policy.follows:
            self.policy.ended(runnable, counts, events, who)


def merged(stays: Iterable[Stay]) -> list[Stay]:
    """The same, with what a task ran on end on one core as one."""
    found: list[Stay] = []
    for stay in stays:
        last = found[-1] if found else None
        if last is not None and (last.who, last.core, last.end) == (stay.who, stay.core, stay.begin):
            found[-1] = stay._replace(begin=last.begin)
        else:
            found.append(stay)
    return found


def switches_between(stays: Iterable[Stay], first: int, *, by_instructions: bool) -> list[Switch]:
    """The switches that make this run, as far as switches can: what a task does beyond its last event, and
    alone, is not counted unless `by_instructions`. first: see `Noting`."""
    found: list[Switch] = []
    last: Stay | None = None
    for stay in stays:
        if last is None and stay.who != first:
            found.append(Switch(first, 0, stay.who, by_instructions))
        if last is not None and last.who != stay.who:
            at = last.own if by_instructions else last.made + (not last.before)
            found.append(Switch(last.who, max(1, at), stay.who, by_instructions))
        last = stay
    return found
