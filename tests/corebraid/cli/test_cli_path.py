"""The whole path on the command line: record, info, replay, order, check-order, trace, verify."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_factory import COUNT_UP, EXIT_7, FIRMWARE, FOREVER, HALT, elf, record, run, start

from recorder.files.frame import TRUTH as TRUTH_KIND
from recorder.files.frame import FileHeader, FrameWriter
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.files.truth import TRUTH, Encoder
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import REASONS, Certificate, CertificateWriter, Head

ECHO = FIRMWARE / "input_echo.elf"


def image(tmp_path: Path, code: bytes) -> Path:
    """A program of a few bytes of machine code."""
    path = tmp_path / "small.elf"
    path.write_bytes(elf(code))
    return path


# -- record ------------------------------------------------------------------------------------------


def test_the_guest_prints_to_stdout_and_we_to_stderr(tmp_path: Path) -> None:
    ran = record(tmp_path / "rec", "uts", "--cores", 2)
    assert (ran.code, ran.out) == (0, "uts: nodes 613\n")
    assert all(line.startswith("corebraid: ") for line in ran.lines)
    assert "guest exit code 0" in ran.err


def test_input_comes_from_stdin_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("from a file\n")
    assert run("record", "-o", tmp_path / "a", "--cores", 1, ECHO, stdin=b"hello\n").out == "HELLO\n"
    ran = record(tmp_path / "b", "input_echo", "--cores", 1, "--input", tmp_path / "text")
    assert ran.out == "FROM A FILE\n"
    assert run("record", "-o", tmp_path / "c", "--cores", 1, "--input", "-", ECHO, stdin=b"x").out == "X"


def test_json_follows_the_guests_output_on_a_line_of_its_own(tmp_path: Path) -> None:
    ran = run("record", "-o", tmp_path / "a", "--cores", 1, "--json", ECHO, stdin=b"no end of line")
    guest, _, facts = ran.out.partition("\n")
    assert guest == "NO END OF LINE"
    assert json.loads(facts)["end"] == {
        "reason": "power-off", "exit_code": 0, "core": 0,
        "count": json.loads(facts)["instructions"][0], "text": "",
    }  # fmt: skip


def test_output_goes_to_a_file_that_must_be_new(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = record(tmp_path / "a", "uts", "--cores", 2, "--json", "--output", out)
    assert out.read_bytes() == b"uts: nodes 613\n"
    assert json.loads(ran.out)["cores"] == 2
    ran = record(tmp_path / "b", "uts", "--output", out)
    assert (ran.code, len(ran.lines), (tmp_path / "b").exists()) == (2, 1, False)
    assert out.read_bytes() == b"uts: nodes 613\n"


def test_the_guests_exit_code_is_passed_only_when_asked_for(tmp_path: Path) -> None:
    program = image(tmp_path, EXIT_7)
    assert record(tmp_path / "a", program, "--cores", 1).code == 0
    assert record(tmp_path / "b", program, "--cores", 1, "--pass-exit-code").code == 7


@pytest.mark.parametrize(
    ("program", "function", "what"),
    [
        ("fault_null", "read_through_null", "not mapped"),
        ("fault_div", "divide_by_zero", "idiv"),
        ("fault_ud", "run_illegal_instruction", "illegal"),
        ("fault_unmapped", "write_beyond_memory", "not mapped"),
    ],
)
def test_a_fault_is_named_and_exits_with_3(tmp_path: Path, program: str, function: str, what: str) -> None:
    path = tmp_path / "rec"
    ran = record(path, program, "--cores", 2, "--json", "--pass-exit-code")
    assert ran.code == 3
    fault = json.loads(ran.out)["fault"]
    assert fault["core"] == 1
    assert fault["symbol"].startswith(function)
    line = ran.lines[-1]
    for part in (
        "core 1",
        f"instruction {fault['count']}",
        fault["pc"],
        function,
        fault["disassembly"],
        what,
    ):
        assert part in line
    assert run("verify", path).code == 0
    assert "fault" in run("info", path).out


def test_a_guest_whose_cores_all_halt_exits_with_3(tmp_path: Path) -> None:
    ran = record(tmp_path / "rec", image(tmp_path, HALT), "--cores", 2)
    assert ran.code == 3
    assert "every core waits" in ran.lines[-1]
    assert run("replay", tmp_path / "rec", "--all").code == 0


def test_a_limit_ends_the_recording_well(tmp_path: Path) -> None:
    ran = record(tmp_path / "rec", image(tmp_path, FOREVER), "--cores", 1, "--limit", 50_000)
    assert ran.code == 0
    assert "ended: limit" in ran.err
    assert run("verify", tmp_path / "rec").code == 0


def test_ctrl_c_leaves_a_recording_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    # Warms the kernel cache, so that the process below soon runs its guest.
    record(tmp_path / "warm", image(tmp_path, COUNT_UP), "--cores", 1, "--limit", 1000)
    process = start("record", "-o", path, "--cores", 1, image(tmp_path, COUNT_UP))
    deadline = time.monotonic() + 120
    while not (path / "core-0.log").exists() or (path / "core-0.log").stat().st_size < 100:
        assert time.monotonic() < deadline, "the recorder never wrote anything"
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert len(err.splitlines()) == 1
    info = run("info", path, "--json")
    assert json.loads(info.out)["complete"] is False
    assert "incomplete" in info.err
    replayed = run("replay", path, "--core", 0)
    assert replayed.code == 0, replayed.err
    assert "as far as it goes" in replayed.out
    assert run("verify", path).code == 0


# -- info --------------------------------------------------------------------------------------------


def test_info_gives_facts_in_a_stable_order(uts: Path) -> None:
    first, second = run("info", uts, "--json"), run("info", uts, "--json")
    assert first.out == second.out
    facts = json.loads(first.out)
    assert list(facts)[:5] == ["recording", "id", "complete", "isa", "program"]
    manifest = Recording.open(uts).manifest
    for core, row in enumerate(facts["cores"]):
        size = (uts / f"core-{core}.log").stat().st_size
        assert row["instructions"] == manifest.instructions[core]
        assert row["log_bytes"] == size
        assert row["log_bytes_per_1000_instructions"] == round(size * 1000 / row["instructions"], 3)
    assert facts["ordered"] is True
    assert "uts.elf" in run("info", uts).out


# -- replay ------------------------------------------------------------------------------------------


def test_one_core_replays_from_its_own_log_alone(copy_of_uts: Path) -> None:
    manifest = Recording.open(copy_of_uts).manifest
    for path in copy_of_uts.iterdir():
        if path.name not in ("manifest.json", "core-1.log"):
            path.unlink()
    ran = run("replay", copy_of_uts, "--core", 1, "--json")
    assert ran.code == 0
    (core,) = json.loads(ran.out)["cores"]
    assert core["bit_exact"]
    assert core["complete"]
    assert core["instructions"] == manifest.instructions[1]
    assert core["digests"] == core["strata"] + 1
    assert run("trace", copy_of_uts, "--core", 1, "--limit", 5).code == 0
    assert run("replay", copy_of_uts, "--core", 0).code == 2


def test_all_cores_replay_in_parallel_as_alone(uts: Path) -> None:
    parallel = run("replay", uts, "--all", "--jobs", 2, "--json")
    alone = run("replay", uts, "--all", "--jobs", 1, "--json")
    assert parallel.code == 0
    assert parallel.out == alone.out
    assert [core["core"] for core in json.loads(parallel.out)["cores"]] == [0, 1, 2]


def test_until_shows_the_registers_there(uts: Path) -> None:
    """At a count where an instruction stores a register, the register holds what the trace says."""
    rows = np.concatenate(list(RecordingTraces(Recording.open(uts)).chunks(0)))
    calls = [row for row in rows if row["kind"] == 2 and row["size"] == 8 and 100 < row["count"] < 20_000]
    assert calls
    checked = 0
    for row in calls[:: max(1, len(calls) // 5)]:
        facts = json.loads(run("replay", uts, "--core", 0, "--until", int(row["count"]), "--json").out)
        assert facts["count"] == row["count"]
        assert int(facts["pc"], 16) == row["pc"]
        if facts["disassembly"].startswith("push"):
            register = facts["disassembly"].split()[1]
            assert int(facts["registers"][register], 16) == row["new"]
            checked += 1
        elif facts["disassembly"].startswith("mov qword ptr ["):
            register = facts["disassembly"].split(", ")[1]
            if register in facts["registers"]:
                assert int(facts["registers"][register], 16) == row["new"]
                checked += 1
    assert checked


def test_from_until_lists_the_accesses_between(uts: Path) -> None:
    facts = json.loads(run("replay", uts, "--core", 0, "--from", 100, "--until", 140, "--json").out)
    traced = run("trace", uts, "--core", 0, "--from", 100, "--until", 140, "--format", "jsonl").out
    assert facts["accesses"] == [json.loads(line) for line in traced.splitlines()]
    assert facts["accesses"]
    text = run("replay", uts, "--core", 0, "--from", 100, "--until", 140)
    assert text.out.startswith("stratum")
    assert "core 0, instruction 140, pc 0x" in text.out


def test_a_count_beyond_the_end_is_refused(uts: Path) -> None:
    last = Recording.open(uts).manifest.instructions[0]
    assert run("replay", uts, "--core", 0, "--until", last).code == 0
    ran = run("replay", uts, "--core", 0, "--until", last + 1)
    assert (ran.code, len(ran.lines)) == (2, 1)


# -- order, check-order, verify ----------------------------------------------------------------------


def test_an_order_says_what_it_is(copy_of_uts: Path) -> None:
    (copy_of_uts / "order.cert").unlink()
    ran = run("order", copy_of_uts, "--json")
    facts = json.loads(ran.out)
    assert (ran.code, facts["verdict"]) == (0, "legal")
    assert facts["meaning"] == "a legal order, not necessarily the one that ran"
    events = facts["events"]
    assert events["total"] == sum(count for name, count in events.items() if name != "total")
    assert facts["checked_events"] == events["total"]
    assert facts["meaning"] in run("order", copy_of_uts).out


def leave_undecided(path: Path, regions: int) -> set[int]:
    """Of the recording's certificate the longest so many regions have no order any more. Returns which."""
    recording = Recording.open(path)
    certificate = Certificate(path / "order.cert", recording.manifest.id)
    head, blocks = certificate.head, list(certificate.blocks())
    rows = np.zeros((head.n_regions, head.n_streams), np.int64)
    for block in blocks:
        np.add.at(rows[block.region], block.stream, block.rows)
    chosen = set(np.argsort(rows.sum(axis=1))[::-1][:regions].tolist())
    (path / "order.cert").unlink()
    writer = CertificateWriter(path / "order.cert", recording.manifest.id, head)
    for region in range(head.n_regions):
        runs = [block for block in blocks if block.region == region]
        if region in chosen:
            writer.unordered(region, min(REASONS), rows[region])
        else:
            stream, counts = (np.concatenate([getattr(run, k) for run in runs]) for k in ("stream", "rows"))
            writer.ordered(region, stream, counts)
    writer.finish(rows.sum(axis=0))
    return chosen


