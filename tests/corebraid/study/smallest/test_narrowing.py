"""Narrowed preemptions, over tiny programs that one order of accesses, which is known, makes fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from corebraid.study.course import Course
from corebraid.study.smallest.narrowing import Instruction, Narrowing, Window
from corebraid.study.smallest.trials import OutOfTimeError
from corebraid.study.smallest.turned import passes, spread, turned, with_switch
from emu.schedule.noting import Noting, merged
from emu.schedule.switches import Switch, Switches

WAY: Any = "so"
Order = list[tuple[int, int]]
#: Of what ran, in order, whether that fails.
Fails = Callable[[Order], bool]


@dataclass
class Tiny:
    """Trials of a program of which each task has so many instructions, all of them accesses. events: of
    which tasks which are shared events. most: runs."""

    lengths: dict[int, int]
    fails: Fails
    events: frozenset[tuple[int, int]] = frozenset()
    most: int = 10_000
    known: dict[tuple[Switch, ...], Any] = field(default_factory=dict)

    def one(self, switches: Sequence[Switch]) -> Any:
        listed = tuple(switches)
        if listed not in self.known:
            if len(self.known) >= self.most:
                raise OutOfTimeError
            order, course = self._run(listed)
            way = WAY if self.fails(order) else None
            run = SimpleNamespace(course=course, order=order, refused="")
            preemptions = len(course.preempting)
            self.known[listed] = SimpleNamespace(switches=listed, run=run, way=way, preemptions=preemptions)
        return self.known[listed]

    def each(self, schedules: Sequence[Sequence[Switch]]) -> Generator[Any, None, None]:
        yield from map(self.one, schedules)

    def first(self, schedules: Sequence[Sequence[Switch]], wanted: Callable[[Any], bool]) -> int | None:
        return next((k for k, one in enumerate(schedules) if wanted(self.one(one))), None)

    def _run(self, switches: tuple[Switch, ...]) -> tuple[Order, Course]:
        tasks = list(self.lengths)
        policy = Switches(switches)
        noting = Noting(policy)
        noting.take_over(tasks)
        counts, order, events = [0] * len(tasks), Order(), 0
        while runnable := [k for k, task in enumerate(tasks) if counts[k] < self.lengths[task]]:
            piece = noting.next(runnable, counts, events, tasks)
            task, left, made = tasks[piece.core], piece.length, 0
            while left and counts[piece.core] < self.lengths[task]:
                at = task, counts[piece.core]
                made += at in self.events
                if at in self.events and made == piece.events:
                    break
                order.append(at)
                counts[piece.core] += 1
                left -= 1
            events += made
            able = [k for k, task in enumerate(tasks) if counts[k] < self.lengths[task]]
            noting.ended(able, counts, events, tasks)
        stays = tuple(merged(noting.stays))
        return order, Course(stays, noting.first or 0, tuple(policy.fired), policy.impatient)


def windows(tiny: Tiny, *switches: Switch) -> list[Window]:
    """Of each preemption the first one."""
    return [window for every in all_windows(tiny, *switches) for window in every[:1]]


def all_windows(tiny: Tiny, *switches: Switch) -> list[list[Window]]:
    found = tiny.one(switches)
    assert found.way == WAY
    trials: Any = tiny
    return [list(every) for every in Narrowing(trials, found, lambda one: one.way == WAY).windows()]


def before(one: tuple[int, int], other: tuple[int, int]) -> Fails:
    return lambda order: order.index(one) < order.index(other)


@pytest.mark.parametrize("seed", range(30))
def test_an_order_of_two_accesses_is_found(seed: int) -> None:
    """Whatever else there is. Repeat with `pytest tests/corebraid/study/smallest -k two_accesses`."""
    rnd = random.Random(seed)
    lengths = {task: rnd.randrange(5, 400) for task in range(1, rnd.randrange(3, 5))}
    one, other = rnd.randrange(1, lengths[1]), rnd.randrange(lengths[2])
    events = frozenset((task, at) for task in lengths for at in range(lengths[task]) if rnd.random() < 0.2)
    tiny = Tiny(lengths, before((2, other), (1, one)), events)
    (window,) = windows(tiny, Switch(1, rnd.randrange(one + 1), 2, by_instructions=True))
    assert (window.between, window.late) == (Instruction(2, other), Instruction(1, one))
    assert window.early is None
    order = window.narrow.run.order  # type: ignore[attr-defined]
    assert order.index((1, one)) == order.index((2, other)) + 1


@pytest.mark.parametrize("seed", range(30))
def test_what_must_come_before_is_found_too(seed: int) -> None:
    """An access of another between two of a thread."""
    rnd = random.Random(seed)
    lengths = {1: rnd.randrange(20, 400), 2: rnd.randrange(5, 400), 3: rnd.randrange(5, 50)}
    first, last = sorted(rnd.sample(range(lengths[1]), 2))
    other = rnd.randrange(lengths[2])

    def fails(order: Order) -> bool:
        return order.index((1, first)) < order.index((2, other)) < order.index((1, last))

    (window,) = windows(Tiny(lengths, fails), Switch(1, rnd.randrange(first + 1, last + 1), 2, True))
    assert window.early == Instruction(1, first)
    assert (window.between, window.late) == (Instruction(2, other), Instruction(1, last))


@pytest.mark.parametrize("seed", range(20))
def test_of_two_preemptions_each_is_narrowed(seed: int) -> None:
    """The last one first; the second one in the way of the first one's return."""
    rnd = random.Random(seed)
    lengths = {1: 60, 2: 60, 3: 60}
    a, c = sorted(rnd.sample(range(1, 60), 2))
    b, d = sorted(rnd.sample(range(1, 60), 2))

    def fails(order: Order) -> bool:
        return before((2, b), (1, a))(order) and before((1, c), (2, d))(order)

    tiny = Tiny(lengths, fails)
    second, first = windows(tiny, Switch(1, a, 2, True), Switch(2, d, 1, True))
    assert (first.between, first.late) == (Instruction(2, b), Instruction(1, a))
    assert (second.between, second.late) == (Instruction(1, c), Instruction(2, d))


