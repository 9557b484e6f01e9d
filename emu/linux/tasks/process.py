"""The process: what its tasks share. Each part does its own work; this only holds them together."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emu.linux.ground.clock import Clock
from emu.linux.ground.failure import Errno
from emu.linux.ground.guest_memory import GuestMemory
from emu.linux.ground.limits import RLIMIT_NPROC, Limits
from emu.linux.sockets.network import Network
from emu.linux.tasks.futex_locks import FutexLocks
from emu.linux.tasks.task import Task
from emu.linux.waiting.readiness import AnonymousInodes
from isa.abi import LinuxAbi
from isa.table import Isa

if TYPE_CHECKING:
    from emu.linux.files.descriptors import Descriptors
    from emu.linux.files.file_tree import FileTree
    from emu.linux.memory.address_space import AddressSpace
    from emu.linux.signals.of_process import ProcessSignals
    from emu.linux.signals.timers import Alarms
    from emu.linux.tasks.futex import Futexes


@dataclass
class Process:
    """One multi-threaded process.

    pid: 1000 + something from the seed. name: of the program, at most 15 bytes. executable: its path in the
    guest. random: of everything that the guest may see as random. n_cores: processors that it may ask for.
    tasks: by tid, the living ones. caller: the task whose call is served, or was last. exit_code: set once
    the whole process ends (128 + signal: killed). ended_cycles: what tasks that have ended ran. ids: user and
    group. ended_names: of tasks that have ended, as far as they had names of their own. on_new_task: told of
    every task that begins.
    """

    abi: LinuxAbi
    isa: Isa
    pid: int
    name: str
    executable: str
    arguments: tuple[bytes, ...]
    environment: tuple[bytes, ...]
    n_cores: int
    random: random.Random
    clock: Clock
    memory: GuestMemory
    space: AddressSpace
    filesystem: FileTree
    descriptors: Descriptors
    futexes: Futexes
    signals: ProcessSignals
    alarms: Alarms
    tasks: dict[int, Task] = field(default_factory=dict)
    caller: Task | None = None
    settings: dict[int, int] = field(default_factory=dict)
    exit_code: int | None = None
    killed_by: int = 0
    umask: int = 0o022
    memory_limit: int = 0
    anonymous_inodes: AnonymousInodes = field(default_factory=AnonymousInodes)
    futex_locks: FutexLocks = field(default_factory=FutexLocks)
    network: Network = field(default_factory=Network)
    ids: tuple[int, int] = (1000, 1000)
    limits: Limits = field(default_factory=Limits)
    ended_cycles: int = 0
    next_tid: int = 0
    ended_names: dict[int, str] = field(default_factory=dict)
    on_new_task: Callable[[Task], None] = lambda task: None

    def end(self, task: Task) -> None:
        """A task is no more."""
        del self.tasks[task.tid]
        if task.name != self.name:
            self.ended_names[task.tid] = task.name

    def own_names(self) -> dict[int, str]:
        """The last name of each task that has, or had, another one than the program, by tid."""
        living = {tid: task.name for tid, task in self.tasks.items() if task.name != self.name}
        return dict(sorted((self.ended_names | living).items()))

    def spawn(self, parent: Task, context: bytes) -> Task:
        """A new task that begins with these registers. Raises Errno(EAGAIN) when there are too many."""
        if len(self.tasks) >= self.limits.soft[RLIMIT_NPROC]:
            raise Errno(errno.EAGAIN)
        tid = self.next_tid
        self.next_tid += 1
        task = Task(tid, self, context, parent.affinity)
        task.name, task.parent = parent.name, parent.tid
        task.stack = self.isa.read(context, self.isa.stack_pointer)
        task.signals.inherit(parent.signals)
        task.inherit(parent)
        self.tasks[tid] = task
        self.on_new_task(task)
        return task
