"""Futexes that are locks with priority inheritance (futex(2), Linux's pi-futex.rst).

The word holds the owner's thread number, and whether somebody waits. The kernel hands the lock over to the
one that has waited longest: all tasks have one priority here, so there is nothing to inherit.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.guest_memory import GuestMemory
from emu.linux.ground.wait import Blocking, Reason, Wait, WaitQueue
from emu.linux.tasks.futex import OWNER_DIED, TID_MASK, WAITERS
from emu.linux.tasks.task import Task


@dataclass(eq=False)
class _Waiter:
    """A task that waits for the lock at a word. granted: it has been given it."""

    task: Task
    address: int
    queue: WaitQueue = field(default_factory=WaitQueue)
    granted: bool = False


class FutexLocks:
    """Who waits for which lock, the first come first."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[_Waiter]] = {}

    def lock(self, task: Task, address: int, deadline: int | None, wait: bool) -> Blocking:
        """Take the lock. Errno: EDEADLK, ESRCH (its owner is no thread), EAGAIN where it may not wait."""
        if self._take(task, address):
            return 0
        if not wait:
            raise Errno(errno.EAGAIN)
        self._refuse_cycle(task, address)
        task.process.memory.update(address, 4, lambda old: old | WAITERS)
        waiter = _Waiter(task, address)
        self._waiting.setdefault(address, []).append(waiter)
        reason = yield Wait((waiter.queue,), deadline, "a lock with priority inheritance", address)
        while not waiter.granted:
            if reason is not Reason.WOKEN:
                self._leave(waiter)
                if reason is Reason.TIMEOUT:
                    raise Errno(errno.ETIMEDOUT)
                raise Interrupted(always=True)
            reason = yield Wait((waiter.queue,), deadline, "a lock with priority inheritance", address)
        return 0

    def unlock(self, task: Task, address: int) -> int:
        """Give the lock to the next, or to nobody. Errno(EPERM): it is not the task's."""
        if task.process.memory.read_number(address, 4) & TID_MASK != task.tid:
            raise Errno(errno.EPERM)
        self._hand_over(task.process.memory, address, 0)
        return 0

    def release_all(self, task: Task) -> None:
        """The task has died: who waits for a lock of its gets it, with OWNER_DIED."""
        memory = task.process.memory
        for address in list(self._waiting):
            try:
                owner = memory.read_number(address, 4)
                if owner & TID_MASK == task.tid or (owner & TID_MASK == 0 and owner & OWNER_DIED):
                    self._hand_over(memory, address, OWNER_DIED)
            except Errno:
                continue

    def _take(self, task: Task, address: int) -> bool:
        """Take a lock that is free. Errno: EDEADLK, ESRCH, EINVAL."""
        memory = task.process.memory
        owner = memory.read_number(address, 4) & TID_MASK
        if owner == task.tid:
            raise Errno(errno.EDEADLK)
        if owner:
            if owner not in task.process.tasks:
                raise Errno(errno.ESRCH)
            return False
        if self._waiting.get(address):
            # Somebody else than the owner has freed it.
            raise Errno(errno.EINVAL)
        memory.update(address, 4, lambda old: old & OWNER_DIED | task.tid)
        return True

    def _refuse_cycle(self, task: Task, address: int) -> None:
        """Errno(EDEADLK) where the owner waits, in the end, for a lock of the task's."""
        memory = task.process.memory
        waits_at = {waiter.task.tid: at for at, waiters in self._waiting.items() for waiter in waiters}
        for _ in range(len(waits_at) + 1):
            owner = memory.read_number(address, 4) & TID_MASK
            if owner == task.tid:
                raise Errno(errno.EDEADLK)
            if owner not in waits_at:
                return
            address = waits_at[owner]

    def _hand_over(self, memory: GuestMemory, address: int, died: int) -> None:
        waiters = self._waiting.get(address, [])
        if not waiters:
            memory.update(address, 4, lambda old: 0)
            return
        first = waiters[0]
        memory.update(address, 4, lambda old: first.task.tid | WAITERS | died)
        self._leave(first)
        first.granted = True
        first.queue.wake()

    def _leave(self, waiter: _Waiter) -> None:
        here = self._waiting[waiter.address]
        here.remove(waiter)
        if not here:
            del self._waiting[waiter.address]
