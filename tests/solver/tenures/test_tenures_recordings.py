"""What tenures prove of real recordings is true of what ran, and orders that obey it are legal and closer to
it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE, ROOT, record, run

from bench import true_tenures
from bench.true_tenures import proved_edges
from corebraid.base.errors import FormatError
from corebraid.study.certificates import traces_of
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.score import Score, score_certificate
from solver.sifting.strata import iter_regions

#: Name of the program, further options of `record`. All have shared lines.
FIRMWARES = [
    ("uts", ["--cores", 4, "--strata", "none"]),
    ("uts", ["--cores", 8, "--strata", "cycles:5000", "--slice", 300]),
    ("uts", ["--cores", 4, "--cache", "1k:2:64", "--slice", 30]),
    ("bug_aba", ["--cores", 8, "--strata", "none", "--seed", 3]),
    ("bug_lost_update", ["--cores", 4, "--cache", "512:1:16", "--slice", 60]),
    ("dma_race", ["--cores", 4, "--strata", "cycles:20000"]),
    ("spin_mcs", ["--cores", 4, "--schedule", "round-robin", "--slice", 40]),
    ("timer", ["--cores", 4, "--strata", "downgrades:50"]),
    ("smc", ["--cores", 4, "--slice", 100]),
    ("primitives", ["--cores", 4, "--cache", "512:1:16", "--slice", 50]),
    ("pgas_uts", ["--cores", 4]),
    ("bug_aba", ["--cores", 4, "--strata", "cycles:3000", "--slice", 60]),
    ("dma_race", ["--cores", 4, "--slice", 80, "--cache", "1k:2:64"]),
    ("uts", ["--model", "tso", "--cores", 4, "--strata", "none"]),
    ("uts", ["--model", "tso", "--cores", 8, "--strata", "cycles:5000", "--slice", 30]),
    ("bug_aba", ["--model", "tso", "--cores", 4, "--cache", "1k:2:64", "--seed", 2]),
    ("bug_lost_update", ["--model", "tso", "--cores", 4, "--cache", "512:1:16", "--slice", 60]),
    ("dma_race", ["--model", "tso", "--cores", 4, "--strata", "cycles:20000", "--store-buffer", 2]),
    ("spin_ticket", ["--model", "tso", "--cores", 16, "--schedule", "round-robin", "--slice", 40]),
    ("timer", ["--model", "tso", "--cores", 4, "--strata", "downgrades:50", "--store-buffer", 64]),
    ("smc", ["--model", "tso", "--cores", 4, "--slice", 100]),
    ("primitives", ["--model", "tso", "--cores", 4, "--cache", "512:1:16", "--slice", 50]),
    ("rpc_strassen", ["--cores", 4, "--strata", "none", "--slice", 300]),
    ("rpc_strassen", ["--model", "tso", "--cores", 3, "--strata", "cycles:20000", "--slice", 300]),
]
LINUX = [
    ("mutexes", ["--cores", 3, "--strata", "cycles:50000"]),
    ("semaphores", ["--cores", 3, "--strata", "none"]),
    ("signals", ["--cores", 2, "--slice", 200]),
    ("rwlocks", ["--cores", 4, "--cache", "2k:2:64"]),
    ("mutexes", ["--model", "tso", "--cores", 3, "--strata", "cycles:50000"]),
    ("condvars", ["--model", "tso", "--cores", 4, "--strata", "none"]),
    ("signals", ["--model", "tso", "--cores", 2, "--slice", 200, "--cache", "2k:2:64"]),
    ("thread_order", ["--model", "tso", "--cores", 3]),
    # Where rights shrink the kernel waits for the stores of all cores.
    ("thread_order", ["--model", "tso", "--cores", 2, "--seed", 292, "--slice", 1000, "--strata", "none"]),
    # Pages are filled, written and given back; others share them.
    ("mmap_play", ["--cores", 3, "--slice", 400, "--seed", 3]),
    ("mmap_play", ["--model", "tso", "--cores", 3, "--slice", 400, "--strata", "none"]),
]


def true_edges(path: Path) -> int:
    """How many edges losses and tenures prove of a recording, all of which ran so."""
    recording = Recording.open(path)
    assert RecordingTraces(recording, constraints=LOSSES).has_losses
    edges, false = proved_edges(recording)
    assert not false
    return edges


@pytest.mark.parametrize(("name", "options"), FIRMWARES, ids=lambda value: "".join(map(str, value)))
@pytest.mark.sampled(3)
def test_what_is_deduced_of_firmware_is_true(name: str, options: list[object], tmp_path: Path) -> None:
    path = tmp_path / "rec"
    ran = run("record", "-o", path, *options, FIRMWARE / f"{name}.elf")
    assert ran.code == 0, ran.err
    assert true_edges(path) > 0


def test_an_edge_that_did_not_run_so_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rec"
    assert record(path, "uts", "--cores", 3).code == 0
    recording = Recording.open(path)
    backwards = [ranks.max(initial=0) - ranks for ranks in true_tenures.ranks_of(recording)]
    monkeypatch.setattr(true_tenures, "ranks_of", lambda *_: backwards)
    edges, false = proved_edges(recording)
    assert 0 < len(false) <= edges


@pytest.mark.parametrize(("name", "options"), LINUX, ids=lambda value: "".join(map(str, value)))
@pytest.mark.sampled(2)
def test_what_is_deduced_of_linux_programs_is_true(name: str, options: list[object], tmp_path: Path) -> None:
    path = tmp_path / "rec"
    ran = run("record", "-o", path, *options, "--", ROOT / "firmware" / "linux" / "x86_64" / name)
    assert ran.code == 0, ran.err
    assert true_edges(path) > 0


def scored(path: Path, *options: object) -> tuple[Score, dict[str, object]]:
    """The score of an order, and what `order --json` says."""
    ran = run("order", path, "--json", "--fresh", *options)
    assert ran.code == 0, ran.err
    opened = Recording.open(path)
    slices = ((r["stream"].astype(np.int64), r["end"].astype(np.uint64)) for r in iter_sealed_truth(opened))
    certificate = Certificate(path / "order.cert", opened.manifest.id)
    assert run("check-order", path).code == 0
    return score_certificate(traces_of(opened, certificate), certificate, slices), json.loads(ran.out)


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.soak
def test_orders_by_tenures_are_closer_to_what_ran_and_say_so(model: str, tmp_path: Path) -> None:
    path = tmp_path / "rec"
    asked = ("--model", model, "--bus", "mesi", "--cores", 8, "--strata", "cycles:100000")
    assert record(path, "uts", *asked).code == 0
    values, said = scored(path, "--constraints", "values")
    assert said["constraints"] == "values"
    tenures, said = scored(path, "--constraints", "tenures")
    assert said["constraints"] == "tenures"
    assert said["verdict"] == "legal"
    assert tenures.reads == values.reads
    assert tenures.other < values.other
    assert tenures.turned < values.turned
    text = run("order", path, "--constraints", "tenures")
    assert "constraints: values and tenures\n" in text.out
    assert json.loads(run("check-order", path, "--json").out)["constraints"] == "tenures"
    losses, said = scored(path)
    assert said["constraints"] == "losses"
    assert losses.other < tenures.other
    assert losses.turned < tenures.turned
    text = run("order", path)
    assert "constraints: values, tenures and losses\n" in text.out
    assert run("order", path, "--constraints", "values").code == 0
    assert json.loads(run("check-order", path, "--json").out)["constraints"] == "values"


@pytest.mark.parametrize("model", ["sc", "tso"])
def test_two_processes_deduce_what_one_does(model: str, tmp_path: Path) -> None:
    path = tmp_path / "rec"
    assert record(path, "bug_aba", "--model", model, "--cores", 4, "--strata", "cycles:5000").code == 0
    certificates = []
    for jobs in (1, 2):
        assert run("order", path, "--jobs", jobs, "--fresh").code == 0
        certificates.append((path / "order.cert").read_bytes())
    assert certificates[0] == certificates[1]


def test_a_recording_whose_values_leave_much_open_is_decided(tmp_path: Path) -> None:
    """By values alone a search gives up on it, or is lucky after long."""
    path = tmp_path / "rec"
    assert record(path, "bug_aba", "--cores", 16, "--strata", "none").code == 0
    _, said = scored(path, "--region-timeout", 60)
    assert said["verdict"] == "legal"


def test_damaged_records_are_named(tmp_path: Path) -> None:
    """Tenures read the cores' logs once more: damage there is found as ever."""
    path = tmp_path / "rec"
    assert record(path, "fig1", "--cores", 2).code == 0
    log = bytearray((path / "core-1.log").read_bytes())
    log[len(log) // 2] ^= 1
    (path / "core-1.log").write_bytes(log)
    with pytest.raises(FormatError, match=r"core-1\.log"):
        for _ in iter_regions(RecordingTraces(Recording.open(path), constraints=LOSSES)):
            pass
