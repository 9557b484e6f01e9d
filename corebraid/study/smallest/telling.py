"""What a schedule of few switches did, with source lines and values, for people and as facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from corebraid.names.program import GuestProgram
from corebraid.study.causes.decisive import Decisive
from corebraid.study.causes.suspects import Names, shown_value
from corebraid.study.course import Course
from corebraid.study.shared_rows import Access
from corebraid.study.smallest.calls import MadeCalls, told_calls
from corebraid.study.smallest.scheduled_accesses import visits_of
from corebraid.study.smallest.standing import Standing, standing_at
from emu.schedule.switches import Fired, Switch
from recorder.files.reader import Recording

#: Bytes of the longest call.
_CALL = 16
#: Columns of what is said of an access.
_WIDTH = 84
#: An access by its thread, its place in the program, its address, and the how manieth such it is.
Named = tuple[int, int, int, int]


@dataclass(frozen=True)
class Told:
    """One switch in words. switch: as it is listed. preempting: its thread could have gone on. who, to: its
    thread, and who went on. done: the last access of the thread to a shared word before it, between: what
    another did meanwhile to a word of the accesses around it, or the system calls that others made,
    following: the thread's next one; '' where there is none. without: how the run ends without it, '' where
    that was not run. begun: something had run before. decides: the preemption, where there is an access of
    another that comes between. call: the system call before which the thread stands. late: time passed
    until the timeout of who went on."""

    switch: str
    preempting: bool
    who: str
    to: str
    done: str
    between: str
    following: str
    without: str = ""
    begun: bool = True
    decides: Decisive | None = None
    call: str = ""
    late: bool = False

    def lines(self) -> list[str]:
        """For people."""
        if not self.preempting:
            if self.who == self.to:
                return [f"{self.who} yields or waits, and goes on itself"]
            return [f"{self.who} cannot go on: {self.to} does" if self.begun else f"{self.to} begins"]
        rows = (
            ("having", self.done or "used no shared memory yet"),
            ("before", self.call or self.following or "anything more that is shared"),
            ("meanwhile", self.between),
            ("without it", self.without),
        )
        goes_on = (
            f"{self.who} is stopped, {self.to} goes on"
            if self.who != self.to
            else f"{self.who} waits, and goes on"
        )
        return [
            goes_on + (" when its timeout is over" if self.late else ""),
            *(
                f"  {name if not k else '':<10}  {line}"
                for name, said in rows
                for k, line in enumerate(wrap(said, _WIDTH, break_on_hyphens=False))
            ),
        ]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "switch": self.switch,
            "preemption": self.preempting,
            "who": self.who,
            "to": self.to,
            "done": self.done or None,
            "between": self.between or None,
            "following": self.following or None,
            "call": self.call or None,
            "timeout": self.late,
            "without": self.without or None,
        }


class Teller:
    """Tells of a recording whose schedule is known. words: that threads share, as addresses over 8,
    ascending: uint64[n]. Raises FormatError, Divergence, UsageError."""

    def __init__(self, recording: Recording, course: Course, words: NDArray[np.uint64]) -> None:
        self.program = GuestProgram.of(recording.path, recording.manifest)
        self._names, self._course = Names(self.program, recording.manifest), course
        self._visits = visits_of(recording, self.program, course, words)
        self._recording = recording

    def told(self, switches: Sequence[Switch], without: Sequence[str]) -> list[Told]:
        """Those of `switches` that took place, in this order; while the recording is there. without: see
        `Told`, of each preemption."""
        found, ends = [], list(without)
        for one in self._course.fired:
            switch = switches[one.number]
            number = self.stay(one.core, one.retired)
            done, following = self.last_before(switch.who, number), self.next_after(switch.who, number)
            between = self._between(done, following, number) if one.preempting else None
            found.append(
                Told(
                    str(switch), one.preempting, self.who(switch.who), self.who(one.to), self.access(done),
                    self.access(between, named=True) or self._called(switch.who, number, one.preempting),
                    self.access(following),
                    ends.pop(0) if one.preempting and ends else "",
                    one.core >= 0,
                    self._decisive(done, between, following),
                    self._before(one, following),
                    one.late,
                )
            )  # fmt: skip
        return found

    @cached_property
    def _standing(self) -> dict[tuple[int, int], Standing]:
        """Where threads stand that are preempted, by core and instruction count."""
        fired = self._course.fired
        preempted = [(one.core, one.retired) for one in fired if one.preempting and one.core >= 0]
        return standing_at(self._recording, self.program, preempted)

    @cached_property
    def _made(self) -> MadeCalls:
        return MadeCalls(self._recording, self.program)

    def _before(self, one: Fired, following: Access | None) -> str:
        """In words, the call before which, or within which, the thread of a switch stands; '' where its next
        access says more."""
        standing = self._standing.get((one.core, one.retired)) if one.preempting else None
        if standing is None:
            return ""
        # Of what it still does there its next access says more.
        within = following is not None and 0 <= standing.pc - following.caller < _CALL
        return "" if within and not standing.name else str(standing)

    def _called(self, who: int, number: int, preempting: bool) -> str:
        """In words, the system calls of another thread until this one, which was preempted, goes on. number:
        of its stay."""
        if not preempting or number < 0:
            return ""
        meanwhile = list(takewhile(lambda stay: stay.who != who, self._course.stays[number + 1 :]))
        made = self._made.during(meanwhile)
        return "; ".join(f"{self.who(one)} {told_calls(names)}" for one, names in made.items())

    def _decisive(self, *accesses: Access | None) -> Decisive | None:
        """accesses: before a preemption, of another, and after it."""
        made = tuple(one for one in accesses if one is not None)
        if accesses[1] is None:
            return None
        steps = tuple(self.access(one, named=True) for one in made)
        return Decisive(made, accesses[1], steps)

    def who(self, number: int) -> str:
        """A thread, or a core, by its name."""
        return self._names.who(number)

    def word(self, access: Access) -> str:
        """What an access is to, by its name."""
        return self.at_address(access.address)

    def at_address(self, address: int) -> str:
        """What stands there, by its name."""
        return self._names.word(address)

    def place(self, pc: int) -> str:
        """A place in the program, in words."""
        return self._names.place(pc)

    def access(self, access: Access | None, *, named: bool = False) -> str:
        """In words; '' for none. named: who made it comes first."""
        if access is None:
            return ""
        names = self._names
        new, word = shown_value(access.new), names.word(access.address)
        if access.atomic:
            changed = f"atomically changed {word} from {shown_value(access.old)} to {new}"
            did = f"atomically read {new} of {word}" if access.old == access.new else changed
        else:
            did = f"wrote {new} to {word}" if access.writes else f"read {new} of {word}"
        said = f"{did} at {names.called(access.pc, access.caller)}"
        return f"{names.who(access.who)} {said}" if named else said

    def runs(self, who: int, core: int, count: int) -> bool:
        """Whether a thread makes the instruction of a core with this count."""
        return any(
            it.who == who and it.core == core and it.begin <= count < it.end for it in self._course.stays
        )

    def stay(self, core: int, count: int) -> int:
        """The number of the stay that ended there, -1 for none."""
        places = [(stay.core, stay.end) for stay in self._course.stays]
        return places.index((core, count)) if (core, count) in places else -1

    def made_up_to(self, number: int) -> list[Access]:
        """All accesses up to the end of a stay, in their order."""
        return [one for visit in self._visits[: number + 1] for one in visit]

    def made_from(self, number: int) -> Iterator[Access]:
        """All from the begin of a stay on."""
        return (one for visit in self._visits[number:] for one in visit)

    def last_before(self, who: int, number: int) -> Access | None:
        """The last access of a thread up to the end of a stay."""
        own = (one for visit in reversed(self._visits[: number + 1]) for one in reversed(visit))
        return next((one for one in own if one.who == who), None)

    def next_after(self, who: int, number: int) -> Access | None:
        """The first access of a thread after a stay."""
        own = (one for visit in self._visits[number + 1 :] for one in visit)
        return next((one for one in own if one.who == who), None)

    @cached_property
    def sequence(self) -> list[tuple[Named, Access]]:
        """All accesses in their order."""
        times: Counter[tuple[int, int, int]] = Counter()
        found = []
        for one in (one for visit in self._visits for one in visit):
            place = one.who, one.pc, one.address
            times[place] += 1
            found.append(((*place, times[place]), one))
        return found

    def _between(self, done: Access | None, following: Access | None, number: int) -> Access | None:
        """The last access of another, between these two, that cannot be swapped with one of them; a write if
        there is one. number: of the stay after which the switch was."""
        mine = [one for one in (following, done) if one is not None]
        end = following.at if following is not None else len(self._visits)
        others = [one for visit in self._visits[number + 1 : end] for one in visit]
        for writing in (True, False):
            for one in mine:
                against = [
                    x for x in others
                    if x.overlaps(one) and (x.writes or one.writes) and x.writes >= writing
                ]  # fmt: skip
                if against:
                    return against[-1]
        return None
