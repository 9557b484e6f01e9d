"""What /proc and /sys tell of the process (`ProcFacts`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import OpenFile
from emu.linux.ground.clock import CYCLE_NS, Clock
from emu.linux.memory.address_space import total_size
from emu.linux.tasks.task import State, Task

if TYPE_CHECKING:
    from emu.linux.tasks.process import Process


class Facts:
    """Facts of `process`, which is set once it exists. caller: the task whose call is being served."""

    process: Process

    def __init__(
        self, auxiliary: bytes, pid: int, executable: str, n_cores: int, memory: int, clock: Clock
    ) -> None:
        self._auxiliary = auxiliary
        self.pid, self.executable, self.n_cores, self.memory_limit = pid, executable, n_cores, memory
        self.clock = clock
        self.caller: Task | None = None

    @property
    def umask(self) -> int:
        """The process's."""
        return self.process.umask

    def current_tid(self) -> int:
        """The task whose system call is being served."""
        return self.caller.tid if self.caller else self.process.pid

    def tids(self) -> list[int]:
        """The living tasks, ascending."""
        return sorted(self.process.tasks)

    def task_name(self, tid: int) -> str:
        """At most 15 bytes."""
        task = self.process.tasks.get(tid)
        return task.name if task else self.process.name

    def task_state(self, tid: int) -> str:
        """As /proc/PID/status has it."""
        task = self.process.tasks.get(tid)
        running = task is not None and task.state is State.RUNNABLE
        return "R (running)" if running else "S (sleeping)"

    def task_affinity(self, tid: int) -> int:
        """Processors that it may run on, as a mask."""
        task = self.process.tasks.get(tid)
        return task.affinity if task else (1 << self.n_cores) - 1

    def rename_task(self, tid: int, name: str) -> None:
        """Its name is written through /proc/self/comm."""
        if tid in self.process.tasks:
            self.process.tasks[tid].name = name[:15]

    def used(self) -> int:
        """Time that all tasks have run, nanoseconds."""
        return self.cpu_time(None)

    def cpu_time(self, tid: int | None) -> int:
        """Time that a task, or all together (None), have run."""
        if tid is not None:
            task = self.process.tasks.get(tid)
            return task.cycles * CYCLE_NS if task else 0
        cycles = sum(task.cycles for task in self.process.tasks.values())
        return (cycles + self.process.ended_cycles) * CYCLE_NS

    def arguments(self) -> tuple[bytes, ...]:
        """The command line."""
        return self.process.arguments

    def environment(self) -> tuple[bytes, ...]:
        """The environment at the start."""
        return self.process.environment

    def auxiliary_vector(self) -> bytes:
        """As it lies on the initial stack."""
        return self._auxiliary

    def maps(self) -> str:
        """The text of /proc/self/maps."""
        return self.process.space.describe()

    def memory_size(self) -> int:
        """Of all mappings."""
        return total_size(self.process.space.mappings)

    def memory_used(self) -> int:
        """Of them what is in use."""
        return self.process.space.present_pages * PAGE_BYTES

    def descriptors(self) -> list[tuple[int, OpenFile]]:
        """Open files by number, ascending."""
        return self.process.descriptors.items()

    def limits(self) -> str:
        """The text of /proc/self/limits."""
        return self.process.limits.text()

    def signal_lines(self, tid: int) -> str:
        """The signal lines of /proc/self/status."""
        task = self.process.tasks.get(tid)
        return self.process.signals.status(task) if task else ""

    def cpu_lines(self) -> str:
        """The lines of one processor in /proc/cpuinfo."""
        return self.process.abi.cpu_lines
