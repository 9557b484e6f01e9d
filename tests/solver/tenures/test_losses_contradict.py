"""Losses that contradict the events: a region is ordered without them, and what is printed says so."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_factory import run
from losses_damage import rewrite
from losses_factory import firmware

from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.passes.answers import Options, answer
from solver.passes.partial import Partial
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import DROPPED, LOSSES, NOTHING, TENURES, Verdict


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return firmware(tmp_path_factory.mktemp("losses") / "rec", "uts", seed=1, longest_slice=500).path


@pytest.fixture(scope="module")
def contradicting(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every loss of core 2 stands half as far from its beginning as it was."""

    def earlier(rows: np.ndarray) -> None:
        rows["count"][rows["core"] == 2] //= 2

    path = Path(shutil.copytree(sound, tmp_path_factory.mktemp("contradicting") / "rec"))
    return rewrite(path, earlier).path


def _reasons(path: Path, *more: str) -> set[str | None]:
    told = run("order", path, "--json", *more)
    assert told.code == 0, told.err
    return {region["reason"] for region in json.loads(told.out)["by_region"]}


def test_an_order_says_that_it_was_found_without_losses(sound: Path, contradicting: Path) -> None:
    assert _reasons(sound) == {None}
    assert _reasons(contradicting) == {DROPPED[LOSSES]}
    assert DROPPED[LOSSES] in run("order", contradicting).out
    assert _reasons(contradicting, "--constraints", "tenures") == {None}


def test_without_losses_it_is_the_order_of_tenures(contradicting: Path) -> None:
    found = []
    for constraints in ("losses", "tenures"):
        _reasons(contradicting, "--constraints", constraints)
        opened = Recording.open(contradicting)
        blocks = Certificate(contradicting / "order.cert", opened.manifest.id).blocks()
        found.append([(block.region, block.stream.tolist(), block.rows.tolist()) for block in blocks])
    assert found[0] == found[1]


@pytest.mark.parametrize("dropped", [NOTHING, LOSSES, TENURES])
def test_a_kept_answer_still_says_so(dropped: int, contradicting: Path, tmp_path: Path) -> None:
    opened = Recording.open(contradicting)
    _, problem = next(iter(iter_problems(RecordingTraces(opened))))
    problem = replace(problem, dropped=dropped)
    kept = tmp_path / "order.partial"
    first = Partial(kept, opened.manifest.id, Options(), fresh=False)
    first.add(problem, answer(problem, Options()))
    first.close()
    again = Partial(kept, opened.manifest.id, Options(), fresh=False).find(problem)
    assert again is not None
    assert again.reason == DROPPED.get(dropped, "")
    assert again.verdict is Verdict.LEGAL
