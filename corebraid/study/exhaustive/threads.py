"""The threads of a Linux program, as tasks that make steps."""

from __future__ import annotations

from corebraid.study.exhaustive.calls import uses_of
from corebraid.study.exhaustive.tasks import Uses
from emu.linux.machine import LinuxMachine
from emu.linux.tasks.task import State
from emu.schedule.stepped import BUFFER, core_of, is_buffer
from recorder.files.collectors import Rows


class Threads:
    """See `Tasks`. machine: runs step by step."""

    def __init__(self, machine: LinuxMachine) -> None:
        assert machine.steps is not None
        self._machine, self._stepping = machine, machine.steps
        self.policy, self.doubts = machine.steps.policy, machine.steps.doubts
        self._brought, self._changed = machine.process.space.brought, machine.guest.filesystem.layer.changed
        self._brought.clear()
        self._changed.clear()

    def core_of(self, task: int) -> int:
        """The core that it keeps, or whose store buffer it is."""
        if is_buffer(task):
            return core_of(task)
        return self._machine.tasks().index(task)

    def stands_on(self, number: int) -> bool:
        """Whether it neither waits nor has ended."""
        return self._machine.queue.current[number] is not None

    def is_held(self, number: int) -> bool:
        """Whether it stands before a call that it has made."""
        return number in self._stepping.held

    def living(self) -> set[int]:
        """Those on cores, and store buffers that were not empty."""
        waiting, holding = self.policy.left
        current = enumerate(self._machine.queue.current)
        tasks = {task.tid for number, task in current if task is not None and number not in waiting}
        return tasks | {BUFFER + number for number in holding}

    def begin_step(self) -> None:
        """No call was served in it."""
        self._stepping.served = None

    def time_passed(self) -> bool:
        """It does when nobody can run."""
        passed, self._stepping.passed = self._stepping.passed, False
        return passed

    def awaits_time(self) -> bool:
        """Whether one waits with a time limit."""
        tasks = self._machine.process.tasks.values()
        blocked = (task.wait for task in tasks if task.state is State.BLOCKED)
        return any(wait is not None and wait.deadline is not None for wait in blocked)

    def uses(self, cores: Rows, agents: Rows) -> Uses:
        """Of the kernel: that of the call that was served."""
        served, process = self._stepping.served, self._machine.process
        if self._brought & self._changed:
            self.doubts.add("a file was changed that is mapped: when its pages are first used was not tried")
        if served is None:
            return Uses()
        task = process.tasks.get(served.tid)
        blocked = task is not None and task.wait is not None and task.state is State.BLOCKED
        uses = uses_of(
            served,
            blocked=blocked,
            last_but_main=process.pid not in process.tasks,
        )
        if served.name == "exit":
            # It wakes whoever waits where it leaves a mark.
            uses.keys |= {("futex", row["addr"].item()): True for row in agents if row["kind"] != 1}
        if process.space.has_shared_files:
            self.doubts.add("memory is shared with a file")
        uses.quiet = served.name == "sched_yield"
        return uses
