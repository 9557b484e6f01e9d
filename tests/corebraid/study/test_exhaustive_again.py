"""Searches whose runs one process makes, held against those whose runs are forked."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs_told import Told, without_any
from searching import searched
from step_programs import firmware_of, random_cores, search

from corebraid.study.exhaustive import forking
from corebraid.study.exhaustive.search import Searched
from corebraid.study.runs_again import Again
from emu.snapshot import machine


def forked(name: str, model: str) -> Searched:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Again, "begin", lambda _: None)
        return searched(name, model=model)[0]


RACES = [
    ("peterson", "sc"),
    ("bad_mcs", "sc"),
    ("sb+call", "tso"),
    *(
        pytest.param(name, model, marks=pytest.mark.soak)
        for name in ("dekker", "mcs", "philosophers", "treiber", "queue", "rendezvous", "iriw", "bad_queue")
        for model in ("sc", "tso")
    ),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "model"), RACES)
def test_each_run_is_the_one_that_is_forked(
    name: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = forked(name, model)
    told = Told(tmp_path / "told", monkeypatch)
    assert searched(name, model=model)[0] == right
    words = told.words()
    assert {"other", "ended", "forked"}.isdisjoint(words)
    assert words.count("same") == words.count("again") - 1 > 2


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.parametrize("seed", [3, *(pytest.param(n, marks=pytest.mark.soak) for n in range(100, 140))])
def test_so_are_those_of_firmware(
    seed: int, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = random_cores(seed)
    image = firmware_of(program, tmp_path / "image")
    told = Told(tmp_path / "told", monkeypatch)
    search(image, len(program), model=model)
    words = told.words()
    assert {"other", "ended", "forked"}.isdisjoint(words)
    assert words.count("same") == words.count("again") - 1 > 2


def test_a_machine_that_is_not_put_back_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = forked("peterson", "sc")
    told = Told(tmp_path / "told", monkeypatch)
    monkeypatch.setattr(machine.Arenas, "restore", lambda _: None)
    assert searched("peterson")[0] == right
    words = told.words()
    assert words.count("ended") == 1
    assert "same" not in words
    assert words[-1] == "forked"


def test_one_that_is_killed_or_has_none_is_missed_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = forked("peterson", "sc")
    told = Told(tmp_path / "told", monkeypatch)
    for _ in without_any():
        assert searched("peterson")[0] == right
    assert told.words().count("ended") == 2


def test_what_is_long_is_forked_and_leaves_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = forked("peterson", "sc")
    told = Told(tmp_path / "told", monkeypatch)
    monkeypatch.setattr(forking, "_SHORT", 4)
    assert searched("peterson")[0] == right
    words = told.words()
    assert 0 < words.count("again") < right.runs / 2
