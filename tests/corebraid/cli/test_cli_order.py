"""`corebraid order` with processes, interrupts and a cluster that is not there."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from cli_factory import record, run, start

from corebraid.cli.commands.order import _left_out
from solver.passes.results import Counts, RegionResult
from solver.regions.problem import DROPPED, LOSSES, TENURES, Verdict


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of uts with many regions."""
    path = tmp_path_factory.mktemp("order") / "rec"
    assert record(path, "uts", "--strata", "cycles:10000").code == 0
    return path


def test_two_processes_write_the_certificate_of_one(rec: Path) -> None:
    assert run("order", rec, "--jobs", 1).code == 0
    alone = (rec / "order.cert").read_bytes()
    ran = run("order", rec, "--jobs", 2, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["verdict"] == "legal"
    assert (rec / "order.cert").read_bytes() == alone
    assert run("check-order", rec).code == 0
    assert not (rec / "order.partial").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_leaves_finished_regions_and_nothing_else(rec: Path, jobs: int, tmp_path: Path) -> None:
    """Solved by z3 with the paper's formulas, the recording takes far longer than the test waits."""
    (rec / "order.cert").unlink(missing_ok=True)
    (rec / "order.partial").unlink(missing_ok=True)
    before = {path.name for path in rec.iterdir()}
    arguments = ("order", rec, "--engine", "smt", "--encoding", "paper", "--region-timeout", 600)
    process = start(*arguments, "--jobs", jobs, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not (rec / "order.partial").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == "corebraid: interrupted"
    assert {path.name for path in rec.iterdir()} == before | {"order.partial"}
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_cluster_that_is_not_there_is_one_line(rec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.passes.cluster._CONNECT_S", 1)
    (rec / "order.partial").unlink(missing_ok=True)
    ran = run("order", rec, "--cluster", "tcp://127.0.0.1:9")
    assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1), ran.err
    assert "cluster tcp://127.0.0.1:9: no scheduler answers" in ran.err
    assert run("order", rec, "--jobs", 0).code == 2


def test_what_regions_obey_that_contradict_losses_or_tenures_is_said() -> None:
    def result(number: int, reason: str) -> RegionResult:
        return RegionResult(number, Counts(0, 0, 0, 0, 0, 0), Verdict.LEGAL, "cut", 0.0, reason)

    fine = [result(number, "") for number in range(3)]
    assert _left_out(fine) == ""
    without = [result(number, DROPPED[LOSSES]) for number in range(3, 16)]
    alone = result(16, f"{DROPPED[TENURES]}; more")
    assert _left_out([*fine, *without[:2], alone]) == (
        "; of region 3, 4: values and tenures; of region 16: values alone"
    )
    assert _left_out(without).endswith("12 and 3 more: values and tenures")


def test_the_papers_formula_orders_a_recording_with_store_buffers(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    ran = record(path, "fig2", "--model", "tso", "--cores", 3, "--slice", 200, "--strata", "cycles:1000")
    assert ran.code == 0
    ran = run("order", path, "--engine", "smt", "--encoding", "paper", "--region-timeout", 60, "--json")
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)
    assert facts["verdict"] == "legal"
    assert "smt-paper" in {region["engine"] for region in facts["by_region"]}
    assert run("check-order", path).code == 0
