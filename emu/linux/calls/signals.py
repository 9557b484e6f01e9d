"""Calls about a task's own signals (sigaction(2), sigprocmask(2), sigwaitinfo(2), sigaltstack(2))."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import suppress

from emu.linux.calls.timespec import read_timespec
from emu.linux.ground.call import Call, Subject, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.ground.words import as_int
from emu.linux.signals.frame import pop_frame
from emu.linux.signals.info import SigInfo
from emu.linux.signals.numbers import (
    LAST_SIGNAL,
    MINSIGSTKSZ,
    SA_KNOWN,
    SET_BYTES,
    SI_KERNEL,
    SIGSEGV,
    SS_AUTODISARM,
    SS_DISABLE,
    SS_ONSTACK,
    UNBLOCKABLE,
    signal_set,
)
from emu.linux.signals.of_process import Action
from emu.linux.signals.of_task import AlternateStack
from emu.linux.signals.signalfd import SignalFile
from emu.linux.tasks.task import Task
from isa.layout import Layout

_BLOCK, _UNBLOCK, _SETMASK = range(3)
#: stack_t.
_STACK = Layout(24, {"base": (0, 8), "flags": (8, 4), "size": (16, 8)})


#: Waits, and ends with the signal or without one.
SignalWait = Generator[Wait, Reason, SigInfo | None]


def _check_set_size(size: int) -> None:
    if size != SET_BYTES:
        raise Errno(errno.EINVAL)


def sys_rt_sigaction(task: Task, signal: int, new: int, old: int, size: int) -> int:
    """rt_sigaction(2)."""
    _check_set_size(size)
    process, signal = task.process, as_int(signal)
    layout = process.abi.signals.action
    fields = layout.unpack(process.memory.read(new, layout.size)) if new else {}
    if not 1 <= signal <= LAST_SIGNAL or (new and signal_set(signal) & UNBLOCKABLE):
        raise Errno(errno.EINVAL)
    before = process.signals.action(signal)
    if new:
        flags, mask = fields["flags"] & SA_KNOWN, fields["mask"] & ~UNBLOCKABLE
        action = Action(fields["handler"], flags, fields.get("restorer", 0), mask)
        process.signals.set_action(signal, action)
    if old:
        values = {name: getattr(before, name) for name in layout.fields}
        process.memory.write(old, layout.pack(**values))
    return 0


def sys_rt_sigprocmask(task: Task, how: int, new: int, old: int, size: int) -> int:
    """rt_sigprocmask(2)."""
    _check_set_size(size)
    memory, before = task.process.memory, task.signals.blocked
    if new:
        mask, how = memory.read_number(new, SET_BYTES), as_int(how)
        if how == _BLOCK:
            mask = before | mask
        elif how == _UNBLOCK:
            mask = before & ~mask
        elif how != _SETMASK:
            raise Errno(errno.EINVAL)
        task.process.signals.set_blocked(task, mask)
    if old:
        memory.write_number(old, SET_BYTES, before)
    return 0


def sys_rt_sigpending(task: Task, address: int, size: int) -> int:
    """rt_sigpending(2)."""
    if size > SET_BYTES:
        raise Errno(errno.EINVAL)
    task.process.memory.write(
        address, task.process.signals.pending(task).to_bytes(SET_BYTES, "little")[:size]
    )
    return 0


def sys_rt_sigsuspend(task: Task, address: int, size: int) -> Blocking:
    """rt_sigsuspend(2)."""
    _check_set_size(size)
    task.process.signals.begin_mask(task, task.process.memory.read_number(address, SET_BYTES))
    return (yield from _until_signal())


def sys_pause(task: Task) -> Blocking:
    """pause(2)."""
    return (yield from _until_signal())


def _until_signal() -> Blocking:
    while (yield Wait((), None, "a signal", signal=True)) is not Reason.SIGNAL:
        pass
    raise Interrupted(restart=False)


def sys_rt_sigtimedwait(task: Task, wanted: int, info: int, timeout: int, size: int) -> Blocking:
    """rt_sigtimedwait(2)."""
    _check_set_size(size)
    process, signals = task.process, task.process.signals
    mask = process.memory.read_number(wanted, SET_BYTES) & ~UNBLOCKABLE
    given = read_timespec(task, timeout) if timeout else None
    found = signals.take_from(task, mask)
    if found is None and given != 0:
        deadline = None if given is None else process.clock.monotonic() + given
        found = yield from _wait_for(task, mask, deadline)
    if found is None:
        raise Errno(errno.EAGAIN)
    if info:
        process.memory.write(info, found.pack())
    return found.signal


def _wait_for(task: Task, mask: int, deadline: int | None) -> SignalWait:
    """Wait for a signal of the set `mask`, meanwhile not blocked; None: the time is over."""
    own, signals = task.signals, task.process.signals
    own.real_blocked = before = own.blocked
    try:
        signals.set_blocked(task, before & ~mask)
        while True:
            reason = yield Wait((), deadline, "a signal (sigwait)", signal=True)
            found = signals.take_from(task, mask)
            if found is not None or reason is Reason.TIMEOUT:
                return found
            if reason is Reason.SIGNAL:
                raise Interrupted(restart=False)
    finally:
        own.real_blocked = 0
        signals.set_blocked(task, before)


def sys_rt_sigreturn(task: Task) -> int:
    """rt_sigreturn(2): the registers become those in the frame."""
    signals = task.process.signals
    try:
        returned = pop_frame(task)
    except Errno:
        signals.force(task, SIGSEGV, SigInfo(SIGSEGV, SI_KERNEL))
        return 0
    task.set_registers(returned.context)
    del task.signals.frames[-1:]
    task.signals.barred = returned.trap
    signals.set_blocked(task, returned.mask)
    if returned.refused:
        signals.force(task, SIGSEGV, SigInfo(SIGSEGV, SI_KERNEL))
        return 0
    # As Linux does: a stack that cannot be set is no reason not to return.
    with suppress(Errno):
        _set_stack(task, returned.stack)
    return 0


def _stack_pointer(task: Task) -> int:
    return task.process.isa.read(task.registers, task.process.isa.stack_pointer)


def _set_stack(task: Task, stack: AlternateStack) -> None:
    if task.signals.stack.in_use(_stack_pointer(task)):
        raise Errno(errno.EPERM)
    mode = stack.flags & ~SS_AUTODISARM
    if mode not in (0, SS_ONSTACK, SS_DISABLE):
        raise Errno(errno.EINVAL)
    if mode == SS_DISABLE:
        stack = AlternateStack(0, 0, stack.flags)
    elif stack.size < MINSIGSTKSZ:
        raise Errno(errno.ENOMEM)
    task.signals.stack = stack


def sys_sigaltstack(task: Task, new: int, old: int) -> int:
    """sigaltstack(2)."""
    memory, before = task.process.memory, task.signals.stack
    if new:
        fields = _STACK.unpack(memory.read(new, _STACK.size))
        _set_stack(task, AlternateStack(fields["base"], fields["size"], fields["flags"]))
    if old:
        flags = before.state(_stack_pointer(task)) | (before.flags & SS_AUTODISARM)
        memory.write(old, _STACK.pack(base=before.base, flags=flags, size=before.size))
    return 0


def sys_signalfd(task: Task, fd: int, address: int, size: int) -> int:
    """signalfd(2), the old call."""
    return sys_signalfd4(task, fd, address, size, 0)


def sys_signalfd4(task: Task, fd: int, address: int, size: int, flags: int) -> int:
    """signalfd(2)."""
    process, fd, flags = task.process, as_int(fd), as_int(flags)
    if flags & ~(os.O_CLOEXEC | os.O_NONBLOCK):
        raise Errno(errno.EINVAL)
    _check_set_size(size)
    mask = process.memory.read_number(address, SET_BYTES) & ~UNBLOCKABLE
    if fd != -1:
        file = process.descriptors.get(fd)
        if not isinstance(file, SignalFile):
            raise Errno(errno.EINVAL)
        file.set_mask(mask)
        return fd

    def caller() -> Task:
        return process.caller or task

    new = SignalFile(mask, flags & os.O_NONBLOCK, process.anonymous_inodes.next(), process.signals, caller)
    return process.descriptors.add(new, cloexec=bool(flags & os.O_CLOEXEC))


CALLS = table(Subject.SIGNALS, {
    "rt_sigaction": sys_rt_sigaction,
    "rt_sigprocmask": sys_rt_sigprocmask,
    "rt_sigpending": sys_rt_sigpending,
    "rt_sigsuspend": sys_rt_sigsuspend,
    "pause": sys_pause,
    "rt_sigtimedwait": sys_rt_sigtimedwait,
    "rt_sigreturn": sys_rt_sigreturn,
    "sigaltstack": sys_sigaltstack,
    "signalfd": Call(sys_signalfd, subject=Subject.WAITING),
    "signalfd4": Call(sys_signalfd4, subject=Subject.WAITING),
})  # fmt: skip
