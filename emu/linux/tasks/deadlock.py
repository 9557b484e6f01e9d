"""Finds out who waits for whom when no task can run.

What is told here is what the kernel knows, and what glibc keeps beside the word that a thread waits at: a
mutex has its owner at +8 (struct __pthread_mutex_s), a reader-writer lock its writer (struct
__pthread_rwlock_arch_t), a lock of stdio the owner's thread pointer (_IO_lock_t), a condition variable how
many wait (struct __pthread_cond_s). A structure of the program's own may look like any of these. So only a
wait that a library has begun is looked at so; one that the program itself has begun, by an instruction of
its own or by syscall(2), is told as what it is to the kernel, a futex. Which function of a library waits is
found out later, where there are symbols (corebraid/study/waits).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from emu.linux.memory.mappings import Mapping
from emu.linux.tasks.futex import TID_MASK
from emu.linux.tasks.outside import described, from_outside
from emu.linux.tasks.own_waits import OwnWaits
from emu.linux.tasks.task import Task
from emu.linux.tasks.waiting import Awaited, Waiting, shown
from isa.registry import frame_registers_of

#: Reads an unsigned number from the guest's memory as it is now: (address, bytes).
Read = Callable[[int, int], int]

#: Offsets in glibc's structures, x86-64 and other 64-bit ISAs alike.
MUTEX_OWNER, _MUTEX_USERS, MUTEX_KIND = 8, 12, 16
#: PTHREAD_MUTEX_KIND_MASK_NP, with robust, process-shared and elision flags.
_MUTEX_KINDS = 0x1FF
#: What pthread_mutex_destroy makes of the kind.
MUTEX_DESTROYED = 0xFFFFFFFF
_COND_SIGNALS, _COND_WAITERS = (40, 44), 36
#: Of a reader-writer lock: words that threads wait at; who writes; that somebody does, in the first word.
_RWLOCK_WORDS, RWLOCK_WRITER, _RWLOCK_WRLOCKED = (8, 12), 24, 2
_MOST_WAITERS = 4096
#: Characters of a name that are kept; files have longer ones.
_MOST_TEXT = 512


def waits(
    tasks: Iterable[Task],
    read: Read,
    ended: Collection[int] = (),
    mapped: Callable[[int], Mapping | None] | None = None,
) -> list[Waiting]:
    """What each task waits for, in the order of their numbers. ended: numbers of tasks that are no more.
    mapped: what lies at an address of the guest, where it is known."""
    living = {task.tid: task for task in sorted(tasks, key=lambda task: task.tid)}
    finder = _Finder(living, read, ended)
    own = None if mapped is None else OwnWaits(mapped)
    found = []
    for task in living.values():
        at_word = task.wait is not None and task.wait.address is not None
        by_library = own is None or not (at_word and own.waits_by_itself(task))
        registers = _registers(task) if at_word and own is not None else ()
        found.append(replace(finder.waiting(task, by_library), registers=registers))
    return found


def _registers(task: Task) -> tuple[tuple[str, int], ...]:
    """Those by which the callers of where it waits can be told, by name."""
    isa = task.process.isa
    frame = frame_registers_of(isa)
    wanted = sorted(frame.names[n] for n in {*frame.kept, frame.stack_pointer, frame.return_address})
    return tuple((name, isa.read(task.registers, name)) for name in wanted)


class _Finder:
    """living: the tasks by number. read: of memory. ended: numbers of tasks that are no more."""

    def __init__(self, living: dict[int, Task], read: Read, ended: Collection[int]) -> None:
        self._living, self._read, self._ended = living, read, ended

    def waiting(self, task: Task, by_library: bool) -> Waiting:
        """What a task waits for. by_library: it is no word that the program itself waits at."""
        wait, tid, name = task.wait, task.tid, shown(task.name, _MOST_TEXT)
        if wait is None:
            return Waiting(tid, name, Awaited.TURN)
        if wait.address is not None:
            return self._futex(tid, name, wait.address, by_library)
        name_of_call = task.process.abi.calls.get(task.call_number, "")
        known = "" if name_of_call in wait.what else name_of_call
        inside = ", ".join(filter(None, (known, described(task, wait))))
        call = shown(f"{wait.what} ({inside})" if inside else wait.what, _MOST_TEXT)
        return Waiting(tid, name, Awaited.WORK if from_outside(wait) else Awaited.CALL, call=call)

    def _futex(self, tid: int, name: str, address: int, by_library: bool) -> Waiting:
        for other in self._living.values():
            if other.clear_child_tid == address:
                return Waiting(tid, name, Awaited.THREAD, address, other.tid)
        if by_library:
            if self._destroyed(address):
                return Waiting(tid, name, Awaited.DESTROYED, address)
            if owner := self._mutex_owner(address):
                return self._held(Waiting(tid, name, Awaited.MUTEX, address, owner))
            if found := self._rwlock(address):
                return self._held(Waiting(tid, name, Awaited.RWLOCK, *found, word=address))
            if owner := self._stdio_owner(address):
                return Waiting(tid, name, Awaited.STREAM, address, owner)
            if condition := self._condition(address):
                return Waiting(tid, name, Awaited.CONDITION, condition, word=address)
        return Waiting(tid, name, Awaited.FUTEX, address, value=self._read(address, 4))

    def _held(self, waiting: Waiting) -> Waiting:
        return replace(waiting, ended=waiting.owner in self._ended)

    def _known(self, owner: int) -> bool:
        return owner in self._living or owner in self._ended

    def _mutex_owner(self, address: int) -> int | None:
        read = self._read
        word, owner, kind = read(address, 4), read(address + MUTEX_OWNER, 4), read(address + MUTEX_KIND, 4)
        held = word in (1, 2) or word & TID_MASK == owner
        known = self._known(owner) and held and not kind & ~_MUTEX_KINDS
        return owner if known and 0 < read(address + _MUTEX_USERS, 4) < _MOST_WAITERS else None

    def _destroyed(self, address: int) -> bool:
        """A robust one, which can be destroyed while somebody has it: the word has the owner's number."""
        read = self._read
        owner = read(address + MUTEX_OWNER, 4)
        kept = self._known(owner) and read(address, 4) & TID_MASK == owner
        return kept and read(address + MUTEX_KIND, 4) == MUTEX_DESTROYED

    def _rwlock(self, address: int) -> tuple[int, int] | None:
        """(its address, who writes) of the reader-writer lock that the word belongs to."""
        for offset in _RWLOCK_WORDS:
            base = address - offset
            writer = self._read(base + RWLOCK_WRITER, 4)
            if base % 8 == 0 and self._known(writer) and self._read(base, 4) & _RWLOCK_WRLOCKED:
                return base, writer
        return None

    def _stdio_owner(self, address: int) -> int | None:
        if self._read(address, 4) not in (1, 2):
            return None
        thread_pointer = self._read(address + 8, 8)
        for task in self._living.values():
            isa = task.process.isa
            if thread_pointer and isa.read(task.registers, task.process.abi.thread_pointer) == thread_pointer:
                return task.tid
        return None

    def _condition(self, address: int) -> int | None:
        """The condition variable that the word belongs to: as many tasks as it counts wait at its two
        words."""
        at = [task.wait.address for task in self._living.values() if task.wait is not None]
        for offset in _COND_SIGNALS:
            base = address - offset
            counted = self._read(base + _COND_WAITERS, 4) >> 3
            if counted and counted == sum(at.count(base + signals) for signals in _COND_SIGNALS):
                return base
        return None
