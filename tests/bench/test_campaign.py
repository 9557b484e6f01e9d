"""Every program, run wildly: short slices, finite caches, dense strata, under one of the two models; with
`-m soak` under both, and as `record` runs it. `make soak` is the long form (bench/soak.py, which says what
each recording is held to)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import IMAGES, Plan, expectations, run_plan

PROGRAMS = expectations().program_names()
_TAME = (("sc", 1), ("sc", 4), ("sc", 8), ("tso", 1))


def test_every_image_has_an_expectation() -> None:
    assert [name for name in PROGRAMS if not (IMAGES / f"{name}.elf").exists()] == []


#: Each program wildly under one of the models; under the other, and in other ways, in a long campaign.
_WAYS = (("sc", 2, True), ("tso", 3, True), *((model, cores, False) for model, cores in _TAME))
_CASES = [
    pytest.param(program, *way, marks=() if n == k % 2 else pytest.mark.soak)
    for k, program in enumerate(PROGRAMS)
    for n, way in enumerate(_WAYS)
]


@pytest.mark.parametrize(("program", "model", "cores", "wild"), _CASES)
@pytest.mark.soak
def test_program(program: str, model: str, cores: int, wild: bool, tmp_path: Path) -> None:
    plan = Plan.wild(program, cores, 1, model) if wild else Plan(program, cores, 1, model=model)
    print(plan)
    found = run_plan(plan, tmp_path / "rec", timeout_s=10.0)
    print(found)
    assert found.cores == cores
    assert found.regions_illegal == 0
