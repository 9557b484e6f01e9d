"""Which runs a hunt plans by what those before have seen."""

from __future__ import annotations

from typing import Any

from corebraid.study.attempts import Attempt, Run, attempts
from corebraid.study.course import Course
from corebraid.study.covering.encounters import Chance, Encounters, Sites
from corebraid.study.covering.planning import GENERATION, Base, Planner
from emu.schedule.noting import Stay
from emu.schedule.switches import PREFIX, Switch, switches_of

#: 7 makes 5 events, 8 makes 9, 7 makes 2 more.
COURSE = Course((Stay(7, 0, 0, 1, 5, 1, True, True), Stay(8, 1, 0, 1, 9, 1, False, False),
                 Stay(7, 0, 1, 2, 7, 2, False, False)), first=7)  # fmt: skip
#: 7 runs alone, for long.
ALONE = Course((Stay(7, 0, 0, 1, 1000, 1, False, True),), first=7)
NOTHING = Encounters(frozenset(), {})


def ran(tried: Attempt, met: Encounters, course: Course) -> Run:
    nothing: Any = None
    return Run(tried, nothing, "", (), course=course, encounters=met)


def played(planner: Planner, *met: Encounters, course: Course = ALONE) -> list[Attempt]:
    """All runs of a hunt, of which the n-th sees what is given for it, others nothing."""
    made: list[Attempt] = []
    while generation := planner.generation():
        assert len(generation) <= GENERATION
        made += generation
        for tried in generation:
            seen = met[tried.number] if tried.number < len(met) else NOTHING
            planner.learn(ran(tried, seen, course))
    return made


def aimed(made: list[Attempt]) -> list[Attempt]:
    return [one for one in made if one.schedule.startswith(PREFIX)]


def order(k: int) -> Sites:
    """Of accesses that no other order has."""
    return (1, 100 + k, 2, 200 + k)


def offering(*numbers: int, guarded: bool = False) -> Encounters:
    """A run in which these orders could be tried, the k-th before the event k of task 7."""
    return Encounters(frozenset(), {order(k): [Chance(guarded, 7, k, 8, 9)] for k in numbers})


def shown(number: int) -> Encounters:
    """A run that has this order."""
    return Encounters(frozenset({order(number)}), {})


def test_while_nothing_is_seen_runs_are_those_of_mixed_and_one_without_preemptions() -> None:
    made = played(Planner(30, 5))
    assert [one.number for one in made] == list(range(30))
    assert made[1].schedule == f"{PREFIX}none"
    fresh = [one for one in made if one is not made[1]]
    assert [(one.schedule, one.schedule_seed) for one in fresh] == [
        (one.schedule, one.schedule_seed) for one in attempts(29, 5, "mixed", apart=True, plain=False)
    ]
    assert {one.seed for one in made} == {5}
    assert all(one.noted and one.seeing for one in made)


def test_an_order_that_could_be_tried_is() -> None:
    made = aimed(played(Planner(40, 0), offering(1)))
    # The first generation, of two, is planned before anything is known.
    assert [one.number for one in made] == list(range(1, 40, 2))
    ways = {tuple(switches_of(one.schedule)) for one in made[1:]}
    there, back = Switch(7, 1, 8), Switch(8, 10, 7)
    assert ways == {(there,), (there, back)}


def tried(*met: Encounters, runs: int, seed: int = 3) -> list[int]:
    """The orders that are tried, in turn."""
    return [switches_of(one.schedule)[0].at for one in aimed(played(Planner(runs, seed), *met))[1:]]


def test_orders_that_few_have_met_come_first() -> None:
    for seed in range(5):
        assert sorted(tried(offering(*range(1, 13)), runs=26, seed=seed)) == list(range(1, 13))
        # One of them was seen meanwhile.
        assert 2 not in tried(offering(1, 2, 3), shown(2), shown(2), shown(2), runs=14, seed=seed)


def test_what_a_lock_keeps_apart_comes_last() -> None:
    there = Encounters(frozenset(), offering(1, 2).chances | offering(3, 4, guarded=True).chances)
    assert set(tried(there, runs=60)) == {1, 2}
    assert set(tried(offering(3, 4, guarded=True), runs=60)) == {3, 4}


def test_contexts_of_one_place_do_not_crowd_out_others() -> None:
    """40 orders are of the same two places, one is of others."""
    many = {(k, 100, k, 200): [Chance(False, 7, 1, 8, 9)] for k in range(40)}
    there = Encounters(frozenset(), many | {(1, 101, 1, 201): [Chance(False, 7, 2, 8, 9)]})
    for seed in range(5):
        assert tried(there, runs=60, seed=seed).count(2) > 5


def test_plans_follow_from_the_seed_and_what_was_seen() -> None:
    there = offering(*range(1, 31))
    assert tried(there, runs=60, seed=1) == tried(there, runs=60, seed=1)
    assert tried(there, runs=60, seed=1) != tried(there, runs=60, seed=2)


def test_generations_grow_up_to_the_largest() -> None:
    planner = Planner(31, 0)
    sizes = [len(planner.generation()) for _ in range(8)]
    assert sizes == [2, 2, 4, GENERATION, GENERATION, 7, 0, 0]


def test_a_run_goes_the_way_of_another_up_to_the_access() -> None:
    # Before 8 makes its 6th, 7 makes its 7th; the run began with 7, which stopped before its 5th.
    assert Base(COURSE, 0).turned(Chance(False, 8, 6, 7, 7), returns=True) == [
        Switch(7, 5, 8), Switch(8, 6, 7), Switch(7, 8, 8)
    ]  # fmt: skip
    assert Base(COURSE, 0).turned(Chance(False, 8, 6, 7, 7), returns=False) == [
        Switch(7, 5, 8),
        Switch(8, 6, 7),
    ]
    # Of 7 the 5th happens only when it goes on, and nothing was listed before.
    assert Base(COURSE, 0).turned(Chance(False, 7, 3, 8, 2), returns=True) == [
        Switch(7, 3, 8),
        Switch(8, 3, 7),
    ]


def test_a_run_whose_way_is_too_long_is_not_begun_again(monkeypatch: Any) -> None:
    from corebraid.study.covering import planning

    monkeypatch.setattr(planning, "_MOST_SWITCHES", 0)
    there = Encounters(
        frozenset(), {order(1): [Chance(False, 8, 6, 7, 7)], order(2): [Chance(False, 7, 3, 8, 2)]}
    )
    made = aimed(played(Planner(40, 0), there, course=COURSE))[1:]
    assert {switches_of(one.schedule)[0] for one in made} == {Switch(7, 3, 8)}


def test_a_run_that_saw_nothing_is_no_error() -> None:
    planner = Planner(1, 0)
    (tried,) = planner.generation()
    nothing: Any = None
    assert planner.learn(Run(tried, nothing, "", ())) == 0
    assert planner.generation() == []


def test_runs_as_which_none_will_begin_are_let_go() -> None:
    """Or a hunt of many runs would hold the course of each."""
    planner = Planner(400, 0)
    played(planner, offering(1, 2), offering(3))
    planner.generation()
    assert set(planner._runs_made) == {0, 1}