def test_what_comes_of_a_lock_is_passed_over() -> None:
    """Where a thread holds a lock others wait, so that it passes; further on it fails again."""
    lock = range(12, 28)

    def fails(order: Order) -> bool:
        done = order.index((2, 5))
        made = [at for task, at in order[:done] if task == 1]
        return len(made) <= 30 and len(made) not in lock

    events = frozenset((1, at) for at in range(0, 60, 3))
    ((window, nearer),) = all_windows(Tiny({1: 60, 2: 30}, fails, events), Switch(1, 10, 2, True))
    assert window.late == Instruction(1, 30)
    # Where that one says nothing the next one is what there is.
    assert nearer.late == Instruction(1, 11)
    assert window.between == nearer.between == Instruction(2, 5)


def test_of_a_thread_that_is_stopped_before_it_has_begun() -> None:
    """Where it may be later, that is told; where it may not, nothing is."""
    (window,) = windows(Tiny({1: 10, 2: 10}, before((2, 3), (1, 1))), Switch(1, 0, 2, True))
    assert (window.between, window.late) == (Instruction(2, 3), Instruction(1, 1))
    assert windows(Tiny({1: 10, 2: 10}, before((2, 3), (1, 0))), Switch(1, 0, 2, True)) == []


@pytest.mark.parametrize("most", range(1, 40))
def test_where_the_time_is_over_what_is_told_holds(most: int) -> None:
    for window in windows(Tiny({1: 90, 2: 90}, before((2, 40), (1, 50)), most=most), Switch(1, 7, 2, True)):
        assert (window.between, window.late) == (Instruction(2, 40), Instruction(1, 50))


@pytest.mark.parametrize("seed", range(20))
def test_of_what_fails_without_a_preemption_it_is_found_what_passes(seed: int) -> None:
    """The first task goes on to its end, and is too early."""
    rnd = random.Random(seed)
    lengths = {1: rnd.randrange(20, 300), 2: rnd.randrange(5, 300), 3: rnd.randrange(5, 30)}
    early, late = rnd.randrange(10, lengths[1]), rnd.randrange(lengths[2])
    events = frozenset((task, at) for task in lengths for at in range(0, lengths[task], 4))
    tiny = Tiny(lengths, before((1, early), (2, late)), events)
    trials: Any = tiny
    found = next(one for one in turned(trials, tiny.one(())) if one.switches[0].who == 1)
    assert passes(found)
    ((window,),) = Narrowing(trials, found, passes).windows()
    assert (window.between, window.late) == (Instruction(2, late), Instruction(1, early))


def test_nothing_is_found_where_nothing_passes() -> None:
    trials: Any = (tiny := Tiny({1: 30, 2: 30}, lambda order: True, frozenset({(1, 5), (1, 9)})))
    assert not list(turned(trials, tiny.one(())))


def test_of_what_each_task_does_as_much_is_tried() -> None:
    events = {1: 2000, 2: 3, 3: 500}
    every = [Switch(who, at, 4) for who, many in events.items() for at in range(1, many + 1)]
    some = spread(every)
    tried = {who: [one.at for one in some if one.who == who] for who in events}
    assert some == [one for one in every if one in some]
    assert tried[2] == [1, 2, 3]
    assert len(tried[1]) - len(tried[3]) in (0, 1)
    assert len(some) == 96
    for who in (1, 3):
        assert (tried[who][0], tried[who][-1] > 0.95 * events[who]) == (1, True)
    assert spread(every[:40]) == every[:40]


def test_a_switch_comes_before_those_of_its_task_that_are_due_later() -> None:
    some = (Switch(1, 4, 2), Switch(2, 7, 1), Switch(1, 9, 2))
    for at, place in ((2, 0), (4, 0), (5, 2), (12, 3)):
        listed = with_switch(some, one := Switch(1, at, 3))
        assert listed.index(one) == place
        assert [it for it in listed if it != one] == list(some)
