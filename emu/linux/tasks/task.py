"""A task: one thread of the guest, as the kernel sees it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.signals.of_task import TaskSignals

if TYPE_CHECKING:
    from emu.linux.signals.delivery import Interruption
    from emu.linux.tasks.process import Process

#: SCHED_RESET_ON_FORK; the settings of prctl(2) that a thread takes over: KEEPCAPS, TIMERSLACK, NO_NEW_PRIVS.
_RESET_ON_FORK = 0x40000000
_INHERITED = (8, 29, 38)


class State(Enum):
    """Where a task stands."""

    RUNNABLE = "runnable"
    BLOCKED = "blocked"
    DEAD = "dead"


class Task:
    """One thread. tid: also its process identifier if it is the first.

    context: its registers (`Isa.registers`) whenever the kernel has them in hand: always, unless the task
    runs on a core (then `registers` fetches them). core: the core that it is loaded on, or None.
    """

    def __init__(self, tid: int, process: Process, context: bytes, affinity: int) -> None:
        self.tid, self.process = tid, process
        self.context: bytes | None = context
        self.affinity = affinity
        self.name = process.name
        #: The task that made this one, 0 for the first; and the stack pointer that it began with.
        self.parent, self.stack = 0, 0
        self.state = State.RUNNABLE
        self.core: int | None = None
        #: Reads the registers of the core that the task is loaded on.
        self.fetch: Callable[[], bytes] | None = None
        #: The registers were replaced since the task last ran: a context header must say so.
        self.changed = False
        self.signals = TaskSignals()
        #: Nice value, policy and I/O priority (emu.linux.calls.priority), settings (emu.linux.calls.prctl).
        self.nice = self.policy = self.io_priority = 0
        self.settings: dict[int, int] = {}
        self.clear_child_tid = 0
        self.robust_list = 0
        #: The blocking system call that the task is in, what it waits for, and why that ended.
        self.call: Blocking | None = None
        self.call_number = -1
        self.interruption: Interruption | None = None
        self.wait: Wait | None = None
        self.reason: Reason | None = None
        #: Cycles that it has run, for its CPU clock.
        self.cycles = 0
        #: It stands before a shared event that has been counted.
        self.at_event = False
        #: Its next shared event has been counted, and is still to come.
        self.ahead = False
        #: It gives its core up at the next chance.
        self.yields = False
        self.on_runnable: Callable[[Task], None] = lambda task: None

    @property
    def registers(self) -> bytes:
        """All registers, as `Isa.registers` lays them out."""
        if self.context is None:
            assert self.fetch is not None
            self.context = self.fetch()
        return self.context

    def set_registers(self, context: bytes) -> None:
        """Replace all registers: the task goes on from there."""
        self.context = context
        self.changed = True

    def inherit(self, parent: Task) -> None:
        """What a new thread takes over: clone(2), prctl(2)."""
        self.nice, self.io_priority = parent.nice, parent.io_priority
        self.policy = 0 if parent.policy & _RESET_ON_FORK else parent.policy
        self.settings = {which: parent.settings[which] for which in _INHERITED if which in parent.settings}

    def begin_wait(self, wait: Wait) -> None:
        """Wait in all queues of `wait`."""
        self.state, self.wait, self.reason = State.BLOCKED, wait, None
        for queue in wait.queues:
            queue.add(self)

    def end_wait(self, reason: Reason) -> None:
        """The wait is over, for the first reason given."""
        if self.state is not State.BLOCKED:
            return
        assert self.wait is not None
        for queue in self.wait.queues:
            queue.remove(self)
        self.state, self.reason = State.RUNNABLE, reason
        self.on_runnable(self)
