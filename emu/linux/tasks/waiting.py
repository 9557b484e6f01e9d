"""Who waits for whom when no task can run: as data, and as the sentence for people that is made from it.

Names of threads and files are the guest's to choose: nothing is ever read back out of the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

#: Of many stuck tasks so many are named.
_MOST_TOLD = 16


class Awaited(Enum):
    """What a task waits for, and how that is said."""

    TURN = "its turn"
    THREAD = "thread {owner} to end"
    MUTEX = "the mutex at {address}"
    #: One that somebody destroyed meanwhile: nobody can unlock it.
    DESTROYED = "the mutex at {address}, destroyed meanwhile"
    RWLOCK = "the reader-writer lock at {address}"
    STREAM = "the lock of a stream at {address}"
    CONDITION = "the condition variable at {address}"
    FUTEX = "the futex at {address} (value {value})"
    #: What a system call says of itself: a read of a pipe, a sleep.
    CALL = "{call}"
    #: The same where somebody outside the guest could end it: a connection to accept, a signal.
    WORK = "work from outside: {call}"
    #: Something of a library, by the library's name for it. Recordings do not say so: names are needed.
    NAMED = "{call} at {address}"
    #: The same where it is not known where that is.
    SOMEWHERE = "{call}, wherever that is"


@dataclass(frozen=True)
class Waiting:
    """One task and what it waits for.

    tid, name: the task. address: of what it waits for, in the guest's memory, if that is a word there. owner:
    the task that it waits for, None if that is not known. value: of a futex word. call: what a system call
    waits for, in its own words. ended: the owner has ended. registers: (name, value) of those by which the
    callers of where it waits can be told; none in older recordings. word: at which the kernel has it wait,
    where that is not what stands at `address`; None in older recordings.
    """

    tid: int
    name: str
    what: Awaited
    address: int | None = None
    owner: int | None = None
    value: int | None = None
    call: str = ""
    ended: bool = False
    registers: tuple[tuple[str, int], ...] = ()
    word: int | None = None

    def text(self, place: Callable[[int], str] = hex) -> str:
        """In words. place: an address as it is to be shown."""
        address = "" if self.address is None else place(self.address)
        call = self.call or "something"
        what = self.what.value.format(owner=self.owner, address=address, value=self.value, call=call)
        named = f"thread {self.tid} ({self.name})" if self.name else f"thread {self.tid}"
        known = self.owner is not None and self.what is not Awaited.THREAD
        held = f", held by thread {self.owner}{', which has ended' if self.ended else ''}" if known else ""
        return f"{named} waits for {what}{held}"


def shown(text: str, most: int) -> str:
    """`text` as people may see it: what is not printable as '?', and at most `most` characters."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= most else text[: most - 3] + "..."


def cycle(waiting: Iterable[Waiting]) -> list[int]:
    """Tasks each of which waits for the next and the last for the first; none if there is no such."""
    follows = {one.tid: one.owner for one in waiting}
    for start in follows:
        path: list[int] = []
        at: int | None = start
        while at is not None and at not in path:
            path.append(at)
            at = follows.get(at)
        if at is not None:
            return path[path.index(at) :]
    return []


def stuck(waiting: Iterable[Waiting]) -> list[int]:
    """Tasks that can never go on, whatever the world outside does: all where nobody waits for work from
    there. Else those whose owner has ended, or is stuck: who waits for nobody in particular may be woken by
    any that goes on."""
    waiting = list(waiting)
    freeable = [one for one in waiting if not one.ended and one.what is not Awaited.DESTROYED]
    free = more = {one.tid for one in waiting if one.what is Awaited.WORK}
    while more:
        more = {one.tid for one in freeable if one.owner is None or one.owner in free} - free
        free = free | more
    return [one.tid for one in waiting if one.tid not in free]


def works_for_outside(waiting: Iterable[Waiting]) -> bool:
    """Whether somebody waits for work from outside, and nobody is stuck."""
    waiting = list(waiting)
    return bool(waiting) and not stuck(waiting)


def lines(waiting: Iterable[Waiting], place: Callable[[int], str] = hex) -> list[str]:
    """All of it in words: a line for each task, one for the cycle if there is one, and one that says who of
    them is in the deadlock, where that is not all."""
    waiting = list(waiting)
    found, never = cycle(waiting), stuck(waiting)
    ring = [f"a cycle: {' -> '.join(str(tid) for tid in [*found, found[0]])}"] if found else []
    part = never and len(never) < len(waiting)
    named = ", ".join(str(tid) for tid in never[:_MOST_TOLD]) + (", ..." if len(never) > _MOST_TOLD else "")
    some = (
        [f"never to go on: {named}; the others wait for work from outside, or for who does"] if part else []
    )
    return [*(one.text(place) for one in waiting), *ring, *some]


def tell(waiting: Iterable[Waiting]) -> str:
    """The same in one line."""
    return "; ".join(lines(waiting))
