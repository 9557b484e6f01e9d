"""`corebraid rpc` as a user meets it: facts, differences, and input that makes no sense."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE, ROOT, Ran, refused, run
from guest import CONSOLE_RX, CYCLES, DATA, Code, elf
from mailbox_code import ping, put, receive, send

from emu.devices.mail_state import MAIL_EVENT, RECEIVED, REPLY, REQUEST, TESTED
from emu.devices.mailbox import MAIL_ACCEPT
from recorder.evidence.rpc import receipts as receipts_module
from recorder.evidence.rpc.receipts import Receipts, encode, read_receipts
from recorder.files.evidence_names import RPC, STREAMS, evidence_log
from recorder.files.frame import FrameWriter
from recorder.files.reader import Recording


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of the farm on 4 cores with its evidence."""
    path = tmp_path_factory.mktemp("rpc-cli") / "rec"
    ran = run(
        "record", "-o", path, "--cores", 4, "--seed", 1, "--evidence", "rpc", FIRMWARE / "rpc_queens.elf"
    )
    assert ran.code == 0
    return path


@pytest.fixture
def copy(rec: Path, tmp_path: Path) -> Path:
    """A copy of it to be spoilt."""
    return Path(shutil.copytree(rec, tmp_path / "copy"))


def rewrite(path: Path, receipts: Receipts) -> None:
    """Replace a recording's evidence by other evidence, well formed."""
    recording = Recording.open(path)
    rows = []
    for (core, entry), history in receipts.histories.items():
        rows += [(RECEIVED, core, entry << 8 | 1 << 16, number, 0, 0, 0, 0) for number in history.tolist()]
    for number, (noes, yes) in receipts.tests.items():
        rows += [(TESTED, 0, 0, number, 0, 0, 0, 0)] * noes + [(TESTED, 0, 1, number, 0, 0, 0, 0)] * yes
    payload, records = encode(np.array(rows, MAIL_EVENT))
    target = path / evidence_log(RPC)
    target.unlink()
    writer = FrameWriter(target, recording.header(STREAMS[RPC].kind))
    writer.append(payload, records, 0, records - 1)
    writer.close()
    files = {**recording.manifest.files, target.name: writer.facts()}
    (path / "manifest.json").write_bytes(replace(recording.manifest, files=files).render())


def test_the_farm_is_repeated_and_goes_elsewhere_when_free(rec: Path, tmp_path: Path) -> None:
    ran = run("rpc", rec, "--seed", 7, "--output", tmp_path / "printed")
    assert (ran.code, ran.err) == (0, "")
    assert "receipts    0 of 6 histories differ" in ran.out
    assert "equivalent  98 processes, 97 requests" in ran.out
    assert "mapping     97 of 97 requests served by the process that served them" in ran.out
    assert "console     identical" in ran.out
    assert (tmp_path / "printed").read_bytes().startswith(b"rpc_queens: queens 7 solutions 40 tasks 49")
    ran = run("rpc", rec, "--seed", 7, "--free")
    assert ran.code == 1
    assert "not equivalent: receipt" in ran.err
    assert len(ran.lines) == 1
    assert "of 97 requests served by the process that served them" in ran.out
    assert "97 of 97" not in ran.out
    assert "theorem" not in ran.out


def test_json(rec: Path) -> None:
    ran = run(
        "rpc", rec, "--json", "--schedule", "pct:3", "--cache", "4k:2:32", "--latency", 50, "--slice", 70
    )
    facts = json.loads(ran.out)
    assert (facts["equivalent"], facts["console_identical"], facts["controlled"]) == (True, True, True)
    assert (facts["requests"], facts["processes"], facts["cut"]) == (97, 98, 0)
    none = {"otherwise": 0, "tests_otherwise": 0, "different": 0, "smallest": []}
    assert facts["theorem"] == {"mapped": 97, **none, "applies": True, "holds": True}
    assert facts["evidence"]["receipts"] == 97
    assert facts["evidence"]["bytes"] == (rec / "evidence-rpc.log").stat().st_size
    free = json.loads(run("rpc", rec, "--json", "--free").out)
    assert free["controlled"] is free["equivalent"] is False
    assert free["difference"]["kind"] == "receipt"
    assert free["difference"]["found"] == f"request {free['difference']['request']}"
    assert free["other_histories"] == 2
    assert (free["theorem"]["applies"], free["theorem"]["holds"]) == (False, True)
    assert not any(one["told_the_same"] for one in free["theorem"]["smallest"])


def test_verify_and_info_know_the_stream(rec: Path) -> None:
    assert run("verify", rec).code == 0
    assert "evidence-rpc.log" in run("info", rec).out
    assert "MAIL_POST" in run("trace", rec, "--core", 1, "--addr", "0xf0000000:0xf0001000").out


def test_a_swapped_receipt_is_named(copy: Path) -> None:
    receipts = read_receipts(Recording.open(copy))
    receipts.histories[0, 2][[3, 4]] = receipts.histories[0, 2][[4, 3]]
    rewrite(copy, receipts)
    ran = run("rpc", copy)
    assert ran.code == 1
    assert "receipt 3 of entry point 2 of virtual processor 0: expected request (" in ran.err
    assert len(ran.lines) == 1