def test_undecided_regions_are_named_everywhere_and_are_no_failure(copy_of_uts: Path) -> None:
    undecided = leave_undecided(copy_of_uts, 2)
    checked = run("check-order", copy_of_uts, "--json")
    facts = json.loads(checked.out)
    assert (checked.code, facts["legal"]) == (0, True)
    assert {row["region"] for row in facts["unchecked_regions"]} == undecided
    assert facts["events"] > 0 < facts["unchecked_events"]
    passed = f", {facts['unchecked_events']:,} in regions without an order"
    assert passed in run("check-order", copy_of_uts).out
    traced = run("trace", copy_of_uts, "--ordered", "--format", "jsonl")
    rows = [json.loads(line) for line in traced.out.splitlines()]
    every = run("trace", copy_of_uts, "--format", "jsonl").out.splitlines()
    assert len(rows) == len(every) > facts["events"] + facts["unchecked_events"]
    assert {row["stratum"] for row in rows if not row["ordered"]} == undecided
    text = run("trace", copy_of_uts, "--ordered", "--region", min(undecided)).out.splitlines()
    assert all(line.startswith("?") for line in text[1:])
    assert run("verify", copy_of_uts).code == 0
    again = ("--fresh", "--engine", "smt", "--encoding", "paper", "--region-timeout", 0.001)
    ran = run("order", copy_of_uts, *again)
    assert (ran.code, "undecided regions: " in ran.err) == (0, True)


