"""Each execution of a program once: optimal dynamic partial-order reduction.

Source: Abdulla, Aronis, Jonsson, Sagonas, "Optimal dynamic partial order reduction" (POPL 2014), algorithm 2.
The program is known by its runs alone: whoever makes them is asked for one whose first steps are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from corebraid.base.errors import CorebraidError
from corebraid.study.exhaustive.steps import UNKNOWN, Execution, Footprint, Plan, Step
from corebraid.study.exhaustive.trace import Trace, asleep_after
from corebraid.study.exhaustive.wakeup import Branch, Reversal, insert, is_begun, reversal

#: Makes a run.
Run = Callable[[Plan], Execution]


@dataclass
class _Node:
    """A beginning of the run. step: what was done next. sleep: see `Plan`. tree: what is yet to be tried."""

    step: Step
    enabled: tuple[int, ...]
    sleep: dict[int, Footprint]
    tree: list[Branch] = field(default_factory=list)


class Explorer:
    """Runs one after the other until all executions were made. run: makes them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._nodes: list[_Node] = []

    @property
    def open(self) -> int:
        """Branches that are yet to be tried, as far as is known."""
        return sum(len(node.tree) for node in self._nodes)

    def explore(self) -> Iterator[tuple[Execution, Trace]]:
        """All executions, each as it was made. Those that are not whole are further runs that the search had
        to make. Raises CorebraidError where a run did not do what one before it did."""
        plan, path = Plan(), list[Branch]()
        while True:
            execution = self._run(plan)
            self._check(plan, execution)
            self._extend(plan, path, execution)
            trace = Trace(execution.steps)
            self._reverse(trace, execution)
            yield execution, trace
            chosen = self._next()
            if chosen is None:
                return
            plan, path = chosen

    def _check(self, plan: Plan, execution: Execution) -> None:
        """What a run did at the places where one before it stood is what that did."""
        steps = execution.steps
        tasks = tuple(step.task for step in steps[: len(plan.tasks)])
        known = [(node.step, node.enabled) for node in self._nodes[: plan.branch]]
        found = list(zip(steps[: plan.branch], execution.enabled[: plan.branch], strict=True))
        if tasks != plan.tasks or known != found:
            raise different(
                next(
                    (k for k, pair in enumerate(zip(known, found, strict=False)) if pair[0] != pair[1]),
                    len(tasks),
                )
            )

    def _extend(self, plan: Plan, path: list[Branch], execution: Execution) -> None:
        """The nodes of the new run. path: the branches that it was asked to take, from `plan.branch` on."""
        sleep = dict(plan.sleep)
        for index in range(plan.branch, len(execution.steps)):
            step, taken = execution.steps[index], index - plan.branch
            if taken:
                tree = path[taken - 1].then[1:] if taken <= len(path) else []
                self._nodes.append(_Node(step, execution.enabled[index], sleep, tree))
            elif index < len(self._nodes):
                self._nodes[index].step = step
            else:
                self._nodes.append(_Node(step, execution.enabled[index], sleep))
            sleep = asleep_after(sleep, step)

    def _reverse(self, trace: Trace, execution: Execution) -> None:
        """Plan the other order of each race. A process that has ended leaves steps that others might have
        made before."""
        for first, second in trace.races:
            self._plan(first, reversal(trace, first, second))
        last = len(trace.steps) - 1
        for task in execution.left:
            self._plan(last, Reversal(trace, (), (task, UNKNOWN)))

    def _plan(self, index: int, wanted: Reversal) -> None:
        node = self._nodes[index]
        if not is_begun(node.sleep, wanted):
            insert(node.tree, wanted)

    def _next(self) -> tuple[Plan, list[Branch]] | None:
        """The next run: the deepest open branch, and the first of each after it."""
        while self._nodes:
            node = self._nodes[-1]
            node.sleep[node.step.task] = node.step.footprint
            if node.tree:
                break
            self._nodes.pop()
        else:
            return None
        path = [node.tree.pop(0)]
        while path[-1].then:
            path.append(path[-1].then[0])
        before = tuple(node.step.task for node in self._nodes[:-1])
        tasks = (*before, *(branch.task for branch in path))
        return Plan(tasks, len(before), dict(node.sleep)), path


def different(index: int) -> CorebraidError:
    """A run that did not do what its plan says, at this step."""
    return CorebraidError(
        "a run did not do what the same schedule did before: nothing is proven",
        where=f"step {index + 1}",
        remedy="take from the program what differs from run to run: the host's time, files that change",
    )
