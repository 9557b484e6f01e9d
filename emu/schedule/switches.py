"""An explicit schedule: a task runs until it stops by itself, or until a switch that is listed.

What is not listed is the same for every list, so that a list says all that there is to say of a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from corebraid.base.errors import UsageError
from emu.schedule.policy import TIME, Ints, Runner, Scheduler, Slice, Timed

#: What the name of such a schedule begins with, and the name of an empty list.
PREFIX, _NONE = "switches:", "none"
_SWITCH = re.compile(r"([0-9]{1,10})@(i?)([0-9]{1,18})=([0-9]{1,10})")
#: Instructions after which a task that others could run beside is taken to wait for one of them: it spins.
PATIENCE = 200_000
#: Timers that go off until a task's timeout does, at most.
_MOST_TIMERS = 64
#: More than a task's number.
_ALL, _WANTED = 1 << 40, 1 << 50


class Switch(NamedTuple):
    """Right before the task `who` makes its shared event number `at`, from 1, task `to` goes on; and where
    the task stops by itself before that event. by_instructions:
    before its first access to memory after `at` instructions of its own instead. All are counted from where
    there are two tasks, or two cores; 0: before it does anything there. to: `who` itself, where that yields
    and goes on all the same."""

    who: int
    at: int
    to: int
    by_instructions: bool = False

    def __str__(self) -> str:
        return f"{self.who}@{'i' if self.by_instructions else ''}{self.at}={self.to}"


class Fired(NamedTuple):
    """A switch that took place. number: in its list. core, retired: where its task had come to. to: who went
    on. preempting: its task could have gone on, or `late`: time passed, until the timeout of who went on,
    though others could."""

    number: int
    core: int
    retired: int
    to: int
    preempting: bool
    late: bool = False


def schedule_of(switches: Iterable[Switch]) -> str:
    """The name of the schedule with these switches."""
    return PREFIX + (",".join(map(str, switches)) or _NONE)


def switches_of(schedule: str) -> list[Switch]:
    """The switches of a schedule, whose name begins with `PREFIX`. Raises UsageError."""
    listed = schedule.removeprefix(PREFIX)
    return [] if listed == _NONE else [_switch(text) for text in listed.split(",")]


def _switch(text: str) -> Switch:
    match = _SWITCH.fullmatch(text)
    if match is None:
        raise UsageError(
            "not a switch",
            expected="TASK@EVENT=NEXT or TASK@iINSTRUCTIONS=NEXT, as in 1001@37=1002, with commas between "
            "several; or none",
            found=repr(text),
        )
    return Switch(int(match[1]), int(match[3]), int(match[4]), bool(match[2]))


class Switches(Runner):
    """A task runs until it stops by itself (it waits, ends or yields), or until one of its switches is due.
    Where nobody says who goes on it is the next task by number, and after the last one the first. So it is
    when a task has run for `patience` instructions, though others could.

    Of a task one switch after the other is looked at, in the order of the list. Where the next task of one
    that is due cannot run another does, whose turn it is; where no other can the switch is passed over. One
    that waits with a timeout can: time passes until then.
    """

    eager = True
    follows = True

    def __init__(self, switches: Sequence[Switch], patience: int = PATIENCE) -> None:
        self._patience, self.switches = patience, tuple(switches)
        self._due: dict[int, list[tuple[int, Switch]]] = {}
        for number, one in enumerate(switches):
            self._due.setdefault(one.who, []).append((number, one))
        #: Of each task its shared events, the one included before which it stands, and its instructions.
        self._made: dict[int, int] = {}
        self._own: dict[int, int] = {}
        self._events: int | None = None
        #: Whose slice was the last; its core and where it began there; instructions since others ran.
        self._last, self._core, self._began, self._alone = -1, -1, 0, 0
        #: Who is to run next, None: whoever's turn it is; the switches that say so, and where those stand.
        self._wanted: int | None = None
        self._hops: list[tuple[int, int]] = []
        self._at, self._able, self._yields, self._weary = (-1, 0), False, False, False
        #: Who waits with a timeout; timers that have gone off for the one that is wanted.
        self._timed: Timed = _nobody
        #: All tasks that have ever been able to run.
        self._seen = set[int]()
        self._timers = 0
        #: What took place, in order, and how often a task was taken to spin.
        self.fired: list[Fired] = []
        self.impatient = 0

    def take_over(self, names: Sequence[int]) -> None:
        """The first goes on: it has made the others."""
        self._last, self._able = names[0], True
        self._wanted, self._hops = self._follow(names[0])

    def know_waits(self, timed: Timed) -> None:
        """A switch can be to such a task."""
        self._timed = timed

    def knows(self, who: int) -> bool:
        """Whether there has been such a task."""
        return who in self._seen

    def yielded(self, who: int) -> None:
        """It is not its turn any more."""
        self._yields = self._yields or who == self._last

    def rank(self, who: int) -> float:
        """Who is to run comes first, then by turns."""
        return float(_WANTED if who == self._wanted else -((who - self._last - 1) % _ALL))

    # -- the next slice --------------------------------------------------------------------------------

    def next(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> Slice:
        """The task that is to run, up to its next switch."""
        if self._events is None:
            self._events = events
        names = range(len(counts)) if who is None else who
        able = {names[k]: k for k in runnable}
        self._seen.update(able)
        if self._waits_for_time(able):
            return Slice(TIME, 0)
        name = self._choose(able)
        if name != self._last:
            self._alone = 0
        core = able[name]
        self._last, self._core, self._began = name, core, counts[core]
        return self._slice(name, core)

    def _waits_for_time(self, able: dict[int, int]) -> bool:
        """Whether who is wanted waits for a timeout, which can come."""
        wanted = self._wanted
        if wanted is None or wanted in able or not self._hops or not self._timed(wanted):
            return False
        self._timers += 1
        return self._timers <= _MOST_TIMERS

    def _choose(self, able: dict[int, int]) -> int:
        """Who runs. able: tasks that can, with their cores."""
        before, hops, wanted = self._last, self._hops, self._wanted
        late, self._timers, self._hops = self._timers > 0 and wanted in able, 0, []
        if wanted is None or wanted not in able:
            leaves = bool(hops) or self._weary or not self._able
            others = [name for name in able if name != before] if leaves else []
            wanted = before if before in able and not others else max(others or able, key=self.rank)
            hops = [*hops[:-1], (hops[-1][0], wanted)] if hops and others else []
        wanted, more = self._follow(wanted, able)
        for place, (number, to) in enumerate([*hops, *more]):
            comes = late and not place
            preempting = comes or (self._able and not place and wanted != before)
            self.fired.append(Fired(number, *self._at, to, preempting, comes))
        if self._weary and wanted != before and not hops:
            self.impatient += 1
        self._wanted = wanted
        return wanted

    def _follow(
        self, name: int, able: dict[int, int] | None = None, *, slack: bool = False
    ) -> tuple[int, list[tuple[int, int]]]:
        """Who runs in the place of a task that is due for a switch before it has run, and the switches that
        say so: their numbers, and to whom. able: who can. slack: the task will not get to its next event."""
        hops: list[tuple[int, int]] = []
        while (taken := self._take(name, slack and not hops)) is not None:
            number, switch = taken
            if able is None or switch.to in able:
                name = switch.to
                hops.append((number, name))
                if self._timed(name):
                    # What it is due for comes when its timeout has.
                    break
        return name, hops

    def _take(self, name: int, slack: int) -> tuple[int, Switch] | None:
        """The task's next switch, if it is due; it is not looked at again. slack: so early it is as well."""
        due = self._due.get(name)
        if not due or self._left(name, due[0][1]) > slack:
            return None
        return due.pop(0)

    def _left(self, name: int, switch: Switch) -> int:
        """Events, or instructions, up to a switch."""
        done = self._own if switch.by_instructions else self._made
        return switch.at - done.get(name, 0)

    def _slice(self, name: int, core: int) -> Slice:
        length = max(1, self._patience - self._alone)
        if not (due := self._due.get(name)):
            return Slice(core, length, exact=False)
        left = self._left(name, due[0][1])
        if not due[0][1].by_instructions:
            return Slice(core, length, exact=False, events=left)
        return Slice(core, min(length, left), exact=left <= length)

    def ended(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> None:
        """Decide who goes on."""
        name, names = self._last, range(len(counts)) if who is None else who
        ran = counts[self._core] - self._began
        self._alone += ran
        self._own[name] = self._own.get(name, 0) + ran
        self._made[name] = self._made.get(name, 0) + events - (self._events or 0)
        self._events = events
        self._at = self._core, counts[self._core]
        self._able = self._core in runnable and names[self._core] == name and not self._yields
        self._yields, self._weary = False, False
        wanted, self._hops = self._follow(name, slack=not self._able)
        if not self._hops:
            self._weary = self._able and self._alone >= self._patience
            self._wanted = name if self._able and not self._weary else None
            if self._weary:
                self._alone = 0
        else:
            self._wanted = wanted


def _nobody(_: int) -> bool:
    return False


def missed_by(policy: Scheduler) -> tuple[Switch, ...]:
    """The switches of a run's policy that did not take place, or to a task that there never was; none where
    it is no list of switches."""
    if not isinstance(policy, Switches):
        return ()
    fired = {one.number for one in policy.fired}
    return tuple(
        one for number, one in enumerate(policy.switches) if number not in fired or not policy.knows(one.to)
    )
