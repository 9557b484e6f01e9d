"""Who waits for whom when no task can run: as data, and as the sentence for people that is made from it.

Names of threads and files are the guest's to choose: nothing is ever read back out of the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum


class Awaited(Enum):
    """What a task waits for, and how that is said."""

    TURN = "its turn"
    THREAD = "thread {owner} to end"
    MUTEX = "the mutex at {address}"
    STREAM = "the lock of a stream at {address}"
    CONDITION = "the condition variable at {address}"
    FUTEX = "the futex at {address} (value {value})"
    #: What a system call says of itself: a read of a pipe, a sleep.
    CALL = "{call}"


@dataclass(frozen=True)
class Waiting:
    """One task and what it waits for.

    tid, name: the task. address: of what it waits for, in the guest's memory, if that is a word there. owner:
    the task that it waits for, None if that is not known. value: of a futex word. call: what a system call
    waits for, in its own words.
    """

    tid: int
    name: str
    what: Awaited
    address: int | None = None
    owner: int | None = None
    value: int | None = None
    call: str = ""

    def text(self, place: Callable[[int], str] = hex) -> str:
        """In words. place: an address as it is to be shown."""
        address = "" if self.address is None else place(self.address)
        call = self.call or "something"
        what = self.what.value.format(owner=self.owner, address=address, value=self.value, call=call)
        named = f"thread {self.tid} ({self.name})" if self.name else f"thread {self.tid}"
        known = self.owner is not None and self.what is not Awaited.THREAD
        return f"{named} waits for {what}" + (f", held by thread {self.owner}" if known else "")


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


def lines(waiting: Iterable[Waiting], place: Callable[[int], str] = hex) -> list[str]:
    """All of it in words: a line for each task, and one for the cycle if there is one."""
    waiting = list(waiting)
    found = cycle(waiting)
    ring = [f"a cycle: {' -> '.join(str(tid) for tid in [*found, found[0]])}"] if found else []
    return [*(one.text(place) for one in waiting), *ring]


def tell(waiting: Iterable[Waiting]) -> str:
    """The same in one line."""
    return "; ".join(lines(waiting))
