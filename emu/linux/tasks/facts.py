"""What /proc and /sys tell of the process (`ProcFacts`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import OpenFile
from emu.linux.ground.clock import CYCLE_NS, Clock
from emu.linux.memory.mappings import total_size
from emu.linux.tasks.task import State, Task

if TYPE_CHECKING:
    from emu.linux.tasks.process import Process


class Facts:
    """Facts of `process`, which is set once it exists. caller: the task whose call is being served. asked:
    somebody has been told of what any task may change."""

    process: Process

    def __init__(
        self, auxiliary: bytes, pid: int, executable: str, n_cores: int, memory: int, clock: Clock
    ) -> None:
        self._auxiliary = auxiliary
        self.pid, self.executable, self.n_cores, self.memory_limit = pid, executable, n_cores, memory
        self.clock = clock
        self.caller: Task | None = None
        self.asked = False

    @property
    def umask(self) -> int:
        """The process's."""
        return self.process.umask

    def current_tid(self) -> int:
        """The task whose system call is being served."""
        return self.caller.tid if self.caller else self.process.pid

    def tids(self) -> list[int]:
        """The living tasks, ascending."""
        self.asked = True
        return sorted(self.process.tasks)

    def task_name(self, tid: int) -> str:
        """At most 15 bytes."""
        self.asked = True
        task = self.process.tasks.get(tid)
        return task.name if task else self.process.name

    def task_state(self, tid: int) -> str:
        """As /proc/PID/status has it."""
        self.asked = True
        task = self.process.tasks.get(tid)
        running = task is not None and task.state is State.RUNNABLE
        return "R (running)" if running else "S (sleeping)"

    def task_affinity(self, tid: int) -> int:
        """Processors that it may run on, as a mask."""
        self.asked = True
        task = self.process.tasks.get(tid)
        return task.affinity if task else (1 << self.n_cores) - 1

    def rename_task(self, tid: int, name: str) -> None:
        """Its name is written through /proc/self/comm."""
        self.asked = True
        if tid in self.process.tasks:
            self.process.tasks[tid].name = name[:15]

    def used(self) -> int:
        """Time that all tasks have run, nanoseconds."""
        cycles = sum(task.cycles for task in self.process.tasks.values())
        return (cycles + self.process.ended_cycles) * CYCLE_NS

    def cpu_time(self, tid: int | None) -> int:
        """Time that a task, or all together (None), have run."""
        self.asked = True
        if tid is None:
            return self.used()
        task = self.process.tasks.get(tid)
        return task.cycles * CYCLE_NS if task else 0

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
        self.asked = True
        return self.process.space.describe()

    def memory_size(self) -> int:
        """Of all mappings."""
        self.asked = True
        return total_size(self.process.space.mappings)

    def memory_used(self) -> int:
        """Of them what is in use."""
        self.asked = True
        return self.process.space.present_pages * PAGE_BYTES

    def descriptors(self) -> list[tuple[int, OpenFile]]:
        """Open files by number, ascending."""
        self.asked = True
        return self.process.descriptors.items()

    def limits(self) -> str:
        """The text of /proc/self/limits."""
        self.asked = True
        return self.process.limits.text()

    def signal_lines(self, tid: int) -> str:
        """The signal lines of /proc/self/status."""
        self.asked = True
        task = self.process.tasks.get(tid)
        return self.process.signals.status(task) if task else ""

    def cpu_lines(self) -> str:
        """The lines of one processor in /proc/cpuinfo."""
        return self.process.abi.cpu_lines
