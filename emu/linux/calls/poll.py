"""System calls that wait for several files: poll(2), select(2) and their kin."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_

from emu.linux.calls.timespec import read_timespec, read_timeval
from emu.linux.files.open_file import POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, OpenFile
from emu.linux.files.regular import OpenPath
from emu.linux.ground.call import Subject, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.timespec import pack_timespec, pack_timeval
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.ground.words import as_int
from emu.linux.tasks.task import Task
from emu.linux.waiting.readiness import earliest, expand, held, queues_of, readiness

_POLLFD = 8
#: A longer time is this long, in ns.
LONGEST = 1 << 62
#: Descriptors in a set of select, at most.
_MOST_SELECTED = 1 << 16
#: What makes a descriptor ready in each of select's three sets.
_SELECTED = (expand(POLLIN) | 0x80 | POLLHUP | POLLERR, expand(POLLOUT) | 0x200 | POLLERR, POLLPRI)


def read_mask(task: Task, address: int, size: int) -> int | None:
    """The signal mask of ppoll and its kin; None at address 0. Errno(EINVAL): of another size."""
    if not address:
        return None
    if size != 8:
        raise Errno(errno.EINVAL)
    return task.process.memory.read_number(address, 8)


def under_mask(task: Task, mask: int | None, call: Blocking) -> Blocking:
    """Run a call with another signal mask. After a signal the handler's frame keeps the old one."""
    if mask is None:
        return (yield from call)
    signals = task.process.signals
    signals.begin_mask(task, mask)
    try:
        result = yield from call
    except Interrupted:
        raise
    except Exception:
        signals.end_mask(task)
        raise
    signals.end_mask(task)
    return result


def _until_ready(
    task: Task,
    asked: Sequence[tuple[OpenFile, int]],
    count: Callable[[], int],
    deadline: int | None,
    what: str,
) -> Blocking:
    """Wait until `count` is not 0 or the time is over; returns it. asked: files, and POLL* bits of each."""
    clock, files = task.process.clock, [file for file, _ in asked]
    queues = queues_of(files)
    reason = None
    with held(files):
        while True:
            ready = count()
            if ready or (deadline is not None and clock.monotonic() >= deadline):
                return ready
            if reason is Reason.SIGNAL:
                raise Interrupted(restart=False)
            reason = yield Wait(queues, earliest(files, deadline), what, files=tuple(asked), signal=not asked)


def _poll(task: Task, address: int, n: int, deadline: int | None) -> Blocking:
    process, n = task.process, n & 0xFFFFFFFF
    if n > process.descriptors.limit:
        raise Errno(errno.EINVAL)
    raw = process.memory.read(address, _POLLFD * n) if n else b""
    asked: list[tuple[OpenFile | None, int]] = []
    results = [0] * n
    for i in range(n):
        fd = as_int(int.from_bytes(raw[_POLLFD * i : _POLLFD * i + 4], "little"))
        events = int.from_bytes(raw[_POLLFD * i + 4 : _POLLFD * i + 6], "little")
        asked.append((_file(task, fd), events | POLLERR | POLLHUP))
        if fd >= 0 and asked[i][0] is None:
            results[i] = POLLNVAL

    def count() -> int:
        for i, (file, events) in enumerate(asked):
            if file is not None:
                results[i] = readiness(file) & events
        return sum(1 for result in results if result)

    wanted = [(file, events) for file, events in asked if file is not None]
    ready = yield from _until_ready(task, wanted, count, deadline, "a poll")
    for i, result in enumerate(results):
        process.memory.write_number(address + _POLLFD * i + 6, 2, result)
    return ready


def _file(task: Task, fd: int) -> OpenFile | None:
    """What can be waited for; a place in the tree (O_PATH) cannot."""
    if fd < 0:
        return None
    try:
        file = task.process.descriptors.get(fd)
    except Errno:
        return None
    return None if isinstance(file, OpenPath) else file


def sys_poll(task: Task, fds: int, n: int, timeout: int) -> Blocking:
    """poll(2); timeout in ms, negative: for ever."""
    wait = as_int(timeout) * 1_000_000
    return (yield from _poll(task, fds, n, None if wait < 0 else task.process.clock.monotonic() + wait))


