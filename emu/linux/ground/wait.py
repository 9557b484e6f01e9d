"""Waiting: queues of tasks, and what a blocking system call asks for.

A handler of a blocking call is a generator. It yields a `Wait` and is sent the `Reason` why that ended; it
then looks again at what it waited for, and waits once more if that is still not so.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Reason(Enum):
    """Why a wait ended."""

    WOKEN = "what it waited for may have happened"
    TIMEOUT = "its time was over"
    SIGNAL = "a signal is to be delivered"


class Waiter(Protocol):
    """What can wait in a queue: a task."""

    def end_wait(self, reason: Reason) -> None:
        """The wait is over; the waiter takes itself out of all its queues."""


class WaitQueue:
    """Tasks that wait for one thing, the first come first."""

    def __init__(self) -> None:
        self._waiting: list[Waiter] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: Waiter) -> None:
        """Put a task last."""
        self._waiting.append(waiter)

    def remove(self, waiter: Waiter) -> None:
        """Take a task out, if it is here."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)

    def waiting(self) -> tuple[Waiter, ...]:
        """The tasks, the first come first."""
        return tuple(self._waiting)

    def wake(self, most: int | None = None) -> int:
        """End the wait of the first `most` tasks, or of all. Returns of how many."""
        chosen = self._waiting[:] if most is None else self._waiting[:most]
        for waiter in chosen:
            waiter.end_wait(Reason.WOKEN)
        return len(chosen)


@dataclass(frozen=True)
class Wait:
    """What a handler waits for: one of the queues, or `deadline` (ns of the monotonic clock, None: for ever).

    For the report of who waits for whom: what: for people, "a read of a pipe". address: of the futex word.
    files: the open files that may end it, and for which POLL* bits each. signal: it is signals that it is
    for.
    """

    queues: tuple[WaitQueue, ...]
    deadline: int | None = None
    what: str = ""
    address: int | None = None
    files: tuple[tuple[object, int], ...] = ()
    signal: bool = False


#: What a handler of a blocking call is.
Blocking = Generator[Wait, Reason, int]
#: What serves a system call: given the task and as many arguments as it declares, unsigned.
Handler = Callable[..., int | Blocking]
