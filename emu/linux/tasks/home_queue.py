"""Tasks with a core each, which they keep: nothing of where they run depends on the schedule."""

from __future__ import annotations

from emu.linux.ground.failure import Unsupported
from emu.linux.tasks.run_queue import RunQueue
from emu.linux.tasks.task import State, Task

#: Why a run in which every task has a core of its own cannot go on.
CROWDED = "more threads than cores, where each has its own"


class HomeQueue(RunQueue):
    """A run queue in which every task has a core of its own, the next one that none had before. It takes over
    what runs under another queue."""

    def __init__(self, before: RunQueue, tasks: list[Task]) -> None:
        super().__init__(len(before.current), 0)
        self.current, self.arrivals = before.current, before.arrivals
        self._homes: dict[int, int] = {}
        for task in sorted(tasks, key=lambda task: task.tid):
            if task.core is not None:
                self._homes[task.tid] = task.core
        for task in tasks:
            task.on_runnable = self.put
            if task.core is None and task.state is State.RUNNABLE:
                self.put(task)

    def put(self, task: Task) -> None:
        """Raises Unsupported where there are more tasks than cores."""
        if task.tid not in self._homes:
            free = [core for core in range(len(self.current)) if core not in self._homes.values()]
            if not free:
                raise Unsupported(CROWDED)
            self._homes[task.tid] = free[0]
        super().put(task)

    def next_for(self, core: int) -> Task | None:
        """The task that lives there."""
        for task in self._ready:
            if self._homes[task.tid] == core and task.state is State.RUNNABLE:
                self._ready.remove(task)
                return task
        return None

    def must_yield(self, core: int, count: int) -> bool:
        """Never."""
        task = self.current[core]
        assert task is not None
        task.yields = False
        return False
