"""Who waits for whom when no task can run, in words.

What glibc keeps beside the word that a thread waits at tells what that word is: a mutex has its owner at +8
(struct __pthread_mutex_s), a lock of stdio the owner's thread pointer (_IO_lock_t), a condition variable how
many wait (struct __pthread_cond_s). Other libraries' locks are told as what they are to the kernel, a futex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from emu.linux.futex import TID_MASK
from emu.linux.task import Task

#: Reads an unsigned number from the guest's memory as it is now: (address, bytes).
Read = Callable[[int, int], int]

#: Offsets in glibc's structures, x86-64 and other 64-bit ISAs alike.
_MUTEX_OWNER, _MUTEX_USERS, _MUTEX_KIND = 8, 12, 16
#: PTHREAD_MUTEX_KIND_MASK_NP, with robust, process-shared and elision flags.
_MUTEX_KINDS = 0x1FF
_COND_SIGNALS, _COND_WAITERS, _COND_BYTES = (40, 44), 36, 48
_MOST_WAITERS = 4096


@dataclass(frozen=True)
class Waiting:
    """One task: what it waits for, and the task that it waits for, None if that is not known."""

    tid: int
    name: str
    what: str
    owner: int | None = None

    def __str__(self) -> str:
        named = f"thread {self.tid} ({self.name})" if self.name else f"thread {self.tid}"
        held = f", held by thread {self.owner}" if self.owner and "thread" not in self.what else ""
        return f"{named} waits for {self.what}{held}"


def waits(tasks: Iterable[Task], read: Read) -> list[Waiting]:
    """What each task waits for, in the order of their numbers."""
    living = {task.tid: task for task in sorted(tasks, key=lambda task: task.tid)}
    return [_waiting(task, living, read) for task in living.values()]


def _waiting(task: Task, living: dict[int, Task], read: Read) -> Waiting:
    wait = task.wait
    if wait is None:
        return Waiting(task.tid, task.name, "its turn")
    if wait.address is None:
        return Waiting(task.tid, task.name, wait.what or "something")
    what, owner = _futex(wait.address, living, read)
    return Waiting(task.tid, task.name, what, owner)


def _futex(address: int, living: dict[int, Task], read: Read) -> tuple[str, int | None]:
    for other in living.values():
        if other.clear_child_tid == address:
            return f"thread {other.tid} to end", other.tid
    owner = _mutex_owner(address, living, read)
    if owner:
        return f"the mutex at {address:#x}", owner
    owner = _stdio_owner(address, living, read)
    if owner:
        return f"the lock of a stream at {address:#x}", owner
    condition = _condition(address, living, read)
    if condition:
        return f"the condition variable at {condition:#x}", None
    return f"the futex at {address:#x} (value {read(address, 4)})", None


def _mutex_owner(address: int, living: dict[int, Task], read: Read) -> int | None:
    word, owner, kind = read(address, 4), read(address + _MUTEX_OWNER, 4), read(address + _MUTEX_KIND, 4)
    held = word in (1, 2) or word & TID_MASK == owner
    known = owner in living and held and not kind & ~_MUTEX_KINDS
    return owner if known and 0 < read(address + _MUTEX_USERS, 4) < _MOST_WAITERS else None


def _stdio_owner(address: int, living: dict[int, Task], read: Read) -> int | None:
    if read(address, 4) not in (1, 2):
        return None
    thread_pointer = read(address + 8, 8)
    for task in living.values():
        isa = task.process.isa
        if thread_pointer and isa.read(task.registers, task.process.abi.thread_pointer) == thread_pointer:
            return task.tid
    return None


def _condition(address: int, living: dict[int, Task], read: Read) -> int | None:
    """The condition variable that the word belongs to: as many tasks as it counts wait at its two words."""
    at = [task.wait.address for task in living.values() if task.wait is not None]
    for offset in _COND_SIGNALS:
        base = address - offset
        counted = read(base + _COND_WAITERS, 4) >> 3
        if counted and counted == sum(at.count(base + signals) for signals in _COND_SIGNALS):
            return base
    return None


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


def tell(waiting: list[Waiting]) -> str:
    """All of it in one line."""
    text = "; ".join(map(str, waiting))
    found = cycle(waiting)
    if not found:
        return text
    return f"{text}; a cycle: {' -> '.join(str(tid) for tid in [*found, found[0]])}"
