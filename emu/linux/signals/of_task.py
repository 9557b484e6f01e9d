"""The signal state of one task: mask, pending signals, alternate stack."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from emu.linux.signals.info import SigInfo, Trap
from emu.linux.signals.numbers import (
    SIGKILL,
    SIGRTMIN,
    SS_AUTODISARM,
    SS_DISABLE,
    SS_ONSTACK,
    SYNCHRONOUS,
    signal_set,
)


class PendingSignals:
    """Signals that wait for delivery: of a standard one the first, of a real-time one all (signal(7)).

    mask: the set of those that are pending. count: how many.
    """

    def __init__(self) -> None:
        self._queues: dict[int, deque[SigInfo]] = {}
        self.mask = 0
        self.count = 0

    def add(self, info: SigInfo) -> bool:
        """Queue a signal. False: it is pending already and one is enough. A timer's always has its place."""
        if info.signal < SIGRTMIN and info.source is None and self.mask & signal_set(info.signal):
            return False
        self._queues.setdefault(info.signal, deque()).append(info)
        self.mask |= signal_set(info.signal)
        self.count += 1
        return True

    def lowest(self, allowed: int) -> int | None:
        """The next signal of the set `allowed`: faults first, then the lowest number."""
        ready = self.mask & allowed
        if not ready:
            return None
        if ready & signal_set(SIGKILL):
            return SIGKILL
        ready = ready & SYNCHRONOUS or ready
        return (ready & -ready).bit_length()

    def own_fault(self, allowed: int) -> int | None:
        """The next signal of the set `allowed` that the task's own instruction caused, if there is one."""
        ready = self.mask & allowed & SYNCHRONOUS
        while ready:
            signal = (ready & -ready).bit_length()
            if self._queues[signal][0].code > 0:
                return signal
            ready &= ready - 1
        return None

    def take(self, signal: int) -> SigInfo:
        """The first of `signal`, which is pending."""
        queue = self._queues[signal]
        info = queue.popleft()
        self.count -= 1
        if not queue:
            del self._queues[signal]
            self.mask &= ~signal_set(signal)
        return info if info.source is None else info.source.taken(info)

    def discard(self, signals: int) -> None:
        """Throw away all of a set."""
        while signal := self.lowest(signals):
            self.take(signal)


@dataclass(frozen=True)
class AlternateStack:
    """sigaltstack(2). flags: SS_DISABLE, SS_ONSTACK, SS_AUTODISARM as the program gave them."""

    base: int = 0
    size: int = 0
    flags: int = 0

    def spans(self, stack_pointer: int) -> bool:
        """The stack pointer is in it."""
        return self.base < stack_pointer <= self.base + self.size

    def in_use(self, stack_pointer: int) -> bool:
        """A handler runs on it, as far as the kernel can tell."""
        return not self.flags & SS_AUTODISARM and self.spans(stack_pointer)

    def state(self, stack_pointer: int) -> int:
        """SS_DISABLE, SS_ONSTACK or 0."""
        if not self.size:
            return SS_DISABLE
        return SS_ONSTACK if self.in_use(stack_pointer) else 0


class TaskSignals:
    """blocked: the mask, bit n - 1 for signal n; change it through `ProcessSignals.set_blocked`.

    real_blocked: the mask that rt_sigtimedwait put aside while it waits, else 0. restore_mask: the mask to
    return to after sigsuspend, ppoll and the like. trap: the last fault, for the frame. barred: what the
    processor will say of the selectors that the task is to return with; None: they are a program's. frames:
    the stack pointers with which handlers began that have not returned, or were left by a jump.
    """

    def __init__(self) -> None:
        self.blocked = 0
        self.real_blocked = 0
        self.restore_mask: int | None = None
        self.pending = PendingSignals()
        self.stack = AlternateStack()
        self.trap = Trap(0)
        self.barred: Trap | None = None
        self.frames: list[int] = []

    def inherit(self, parent: TaskSignals) -> None:
        """What clone(2) with CLONE_VM gives a thread: the mask alone."""
        self.blocked = parent.blocked
        self.stack = AlternateStack(flags=SS_DISABLE)
