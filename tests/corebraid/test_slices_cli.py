"""Evidence `slices` from the command line: record, order, report; Figure 1 of the paper; bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE, record, refused, run

from bench.true_order import held_traces, in_true_order
from corebraid.base.rows.event import READ, WRITE
from corebraid.names.symbols import objects_of_elf
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay.traces import RecordingTraces
from solver.check.braid import braid
from solver.check.certificate import Certificate

EVIDENCE = "evidence-slices.log"


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lock that cores fight for, in short turns, with strata."""
    path = tmp_path_factory.mktemp("slices") / "rec"
    options = ("--cores", 3, "--slice", 60, "--strata", "cycles:2000", "--evidence", "slices")
    assert record(path, "spin_ticket", *options).code == 0
    return path


@pytest.fixture
def copy(rec: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(rec, tmp_path / "copy"))


# -- Figure 1 -------------------------------------------------------------------------------------------


def ordered_events(path: Path, name: str) -> tuple[Any, Any]:
    """All events in the engine's order, and in the one that ran."""
    opened = Recording.open(path)
    certificate = Certificate(path / name, opened.manifest.id)
    certified = [rows.copy() for rows, _ in braid(RecordingTraces(opened), certificate)]
    truth = np.concatenate(list(iter_sealed_truth(opened)))
    return np.concatenate(certified), in_true_order(held_traces(opened), truth)


def first_thread_wrote_3(events: Any, address: int) -> tuple[bool, int]:
    """Whether T1:3 (A = 3) comes before T2:2 (the last read of A by thread 2), and what that read."""
    here = events["addr"] == address
    write = np.flatnonzero(here & (events["core"] == 0) & (events["kind"] == WRITE) & (events["new"] == 3))
    reads = np.flatnonzero(here & (events["core"] == 1) & (events["kind"] == READ))
    return bool(write[0] < reads[-1]), int(events["old"][reads[-1]])


def test_figure_1_replays_in_the_order_that_ran(tmp_path: Path) -> None:
    """Not merely the same output: T1:3 and T2:2 in their real order, whichever that was."""
    image = FIRMWARE / "lightplay_fig1.elf"
    address = next(s.address for s in objects_of_elf(image.read_bytes()) if s.name == "A")
    seen = set()
    for seed in range(8):
        path = tmp_path / f"rec-{seed}"
        ran = record(
            path, "lightplay_fig1", "--cores", 2, "--seed", seed, "--slice", 600, "--evidence", "slices"
        )
        assert (ran.code, ran.out) == (0, "C = 5\n")
        assert run("order", path, "--engine", "slices").code == 0
        ours, real = (first_thread_wrote_3(events, address) for events in ordered_events(path, ORDER_CERT))
        assert ours == real, f"seed {seed}"
        assert real[1] == (3 if real[0] else 2)
        seen.add(real[0])
    assert seen == {True, False}, "both orders print 5, and both came up"


# -- order, slices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program", ["primitives", "radix", "dma_race", "timer", "smc", "peterson", "fault_null"]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_programs_are_ordered(tmp_path: Path, program: str, seed: int) -> None:
    """Locks, interrupts, DMA, self-modifying code, a fault: each order passes the checker."""
    path = tmp_path / "rec"
    options = (
        "--cores",
        3,
        "--seed",
        seed,
        "--slice",
        200,
        "--strata",
        "cycles:20000",
        "--evidence",
        "slices",
    )
    record(path, program, *options)
    ran = run("order", path, "--engine", "slices", "--json")
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)
    assert (facts["verdict"], facts["regions"]["undecided"]) == ("legal", 0)
    assert run("check-order", path).code == 0
    assert run("verify", path).code == 0


