"""The futex call. Source: futex(2). One process: private and shared futexes are the same."""

from __future__ import annotations

import errno

from emu.linux.calls.timespec import read_timespec
from emu.linux.ground.call import Subject, in_part, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.ground.words import as_int
from emu.linux.tasks.futex import MATCH_ANY, finish_sleep
from emu.linux.tasks.task import Task

_WAIT, _WAKE, _REQUEUE, _CMP_REQUEUE, _WAKE_OP, _WAIT_BITSET, _WAKE_BITSET = 0, 1, 3, 4, 5, 9, 10
_LOCK_PI, _UNLOCK_PI, _TRYLOCK_PI, _LOCK_PI2 = 6, 7, 8, 13
_PRIVATE, _REALTIME = 128, 256


def sys_futex(
    task: Task, address: int, op: int, value: int, timeout: int, second: int, third: int
) -> Blocking:
    """futex(2). WAIT_REQUEUE_PI and CMP_REQUEUE_PI are not there; C libraries do without."""
    op = as_int(op)
    command = op & ~(_PRIVATE | _REALTIME)
    if op & _REALTIME and command not in (_WAIT_BITSET, _LOCK_PI2):
        raise Errno(errno.ENOSYS)
    if address % 4:
        raise Errno(errno.EINVAL)
    if command in (_LOCK_PI, _LOCK_PI2, _TRYLOCK_PI):
        deadline = None if command == _TRYLOCK_PI else _deadline(task, op, timeout)
        lock = task.process.futex_locks.lock(task, address, deadline, command != _TRYLOCK_PI)
        return (yield from lock)
    if command == _UNLOCK_PI:
        return task.process.futex_locks.unlock(task, address)
    if command in (_WAIT, _WAIT_BITSET):
        bits = third & MATCH_ANY if command == _WAIT_BITSET else MATCH_ANY
        if not bits:
            raise Errno(errno.EINVAL)
        return (yield from _wait(task, address, value, _deadline(task, op, timeout), bits))
    if command in (_WAKE, _WAKE_BITSET):
        bits = third & MATCH_ANY if command == _WAKE_BITSET else MATCH_ANY
        if not bits:
            raise Errno(errno.EINVAL)
        if not op & _PRIVATE and task.process.memory.reachable(address, 4, False) < 4:
            raise Errno(errno.EFAULT)
        return task.process.futexes.wake(address, _at_least_one(value), bits)
    if command in (_REQUEUE, _CMP_REQUEUE):
        return _requeue(task, address, command, value, as_int(timeout), second, third)
    if command == _WAKE_OP:
        return _wake_op(task, address, value, as_int(timeout), second, third)
    raise Errno(errno.ENOSYS)


def _deadline(task: Task, op: int, timeout: int) -> int | None:
    """When a wait ends, in ns of the monotonic clock."""
    if not timeout:
        return None
    given = read_timespec(task, timeout)
    clock = task.process.clock
    if op & ~(_PRIVATE | _REALTIME) == _WAIT:
        return clock.monotonic() + given
    realtime = op & _REALTIME or op & ~_PRIVATE == _LOCK_PI
    return given - clock.realtime() + clock.monotonic() if realtime else given


def _wait(task: Task, address: int, value: int, deadline: int | None, bits: int) -> Blocking:
    process = task.process
    if process.memory.read_number(address, 4) != value & 0xFFFFFFFF:
        raise Errno(errno.EAGAIN)
    sleeper = process.futexes.sleep(task, address, bits)
    reason = yield Wait((sleeper.queue,), deadline, "a futex", address)
    if finish_sleep(process.futexes, sleeper, reason):
        return 0
    if reason is Reason.TIMEOUT:
        raise Errno(errno.ETIMEDOUT)
    raise Interrupted(restart=deadline is None)


def _requeue(task: Task, address: int, command: int, wake: int, move: int, target: int, expected: int) -> int:
    futexes = task.process.futexes
    if target % 4 or as_int(wake) < 0 or move < 0:
        raise Errno(errno.EINVAL)
    if command == _CMP_REQUEUE and task.process.memory.read_number(address, 4) != expected & 0xFFFFFFFF:
        raise Errno(errno.EAGAIN)
    woken = futexes.wake(address, as_int(wake))
    return woken + futexes.requeue(address, target, move)


def _at_least_one(wake: int) -> int:
    """How many are woken: Linux looks at the number only after the first."""
    return max(1, as_int(wake))


def _signed12(value: int) -> int:
    value &= 0xFFF
    return value - 0x1000 if value & 0x800 else value


def _wake_op(task: Task, address: int, wake: int, wake_second: int, second: int, op: int) -> int:
    """FUTEX_WAKE_OP: change the second word, wake at the first, and at the second if its old value is so."""
    process = task.process
    operation, compare = op >> 28 & 7, op >> 24 & 15
    argument, against = _signed12(op >> 12), _signed12(op)
    if op >> 31 & 1:
        argument = 1 << (argument & 31)
    if second % 4 or operation > 4 or compare > 5:
        raise Errno(errno.EINVAL if second % 4 else errno.ENOSYS)

    def change(old: int) -> int:
        return (argument, old + argument, old | argument, old & ~argument, old ^ argument)[operation]

    old = as_int(process.memory.update(second, 4, change))
    woken = process.futexes.wake(address, _at_least_one(wake))
    holds = (old == against, old != against, old < against, old <= against, old > against, old >= against)
    if holds[compare]:
        woken += process.futexes.wake(second, _at_least_one(wake_second))
    return woken


CALLS = table(Subject.THREADS, {
    "futex": in_part(sys_futex, "WAIT_REQUEUE_PI and CMP_REQUEUE_PI are not there"),
})  # fmt: skip
