"""Every program, on 1, 2, 4 and 8 cores, as `record` runs it and wildly: short slices, finite caches, dense
strata. `make soak` is the long form (bench/soak.py, which says what each recording is held to)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import IMAGES, Plan, expectations, run_plan

PROGRAMS = expectations().program_names()


def test_every_image_has_an_expectation() -> None:
    assert [name for name in PROGRAMS if not (IMAGES / f"{name}.elf").exists()] == []


@pytest.mark.parametrize(
    ("model", "cores"), [("sc", 1), ("sc", 2), ("sc", 4), ("sc", 8), ("tso", 1), ("tso", 3)]
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: str, model: str, cores: int, tmp_path: Path) -> None:
    plans = [Plan(program, cores, 1, model=model)]
    if cores < 8:
        plans.append(Plan.wild(program, cores, 1, model))
    for number, plan in enumerate(plans):
        print(plan)
        found = run_plan(plan, tmp_path / f"rec{number}", timeout_s=10.0)
        print(found)
        assert found.cores == cores
        assert found.regions_illegal == 0
