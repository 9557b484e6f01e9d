"""What a schedule of few preemptions says of what looks suspicious: a run that passes without one of them
failed because of what came there.

Which accesses decide there was tried, both ways round, where there was time for it
(`corebraid.study.smallest.narrowing`): then they are told first. Else a hint of which two accesses are those
around such a preemption (the last one before it, the first one after it, and what another thread did
meanwhile) is told before those that have nothing to do with one, unless it was so in runs that passed, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from corebraid.study.causes import encounters
from corebraid.study.shared_rows import Access

#: Steps of a hint that must be accesses around one preemption.
_ENOUGH = 2
_THREE = 3


class Hint(Protocol):
    """What is said: pcs has where each of its steps was; passed in how many runs that passed it was so, of
    how many, None where that is not known."""

    @property
    def pcs(self) -> tuple[int, ...]:
        """Of its steps."""

    @property
    def passed(self) -> tuple[int, int] | None:
        """Of runs."""


AnyHint = TypeVar("AnyHint", bound=Hint)


@dataclass(frozen=True)
class Decisive:
    """A preemption without which the run does not fail so. accesses: of the thread before it and after it,
    and of another in between, as far as there are any; in the reduced recording. word: the one in between;
    None where a system call is. steps: the same in words. title: what they are, of a word with its name,
    where that they decide was tried. pcs: where system calls were made that are steps, too. looked: the
    program asks a library how the word stands, as `sem_getvalue` says. foreign: all accesses to the word are
    made by libraries, for whomever."""

    accesses: tuple[Access, ...]
    word: Access | None
    steps: tuple[str, ...]
    title: str = ""
    pcs: tuple[int, ...] = ()
    looked: bool = False
    foreign: bool = False

    @property
    def of_libraries(self) -> bool:
        """Whether all accesses to its word are made by libraries, a lock's mostly; and nothing else decides,
        as a system call, which is a step and no access."""
        calls = len(self.steps) > len(self.accesses)
        word = self.word
        return (
            not (calls or self.looked)
            and word is not None
            and (self.foreign or all(a.caller for a in self.accesses if a.overlaps(word)))
        )

    def other_way(self) -> Decisive:
        """The same of a run that passes: that it comes in this order is why."""
        about, separator, _ = self.title.rpartition(": ")
        said = tuple(in_passing(self.steps))
        return replace(self, title=f"{about}{separator}{OTHER_WAY}", steps=said)

    @property
    def address(self) -> int | None:
        """Of its word."""
        return None if self.word is None else self.word.word

    @property
    def places(self) -> tuple[int, ...]:
        """Of its steps, in the program."""
        return (*(one.pc for one in self.accesses), *self.pcs)

    def facts(self) -> dict[str, object]:
        """As JSON."""
        address = None if self.address is None else f"{self.address:#x}"
        return {"address": address, "title": self.title, "steps": list(self.steps)}


#: What is said where the run fails without any preemption: what is told is then of a run that passes.
OTHER_WAY = "not in the order in which it passes"
_SAYS = {
    encounters.LOST_UPDATE: "a lost update",
    encounters.ABA: "ABA: a value that went and came back",
    encounters.CHANGED: "it changed between two uses by a thread",
    encounters.OVERWRITTEN: "another thread wrote between a thread's write and its read",
    encounters.HALF_WAY: "read by another thread half way between two writes of one",
}


def in_passing(steps: Sequence[str]) -> Iterator[str]:
    """In words, the steps of a run that passes."""
    return (f"where it passes, {'then' if k else 'first'} {one}" for k, one in enumerate(steps))


def conflict(one: Access, other: Access) -> bool:
    """Whether two accesses of different threads cannot be swapped."""
    return one.who != other.who and one.overlaps(other) and (one.writes or other.writes)


def title_of(there: Access, here: Access, kind: str | None) -> str:
    """What it is that an access comes before one of another thread. kind: of `kind_of`, with a third one."""
    if kind is not None:
        return _SAYS[kind]
    if there.word == here.word and there.atomic and here.atomic:
        return "changed atomically, or taken, by one thread before another"
    if there.writes:
        return "written by one thread before another " + ("wrote it" if here.writes else "read it")
    return "read by one thread before another wrote it"


def kind_of(steps: Sequence[Access]) -> str | None:
    """Which encounter three accesses are, of which the outer ones are one thread's; None: they are none."""
    if len(steps) != _THREE or not all(one.overlaps(steps[1]) for one in steps):
        return None
    first, between, last = steps
    if encounters.changes(between):
        if first.reads and last.writes:
            return _written_after(first, last)
        if last.reads:
            return encounters.CHANGED if first.reads else encounters.OVERWRITTEN
    return encounters.HALF_WAY if first.writes and between.reads and last.writes else None


def _written_after(first: Access, last: Access) -> str | None:
    """A read, what another wrote, and a write. What is changed atomically is not lost by that."""
    if not last.atomic:
        return encounters.LOST_UPDATE
    if first.atomic or last.old == last.new:
        return None
    return encounters.ABA if last.old == first.new else encounters.LOST_UPDATE


def around_first(hints: Iterable[AnyHint], decisive: Sequence[Decisive]) -> list[AnyHint]:
    """Those first that tell of a preemption that decides, and of nothing that runs have which pass; else in
    their order."""
    places = [{access.pc for access in one.accesses} for one in decisive]

    def tells(hint: AnyHint) -> bool:
        if hint.passed is not None and hint.passed[0]:
            return False
        return any(sum(pc in pcs for pc in hint.pcs) >= _ENOUGH for pcs in places)

    return sorted(hints, key=lambda hint: not tells(hint))
