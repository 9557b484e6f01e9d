"""Wakeup trees: sequences of steps that are yet to be tried after one beginning of a run.

Source: Abdulla, Aronis, Jonsson, Sagonas, "Optimal dynamic partial order reduction" (POPL 2014), section 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corebraid.study.exhaustive.steps import Footprint, may_conflict
from corebraid.study.exhaustive.trace import Trace


@dataclass
class Branch:
    """A step that is to be made, and what after it. Of the last one of a sequence the footprint is what it
    was elsewhere."""

    task: int
    footprint: Footprint
    then: list[Branch] = field(default_factory=list)


@dataclass(frozen=True)
class Reversal:
    """The steps that make a race come the other way round: those of `trace` with these numbers, in order, the
    last of which is the race's second step; or, where `other` is given, that task's next step behind them."""

    trace: Trace
    steps: tuple[int, ...]
    other: tuple[int, Footprint] | None = None

    def planned(self) -> list[_Planned]:
        """In order."""
        steps = self.trace.steps
        found = [_Planned(steps[k].task, steps[k].footprint, k) for k in self.steps]
        if self.other is not None:
            found.append(_Planned(*self.other, -1))
        return found


@dataclass(frozen=True)
class _Planned:
    task: int
    footprint: Footprint
    index: int


def reversal(trace: Trace, first: int, second: int) -> Reversal:
    """Of the race (first, second): all that does not come after its first step, then its second."""
    return Reversal(trace, (*trace.not_after(first), second))


def is_begun(sleep: Mapping[int, Footprint], wanted: Reversal) -> bool:
    """Whether a task that sleeps could make the first of the steps: then what they lead to is known."""
    planned = wanted.planned()
    return any(
        _begins(planned, wanted.trace, task, footprint) is not None for task, footprint in sleep.items()
    )


def insert(tree: list[Branch], wanted: Reversal) -> bool:
    """Let the tree lead to the steps, in an equivalent order. Returns whether it had to grow."""
    planned = wanted.planned()
    while planned:
        for branch in tree:
            left = _begins(planned, wanted.trace, branch.task, branch.footprint)
            if left is not None:
                break
        else:
            for step in planned:
                tree.append(Branch(step.task, step.footprint))
                tree = tree[-1].then
            return True
        if not branch.then:
            return False
        planned, tree = left, branch.then
    return False


def _begins(
    planned: Sequence[_Planned], trace: Trace, task: int, footprint: Footprint
) -> list[_Planned] | None:
    """The steps that are left once the task has made its next one, if some equivalent order begins with that;
    None: no such order does."""
    for place, step in enumerate(planned):
        if step.task == task:
            alone = not any(_precedes(trace, planned[k], step) for k in range(place))
            return [*planned[:place], *planned[place + 1 :]] if alone else None
    if any(may_conflict(footprint, step.footprint) for step in planned):
        return None
    return list(planned)


def _precedes(trace: Trace, one: _Planned, other: _Planned) -> bool:
    """Whether one of two planned steps, which comes first, must."""
    if other.index >= 0 and trace.before(one.index, other.index):
        return True
    return may_conflict(one.footprint, other.footprint)