def test_a_certificate_that_orders_nothing_is_not_called_legal(copy_of_uts: Path) -> None:
    """Were one of its regions ordered it would be legal as far as it goes."""
    leave_undecided(copy_of_uts, len(RecordingTraces(Recording.open(copy_of_uts)).strata) + 1)
    ran = run("check-order", copy_of_uts)
    assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1)
    assert "no event is in order: expected regions that are, found" in ran.err
    verified = run("verify", copy_of_uts, "--json")
    facts = json.loads(verified.out)
    assert (verified.code, facts["certificate"]["legal"], facts["score"]) == (0, None, None)


def test_a_wrong_order_is_caught_by_check_order_and_verify(copy_of_uts: Path) -> None:
    """Every region's streams one after the other: program order holds, load-store semantics do not."""
    recording = Recording.open(copy_of_uts)
    traces = RecordingTraces(recording)
    n_streams, n_regions = traces.n_streams, len(traces.strata) + 1
    rows = np.zeros((n_regions, n_streams), np.int64)
    for stream in range(n_streams):
        for chunk in traces.chunks(stream):
            rows[:, stream] += np.bincount(chunk["stratum"], minlength=n_regions)
    (copy_of_uts / "order.cert").unlink()
    writer = CertificateWriter(
        copy_of_uts / "order.cert", recording.manifest.id, Head("none", n_streams, n_regions)
    )
    for region in range(n_regions):
        streams = np.flatnonzero(rows[region])[::-1].astype(np.int64)
        writer.ordered(region, streams, rows[region][streams])
    writer.finish(rows.sum(axis=0))
    ran = run("check-order", copy_of_uts)
    assert (ran.code, len(ran.lines)) == (1, 1)
    assert "does not read what memory holds" in ran.err
    verified = run("verify", copy_of_uts, "--json")
    facts = json.loads(verified.out)
    assert (verified.code, facts["certificate"]["legal"], facts["truth"]["legal"]) == (1, False, True)


