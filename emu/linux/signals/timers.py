"""Timers that send signals: those of setitimer(2) and of timer_create(2)."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from emu.linux.signals.info import SigInfo, timer_expired, with_overrun
from emu.linux.signals.numbers import SI_KERNEL, SIGALRM, SIGPROF, SIGVTALRM
from emu.linux.signals.of_process import ProcessSignals
from emu.linux.signals.receiver import Receiver

#: DELAYTIMER_MAX: more overruns are this many.
_MOST_OVERRUNS = (1 << 31) - 1


class Alarm:
    """Something that happens at a time, perhaps again and again. Times in nanoseconds.

    reads: the clock that `deadline` is on, if it tells how long tasks have run; None: the monotonic one.
    silent: it only tells how long it still runs.
    """

    def __init__(self, reads: Callable[[], int] | None = None, silent: bool = False) -> None:
        self.reads, self.silent = reads, silent
        self.deadline: int | None = None
        self.interval = 0

    def fire(self, times: int) -> None:
        """The time has come; `times`: more than 1 if intervals have passed unseen."""

    def remaining(self, monotonic: int) -> int:
        """Until the next time: 0 when none is to come, else at least 1."""
        if self.deadline is None:
            return 0
        left = self.deadline - (monotonic if self.reads is None else self.reads())
        if left <= 0 and self.silent:
            return left % self.interval or self.interval if self.interval else 0
        return max(left, 1)

    def pass_to(self, now: int) -> int:
        """Set the next deadline after `now`; returns how often the time came until then."""
        if self.deadline is None or self.deadline > now:
            return 0
        if not self.interval:
            self.deadline = None
            return 1
        times = (now - self.deadline) // self.interval + 1
        self.deadline += times * self.interval
        return times


class IntervalTimer(Alarm):
    """A timer of setitimer(2)."""

    def __init__(self, signals: ProcessSignals, signal: int, reads: Callable[[], int] | None = None) -> None:
        super().__init__(reads)
        self._signals, self._signal = signals, signal

    def fire(self, times: int) -> None:
        """Send the signal."""
        self._signals.post(None, self._signal, SigInfo(self._signal, SI_KERNEL))


class PosixTimer(Alarm):
    """A timer of timer_create(2). At most one signal of it is pending; what comes meanwhile is overrun.

    number: its identifier. signal: 0: it sends none. target: the thread that gets it, None: the process.
    """

    def __init__(
        self,
        signals: ProcessSignals,
        number: int,
        signal: int,
        value: int,
        target: Receiver | None,
        reads: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(reads, silent=not signal)
        self.number, self._signals, self._signal, self._value = number, signals, signal, value
        self._target = target
        #: Absolute times are by the real-time clock.
        self.by_realtime = False
        self._pending, self._missed = False, 0
        #: Expirations that the last signal stands for beside its own.
        self.overrun = 0

    def fire(self, times: int) -> None:
        """Send the signal, or count an overrun."""
        if self._pending:
            self._missed += times
            return
        self._missed = times - 1
        info = timer_expired(self._signal, self.number, self._value, self)
        self._pending = self._signals.post(self._target, self._signal, info)

    def taken(self, info: SigInfo) -> SigInfo:
        """The signal leaves the queue, with the overruns until now."""
        self._pending = False
        self.overrun, self._missed = min(self._missed, _MOST_OVERRUNS), 0
        return with_overrun(info, self.overrun)

    def forget(self) -> None:
        """The timer is set anew: what it missed before no longer counts."""
        self._missed = self.overrun = 0


class Alarms:
    """All timers of a process that send signals.

    used: reads the time that the process has run, nanoseconds.
    """

    def __init__(self, signals: ProcessSignals, used: Callable[[], int]) -> None:
        #: By ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF.
        self.intervals = (
            IntervalTimer(signals, SIGALRM),
            IntervalTimer(signals, SIGVTALRM, used),
            IntervalTimer(signals, SIGPROF, used),
        )
        #: Those of timer_create, by identifier.
        self.timers: dict[int, PosixTimer] = {}
        self.next_number = 0
        self._heap: list[tuple[int, int, Alarm]] = []
        self._running: list[Alarm] = []
        self._sequence = 0

    def set(self, alarm: Alarm, deadline: int | None, interval: int) -> None:
        """Let `alarm` fire at `deadline` and every `interval` from then on (0: once); None: never."""
        alarm.deadline, alarm.interval = deadline, interval
        if alarm.reads is not None:
            self._running = [other for other in self._running if other is not alarm]
            if deadline is not None and not alarm.silent:
                self._running.append(alarm)
        else:
            self._push(alarm)

    def next_deadline(self) -> int | None:
        """When `expire` has something to do, by the monotonic clock. Timers of running time do not count."""
        while self._heap and self._heap[0][2].deadline != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def expire(self, now: int) -> None:
        """Send the signals of all whose time has come. now: the monotonic clock. Called after every slice."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            alarm = heapq.heappop(self._heap)[2]
            times = alarm.pass_to(now)
            self._push(alarm)
            alarm.fire(times)
        if self._running:
            self._expire_running()

    @property
    def measures_tasks(self) -> bool:
        """Whether one goes off after a task has run for so long."""
        return bool(self._running)

    def _expire_running(self) -> None:
        for alarm in list(self._running):
            assert alarm.reads is not None
            times = alarm.pass_to(alarm.reads())
            if alarm.deadline is None:
                self._running.remove(alarm)
            if times:
                alarm.fire(times)

    def _push(self, alarm: Alarm) -> None:
        if alarm.deadline is not None and not alarm.silent:
            self._sequence += 1
            heapq.heappush(self._heap, (alarm.deadline, self._sequence, alarm))
