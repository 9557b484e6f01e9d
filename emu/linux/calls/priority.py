"""Nice values, scheduling policies and I/O priorities: remembered, but every task is served alike.

Sources: sched(7), sched_setscheduler(2), sched_setattr(2), getpriority(2), ioprio_set(2).
"""

from __future__ import annotations

import errno

from corebraid.base.memory import PAGE_BYTES
from emu.linux.ground.call import Subject, idle, in_part, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.timespec import pack_timespec
from emu.linux.ground.words import as_int
from emu.linux.signals.of_process import USER
from emu.linux.tasks.task import Task

#: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE; SCHED_FIFO, SCHED_RR; SCHED_DEADLINE; SCHED_RESET_ON_FORK.
_ORDINARY, _REAL_TIME, _DEADLINE, _RESET_ON_FORK = (0, 3, 5), (1, 2), 6, 0x40000000
_LEAST_REAL_TIME, _MOST_REAL_TIME = 1, 99
#: Bytes of struct sched_attr: at first, and since it tells of utilisation.
_ATTRIBUTES, _ATTRIBUTES_NOW = 48, 56
#: A slice of the ordinary policy, ns.
_SLICE = 4_000_000
_PROCESS, _GROUP, _USER = 0, 1, 2
_IO_PROCESS, _IO_REAL_TIME, _IO_BEST_EFFORT, _IO_IDLE = 1, 1, 2, 3


def _task(task: Task, tid: int) -> Task:
    """The task of this number, 0: the caller. Errno: EINVAL, ESRCH."""
    if as_int(tid) < 0:
        raise Errno(errno.EINVAL)
    found = task.process.tasks.get(as_int(tid)) if as_int(tid) else task
    if found is None:
        raise Errno(errno.ESRCH)
    return found


def sys_sched_getscheduler(task: Task, tid: int) -> int:
    """sched_getscheduler(2)."""
    return _task(task, tid).policy


def _set_policy(target: Task, policy: int, priority: int) -> int:
    """Errno: EINVAL, and EPERM for what only a privileged process may ask for."""
    plain = policy & ~_RESET_ON_FORK
    if plain not in (*_ORDINARY, *_REAL_TIME, _DEADLINE):
        raise Errno(errno.EINVAL)
    low, high = (_LEAST_REAL_TIME, _MOST_REAL_TIME) if plain in _REAL_TIME else (0, 0)
    if not low <= as_int(priority) <= high:
        raise Errno(errno.EINVAL)
    if plain not in _ORDINARY:
        raise Errno(errno.EPERM)
    target.policy = policy
    return 0


def sys_sched_setscheduler(task: Task, tid: int, policy: int, parameters: int) -> int:
    """sched_setscheduler(2): policies of real time are refused."""
    if not parameters or as_int(policy) < 0:
        raise Errno(errno.EINVAL)
    target = _task(task, tid)
    return _set_policy(target, as_int(policy), task.process.memory.read_number(parameters, 4))


def sys_sched_setparam(task: Task, tid: int, parameters: int) -> int:
    """sched_setparam(2)."""
    if not parameters:
        raise Errno(errno.EINVAL)
    target = _task(task, tid)
    return _set_policy(target, target.policy, task.process.memory.read_number(parameters, 4))


def sys_sched_getparam(task: Task, tid: int, parameters: int) -> int:
    """sched_getparam(2)."""
    if not parameters:
        raise Errno(errno.EINVAL)
    _task(task, tid)
    task.process.memory.write_number(parameters, 4, 0)
    return 0


def sys_sched_get_priority_min(task: Task, policy: int) -> int:
    """sched_get_priority_min(2)."""
    return _bound(policy, _LEAST_REAL_TIME)


def sys_sched_get_priority_max(task: Task, policy: int) -> int:
    """sched_get_priority_max(2)."""
    return _bound(policy, _MOST_REAL_TIME)


def _bound(policy: int, of_real_time: int) -> int:
    if as_int(policy) in _REAL_TIME:
        return of_real_time
    if as_int(policy) in (*_ORDINARY, _DEADLINE):
        return 0
    raise Errno(errno.EINVAL)


def sys_sched_rr_get_interval(task: Task, tid: int, address: int) -> int:
    """sched_rr_get_interval(2)."""
    _task(task, tid)
    task.process.memory.write(address, pack_timespec(_SLICE))
    return 0