def test_a_wrong_test_result_is_named(copy: Path) -> None:
    receipts = read_receipts(Recording.open(copy))
    number, (noes, yes) = next((n, t) for n, t in receipts.tests.items() if t == (3, False))
    receipts.tests[number] = (noes + 1, yes)
    rewrite(copy, receipts)
    ran = run("rpc", copy)
    assert ran.code == 1
    assert "in the evidence: expected 3 times no, found 4 times no" in ran.err


def test_tests_are_counted_before_they_are_too_many(rec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n = len(read_receipts(Recording.open(rec)).tests)
    monkeypatch.setattr(receipts_module, "_MOST_TESTS", n)
    assert len(read_receipts(Recording.open(rec)).tests) == n > 0
    monkeypatch.setattr(receipts_module, "_MOST_TESTS", n - 1)
    ran = run("rpc", rec)
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert f"more requests were tested than can be held: expected at most {n - 1}" in ran.err


def test_evidence_that_starves_the_program_says_who_waits(copy: Path) -> None:
    receipts = read_receipts(Recording.open(copy))
    receipts.histories[0, 1] = receipts.histories[0, 1][:5]
    rewrite(copy, receipts)
    ran = run("rpc", copy)
    assert ran.code == 1
    assert "then nothing could go on: entry point 1 of virtual processor 0 has received all" in ran.err
    assert "process <" in ran.err


def test_crosscheck(copy: Path) -> None:
    ran = run("crosscheck", copy, "--engines", "rpc")
    assert ran.code == 0
    assert "rpc       3 of 3 executions again equivalent, 97 receipts, " in ran.out
    receipts = read_receipts(Recording.open(copy))
    receipts.histories[0, 2][[3, 4]] = receipts.histories[0, 2][[4, 3]]
    rewrite(copy, receipts)
    ran = run("crosscheck", copy, "--engines", "rpc")
    assert ran.code == 1
    assert "disagreement: engine rpc: seed 2, random: receipt 3 of entry point 2" in ran.out


def test_bad_evidence(copy: Path, tmp_path: Path) -> None:
    good = (copy / "evidence-rpc.log").read_bytes()
    (copy / "evidence-rpc.log").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    refused(run("rpc", copy), "evidence-rpc.log", "checksum")
    (copy / "evidence-rpc.log").write_bytes(good[:-1])
    refused(run("rpc", copy), "evidence-rpc.log", "truncated")
    (copy / "evidence-rpc.log").unlink()
    refused(run("rpc", copy), "evidence-rpc.log", "missing")
    other = tmp_path / "other"
    run("record", "-o", other, "--seed", 2, "--evidence", "rpc", FIRMWARE / "rpc_queens.elf")
    foreign = (other / "evidence-rpc.log").read_bytes()
    (copy / "evidence-rpc.log").write_bytes((foreign + bytes(len(good)))[: len(good)])
    refused(run("rpc", copy), "evidence-rpc.log", "another recording")


def test_evidence_missing(tmp_path: Path) -> None:
    assert run("record", "-o", tmp_path / "rec", FIRMWARE / "rpc_divide.elf").code == 0
    refused(run("rpc", tmp_path / "rec"), "no evidence rpc", "--evidence rpc")


def test_a_linux_program_has_no_mailboxes(tmp_path: Path) -> None:
    program = ROOT / "firmware" / "linux" / "x86_64" / "static_hello"
    refused(
        run("record", "-o", tmp_path / "rec", "--evidence", "rpc", program), "for firmware with mailboxes"
    )
    assert not (tmp_path / "rec").exists()
    assert run("record", "-o", tmp_path / "rec", program).code == 0
    refused(run("rpc", tmp_path / "rec"), "no evidence rpc", "for firmware with mailboxes")


def test_a_program_without_remote_procedure_calls(tmp_path: Path) -> None:
    assert run("record", "-o", tmp_path / "rec", "--evidence", "rpc", FIRMWARE / "fig1.elf").code == 0
    refused(run("rpc", tmp_path / "rec"), "uses no remote procedure calls")


def test_the_program_is_no_file(copy: Path) -> None:
    (copy / "program.elf").unlink()
    os.mkfifo(copy / "program.elf")
    ran = run("rpc", copy)
    assert (ran.code, ran.out) == (2, "")
    assert "program.elf: not a regular file" in ran.err


def test_the_program_is_missing_or_another(copy: Path) -> None:
    shutil.copyfile(FIRMWARE / "fig1.elf", copy / "program.elf")
    refused(run("rpc", copy), "not the program that was recorded")
    (copy / "program.elf").unlink()
    refused(run("rpc", copy), "no copy of its program")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--schedule", "nonsense"], ["nonsense"]),
        (["--cache", "12"], ["cache"]),
        (["--latency", "0"], ["--latency"]),
        (["--latency", str(1 << 50)], ["at most"]),
        (["--seed", "-1"], ["--seed"]),
        (["--input", "/nowhere"], ["/nowhere", "cannot be read"]),
        (["--input", str(FIRMWARE / "fig1.elf")], ["not the input"]),
    ],
)
def test_bad_options(rec: Path, arguments: list[str], parts: list[str]) -> None:
    refused(run("rpc", rec, *arguments), *parts)


