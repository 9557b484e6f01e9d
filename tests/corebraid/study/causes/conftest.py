"""A lost update that was found and reduced; runs to compare with are made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_factory import ROOT

import corebraid
from corebraid.study.causes.passing import Comparison, Passed
from corebraid.study.findings import Hunted


@pytest.fixture(scope="package")
def small(tmp_path_factory: pytest.TempPathFactory) -> Hunted:
    """A lost update, reduced."""
    program = ROOT / "firmware" / "linux" / "x86_64" / "bug_lost_update"
    place = tmp_path_factory.mktemp("decisive") / "rec"
    return corebraid.hunt(program, place, explain=False, reduce_time=60.0, jobs=1)


@pytest.fixture(scope="package")
def runs_made() -> dict[Path, list[Passed]]:
    """By program; filled in by whoever compares first."""
    return {}


@pytest.fixture(autouse=True)
def _compared_once(monkeypatch: pytest.MonkeyPatch, runs_made: dict[Path, list[Passed]]) -> None:
    make = Comparison.runs

    def made(
        comparison: Comparison, recording: Path, done: Callable[[int], None], *, besides: bool
    ) -> list[Passed]:
        program = comparison.subject.program
        if program not in runs_made:
            runs_made[program] = make(comparison, recording, done, besides=besides)
        return runs_made[program]

    monkeypatch.setattr(Comparison, "runs", made)
