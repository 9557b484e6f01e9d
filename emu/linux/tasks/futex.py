"""Futexes: who waits at which word. Sources: futex(2), get_robust_list(2), Linux's robust-futexes.rst."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from emu.linux.ground.failure import Errno
from emu.linux.ground.guest_memory import GuestMemory
from emu.linux.ground.wait import Reason, WaitQueue
from emu.linux.tasks.task import Task

WAITERS, OWNER_DIED, TID_MASK = 0x80000000, 0x40000000, 0x3FFFFFFF
MATCH_ANY = 0xFFFFFFFF
_MOST_ROBUST = 2048


@dataclass
class Sleeper:
    """One task that waits at a word, with the bits it waits for; moved by a requeue."""

    task: Task
    address: int
    bits: int
    queue: WaitQueue
    woken: bool = False


class Futexes:
    """All futex words of a process that someone waits at."""

    def __init__(self) -> None:
        self._sleepers: dict[int, list[Sleeper]] = {}

    def sleep(self, task: Task, address: int, bits: int) -> Sleeper:
        """Put a task behind the others at the word; its `queue` is woken when it is to go on."""
        sleeper = Sleeper(task, address, bits, WaitQueue())
        self._sleepers.setdefault(address, []).append(sleeper)
        return sleeper

    def leave(self, sleeper: Sleeper) -> None:
        """The task waits no longer."""
        here = self._sleepers.get(sleeper.address, [])
        if sleeper in here:
            here.remove(sleeper)
        if not here:
            self._sleepers.pop(sleeper.address, None)

    def wake(self, address: int, most: int, bits: int = MATCH_ANY) -> int:
        """Wake at most `most` tasks, the first come first. Returns how many."""
        chosen = [s for s in self._sleepers.get(address, []) if s.bits & bits][: max(0, most)]
        for sleeper in chosen:
            self.leave(sleeper)
            sleeper.woken = True
            sleeper.queue.wake()
        return len(chosen)

    def requeue(self, source: int, target: int, most: int) -> int:
        """Let at most `most` tasks wait at another word. Returns how many."""
        moved = self._sleepers.get(source, [])[: max(0, most)]
        for sleeper in moved:
            self.leave(sleeper)
            sleeper.address = target
            self._sleepers.setdefault(target, []).append(sleeper)
        return len(moved)

    def waits(self) -> dict[int, list[Task]]:
        """Address -> tasks that wait there, in order."""
        return {address: [s.task for s in sleepers] for address, sleepers in self._sleepers.items()}


def finish_sleep(futexes: Futexes, sleeper: Sleeper, reason: Reason) -> bool:
    """Whether the task was woken; else it leaves the word."""
    if sleeper.woken:
        return True
    futexes.leave(sleeper)
    return reason is Reason.WOKEN


def release_robust_list(memory: GuestMemory, futexes: Futexes, task: Task) -> None:
    """The task has died: mark every lock that it held, and wake one waiter of each (set_robust_list(2))."""
    head = task.robust_list
    if not head:
        return
    try:
        entry = memory.read_number(head, 8)
        offset = memory.read_number(head + 8, 8)
        pending = memory.read_number(head + 16, 8)
        for _ in range(_MOST_ROBUST):
            if entry & ~1 == head:
                break
            following = memory.read_number(entry & ~1, 8)
            if entry != pending:
                _release(memory, futexes, task, entry, offset)
            entry = following
        if pending:
            _release(memory, futexes, task, pending, offset, pending=True)
    except Errno:
        # As in Linux: a list that cannot be read ends here.
        return


def _release(
    memory: GuestMemory, futexes: Futexes, task: Task, entry: int, offset: int, *, pending: bool = False
) -> None:
    """One lock; bit 0 of its entry says that it has priority inheritance, and so waiters of another kind."""
    word, inherits = (entry & ~1) + offset & (1 << 64) - 1, entry & 1
    if word % 4:
        raise Errno(errno.EFAULT)
    value = memory.read_number(word, 4)
    if pending and not inherits and not value:
        # It had been unlocked, but nobody woken yet.
        futexes.wake(word, 1)
    if value & TID_MASK != task.tid:
        return
    memory.update(word, 4, lambda old: old & WAITERS | OWNER_DIED)
    if value & WAITERS and not inherits:
        futexes.wake(word, 1)