def sys_sched_getattr(task: Task, tid: int, address: int, size: int, flags: int) -> int:
    """sched_getattr(2)."""
    size &= 0xFFFFFFFF
    if not address or not _ATTRIBUTES <= size <= PAGE_BYTES or flags:
        raise Errno(errno.EINVAL)
    target = _task(task, tid)
    told = min(size, _ATTRIBUTES_NOW)
    words = (told, target.policy & ~_RESET_ON_FORK, bool(target.policy & _RESET_ON_FORK), 0, target.nice)
    raw = b"".join((word & 0xFFFFFFFF).to_bytes(4, "little") for word in words)
    task.process.memory.write(address, raw.ljust(told, b"\0"))
    return 0


def sys_sched_setattr(task: Task, tid: int, address: int, flags: int) -> int:
    """sched_setattr(2)."""
    memory = task.process.memory
    if not address or flags:
        raise Errno(errno.EINVAL)
    size = memory.read_number(address, 4) or _ATTRIBUTES
    if not _ATTRIBUTES <= size <= PAGE_BYTES:
        memory.write_number(address, 4, _ATTRIBUTES_NOW)
        raise Errno(errno.E2BIG)
    target = _task(task, tid)
    policy, reset, nice, priority = (memory.read_number(address + at, 4) for at in (4, 8, 16, 20))
    nice = max(-20, min(19, as_int(nice)))
    if as_int(policy) < 0 or reset & ~1:
        raise Errno(errno.EINVAL)
    if policy in _ORDINARY and nice < target.nice:
        raise Errno(errno.EPERM)
    _set_policy(target, policy | (_RESET_ON_FORK if reset else 0), priority)
    target.nice = nice
    return 0


def _chosen(task: Task, which: int, who: int) -> list[Task]:
    """The tasks that getpriority(2) means. Errno: EINVAL, ESRCH."""
    which, who, process = as_int(which), as_int(who), task.process
    if which == _PROCESS:
        chosen = [task] if not who else [process.tasks[who]] if who in process.tasks else []
    elif which in (_GROUP, _USER):
        chosen = list(process.tasks.values()) if who in (0, (process.pid, USER)[which - _GROUP]) else []
    else:
        raise Errno(errno.EINVAL)
    if not chosen:
        raise Errno(errno.ESRCH)
    return chosen


def sys_getpriority(task: Task, which: int, who: int) -> int:
    """getpriority(2): the kernel tells 20 - nice."""
    return max(20 - one.nice for one in _chosen(task, which, who))


def sys_setpriority(task: Task, which: int, who: int, nice: int) -> int:
    """setpriority(2): only to be nicer."""
    chosen, nice = _chosen(task, which, who), max(-20, min(19, as_int(nice)))
    if any(nice < one.nice for one in chosen):
        raise Errno(errno.EACCES)
    for one in chosen:
        one.nice = nice
    return 0


def sys_ioprio_get(task: Task, which: int, who: int) -> int:
    """ioprio_get(2)."""
    return max(one.io_priority for one in _chosen(task, as_int(which) - _IO_PROCESS, who))


def sys_ioprio_set(task: Task, which: int, who: int, priority: int) -> int:
    """ioprio_set(2)."""
    kind, level = priority >> 13 & 7, priority & 0x1FFF
    if kind == _IO_REAL_TIME:
        raise Errno(errno.EPERM)
    if kind > _IO_IDLE or (kind == _IO_BEST_EFFORT and level > 7) or (not kind and level):
        raise Errno(errno.EINVAL)
    for one in _chosen(task, as_int(which) - _IO_PROCESS, who):
        one.io_priority = priority & 0xFFFF
    return 0


CALLS = table(Subject.THREADS, {
    "sched_getscheduler": sys_sched_getscheduler,
    "sched_setscheduler": in_part(sys_sched_setscheduler, "told as set; policies of real time are refused"),
    "sched_getparam": sys_sched_getparam,
    "sched_setparam": idle(sys_sched_setparam, "told as set"),
    "sched_get_priority_max": sys_sched_get_priority_max,
    "sched_get_priority_min": sys_sched_get_priority_min,
    "sched_rr_get_interval": sys_sched_rr_get_interval,
    "sched_getattr": sys_sched_getattr,
    "sched_setattr": in_part(sys_sched_setattr, "as sched_setscheduler"),
    "getpriority": sys_getpriority,
    "setpriority": idle(sys_setpriority, "told as set, only to be nicer"),
    "ioprio_get": sys_ioprio_get,
    "ioprio_set": idle(sys_ioprio_set, "told as set"),
})  # fmt: skip
