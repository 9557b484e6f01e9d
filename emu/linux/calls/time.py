"""Calls of time. Sources: clock_gettime(2), clock_nanosleep(2), times(2), getrusage(2)."""

from __future__ import annotations

import errno

from emu.linux.calls.timespec import read_timespec
from emu.linux.ground.call import Call, Subject, in_part, refused, table
from emu.linux.ground.clock import CYCLE_NS
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.timespec import pack_timespec, pack_timeval
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.ground.words import as_int, as_long
from emu.linux.tasks.task import Task

_REALTIME, _MONOTONIC, _PROCESS_CPU, _THREAD_CPU = 0, 1, 2, 3
_REAL = (_REALTIME, 5, 8, 11)
_MONO = (_MONOTONIC, 4, 6, 7, 9)
#: By which nobody can sleep: raw and coarse ones, and those that wake a sleeping machine.
_NEVER_WAKE = (4, 5, 6, 8, 9)
_ABSOLUTE = 1
#: Clock ticks in a second, sysconf(_SC_CLK_TCK).
_TICKS = 100
_USAGE_BYTES = 144
#: Seconds since 1970 that no clock is set to: what 63 bits of nanoseconds hold, less 30 years.
_SETTABLE = ((1 << 63) - 1) // 1_000_000_000 - 30 * 365 * 24 * 3600


def cpu_time(tasks: list[Task]) -> int:
    """Nanoseconds that tasks have run."""
    return sum(task.cycles for task in tasks) * CYCLE_NS


def _now(task: Task, clock: int) -> int:
    process = task.process
    if clock in _REAL:
        return process.clock.realtime()
    if clock in _MONO:
        return process.clock.monotonic()
    if clock == _PROCESS_CPU or (clock < 0 and clock & 7 in (0, 1, 2)):
        return cpu_time(list(process.tasks.values())) + process.ended_cycles * CYCLE_NS
    if clock == _THREAD_CPU:
        return cpu_time([task])
    if clock < 0 and clock & 4 and clock & 3 != 3:
        of = task if not ~(clock >> 3) else process.tasks.get(~(clock >> 3))
        if of is not None:
            return cpu_time([of])
    raise Errno(errno.EINVAL)


def sys_clock_gettime(task: Task, clock: int, address: int) -> int:
    """clock_gettime(2)."""
    task.process.memory.write(address, pack_timespec(_now(task, as_int(clock))))
    return 0


def sys_clock_getres(task: Task, clock: int, address: int) -> int:
    """clock_getres(2)."""
    _now(task, as_int(clock))
    if address:
        task.process.memory.write(address, pack_timespec(1))
    return 0


def sys_clock_settime(task: Task, clock: int, address: int) -> int:
    """clock_settime(2): refused, once the arguments are found good. Errno: EINVAL, EFAULT, EPERM."""
    clock = as_int(clock)
    if clock > _REALTIME:
        raise Errno(errno.EINVAL)
    raw = task.process.memory.read(address, 16)
    if clock < 0:
        _now(task, clock)
    else:
        _require_settable(*_longs(raw))
    raise Errno(errno.EPERM)


def _longs(raw: bytes) -> tuple[int, int]:
    return as_long(int.from_bytes(raw[:8], "little")), as_long(int.from_bytes(raw[8:], "little"))


def _require_settable(seconds: int, nanoseconds: int) -> None:
    """Errno(EINVAL): no time that a clock can be set to (timespec64_valid_settod)."""
    if not 0 <= seconds < _SETTABLE or not 0 <= nanoseconds < 1_000_000_000:
        raise Errno(errno.EINVAL)


def sys_settimeofday(task: Task, address: int, zone: int) -> int:
    """settimeofday(2): refused, once the arguments are found good. Errno: EFAULT, EINVAL, EPERM."""
    seconds, microseconds = _longs(task.process.memory.read(address, 16)) if address else (0, 0)
    if not 0 <= microseconds <= 1_000_000:
        raise Errno(errno.EINVAL)
    if zone:
        task.process.memory.read(zone, 8)
    _require_settable(seconds, 1000 * microseconds)
    raise Errno(errno.EPERM)


