"""The beam search and the long search by turns: neither waits for the other to come to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import corebraid
from bench.soak import IMAGES
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording
from solver.check.certificate import Certificate
from solver.engines.decide import _by_turns
from solver.passes import answers
from solver.regions.problem import Problem, Solution, Verdict, no_order


class Search:
    """Decides after so many seconds of its own (as a clock that it moves has them), or ends after others."""

    def __init__(self, clock: list[float], after: float, ends: float = 1e9) -> None:
        self.clock, self.left, self.ends, self.opened = clock, after, ends, 0

    def go_on(self, until: float, nodes: int = 0) -> str:
        given = min(max(until - self.clock[0], 0.01), self.left, self.ends)
        self.clock[0] += given
        self.left -= given
        self.ends -= given
        self.opened += 1
        return "" if self.left <= 0 else "budget" if self.ends <= 0 else "timeout"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [0.0]
    monkeypatch.setattr("solver.engines.decide.working_time", lambda: time[0])
    return time


@pytest.mark.parametrize("beam", [0.3, 5, 40, 1e9])
@pytest.mark.parametrize("long", [0.1, 1, 9, 1e9])
def test_what_one_finds_soon_is_found_soon(beam: float, long: float, clock: list[float]) -> None:
    """In a few times what it takes alone, and if neither does, at the end of the time."""
    searches = Search(clock, beam), Search(clock, long)
    found = _by_turns(*searches, (54.0, 60.0), 10**9, False)  # type: ignore[arg-type]
    if min(beam, long) > 60:
        assert found == (False, "timeout")
        assert 59.9 < clock[0] < 60.5
    else:
        assert clock[0] < 1 + min(3 * beam, 9 * long)
        assert found == (searches[0].left <= 0, "")


def test_where_one_is_at_its_end_the_other_has_all_of_the_time(clock: list[float]) -> None:
    assert _by_turns(Search(clock, 1e9, 2), Search(clock, 50), (54.0, 60.0), 10**9, False) == (False, "")  # type: ignore[arg-type]
    clock[0] = 0
    assert _by_turns(Search(clock, 50), Search(clock, 1e9, 2), (54.0, 60.0), 10**9, False) == (True, "")  # type: ignore[arg-type]


def test_where_the_number_of_cuts_counts_both_end(clock: list[float]) -> None:
    searches = Search(clock, 50), Search(clock, 1e9, 2)
    assert _by_turns(*searches, (54.0, 60.0), 10**9, True) == (False, "budget")  # type: ignore[arg-type]
    assert clock[0] < 15


def test_holds_that_take_too_many_cuts_are_not_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accesses are."""
    corebraid.record(IMAGES / "uts.elf", tmp_path / "rec", cores=4, slice=100, seed=3, limit=200_000)
    said: list[str] = []
    corebraid.order(tmp_path / "rec", jobs=1, note=lambda text: said.append(str(text)))
    assert not said
    recording = Recording.open(tmp_path / "rec")
    assert Certificate(recording.path / ORDER_CERT, recording.manifest.id).head.holds
    tried: list[tuple[int, int]] = []

    def brief(problem: Problem, **asked: Any) -> Solution:
        if not asked["bounded"]:
            return plain(problem, **asked)
        tried.append((problem.n_ops, asked["nodes"]))
        return Solution(Verdict.UNDECIDED, "projection", 1.0, no_order(), "budget")

    plain = answers.solve_auto
    monkeypatch.setattr(answers, "solve_auto", brief)
    corebraid.order(tmp_path / "rec", jobs=1, fresh=True, note=lambda text: said.append(str(text)))
    assert said == [
        "accesses to contested pages were ordered, not holds of pages: found no order within a number of cuts"
    ]
    assert all(n_ops > 1000 and nodes == 50_000 + 2 * n_ops for n_ops, nodes in tried)
    assert not Certificate(recording.path / ORDER_CERT, recording.manifest.id).head.holds
    assert corebraid.check_order(recording).events
