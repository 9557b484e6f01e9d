"""Hand-made guests, each hostile in its own way, recorded under slices of 1 to 50 instructions that end
inside blocks, finite caches and dense strata; each recording is then held to all it promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from guest import (
    Code,
    run_many_ways,
)
from guest_bodies import (
    GUESTS,
    atomics_on_devices,
    build,
    helpers_and_devices,
)

from bench.soak import examine

#: Characters that each core prints: a device acts once, also when the instruction is taken back.
PRINTS = {atomics_on_devices: 3, helpers_and_devices: 4}


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(3)
def test_guest_is_recorded_replayed_and_ordered(body: Callable[[Code], None], tmp_path: Path) -> None:
    for run in run_many_ways(build(tmp_path, body), tmp_path, GUESTS[body], input=b"input", limit=200_000):
        print(run.path.name, run.outcome.end)
        assert run.outcome.end.reason == "power-off", run.outcome
        assert len(run.printed) == PRINTS.get(body, 0) * GUESTS[body]
        assert examine(run.path, timeout_s=5.0).regions_illegal == 0
