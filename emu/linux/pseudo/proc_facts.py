"""What /proc and /sys tell of the process: asked for by them, answered by the kernel."""

from __future__ import annotations

from typing import Protocol

from emu.linux.files.open_file import OpenFile
from emu.linux.ground.clock import Clock


class ProcFacts(Protocol):
    """The process as it is now. Sizes in bytes, times in nanoseconds.

    executable: its path in the guest. n_cores: processors of the machine. memory_limit: what the machine
    claims to have.
    """

    pid: int
    executable: str
    n_cores: int
    memory_limit: int
    clock: Clock

    @property
    def umask(self) -> int:
        """The process's."""

    def current_tid(self) -> int:
        """The task whose system call is being served."""

    def tids(self) -> list[int]:
        """The living tasks, ascending."""

    def task_name(self, tid: int) -> str:
        """At most 15 bytes, the process's for its pid."""

    def task_state(self, tid: int) -> str:
        """ "R (running)" or "S (sleeping)"."""

    def task_affinity(self, tid: int) -> int:
        """Processors that it may run on, as a mask."""

    def rename_task(self, tid: int, name: str) -> None:
        """Its name is written through /proc/self/comm."""

    def cpu_time(self, tid: int | None) -> int:
        """Time that a task, or all together (None), have run."""

    def arguments(self) -> tuple[bytes, ...]:
        """The command line."""

    def environment(self) -> tuple[bytes, ...]:
        """The environment at the start."""

    def auxiliary_vector(self) -> bytes:
        """As it lies on the initial stack."""

    def maps(self) -> str:
        """The text of /proc/self/maps."""

    def memory_size(self) -> int:
        """Of all mappings."""

    def memory_used(self) -> int:
        """Of them what is in use."""

    def descriptors(self) -> list[tuple[int, OpenFile]]:
        """Open files by number, ascending."""

    def limits(self) -> str:
        """The text of /proc/self/limits."""

    def signal_lines(self, tid: int) -> str:
        """The lines SigQ to SigCgt of /proc/self/status, each with its newline."""

    def cpu_lines(self) -> str:
        """The lines of one processor in /proc/cpuinfo after `processor`, each with its newline."""
