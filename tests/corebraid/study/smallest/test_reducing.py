"""The reducer alone, over runs that a table decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from corebraid.study.course import Course
from corebraid.study.smallest.reducing import Claim, Reducing
from emu.schedule.noting import Stay
from emu.schedule.switches import Fired, Switch

WAY: Any = "so"


class Table:
    """Trials of which `fails` says which lists fail; all switches take place, those to task 3 as choices."""

    def __init__(self, fails: Callable[[Sequence[Switch]], bool]) -> None:
        self.fails, self.runs, self.left, self.seconds_of_one = fails, 0, 60.0, 0.001

    def one(self, switches: Sequence[Switch]) -> Any:
        fired = tuple(Fired(k, 0, 0, one.to, one.to != 3) for k, one in enumerate(switches))
        run = SimpleNamespace(course=Course((), fired=fired))
        return SimpleNamespace(
            switches=tuple(switches), needed=tuple(switches), run=run,
            way=WAY if self.fails(switches) else None,
            preemptions=sum(one.preempting for one in fired),
        )  # fmt: skip

    def first(self, schedules: Sequence[Sequence[Switch]], wanted: Callable[[Any], bool]) -> int | None:
        self.runs += len(schedules)
        assert self.runs < 100_000
        return next((k for k, one in enumerate(schedules) if wanted(self.one(one))), None)


def course_of(tos: Sequence[int]) -> Course:
    """A course in which task 1 and others take turns."""
    stays = [Stay(1, 0, 0, 0, 5, 5, before=True, able=True)]
    for to in tos:
        stays += [Stay(to, 1, 0, 0, 5, 5, before=True, able=True)]
        stays += [Stay(1, 0, 0, 0, 5, 5, before=True, able=True)]
    return Course(tuple(stays), 1)


def reduced(tos: Sequence[int], fails: Callable[[Sequence[Switch]], bool]) -> Any:
    trials: Any = Table(fails)
    reducing = Reducing(trials, course_of(tos), WAY)
    reducing.run()
    return reducing.result()


@pytest.mark.parametrize("needed", [0, 1, 2])
def test_switches_that_are_alike_are_left_out_one_by_one(needed: int) -> None:
    """A list may hold one switch several times, some of them preemptions."""
    found = reduced([2, 3, 2, 2, 3, 2], lambda some: sum(one.to == 2 for one in some) >= needed)
    assert sum(one.to == 2 for one in found.switches) == needed
    assert len(found.switches) == needed
    assert found.claim is (Claim.NONE if not needed else found.claim)
    assert len(found.without) == needed


def test_nothing_fails_again() -> None:
    assert reduced([2, 3], lambda some: False) is None


def test_places_are_as_early_as_they_can_be() -> None:
    found = reduced([2], lambda some: any(one.to == 2 and one.at >= 3 for one in some))
    assert [one.at for one in found.switches] == [3]


def test_a_switch_before_which_nothing_ran_is_said_as_it_is() -> None:
    """No stay ends there, of which could be told by how many events that is."""
    found = reduced([2], lambda some: any(one.to == 2 and one.by_instructions for one in some))
    assert [(one.to, one.by_instructions) for one in found.switches] == [(2, True)]
