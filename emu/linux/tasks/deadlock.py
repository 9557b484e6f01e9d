"""Finds out who waits for whom when no task can run.

What glibc keeps beside the word that a thread waits at tells what that word is: a mutex has its owner at +8
(struct __pthread_mutex_s), a lock of stdio the owner's thread pointer (_IO_lock_t), a condition variable how
many wait (struct __pthread_cond_s). Other libraries' locks are told as what they are to the kernel, a futex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from emu.linux.tasks.futex import TID_MASK
from emu.linux.tasks.task import Task
from emu.linux.tasks.waiting import Awaited, Waiting, shown

#: Reads an unsigned number from the guest's memory as it is now: (address, bytes).
Read = Callable[[int, int], int]

#: Offsets in glibc's structures, x86-64 and other 64-bit ISAs alike.
_MUTEX_OWNER, _MUTEX_USERS, _MUTEX_KIND = 8, 12, 16
#: PTHREAD_MUTEX_KIND_MASK_NP, with robust, process-shared and elision flags.
_MUTEX_KINDS = 0x1FF
_COND_SIGNALS, _COND_WAITERS = (40, 44), 36
_MOST_WAITERS = 4096
#: Characters of a name that are kept; files have longer ones.
_MOST_TEXT = 512


def waits(tasks: Iterable[Task], read: Read) -> list[Waiting]:
    """What each task waits for, in the order of their numbers."""
    living = {task.tid: task for task in sorted(tasks, key=lambda task: task.tid)}
    return [_waiting(task, living, read) for task in living.values()]


def _waiting(task: Task, living: dict[int, Task], read: Read) -> Waiting:
    wait = task.wait
    if wait is None:
        return Waiting(task.tid, _name(task), Awaited.TURN)
    if wait.address is None:
        return Waiting(task.tid, _name(task), Awaited.CALL, call=shown(wait.what, _MOST_TEXT))
    return _futex(task, wait.address, living, read)


def _name(task: Task) -> str:
    return shown(task.name, _MOST_TEXT)


def _futex(task: Task, address: int, living: dict[int, Task], read: Read) -> Waiting:
    tid, name = task.tid, _name(task)
    for other in living.values():
        if other.clear_child_tid == address:
            return Waiting(tid, name, Awaited.THREAD, address, other.tid)
    owner = _mutex_owner(address, living, read)
    if owner:
        return Waiting(tid, name, Awaited.MUTEX, address, owner)
    owner = _stdio_owner(address, living, read)
    if owner:
        return Waiting(tid, name, Awaited.STREAM, address, owner)
    condition = _condition(address, living, read)
    if condition:
        return Waiting(tid, name, Awaited.CONDITION, condition)
    return Waiting(tid, name, Awaited.FUTEX, address, value=read(address, 4))


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
