"""Signals of the process: what each does, which are pending, and which task takes them (signal(7)).

A signal for the whole process is assigned to one task when it comes, as Linux does: the first that does not
block it, the main task before others. Nobody else takes it unless that task blocks it or ends.

Stopping is not emulated, since nobody could continue the only process: it stops and goes on at once, as if
SIGCONT had followed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from emu.linux.ground.failure import Errno
from emu.linux.ground.limits import RLIMIT_SIGPENDING, Limits
from emu.linux.ground.wait import Reason
from emu.linux.signals.info import SigInfo, sent
from emu.linux.signals.numbers import (
    DUMPING,
    HARMLESS,
    LAST_SIGNAL,
    SI_USER,
    SIG_DFL,
    SIG_IGN,
    SIGCONT,
    SIGRTMIN,
    STOPPING,
    UNBLOCKABLE,
    signal_set,
)
from emu.linux.signals.of_task import PendingSignals
from emu.linux.signals.receiver import Receiver

#: The user that the guest runs as.
USER = 1000
_ALL = (1 << LAST_SIGNAL) - 1


@dataclass(frozen=True)
class Action:
    """What a signal does (sigaction(2)). handler: SIG_DFL, SIG_IGN or an address. mask: while it runs."""

    handler: int = SIG_DFL
    flags: int = 0
    restorer: int = 0
    mask: int = 0


class ProcessSignals:
    """Actions and pending signals of a process. tasks: by tid, the living ones, and limits: shared
    with `Process`."""

    def __init__(self, tasks: Mapping[int, Receiver], pid: int, limits: Limits | None = None) -> None:
        self._tasks, self._pid, self._limits = tasks, pid, limits or Limits()
        self._actions = [Action()] * (LAST_SIGNAL + 1)
        #: Signals that do nothing when they are delivered.
        self._idle = HARMLESS | STOPPING
        self.shared = PendingSignals()
        #: The signal that has killed all tasks, whichever of them is the first to notice.
        self.fatal: SigInfo | None = None
        #: Told whenever a signal has become pending.
        self.arrivals: list[Callable[[], None]] = []
        #: Tasks that a shared signal is assigned to; of a signal without any, nobody's mask lets it through.
        self._takers: dict[int, list[Receiver]] = {}

    # What signals do.

    def action(self, signal: int) -> Action:
        """What `signal` does."""
        return self._actions[signal]

    def set_action(self, signal: int, action: Action) -> None:
        """Change it. A signal that is ignored from now on is no longer pending."""
        self._enter(signal, action)
        bit = signal_set(signal)
        if bit & self._idle and not (action.handler == SIG_DFL and bit & STOPPING):
            self._discard(bit)

    def reset_action(self, signal: int) -> None:
        """The kernel makes it the default, as of SA_RESETHAND. What is pending stays so."""
        self._enter(signal, replace(self._actions[signal], handler=SIG_DFL))

    def _enter(self, signal: int, action: Action) -> None:
        self._actions[signal] = action
        bit = signal_set(signal)
        if action.handler == SIG_IGN or (action.handler == SIG_DFL and bit & (HARMLESS | STOPPING)):
            self._idle |= bit
        else:
            self._idle &= ~bit

    # Sending.

    def post(self, target: Receiver | None, signal: int, info: SigInfo | None = None) -> bool:
        """Send a signal to a task, or to the process. True: it is pending now and was not so before.

        Without `info` it comes from the process itself, as SIGPIPE does. One that would do nothing is dropped
        unless it is blocked. Raises Errno(EAGAIN): too many are pending.
        """
        receiver = target or next(self._in_order(), None)
        if receiver is None or receiver.tid not in self._tasks:
            return False
        bit = signal_set(signal)
        self._cancel_opposite(bit)
        if bit & self._idle & ~receiver.signals.blocked & ~receiver.signals.real_blocked:
            self._continue(bit)
            return False
        pending = target.signals.pending if target else self.shared
        info = info or sent(signal, SI_USER, self._pid, USER)
        if pending.count >= self._most_pending and signal >= SIGRTMIN and info.source is None:
            raise Errno(errno.EAGAIN)
        if not pending.add(info):
            return False
        taker = target
        if target is None:
            taker = self._assign(signal)
        elif not bit & target.signals.blocked:
            target.end_wait(Reason.SIGNAL)
        if taker is not None and self._kills(taker, signal):
            self._kill_all(info)
        for arrived in self.arrivals:
            arrived()
        return True

    def force(self, task: Receiver, signal: int, info: SigInfo) -> None:
        """A fault of the task's own: delivered even if blocked or ignored, but then by its default action."""
        own, bit = task.signals, signal_set(signal)
        if info.trap is not None:
            own.trap = info.trap
        action = self._actions[signal]
        if own.blocked & bit or action.handler == SIG_IGN:
            self.reset_action(signal)
            self.set_blocked(task, own.blocked & ~bit)
        own.pending.add(info)
        task.end_wait(Reason.SIGNAL)

    # Taking.

    def deliverable(self, task: Receiver) -> bool:
        """One is pending that the task would take and that would do something, or the processor has one."""
        own = task.signals
        if own.barred is not None or self.fatal is not None:
            return True
        effective = ~own.blocked & (~self._idle | own.real_blocked)
        if not (own.pending.mask | self.shared.mask) & effective:
            return False
        return bool((own.pending.mask | self._shared_for(task)) & effective)

    def take(self, task: Receiver) -> SigInfo | None:
        """The next signal for the task, no longer pending: its own before the process's, faults first."""
        own = task.signals
        allowed = ~own.blocked
        signal = own.pending.own_fault(allowed) or own.pending.lowest(allowed)
        if signal:
            return own.pending.take(signal)
        signal = self.shared.lowest(allowed & self._shared_for(task))
        return self._take_shared(task, signal) if signal else None

    def take_from(self, task: Receiver, wanted: int) -> SigInfo | None:
        """The next signal of the set `wanted`, blocked or not (sigwaitinfo(2))."""
        own = task.signals
        if signal := own.pending.lowest(wanted):
            return own.pending.take(signal)
        signal = self.shared.lowest(wanted)
        return self._take_shared(task, signal) if signal else None

    def pending(self, task: Receiver) -> int:
        """The set that sigpending(2) tells."""
        return (task.signals.pending.mask | self.shared.mask) & task.signals.blocked

    # Masks.

    def set_blocked(self, task: Receiver, mask: int) -> None:
        """Change a task's mask. What it can no longer take goes to another task."""
        own = task.signals
        newly = mask & ~own.blocked
        own.blocked = mask & _ALL & ~UNBLOCKABLE
        self._hand_over(task, newly)
        mine = own.pending.mask | self._shared_for(task)
        idle = mine & self._idle & ~own.blocked & ~own.real_blocked
        if idle:
            own.pending.discard(idle)
            self._discard_shared(idle)
            self._continue(idle)

    def begin_mask(self, task: Receiver, mask: int) -> None:
        """A mask for the time of one call: sigsuspend, ppoll. What it lets through ends the call's wait."""
        task.signals.restore_mask = task.signals.blocked
        self.set_blocked(task, mask)

    def end_mask(self, task: Receiver) -> None:
        """Back to the mask before `begin_mask`, if that is still to be done."""
        before, task.signals.restore_mask = task.signals.restore_mask, None
        if before is not None:
            self.set_blocked(task, before)

    def leave(self, task: Receiver) -> None:
        """The task ends: its own signals are gone, those of the process go to others."""
        task.signals.pending.discard(_ALL)
        task.signals.blocked = _ALL
        self._hand_over(task, _ALL)

    def status(self, task: Receiver) -> str:
        """The lines of /proc/PID/status (proc_pid_status(5))."""
        caught = ignored = 0
        for signal in range(1, LAST_SIGNAL + 1):
            handler = self._actions[signal].handler
            ignored |= signal_set(signal) if handler == SIG_IGN else 0
            caught |= signal_set(signal) if handler not in (SIG_DFL, SIG_IGN) else 0
        own = task.signals
        count = self.shared.count + sum(other.signals.pending.count for other in self._tasks.values())
        sets = (
            ("SigPnd", own.pending.mask), ("ShdPnd", self.shared.mask), ("SigBlk", own.blocked),
            ("SigIgn", ignored), ("SigCgt", caught),
        )  # fmt: skip
        return f"SigQ:\t{count}/{self._most_pending}\n" + "".join(
            f"{name}:\t{mask:016x}\n" for name, mask in sets
        )

    # Inside.

    @property
    def _most_pending(self) -> int:
        return self._limits.soft[RLIMIT_SIGPENDING]

    def _in_order(self) -> Iterator[Receiver]:
        """The living tasks: the main one, then by tid."""
        if self._pid in self._tasks:
            yield self._tasks[self._pid]
        yield from (self._tasks[tid] for tid in sorted(self._tasks) if tid != self._pid)

    def _shared_for(self, task: Receiver) -> int:
        """The pending signals of the process that are the task's to take."""
        mask = self.shared.mask
        for signal, takers in self._takers.items():
            if task not in takers:
                mask &= ~signal_set(signal)
        return mask

    def _kills(self, taker: Receiver, signal: int) -> bool:
        """Nobody catches the signal, no core is dumped, and the taker waits for no such one (sigwait)."""
        spared = HARMLESS | STOPPING | DUMPING | taker.signals.blocked | taker.signals.real_blocked
        return self._actions[signal].handler == SIG_DFL and not signal_set(signal) & spared

    def _kill_all(self, info: SigInfo) -> None:
        self.fatal = self.fatal or info
        for task in self._in_order():
            task.end_wait(Reason.SIGNAL)

    def _assign(self, signal: int) -> Receiver | None:
        """Find a task for a signal of the process, one with nothing else to take before others; wake it."""
        bit, takers = signal_set(signal), self._takers.get(signal, [])
        willing = [task for task in self._in_order() if not task.signals.blocked & bit and task not in takers]
        if not willing:
            return None
        chosen = next((task for task in willing if not self._busy(task)), willing[0])
        if bit & self._idle & ~chosen.signals.real_blocked:
            self._discard_shared(bit)
            return None
        self._takers[signal] = [*takers, chosen]
        chosen.end_wait(Reason.SIGNAL)
        return chosen

    def _busy(self, task: Receiver) -> bool:
        """It has a signal to take."""
        own = bool(task.signals.pending.mask & ~task.signals.blocked)
        return own or any(task in takers for takers in self._takers.values())

    def _take_shared(self, task: Receiver, signal: int) -> SigInfo:
        info = self.shared.take(signal)
        left = [taker for taker in self._takers.pop(signal, []) if taker is not task]
        if self.shared.mask & signal_set(signal):
            if left:
                self._takers[signal] = left
            else:
                self._assign(signal)
        return info

    def _hand_over(self, task: Receiver, signals: int) -> None:
        """The task takes none of a set any more."""
        for signal in [signal for signal in self._takers if signal_set(signal) & signals]:
            left = [taker for taker in self._takers[signal] if taker is not task]
            if left:
                self._takers[signal] = left
            else:
                del self._takers[signal]
                self._assign(signal)

    def _discard(self, signals: int) -> None:
        self._discard_shared(signals)
        for task in self._in_order():
            task.signals.pending.discard(signals)

    def _discard_shared(self, signals: int) -> None:
        self.shared.discard(signals)
        for signal in [signal for signal in self._takers if signal_set(signal) & signals]:
            del self._takers[signal]

    def _cancel_opposite(self, bit: int) -> None:
        """A stop signal takes back SIGCONT, and the other way round."""
        if bit & STOPPING:
            self._discard(signal_set(SIGCONT))
        elif bit == signal_set(SIGCONT):
            self._discard(STOPPING)

    def _continue(self, signals: int) -> None:
        """After a stop: go on at once. An ignored stop signal stops nothing."""
        if any(signals & signal_set(n) and self._actions[n].handler == SIG_DFL for n in range(19, 23)):
            self.post(None, SIGCONT)
