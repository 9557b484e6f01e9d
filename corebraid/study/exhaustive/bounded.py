"""Each execution with a bounded number of preemptions: a search through beginnings of runs, each known once.

A preemption is a switch away from a task that could go on (Musuvathi, Qadeer, "Iterative context bounding",
PLDI 2007). Partial-order reduction as of `explorer` would leave out runs whose equals have more preemptions.
So every switch is tried, but where a beginning is equivalent to one that was seen, with the same task about
to go on and no fewer preemptions left, nothing new comes of it (Musuvathi, Qadeer, "Partial-order reduction
for context-bounded state exploration", 2007). Runs with fewer preemptions come first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from corebraid.study.exhaustive.explorer import Run, different
from corebraid.study.exhaustive.steps import Execution, Plan
from corebraid.study.exhaustive.trace import Trace

_WHOLE = 1 << 128


class BoundedExplorer:
    """Runs one after the other until all executions with at most `preemptions` were made. run: makes them."""

    def __init__(self, run: Run, preemptions: int) -> None:
        self._run, self._bound = run, preemptions
        #: What is yet to be tried, by its preemptions.
        self._open: list[deque[tuple[int, ...]]] = [deque() for _ in range(preemptions + 1)]
        #: Beginnings that were seen, with who went on: with how many preemptions at least.
        self._seen: dict[tuple[int, int], int] = {}

    @property
    def open(self) -> int:
        """Branches that are yet to be tried, as far as is known."""
        return sum(map(len, self._open))

    def explore(self) -> Iterator[tuple[Execution, Trace]]:
        """All executions; some are made several times, in other orders of steps that commute."""
        self._open[0].append(())
        while (tasks := self._next()) is not None:
            execution = self._run(Plan(tasks, max(0, len(tasks) - 1)))
            if tuple(step.task for step in execution.steps[: len(tasks)]) != tasks:
                raise different(len(tasks) - 1)
            trace = Trace(execution.steps)
            self._branch(execution, trace, len(tasks))
            yield execution, trace

    def _next(self) -> tuple[int, ...] | None:
        return next((waiting.pop() for waiting in self._open if waiting), None)

    def _branch(self, execution: Execution, trace: Trace, known: int) -> None:
        """Note where others could have gone on. known: steps that were asked for."""
        beginning, used, last = 0, 0, None
        tasks = tuple(step.task for step in execution.steps)
        for index, part in enumerate(trace.parts()):
            enabled, task = execution.enabled[index], tasks[index]
            for other in enabled:
                cost = used + (last in enabled and other != last)
                fits = index >= known and cost <= self._bound
                if fits and self._is_new(beginning, other, cost) and other != task:
                    self._open[cost].append((*tasks[:index], other))
            used += last in enabled and task != last
            beginning, last = (beginning + part) % _WHOLE, task

    def _is_new(self, beginning: int, task: int, cost: int) -> bool:
        key = beginning, task
        if self._seen.get(key, cost + 1) <= cost:
            return False
        self._seen[key] = cost
        return True
