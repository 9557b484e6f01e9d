"""Which task runs on which core. Same seed, same answers."""

from __future__ import annotations

import random
from collections.abc import Callable

from emu.linux.tasks.task import State, Task

#: Instructions after which a task may lose its core to one that waits: between these.
_QUANTUM = (10_000, 60_000)
#: The same where tasks are ranked.
_RANKED_QUANTUM = (50, 10_000)


class RunQueue:
    """Tasks that could run and have no core, in the order in which they came."""

    def __init__(self, n_cores: int, seed: int) -> None:
        self.reseed(seed)
        self._ready: list[Task] = []
        #: What runs on each core.
        self.current: list[Task | None] = [None] * n_cores
        self._since = [0] * n_cores
        self._quantum = [0] * n_cores
        #: Of tasks that want the same core those of the highest rank get it; None: they take turns.
        self.rank: Callable[[int], float] | None = None
        #: How often a task has become ready.
        self.arrivals = 0

    def reseed(self, seed: int) -> None:
        """From here on this seed decides."""
        self._random = random.Random(f"tasks/{seed}")

    def __len__(self) -> int:
        return len(self._ready)

    def put(self, task: Task) -> None:
        """A task could run from now on."""
        if task.core is None and task not in self._ready:
            self._ready.append(task)
            self.arrivals += 1

    def begin(self, core: int, task: Task, count: int) -> None:
        """The task runs on the core from instruction `count` on."""
        self.current[core], task.core = task, core
        span = _QUANTUM if self.rank is None else _RANKED_QUANTUM
        self._since[core], self._quantum[core] = count, self._random.randint(*span)

    def end(self, core: int) -> Task:
        """The core's task gives it up."""
        task = self.current[core]
        assert task is not None
        self.current[core], task.core = None, None
        task.yields = False
        return task

    def next_for(self, core: int) -> Task | None:
        """Take the task that is to run on an idle core: mostly the one that has waited longest."""
        if not self._ready:
            return None
        fit = [t for t in self._ready if t.affinity >> core & 1 and t.state is State.RUNNABLE]
        if not fit:
            return None
        if self.rank is not None:
            highest = max(self.rank(t.tid) for t in fit)
            fit = [t for t in fit if self.rank(t.tid) == highest]
        task = fit[0] if self._random.random() < 0.75 else self._random.choice(fit)
        self._ready.remove(task)
        return task

    def turns_end(self) -> list[int]:
        """At which instruction count of each core its task may have to give it up; 0: none waits for it."""
        if not self._ready:
            return [0] * len(self.current)
        return [since + quantum for since, quantum in zip(self._since, self._quantum, strict=True)]

    def must_yield(self, core: int, count: int) -> bool:
        """Whether the core's task has to give it up now."""
        task = self.current[core]
        assert task is not None
        if not task.affinity >> core & 1:
            return True
        if not self._ready:
            task.yields = False
            return False
        turn = task.yields or count - self._since[core] >= self._quantum[core]
        if self.rank is None and not turn:
            return False
        wanting = [other for other in self._ready if other.affinity >> core & 1]
        if not wanting:
            task.yields = False
            return False
        if self.rank is not None and self._has_room(wanting):
            return False
        return turn if self.rank is None else self._outranked(task, wanting, turn)

    def _has_room(self, wanting: list[Task]) -> bool:
        """Whether idle cores can take them all."""
        idle = [core for core, task in enumerate(self.current) if task is None]
        return len(wanting) <= len(idle) and all(any(t.affinity >> k & 1 for k in idle) for t in wanting)

    def _outranked(self, task: Task, wanting: list[Task], turn: bool) -> bool:
        """By rank: a higher one takes the core of the lowest; equal ones take turns."""
        assert self.rank is not None
        mine, best = self.rank(task.tid), max(self.rank(other.tid) for other in wanting)
        if best == mine or task.yields:
            return turn
        lowest = min(self.rank(other.tid) for other in self.current if other is not None)
        return best > mine == lowest
