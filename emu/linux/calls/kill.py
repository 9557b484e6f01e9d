"""Calls that send signals: kill(2), tgkill(2), rt_sigqueueinfo(2). There is no other process."""

from __future__ import annotations

import errno

from emu.linux.ground.call import Subject, in_part, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int
from emu.linux.signals.info import INFO_BYTES, SigInfo, from_user, sent
from emu.linux.signals.numbers import LAST_SIGNAL, SI_TKILL, SI_USER
from emu.linux.tasks.task import Task


def _send(
    task: Task, target: Task | None, signal: int, info: SigInfo | None = None, code: int = SI_USER
) -> int:
    """Send a signal, 0 only asks whether that could be done."""
    process = task.process
    if not 0 <= signal <= LAST_SIGNAL:
        raise Errno(errno.EINVAL)
    if signal:
        process.signals.post(target, signal, info or sent(signal, code, process.pid, process.ids[0]))
    return 0


def _is_own(task: Task, pid: int) -> bool:
    """A process identifier, or that of a thread, of this process."""
    return pid == task.process.pid or pid in task.process.tasks


def sys_kill(task: Task, pid: int, signal: int) -> int:
    """kill(2): to this process, by its number or as its group. -1 means all others: there is none."""
    pid, signal = as_int(pid), as_int(signal)
    if pid not in (0, -task.process.pid) and not _is_own(task, pid):
        raise Errno(errno.ESRCH)
    return _send(task, None, signal)


def _thread(task: Task, tid: int) -> Task:
    if tid <= 0:
        raise Errno(errno.EINVAL)
    target = task.process.tasks.get(tid)
    if target is None:
        raise Errno(errno.ESRCH)
    return target


def sys_tkill(task: Task, tid: int, signal: int) -> int:
    """tkill(2)."""
    return _send(task, _thread(task, as_int(tid)), as_int(signal), code=SI_TKILL)


def sys_tgkill(task: Task, pid: int, tid: int, signal: int) -> int:
    """tgkill(2)."""
    return _send(task, _of_group(task, as_int(pid), as_int(tid)), as_int(signal), code=SI_TKILL)


def _of_group(task: Task, pid: int, tid: int) -> Task:
    if pid <= 0:
        raise Errno(errno.EINVAL)
    target = _thread(task, tid)
    if pid != task.process.pid:
        raise Errno(errno.ESRCH)
    return target


def sys_rt_sigqueueinfo(task: Task, pid: int, signal: int, address: int) -> int:
    """rt_sigqueueinfo(2)."""
    signal = as_int(signal)
    raw = task.process.memory.read(address, INFO_BYTES)
    if not _is_own(task, as_int(pid)):
        raise Errno(errno.ESRCH)
    return _send(task, None, signal, from_user(signal, raw))


def sys_rt_tgsigqueueinfo(task: Task, pid: int, tid: int, signal: int, address: int) -> int:
    """rt_tgsigqueueinfo(2)."""
    signal = as_int(signal)
    raw = task.process.memory.read(address, INFO_BYTES)
    target = _of_group(task, as_int(pid), as_int(tid))
    return _send(task, target, signal, from_user(signal, raw))


CALLS = table(Subject.SIGNALS, {
    "kill": in_part(sys_kill, "there is no other process"),
    "tkill": sys_tkill,
    "tgkill": sys_tgkill,
    "rt_sigqueueinfo": sys_rt_sigqueueinfo,
    "rt_tgsigqueueinfo": sys_rt_tgsigqueueinfo,
})  # fmt: skip
