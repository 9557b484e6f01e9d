"""Calls of timers that send signals. Sources: alarm(2), getitimer(2), timer_create(2), timer_settime(2)."""

from __future__ import annotations

import errno
from collections.abc import Callable

from emu.linux.calls.time import cpu_time
from emu.linux.calls.timespec import read_timespec, read_timeval
from emu.linux.ground.call import Subject, table
from emu.linux.ground.clock import CYCLE_NS
from emu.linux.ground.failure import Errno
from emu.linux.ground.timespec import pack_timespec, pack_timeval
from emu.linux.ground.words import as_int
from emu.linux.signals.numbers import LAST_SIGNAL, SIGALRM
from emu.linux.signals.timers import Alarm, PosixTimer
from emu.linux.tasks.task import Task
from isa.layout import Layout

_SECOND, _MICROSECOND = 1_000_000_000, 1000
_MOST_TIMERS = 32_000
_REALTIME, _PROCESS_CPU, _THREAD_CPU = 0, 2, 3
#: Clocks that timer_create takes: CLOCK_REALTIME, _TAI; _MONOTONIC, _BOOTTIME. Beside those of running time.
_WALL, _STEADY = (_REALTIME, 11), (1, 7)
#: Clocks that exist but carry no timers: CLOCK_MONOTONIC_RAW, _REALTIME_COARSE, _MONOTONIC_COARSE.
_NO_TIMERS = (4, 5, 6)
#: CLOCK_REALTIME_ALARM and CLOCK_BOOTTIME_ALARM would wake the machine up.
_WAKING = (8, 9)
_ABSOLUTE = 1

_NOTIFIES = _SIGEV_SIGNAL, _SIGEV_NONE, _SIGEV_THREAD, _SIGEV_THREAD_ID = 0, 1, 2, 4
_SIGEVENT = Layout(64, {"value": (0, 8), "signal": (8, 4), "notify": (12, 4), "thread": (16, 4)})


def sys_alarm(task: Task, seconds: int) -> int:
    """alarm(2): returns the seconds that were left, at least 1 if any time was."""
    process, alarm = task.process, task.process.alarms.intervals[0]
    now = process.clock.monotonic()
    left, half = divmod(alarm.remaining(now), _SECOND)
    if half >= _SECOND // 2 or (half and not left):
        left += 1
    seconds = min(seconds & 0xFFFFFFFF, (1 << 31) - 1)
    process.alarms.set(alarm, now + seconds * _SECOND if seconds else None, 0)
    return left


def _interval_timer(task: Task, which: int) -> Alarm:
    if not 0 <= as_int(which) <= 2:
        raise Errno(errno.EINVAL)
    return task.process.alarms.intervals[as_int(which)]


def _itimerval(task: Task, alarm: Alarm) -> bytes:
    left = alarm.remaining(task.process.clock.monotonic())
    # A timer that runs never shows 0.
    interval = alarm.interval if left else 0
    return pack_timeval(interval) + pack_timeval(max(left, _MICROSECOND) if left else 0)


def sys_getitimer(task: Task, which: int, address: int) -> int:
    """getitimer(2). ITIMER_REAL goes by the clock, the others by the time that the process has run."""
    task.process.memory.write(address, _itimerval(task, _interval_timer(task, which)))
    return 0


def sys_setitimer(task: Task, which: int, new: int, old: int) -> int:
    """setitimer(2)."""
    process = task.process
    interval, value = (_itimer_ns(task, new), _itimer_ns(task, new + 16)) if new else (0, 0)
    alarm = _interval_timer(task, which)
    before = _itimerval(task, alarm)
    now = process.clock.monotonic() if alarm.reads is None else alarm.reads()
    process.alarms.set(alarm, now + value if value else None, interval)
    if old:
        process.memory.write(old, before)
    return 0


def _itimer_ns(task: Task, address: int) -> int:
    """Nanoseconds of a timeval. Errno(EINVAL): negative, or a second and more of microseconds."""
    if task.process.memory.read_number(address + 8, 8) >= 1_000_000:
        raise Errno(errno.EINVAL)
    return read_timeval(task, address)