def test_the_report(rec: Path) -> None:
    ran = run("slices", rec, "--json")
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)
    assert facts["kept"] == sum(facts["how"].values())
    assert 0 < facts["kept"] <= facts["slices"]
    assert (facts["without_order"], facts["log_bytes"]) == ([], (rec / EVIDENCE).stat().st_size)
    assert facts["constraints"] >= facts["constraints_always"] > 0
    text = run("slices", rec)
    assert f"{facts['slices']:,} slices of 16 shared accesses; {facts['kept']:,} with a race" in text.out


@pytest.mark.parametrize("backend", ["cpu", "cut"])
def test_back_ends_report_the_same_orders(rec: Path, backend: str) -> None:
    auto, other = (
        json.loads(run("slices", rec, "--json", *more).out) for more in ((), ("--backend", backend))
    )
    assert auto["orders_found"] == other["orders_found"] > 0
    assert auto["constraints"] == other["constraints"]


def test_one_slice(rec: Path) -> None:
    shown = 0
    for number in range(json.loads(run("slices", rec, "--json").out)["entries"]):
        ran = run("slices", rec, "--slice", number, "--json")
        if ran.code == 2:
            refused(ran, "a slice without a race")
            continue
        facts = json.loads(ran.out)
        events = [access["event"] for access in facts["accesses"]]
        for constraint in facts["constraints"]:
            assert events.index(constraint["first"]) < events.index(constraint["second"])
        text = run("slices", rec, "--slice", number)
        assert all(event in text.out for event in events)
        shown += 1
        if shown == 4:
            break
    assert shown == 4