def _with_rest(
    task: Task, call: Blocking, deadline: int | None, address: int, pack: Callable[[int], bytes]
) -> Blocking:
    """Afterwards write the time that was left, as Linux does; a guest's read-only timeout is no error."""

    def write_rest() -> None:
        if deadline is None:
            return
        try:
            task.process.memory.write(address, pack(max(0, deadline - task.process.clock.monotonic())))
        except Errno:
            return

    try:
        result = yield from call
    except Interrupted:
        write_rest()
        raise
    write_rest()
    return result


def deadline_of(task: Task, timeout: int | None) -> int | None:
    """When a time of `timeout` ns from now is over; None: never."""
    return None if timeout is None else task.process.clock.monotonic() + min(timeout, LONGEST)


def sys_ppoll(task: Task, fds: int, n: int, timeout: int, mask: int, size: int) -> Blocking:
    """poll with a timespec and a signal mask."""
    deadline = deadline_of(task, read_timespec(task, timeout) if timeout else None)
    wanted = read_mask(task, mask, size)
    call = under_mask(task, wanted, _poll(task, fds, n, deadline))
    return (yield from _with_rest(task, call, deadline, timeout, pack_timespec))


class _Sets:
    """Select's three sets of descriptors, in guest memory."""

    def __init__(self, task: Task, n: int, addresses: tuple[int, int, int]) -> None:
        if not 0 <= n <= _MOST_SELECTED:
            raise Errno(errno.EINVAL)
        self._memory = task.process.memory
        self._addresses = addresses
        self._bytes = (n + 63) // 64 * 8
        wanted = [
            int.from_bytes(self._memory.read(address, self._bytes), "little") if address and n else 0
            for address in addresses
        ]
        self._asked: list[tuple[int, OpenFile, list[bool]]] = []
        for fd in range(n):
            chosen = [bool(bits >> fd & 1) for bits in wanted]
            if any(chosen):
                self._asked.append((fd, task.process.descriptors.get(fd), chosen))
        self._results = [0, 0, 0]

    @property
    def wanted(self) -> list[tuple[OpenFile, int]]:
        """All files asked about, and what makes each ready."""
        return [
            (file, reduce(or_, (bits for bits, wanted in zip(_SELECTED, chosen, strict=True) if wanted)))
            for _, file, chosen in self._asked
        ]

    def count(self) -> int:
        """How many bits are set in the results, which are kept."""
        self._results = [0, 0, 0]
        for fd, file, chosen in self._asked:
            events = readiness(file)
            for i, (wanted, ready) in enumerate(zip(chosen, _SELECTED, strict=True)):
                if wanted and events & ready:
                    self._results[i] |= 1 << fd
        return sum(bits.bit_count() for bits in self._results)

    def write(self) -> None:
        """Give the guest the results."""
        for address, bits in zip(self._addresses, self._results, strict=True):
            if address and self._bytes:
                self._memory.write(address, bits.to_bytes(self._bytes, "little"))


def _select(task: Task, n: int, addresses: tuple[int, int, int], deadline: int | None) -> Blocking:
    sets = _Sets(task, as_int(n), addresses)
    ready = yield from _until_ready(task, sets.wanted, sets.count, deadline, "a select")
    sets.write()
    return ready


def sys_select(task: Task, n: int, reads: int, writes: int, others: int, timeout: int) -> Blocking:
    """select(2) with a timeval."""
    deadline = deadline_of(task, read_timeval(task, timeout) if timeout else None)
    call = _select(task, n, (reads, writes, others), deadline)
    return (yield from _with_rest(task, call, deadline, timeout, pack_timeval))


def sys_pselect6(
    task: Task, n: int, reads: int, writes: int, others: int, timeout: int, masked: int
) -> Blocking:
    """select with a timespec and a signal mask, which comes as a pointer to (address, size)."""
    memory = task.process.memory
    deadline = deadline_of(task, read_timespec(task, timeout) if timeout else None)
    mask = None
    if masked:
        mask = read_mask(task, memory.read_number(masked, 8), memory.read_number(masked + 8, 8))
    call = under_mask(task, mask, _select(task, n, (reads, writes, others), deadline))
    return (yield from _with_rest(task, call, deadline, timeout, pack_timespec))


CALLS = table(Subject.WAITING, {
    "poll": sys_poll,
    "ppoll": sys_ppoll,
    "select": sys_select,
    "pselect6": sys_pselect6,
})  # fmt: skip