def test_no_such_recording(tmp_path: Path) -> None:
    refused(run("rpc", tmp_path / "none"), "no such recording")


def test_input_is_found_in_the_log(tmp_path: Path) -> None:
    ran = run(
        "record",
        "-o",
        tmp_path / "rec",
        "--evidence",
        "rpc",
        FIRMWARE / "rpc_divide.elf",
        stdin=b"40 2\nrest",
    )
    assert ran.code == 0
    ran = run("rpc", tmp_path / "rec")
    assert ran.code == 0
    assert "equivalent  127 processes" in ran.out


# -- guests without the library --------------------------------------------------------------------------


def recorded(tmp_path: Path, code: Code, *options: object, stdin: bytes = b"") -> tuple[Path, Ran]:
    program = elf(tmp_path / "guest.elf", code)
    ran = run(
        "record", "-o", tmp_path / "rec", "--cores", 2, "--memory", "4m", "--evidence", "rpc", *options,
        program, stdin=stdin,
    )  # fmt: skip
    return tmp_path / "rec", ran


def test_an_entry_point_that_is_never_served(tmp_path: Path) -> None:
    """Core 0 calls entry point 1 of core 1, which answers, then 9, which core 1 never takes."""
    code = Code().split("asker", "server")
    code.label("asker")
    for entry in (1, 9):
        send(code, 1, entry, REQUEST, entry, 4)
        receive(code, f"answer{entry}")
    code.power_off(0).label("server")
    put(code, MAIL_ACCEPT, 1 << 1)
    receive(code, "request")
    send(code, 0, 1, REPLY, 1, 5).jump("request")
    path, ran = recorded(tmp_path, code)
    assert ran.code == 3
    assert "every core waits" in ran.err
    for seed in (1, 2):
        ran = run("rpc", path, "--seed", seed)
        assert ran.code == 2
        assert ran.lines[0].startswith(
            f"corebraid: {path}: entry point 9 of virtual processor 1 is not served"
        )
        assert "process <0,0,0> waits there" in ran.err
        assert len(ran.lines) == 1


def test_a_program_that_looks_at_the_clock_is_caught(tmp_path: Path) -> None:
    """It breaks the paper's assumptions: the first word that it sends depends on time."""
    code = Code().split("asker", "server")
    code.label("asker").mov("rcx", 400).label("spin").loop("rcx", "spin").ask(CYCLES, "rbx")
    send(code, 1, 1, REQUEST, 1, "rbx")
    receive(code, "answer").power_off(0).label("server").load("rax", DATA)
    put(code, MAIL_ACCEPT, 1 << 1)
    receive(code, "request")
    send(code, 0, 1, REPLY, 1, 5).jump("request")
    path, ran = recorded(tmp_path, code, "--cache", "1k:1:16")
    assert ran.code == 0
    ran = run("rpc", path, "--cache", "1k:1:256")
    assert ran.code == 1
    assert "not equivalent: emission 0 of process <0,0,0>: expected request 1 to entry point 1 of" in ran.err
    assert "mapping     1 of 1 requests served by the process that served them" in ran.out
    assert "theorem     1 messages differ all the same: the program breaks an assumption" in ran.out
    assert "emission 0 of process <0,0,0> goes by something that its process was not told" in ran.out
    facts = json.loads(run("rpc", path, "--cache", "1k:1:256", "--json").out)
    assert (facts["theorem"]["applies"], facts["theorem"]["holds"]) == (True, False)


def test_identifiers_that_are_used_again(tmp_path: Path) -> None:
    path, ran = recorded(tmp_path, ping(9))
    assert ran.code == 0
    ran = run("rpc", path, "--schedule", "pct:2")
    assert (ran.code, ran.err) == (0, "")
    assert "equivalent  10 processes, 9 requests" in ran.out


def test_several_cores_that_read_the_input(tmp_path: Path) -> None:
    code = Code().ask(CONSOLE_RX, "rbx").split("asker", "server")
    code.label("asker")
    send(code, 1, 1, REQUEST, 1, "rbx")
    receive(code, "answer").power_off("rbx").label("server")
    code.raw("49 89 dc")  # mov r12, rbx
    put(code, MAIL_ACCEPT, 1 << 1)
    receive(code, "request")
    send(code, 0, 1, REPLY, 1, "r12").jump("request")
    path, ran = recorded(tmp_path, code, stdin=b"ab")
    assert ran.code == 0
    refused(run("rpc", path), "several cores read", "--input")
    (tmp_path / "input").write_bytes(b"ab")
    # Which core reads which byte is no receipt; under the recording's own conditions it is the same.
    ran = run("rpc", path, "--input", tmp_path / "input", "--seed", 0)
    assert ran.code == 0
    assert "equivalent  2 processes, 1 requests" in ran.out
