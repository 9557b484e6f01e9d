"""Runs of one process that puts its machine back: those that are forked."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from runs_told import Told, without_any

from corebraid.base.errors import UsageError
from corebraid.study import forked_runs, runs_again
from corebraid.study.attempts import Run, attempts
from corebraid.study.conditions import Condition
from corebraid.study.forked_runs import ForkedRuns
from corebraid.study.hunting import prepare
from corebraid.study.subjects import Asked, Subject, subject_of
from emu.snapshot import machine

LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"
#: Nothing that ends a hunt; so `printed` is told of no run.
NEVER = (Condition.parse("output~no program prints this"),)


def subject(name: str, **options: Any) -> Subject:
    return prepare(subject_of(Asked(str(LINUX / name), schedule="chaos", **options)))


def made(of: Subject, n: int, schedule: str = "mixed") -> list[Run]:
    with closing(ForkedRuns(of, NEVER, 1)) as runs:
        found = list(runs.each(attempts(n, 3, schedule, apart=True)))
    return sorted(found, key=lambda run: run.attempt.number)


SOAKED = """
barriers bug_aba cancellation clocks condvars deadlock_sure dlopen_tls double_map files float_math futex_raw
histogram mmap_play mutexes pi_mutexes pipes_poll ray_tracer robust segv_handler semaphores signal_waits
signalfds spinlocks splices static_pie_threads thread_local threads64 timers good_cache
"""
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("mixed", {}),
    ("random", {"model": "tso"}),
    ("mixed", {"cache": "1k:2:64"}),
]
WAYS = [
    ("bug_cache", "mixed", {}),
    ("jit", "random", {}),
    ("sockets", "mixed", {"cores": 2}),
    ("rwlocks", "mixed", {"model": "tso"}),
    *(
        pytest.param(name, schedule, options, marks=pytest.mark.soak)
        for name in SOAKED.split()
        for schedule, options in OPTIONS
    ),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "schedule", "options"), WAYS, ids=str)
def test_each_run_is_the_one_that_is_forked(
    name: str, schedule: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, told = subject(name, **options), Told(tmp_path / "told", monkeypatch)
    runs = made(of, 6, schedule)
    assert told.words().count("same") == 5
    assert {"other", "ended", "forked"}.isdisjoint(told.words())
    assert len({str(run.manifest.instructions) for run in runs}) > (name not in ("jit", "float_math"))


def test_runs_are_forked_at_first_and_compared_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(tmp_path / "told", monkeypatch, always=False)
    made(subject("good_counter"), 22)
    words = told.words()
    assert words[:4] == ["forked"] * 4
    assert (words.count("again"), words.count("same")) == (18, 4)
    assert words[4:9] == ["again", "again", "same", "again", "again"]


def test_a_machine_that_is_not_put_back_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = subject("good_counter")
    right = made(of, 3)
    told = Told(tmp_path / "told", monkeypatch)
    monkeypatch.setattr(machine.SavedObjects, "restore", lambda _: None)
    assert made(of, 3) == right
    words = told.words()
    assert words.count("ended") == 1
    assert "same" not in words
    assert words[-1] == "forked"


def test_one_that_is_killed_or_has_none_is_missed_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = subject("good_counter")
    right = made(of, 3)
    told = Told(tmp_path / "told", monkeypatch)
    for _ in without_any():
        assert made(of, 3) == right
    assert told.words().count("ended") == 2


def test_what_a_run_raises_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    of = subject("good_counter")
    monkeypatch.setattr(runs_again, "FORKED_FIRST", 0)

    def refuse(*_: object) -> Run:
        raise UsageError("no")

    monkeypatch.setattr(forked_runs, "judged", refuse)
    with pytest.raises(UsageError, match="no"):
        made(of, 2)