def test_check_order_of_no_or_a_damaged_certificate(copy_of_uts: Path) -> None:
    path = copy_of_uts / "order.cert"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    ran = run("check-order", copy_of_uts)
    assert (ran.code, len(ran.lines)) == (1, 1)
    path.unlink()
    ran = run("check-order", copy_of_uts)
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert "corebraid order" in ran.err


def test_verify_checks_everything(uts: Path) -> None:
    ran = run("verify", uts, "--json")
    facts = json.loads(ran.out)
    assert (ran.code, facts["sound"], facts["findings"]) == (0, True, [])
    assert [replay["bit_exact"] for replay in facts["replays"]] == [True] * 3
    assert facts["certificate"]["legal"]
    assert facts["truth"]["legal"]
    assert "is one of the legal orders" in run("verify", uts).out


def test_verify_of_a_recording_without_an_order_says_so(copy_of_uts: Path) -> None:
    (copy_of_uts / "order.cert").unlink()
    ran = run("verify", copy_of_uts)
    assert ran.code == 0
    assert "certificate  none" in ran.out


def test_verify_finds_a_truth_that_is_not_legal(copy_of_uts: Path) -> None:
    """The truth of another run of the same program, under this recording's name."""
    recording = Recording.open(copy_of_uts)
    slices = np.concatenate(list(iter_sealed_truth(recording)))
    swapped = np.concatenate([slices[slices["stream"] == stream] for stream in (2, 1, 0)]).astype(TRUTH)
    swapped = np.concatenate([swapped, slices[slices["stream"] == 3]])
    path = copy_of_uts / "truth.log"
    path.unlink()
    writer = FrameWriter(path, FileHeader(TRUTH_KIND, 0, recording.manifest.id, recording.manifest.line))
    end, payload = Encoder(4, 1 << 18).encode_some(swapped, 0)
    assert end == len(swapped)
    writer.append(payload, end, 0, end - 1)
    writer.close()
    files = {**recording.manifest.files, "truth.log": writer.facts()}
    (copy_of_uts / "manifest.json").write_bytes(replace(recording.manifest, files=files).render())
    ran = run("verify", copy_of_uts, "--json")
    facts = json.loads(ran.out)
    assert (ran.code, facts["findings"], facts["truth"]["legal"]) == (1, [], False)


# -- pipes -------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_error(uts: Path) -> None:
    process = start("trace", uts)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=120) == 0
    assert err == b""


def test_only_verify_opens_the_sealed_truth(copy_of_uts: Path) -> None:
    os.unlink(copy_of_uts / "truth.log")
    for command in (["info"], ["replay", "--all"], ["order"], ["check-order"], ["trace", "--ordered"]):
        assert run(command[0], copy_of_uts, *command[1:]).code == 0, command
    assert run("verify", copy_of_uts).code == 1
