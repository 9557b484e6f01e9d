"""`hunt --exhaustive --model tso` of Linux programs: all outcomes that x86-TSO allows, and no other; calls
are fences, first uses of pages are not."""

from __future__ import annotations

import pytest
from cli_factory import ROOT

from corebraid.study.conditions import Condition
from corebraid.study.exhaustive.forking import Made
from corebraid.study.exhaustive.search import Budget, Search, Searched
from corebraid.study.subjects import Asked, subject_of

RACES = ROOT / "firmware" / "linux" / "x86_64" / "small_races"


def searched(name: str, until: str = "deadlock", cores: int = 2) -> tuple[Searched, set[int | None]]:
    """A search under TSO, and the exit codes that it saw."""
    asked = Asked(str(RACES), (name,), cores=cores, schedule="chaos", evidence="none", model="tso")
    codes = set()

    class Noting(Search):
        def _failing(self, made: Made):  # type: ignore[no-untyped-def]
            if made.run is not None and made.run.manifest.end is not None:
                codes.add(made.run.manifest.end.exit_code)
            return super()._failing(made)

    conditions = (Condition.parse(until),)
    return Noting(subject_of(asked), conditions, None, Budget(), lambda made, left: None).run(), codes


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("sb", {0, 1, 2, 3}),
        ("sb+fence", {1, 2, 3}),
        ("sb+swap", {1, 2, 3}),
        ("sb+call", {1, 2, 3}),
        ("sb+page", {0, 1, 2, 3}),
        ("mp", {0, 1, 3}),
        ("lb", {0, 1, 2}),
        ("corr", {0, 1, 3}),
        ("2+2w", {1, 2, 3}),
        ("n6", {1, 2, 3, 6, 7}),
        ("leave", {0, 1, 2, 3}),
        ("doze+fence", {0}),
        pytest.param("sb+rfi", {0, 1, 2, 3}, marks=pytest.mark.soak),
    ],
)
def test_litmus_tests_have_the_outcomes_of_x86_tso(name: str, allowed: set[int]) -> None:
    found, codes = searched(name)
    assert found.all_right, found.unfinished
    assert codes == allowed


def test_who_waits_is_not_woken_by_a_store_that_is_buffered() -> None:
    found, _ = searched("doze")
    assert found.failing is not None


def test_locks_of_loads_and_stores_need_a_fence() -> None:
    assert searched("peterson", "exit!=0")[0].failing is not None
    assert searched("peterson+fence", "exit!=0")[0].all_right


def test_a_page_that_is_taken_while_stores_to_it_are_buffered_is_a_doubt() -> None:
    found, _ = searched("store_unmap")
    assert "a page was taken or protected" in found.unfinished
