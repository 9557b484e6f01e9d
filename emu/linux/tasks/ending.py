"""What a task that ends leaves to others (exit(2), set_tid_address(2), set_robust_list(2))."""

from __future__ import annotations

from contextlib import suppress

from emu.linux.ground.failure import Errno
from emu.linux.tasks.futex import release_robust_list
from emu.linux.tasks.process import Process
from emu.linux.tasks.task import Task


def let_go(process: Process, task: Task) -> None:
    """Let go of its locks, and wake who waits for its end."""
    release_robust_list(process.memory, process.futexes, task)
    process.futex_locks.release_all(task)
    if task.clear_child_tid:
        # As in Linux: nobody is told of a bad address.
        with suppress(Errno):
            process.memory.write_number(task.clear_child_tid, 4, 0)
            process.futexes.wake(task.clear_child_tid, 1)