def sys_adjtimex(task: Task) -> int:
    """adjtimex(2), clock_adjtime(2): refused."""
    raise Errno(errno.EPERM)


def sys_gettimeofday(task: Task, address: int, zone: int) -> int:
    """gettimeofday(2)."""
    if address:
        task.process.memory.write(address, pack_timeval(task.process.clock.realtime()))
    if zone:
        task.process.memory.write(zone, bytes(8))
    return 0


def sys_time(task: Task, address: int) -> int:
    """time(2)."""
    now = task.process.clock.realtime() // 1_000_000_000
    if address:
        task.process.memory.write_number(address, 8, now)
    return now


def _sleep(task: Task, deadline: int, remainder: int) -> Blocking:
    clock = task.process.clock
    while clock.monotonic() < deadline:
        reason = yield Wait((), deadline, "a sleep")
        if reason is Reason.SIGNAL:
            if remainder:
                left = max(0, deadline - clock.monotonic())
                task.process.memory.write(remainder, pack_timespec(left))
            raise Interrupted(restart=False)
    return 0


def sys_nanosleep(task: Task, request: int, remainder: int) -> Blocking:
    """nanosleep(2)."""
    deadline = task.process.clock.monotonic() + read_timespec(task, request)
    return (yield from _sleep(task, deadline, remainder))


def sys_clock_nanosleep(task: Task, clock: int, flags: int, request: int, remainder: int) -> Blocking:
    """clock_nanosleep(2)."""
    clock = as_int(clock)
    now = _now(task, clock)
    if clock in _NEVER_WAKE:
        raise Errno(errno.EOPNOTSUPP)
    given = read_timespec(task, request)
    if clock == _THREAD_CPU:
        raise Errno(errno.EINVAL)
    monotonic = task.process.clock.monotonic()
    deadline = monotonic + (given - now if flags & _ABSOLUTE else given)
    return (yield from _sleep(task, deadline, 0 if flags & _ABSOLUTE else remainder))


def sys_times(task: Task, address: int) -> int:
    """times(2)."""
    ticks = 1_000_000_000 // _TICKS
    if address:
        used = _now(task, _PROCESS_CPU) // ticks
        task.process.memory.write(address, used.to_bytes(8, "little") + bytes(24))
    return task.process.clock.monotonic() // ticks


def sys_getrusage(task: Task, who: int, address: int) -> int:
    """getrusage(2): user time and the largest resident size."""
    who = as_int(who)
    if who not in (0, 1, -1):
        raise Errno(errno.EINVAL)
    usage = bytearray(_USAGE_BYTES)
    if who >= 0:
        usage[:16] = pack_timeval(_now(task, _THREAD_CPU if who else _PROCESS_CPU))
        usage[32:40] = (task.process.space.most_pages * 4).to_bytes(8, "little")
    task.process.memory.write(address, bytes(usage))
    return 0


CALLS = table(Subject.TIME, {
    "clock_gettime": Call(sys_clock_gettime, tells_time=True),
    "clock_getres": sys_clock_getres,
    "gettimeofday": Call(sys_gettimeofday, tells_time=True),
    "time": Call(sys_time, tells_time=True),
    "nanosleep": sys_nanosleep,
    "clock_nanosleep": sys_clock_nanosleep,
    "times": sys_times,
    "getrusage": in_part(sys_getrusage, "user time and the largest resident size"),
    "clock_settime": refused(sys_clock_settime, "EPERM"),
    "settimeofday": refused(sys_settimeofday, "EPERM"),
    "adjtimex": refused(sys_adjtimex, "EPERM"),
    "clock_adjtime": refused(sys_adjtimex, "EPERM"),
})  # fmt: skip