def test_slices_of_more_than_18_accesses(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    options = ("--cores", 2, "--slice", 60, "--slice-accesses", 40, "--evidence", "slices")
    assert record(path, "spin_ticket", *options).code == 0
    assert run("order", path, "--engine", "slices").code == 0
    facts = json.loads(run("slices", path, "--json").out)
    assert facts["longest"] > 18
    assert facts["accesses_a_slice"] == 40
    refused(
        run("slices", path, "--backend", "cpu", "--limit", 4),
        "longer than the back end takes",
        "--backend cut",
    )


def test_the_evidence_decides_nothing_else(rec: Path, tmp_path: Path) -> None:
    """Another engine orders the same recording."""
    path = Path(shutil.copytree(rec, tmp_path / "rec"))
    assert run("order", path, "--engine", "cut").code == 0
    assert run("check-order", path).code == 0


# -- bad input ------------------------------------------------------------------------------------------


def test_no_evidence(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    assert record(path, "fig1", "--cores", 2).code == 0
    for command in (("order", path, "--engine", "slices"), ("slices", path)):
        refused(run(*command), "no evidence slices", "--evidence slices")


def test_damaged_evidence(copy: Path) -> None:
    raw = bytearray((copy / EVIDENCE).read_bytes())
    raw[len(raw) // 2] ^= 1
    (copy / EVIDENCE).write_bytes(raw)
    before = sorted(path.name for path in copy.iterdir())
    for command in (("order", copy, "--engine", "slices"), ("slices", copy)):
        refused(run(*command), EVIDENCE, "bad checksum")
    assert sorted(path.name for path in copy.iterdir()) == before
    assert run("verify", copy).code == 1


def test_missing_or_shortened_evidence(copy: Path) -> None:
    raw = (copy / EVIDENCE).read_bytes()
    (copy / EVIDENCE).write_bytes(raw[:-5])
    refused(run("slices", copy), EVIDENCE, "truncated")
    (copy / EVIDENCE).unlink()
    refused(run("slices", copy), EVIDENCE, "missing")


def test_evidence_of_another_recording(copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    options = ("--cores", 3, "--seed", 9, "--slice", 60, "--strata", "cycles:2000", "--evidence", "slices")
    assert record(other, "spin_ticket", *options).code == 0
    raw = (other / EVIDENCE).read_bytes()
    (copy / EVIDENCE).write_bytes(raw)
    refused(run("slices", copy), EVIDENCE)


def test_evidence_that_is_not_about_these_events(copy: Path, tmp_path: Path) -> None:
    """Even with headers that were forged to fit."""
    other = tmp_path / "other"
    options = ("--cores", 3, "--seed", 9, "--slice", 60, "--strata", "cycles:2000", "--evidence", "slices")
    assert record(other, "spin_ticket", *options).code == 0
    forge(other, copy)
    for command in (("order", copy, "--engine", "slices"), ("slices", copy)):
        ran = run(*command)
        assert (ran.code, len(ran.lines)) == (1, 1)
        assert "evidence slices, region" in ran.err
        assert "the evidence contradicts the replay" in ran.err


def forge(source: Path, target: Path) -> None:
    """Put the evidence of one recording into another, all checksums and sizes right."""
    from dataclasses import replace

    from recorder.files.frame import FileHeader, FrameWriter, iter_frames
    from recorder.files.writer import _write_manifest

    one, two = Recording.open(source), Recording.open(target)
    frames = list(iter_frames(source / EVIDENCE, FileHeader(9, 0, one.manifest.id, one.manifest.line)))
    (target / EVIDENCE).unlink()
    writer = FrameWriter(target / EVIDENCE, FileHeader(9, 0, two.manifest.id, two.manifest.line))
    for frame, raw in frames:
        writer.append(raw, frame.records, frame.first, frame.last)
    writer.close()
    files = {**two.manifest.files, EVIDENCE: writer.facts()}
    _write_manifest(target, replace(two.manifest, files=files))


@pytest.mark.parametrize("text", ["1", "257", "many"])
def test_slice_lengths_that_make_no_sense(tmp_path: Path, text: str) -> None:
    ran = record(tmp_path / "rec", "fig1", "--evidence", "slices", "--slice-accesses", text)
    refused(ran, "--slice-accesses")
    refused(
        record(tmp_path / "rec", "fig1", "--slice-accesses", 8), "--slice-accesses", "add --evidence slices"
    )
    assert not (tmp_path / "rec").exists()


def test_no_such_slice(rec: Path) -> None:
    refused(run("slices", rec, "--slice", 10**6), "no such slice")
    refused(run("slices", rec, "--slice", "-1"), "--slice")


def test_not_under_tso(tmp_path: Path) -> None:
    refused(record(tmp_path / "rec", "fig1", "--model", "tso", "--evidence", "slices"), "slices", "tso")


# -- executing what was found ----------------------------------------------------------------------------


def test_slices_are_executed(rec: Path) -> None:
    whole = json.loads(run("slices", rec, "--replay", "--json").out)
    done = whole["replayed"]
    assert done["slices"] + done["parted"] == sum(n for how, n in whole["how"].items() if how != "nothing")
    assert done["instructions"] > 50
    assert f"{done['instructions']:,} instructions executed" in run("slices", rec, "--replay").out
    assert json.loads(run("slices", rec, "--json").out)["replayed"] is None


def test_one_slice_is_executed_from_the_last_checkpoint_on(copy: Path) -> None:
    number = last_slice(copy)
    before = json.loads(run("slices", copy, "--slice", number, "--replay", "--json").out)["replayed"]
    assert run("checkpoint", copy, "--every", 500).code == 0
    after = json.loads(run("slices", copy, "--slice", number, "--replay", "--json").out)["replayed"]
    assert before["slices"] == after["slices"] == 1
    assert before["accesses"] == after["accesses"] > 1


def last_slice(path: Path) -> int:
    """The number of the last one with a race."""
    entries = json.loads(run("slices", path, "--json").out)["entries"]
    return next(k for k in range(entries - 1, -1, -1) if run("slices", path, "--slice", k).code == 0)


def test_of_no_slices_there_is_no_share(tmp_path: Path) -> None:
    program = FIRMWARE / "spin_ticket.elf"
    assert run("record", "-o", tmp_path / "one", "--cores", 1, "--evidence", "slices", program).code == 0
    out = run("slices", tmp_path / "one").out
    assert "racing accesses, - a slice" in out
    assert "needed fixing: -;" in out
    assert "in every legal order; - a slice" in out