def _running_clock(task: Task, clock: int) -> Callable[[], int] | None:
    """Reads a clock of running time; None: another clock. Raises Errno: none such, or none for timers."""
    process = task.process
    if clock in _WALL or clock in _STEADY:
        return None
    if clock in _NO_TIMERS:
        raise Errno(errno.EOPNOTSUPP)
    if clock in _WAKING:
        raise Errno(errno.EPERM)
    owner = ~(clock >> 3) if clock < 0 else 0
    of_thread = clock == _THREAD_CPU or (clock < 0 and clock & 4)
    if clock > _THREAD_CPU or (clock < 0 and clock & 3 == 3):
        raise Errno(errno.EINVAL)
    target = process.tasks.get(owner) if owner else task
    if target is None or (owner and not of_thread and owner != process.pid):
        raise Errno(errno.EINVAL)
    if of_thread:
        return lambda: cpu_time([target])
    return lambda: cpu_time(list(process.tasks.values())) + process.ended_cycles * CYCLE_NS


def sys_timer_create(task: Task, clock: int, event: int, address: int) -> int:
    """timer_create(2)."""
    process, alarms = task.process, task.process.alarms
    reads = _running_clock(task, as_int(clock))
    number = alarms.next_number
    if event:
        fields = _SIGEVENT.unpack(process.memory.read(event, _SIGEVENT.size))
    else:
        fields = {"value": number, "signal": SIGALRM, "notify": _SIGEV_SIGNAL, "thread": 0}
    signal, notify = fields["signal"], fields["notify"]
    target = process.tasks.get(fields["thread"]) if notify == _SIGEV_THREAD_ID else None
    if notify not in _NOTIFIES or (notify == _SIGEV_THREAD_ID and target is None):
        raise Errno(errno.EINVAL)
    if notify != _SIGEV_NONE and not 1 <= signal <= LAST_SIGNAL:
        raise Errno(errno.EINVAL)
    if len(alarms.timers) >= _MOST_TIMERS:
        raise Errno(errno.EAGAIN)
    process.memory.write_number(address, 4, number)
    alarms.next_number += 1
    sends = 0 if notify == _SIGEV_NONE else signal
    timer = PosixTimer(process.signals, number, sends, fields["value"], target, reads)
    timer.by_realtime = as_int(clock) in _WALL
    alarms.timers[number] = timer
    return 0


def _timer(task: Task, number: int) -> PosixTimer:
    timer = task.process.alarms.timers.get(as_int(number))
    if timer is None:
        raise Errno(errno.EINVAL)
    return timer


def _itimerspec(task: Task, timer: PosixTimer) -> bytes:
    left = timer.remaining(task.process.clock.monotonic())
    return pack_timespec(timer.interval if left else 0) + pack_timespec(left)


def sys_timer_settime(task: Task, number: int, flags: int, new: int, old: int) -> int:
    """timer_settime(2)."""
    process = task.process
    if not new:
        raise Errno(errno.EINVAL)
    interval, value = read_timespec(task, new), read_timespec(task, new + 16)
    timer = _timer(task, number)
    before = _itimerspec(task, timer)
    deadline = None
    if value:
        now = process.clock.monotonic() if timer.reads is None else timer.reads()
        deadline = now + value
        if flags & _ABSOLUTE:
            deadline = value - (process.clock.realtime() - now if timer.by_realtime else 0)
    timer.forget()
    process.alarms.set(timer, deadline, interval)
    if old:
        process.memory.write(old, before)
    return 0


def sys_timer_gettime(task: Task, number: int, address: int) -> int:
    """timer_gettime(2)."""
    task.process.memory.write(address, _itimerspec(task, _timer(task, number)))
    return 0


def sys_timer_getoverrun(task: Task, number: int) -> int:
    """timer_getoverrun(2)."""
    return _timer(task, number).overrun


def sys_timer_delete(task: Task, number: int) -> int:
    """timer_delete(2)."""
    timer = _timer(task, number)
    task.process.alarms.set(timer, None, 0)
    del task.process.alarms.timers[timer.number]
    return 0


CALLS = table(Subject.TIME, {
    "alarm": sys_alarm,
    "getitimer": sys_getitimer,
    "setitimer": sys_setitimer,
    "timer_create": sys_timer_create,
    "timer_settime": sys_timer_settime,
    "timer_gettime": sys_timer_gettime,
    "timer_getoverrun": sys_timer_getoverrun,
    "timer_delete": sys_timer_delete,
})  # fmt: skip
