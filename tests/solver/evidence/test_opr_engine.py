"""The engine `opr` orders regions in which only members are in conflict, and leaves the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_factory import run
from opr_factory import recorded

from corebraid.base.errors import Contradiction
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.opr.engine import OprEngine
from solver.evidence.opr.order_log import OrderLog
from solver.passes.answers import Options
from solver.passes.order import order_recording
from solver.passes.results import OrderResult
from solver.regions.problem import Verdict


def ordered(recording: Recording, engine: OprEngine | None = None) -> OrderResult:
    """The recording as the engine orders it; the checker has passed what it did."""
    return order_recording(
        RecordingTraces(recording),
        recording.path / "order.cert",
        recording.manifest.id,
        Options("opr", evidence=engine or OprEngine.of(recording)),
    )


@pytest.mark.parametrize(
    "program",
    ["uts", "radix", "ring", "peterson", "spin_mcs", "spin_ticket", "bug_aba", "laplace", "primitives"],
)
@pytest.mark.parametrize("cores", [2, 4])
@pytest.mark.sampled(5)
def test_with_every_core_a_member_every_region_is_ordered(program: str, cores: int, tmp_path: Path) -> None:
    recording = recorded(program, tmp_path, cores, ",".join(map(str, range(cores))), longest_slice=60)
    assert ordered(recording).verdict is Verdict.LEGAL


def test_regions_with_puts_and_outsiders_are_left(tmp_path: Path) -> None:
    results = ordered(recorded("pgas_is", tmp_path, 3, "0,1,2")).regions
    assert {region.verdict for region in results} == {Verdict.LEGAL, Verdict.UNDECIDED}
    reasons = {region.reason for region in results if region.verdict is Verdict.UNDECIDED}
    assert reasons == {"no evidence"}
    assert ordered(recorded("uts", tmp_path, 3, "0,2")).verdict is Verdict.UNDECIDED


def test_patched_code_is_left_or_ordered(tmp_path: Path) -> None:
    result = ordered(recorded("smc", tmp_path, 2, "0,1", longest_slice=40))
    assert result.verdict in (Verdict.LEGAL, Verdict.UNDECIDED)


def test_wrong_orders_are_refused(tmp_path: Path) -> None:
    """The checker does not take the engine's word; or the orders have a cycle."""
    recording = recorded("spin_ticket", tmp_path, 3, "0,1,2", longest_slice=60)
    engine = OprEngine.of(recording)
    assert ordered(recording, engine).verdict is Verdict.LEGAL
    none = OrderLog([np.zeros(0, engine._waits.dtype) for _ in range(3)])
    with pytest.raises(Contradiction, match="region 0"):
        ordered(recording, OprEngine((0, 1, 2), none))


def test_the_command(tmp_path: Path) -> None:
    recording = recorded("ring", tmp_path, 2, "0,1")
    assert run("order", recording.path, "--engine", "opr").code == 0
    assert run("check-order", recording.path).code == 0
