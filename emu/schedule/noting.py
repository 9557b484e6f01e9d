"""Who ran, from where to where: a policy that is looked on at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from emu.schedule.policy import TIME, Ints, Runner, Scheduler, Slice, Timed
from emu.schedule.switches import Switch


class Stay(NamedTuple):
    """A task has run on a core from instruction count `begin` to `end`. made, own: its shared events and
    instructions up to then. before: the last of these events has not happened yet. able: it could have gone
    on. yields: it has left that to others, of which one could, or it has waited, and goes on itself all the
    same. late: right before it time passed, though others could run, until the timeout of this task; None: it
    did not."""

    who: int
    core: int
    begin: int
    end: int
    made: int
    own: int
    before: bool
    able: bool
    yields: bool = False
    late: int | None = None


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
        self._piece, self._who, self._began, self._yields = Slice(0, 0), -1, 0, False
        #: Who could run when time was to pass, since the last slice; and whose timeout came before this one.
        self._waited: set[int] | None = None
        self._late: int | None = None

    def take_over(self, names: Ints) -> None:
        """The policy does."""
        self.first = names[0]
        self.policy.take_over(names)

    def know_waits(self, timed: Timed) -> None:
        """The policy does."""
        self.policy.know_waits(timed)

    def yielded(self, who: int) -> None:
        """The policy hears of it."""
        self._yields = self._yields or who == self._who
        self.policy.yielded(who)

    def rank(self, who: int) -> float:
        """The policy's."""
        return self.policy.rank(who)

    def next(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> Slice:
        """The policy's."""
        able = [core if who is None else who[core] for core in runnable]
        for name in able:
            self.met.setdefault(name, len(self.stays))
        piece = self.policy.next(runnable, counts, events, who)
        if piece.core == TIME:
            self._waited = set(able) if self._waited is None else self._waited
            return piece
        self._piece, self._began, self._events, self._yields = piece, counts[piece.core], events, False
        self._who = piece.core if who is None else who[piece.core]
        if self.first is None:
            self.first = min(able)
        self._late = self._came(able)
        last = self.stays[-1] if self.stays else None
        if (
            last is not None
            and last.who == self._who
            and not last.able
            and len(able) > 1
            and self._late is None
        ):
            # It has waited for something for which others have waited, too.
            self.stays[-1] = last._replace(yields=True)
        return piece

    def _came(self, able: list[int]) -> int | None:
        """Of those that can run now one that could not before time passed; who runs now, if it is one."""
        waited, self._waited = self._waited, None
        came = [] if waited is None else sorted(set(able) - waited)
        return self._who if self._who in came else next(iter(came), None)

    def ended(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> None:
        """Note the slice."""
        core, name = self._piece.core, self._who
        made = events - self._events
        self._made[name] = self._made.get(name, 0) + made
        self._own[name] = self._own.get(name, 0) + counts[core] - self._began
        names = [k if who is None else who[k] for k in runnable]
        yields = self._yields and any(other != name for other in names)
        able = core in runnable and (core if who is None else who[core]) == name and not yields
        before = made == self._piece.events > 0
        self.begins.append(self._events)
        ran = self._began, counts[core], self._made[name], self._own[name]
        self.stays.append(Stay(name, core, *ran, before, able, yields, self._late))
        self._late = None
        if self.policy.follows:
            self.policy.ended(runnable, counts, events, who)


def merged(stays: Iterable[Stay]) -> list[Stay]:
    """The same, with what a task ran on end on one core, without yielding, or time passing for it, as one."""
    found: list[Stay] = []
    for stay in stays:
        last = found[-1] if found else None
        on_end = last is not None and (last.who, last.core, last.end) == (stay.who, stay.core, stay.begin)
        if last is not None and on_end and not last.yields and stay.late is None:
            found[-1] = stay._replace(begin=last.begin, late=last.late)
        else:
            found.append(stay)
    return found


def switches_between(
    stays: Iterable[Stay], first: int, *, by_instructions: bool, able: bool = False
) -> list[Switch]:
    """The switches that make this run, as far as switches can: what a task does beyond its last event, and
    alone, is not counted unless `by_instructions`. able: that only of a task that could have gone on, which
    may stand before a system call: by events it would have made that. first: see `Noting`."""
    found: list[Switch] = []
    last: Stay | None = None
    ended: dict[int, Stay] = {}
    for stay in stays:
        if last is None and stay.who != first:
            found.append(Switch(first, 0, stay.who, by_instructions))
        if last is not None and (last.who != stay.who or last.yields or stay.late is not None):
            exactly = by_instructions and (last.able or not able)
            at = last.own if exactly else last.made + (not last.before)
            late = ended.get(stay.who if stay.late is None else stay.late)
            by_way = late is not None and stay.late not in (None, stay.who)
            found.append(Switch(last.who, max(1, at), late.who if late and by_way else stay.who, exactly))
            if late is not None and by_way:
                # Its timeout comes, but another one goes on.
                found.append(Switch(late.who, max(1, late.made), stay.who))
        last = ended[stay.who] = stay
    return found
