"""`corebraid check` and `corebraid trace --format axe`, as people use them."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest
from cli_factory import record, run

from bench.axe_traces import Shape, corrupted, random_ops, to_text
from corebraid.cli.check_progress import check_progress
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.axe.text import read_traces
from solver.axe.trace import STORE

SB = "# SB\n0: M[1] := 1\n0: M[2] == 0\n1: M[2] := 1\n1: M[1] == 0\ncheck\n"
MP = "# MP\n0: M[1] := 1\n0: M[2] := 1\n1: M[2] == 1\n1: M[1] == 0\ncheck\n"
FINE = "0: M[1] := 1\n1: M[1] == 1\n"


@pytest.fixture(autouse=True, scope="module")
def _compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The note that kernels are being compiled has been said."""
    path = tmp_path_factory.mktemp("compiled") / "t"
    path.write_text(FINE)
    assert run("check", path, "--model", "tso").code == 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """SB, MP, and one that is fine."""
    path = tmp_path / "t.axe"
    path.write_text(SB + MP + FINE)
    return path


def test_one_line_a_trace(file: Path) -> None:
    sc, tso = run("check", file, "--model", "sc"), run("check", file, "--model", "TSO")
    assert (sc.code, sc.out, sc.err) == (1, "NO\nNO\nOK\n", "")
    assert (tso.code, tso.out, tso.err) == (1, "OK\nNO\nOK\n", "")


def test_all_ok_is_exit_0(file: Path) -> None:
    file.write_text(SB + FINE)
    assert run("check", file, "--model", "tso").code == 0
    assert run("check", file, "--model", "tso", "--engine", "smt").out == "OK\nOK\n"


def test_standard_input() -> None:
    ran = run("check", "-", "--model", "sc", stdin=b"")
    assert ran.code == 2


def test_explain_names_lines(file: Path) -> None:
    file.write_text(MP.replace("1: M[1]", "5: M[9] := 3\n5: sync\n1: M[1]") + FINE)
    ran = run("check", file, "--model", "sc", "--explain")
    assert ran.out.splitlines() == [
        "NO",
        "  line 2: 0: M[1] := 1",
        "  line 3: 0: M[2] := 1",
        "  line 4: 1: M[2] == 1",
        "  line 7: 1: M[1] == 0",
        "OK",
    ]


def test_json(file: Path) -> None:
    ran = run("check", file, "--model", "tso", "--json", "--witness", "--explain")
    facts = json.loads(ran.out)
    assert ran.code == 1
    assert (facts["file"], facts["model"]) == (str(file), "tso")
    assert facts["counts"] == {"ok": 2, "no": 1, "undecided": 0}
    first, second, third = facts["traces"]
    assert (first["name"], first["line"], first["verdict"], first["operations"]) == ("SB", 2, "OK", 4)
    assert sorted(first["order"]) == [2, 3, 4, 5]
    assert first["order"].index(3) < first["order"].index(4)
    assert (second["name"], second["line"], second["verdict"]) == ("MP", 8, "NO")
    assert [row["line"] for row in second["explanation"]["lines"]] == [8, 9, 10, 11]
    assert second["explanation"]["minimal"] is True
    assert "order" not in second
    assert (third["name"], third["order"]) == (None, [13, 14])


def test_undecided_is_never_no(file: Path) -> None:
    ops, finals = random_ops(Shape(6, 4, 900, values=3, rmw=0, sync=0, finals=0), random.Random(1))
    case = sorted(ops, key=lambda op: op[0]), finals
    file.write_text(to_text(*case) + FINE)
    ran = run("check", file, "--model", "tso", "--timeout", "0.01")
    assert (ran.code, ran.out) == (1, "UNDECIDED\nOK\n")
    assert "undecided (timeout)" in ran.lines[0]
    assert "1 of 2 traces undecided" in ran.lines[1]
    facts = json.loads(run("check", file, "--model", "tso", "--timeout", "0.01", "--json").out)
    assert facts["traces"][0]["verdict"] == "UNDECIDED"
    assert facts["traces"][0]["reason"] == "timeout"


def test_thousands_of_traces(file: Path) -> None:
    rng = random.Random(9)
    cases = [random_ops(Shape(3, 3, 10), rng) for _ in range(1500)]
    cases = [corrupted(*case, rng) if i % 2 else case for i, case in enumerate(cases)]
    file.write_text("".join(to_text(*case) for case in cases))
    answers = run("check", file, "--model", "sc").out.split()
    assert len(answers) == 1500
    assert set(answers[::2]) == {"OK"}
    assert answers[1::2].count("NO") > 300


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", [": no trace in this file"]),
        (b"\x7fELF\x00\x01", [":1: not a line of an axe trace: expected an operation"]),
        (b"0: M[1] := 1\n0: M[1] =: 1\n", [":2: ", "expected '==' or ':='", "found '=: 1'"]),
        (b"\n".join(b"%d: M[1] := 1" % t for t in range(70)), [":65: more than 64 threads"]),
    ],
)
def test_bad_input(file: Path, content: bytes, parts: list[str]) -> None:
    file.write_bytes(content)
    ran = run("check", file, "--model", "sc")
    assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1)
    assert ran.err.startswith(f"corebraid: {file}")
    for part in parts:
        assert part in ran.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["/none/such", "--model", "sc"], "No such file"),
        (["/", "--model", "sc"], "directory"),
        (["/none", "--model", "pso"], "pso"),
        (["/none"], "--model"),
        (["/none", "--model", "sc", "--timeout", "0"], "--timeout"),
        (["/none", "--model", "sc", "--witness"], "--json"),
    ],
)
def test_wrong_use(arguments: list[str], part: str) -> None:
    ran = run("check", *arguments)
    assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1)
    assert part in ran.err


def test_what_stands_before_a_bad_line_is_answered(file: Path) -> None:
    file.write_text(FINE + "check\nnonsense\n")
    ran = run("check", file, "--model", "sc")
    assert (ran.code, ran.out, len(ran.lines)) == (2, "OK\n", 1)


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with DMA and initial data on 3 cores."""
    path = tmp_path_factory.mktemp("axe") / "rec"
    assert record(path, "dma_race", "--cores", 3).code == 0
    return path


@pytest.mark.parametrize("program", ["fig1", "ring", "dma_race"])
def test_a_recording_is_ok(program: str, tmp_path: Path) -> None:
    assert record(tmp_path / "rec", program, "--cores", 3).code == 0
    file = tmp_path / "t.axe"
    assert run("trace", tmp_path / "rec", "--format", "axe", "-o", file).code == 0
    for model in ("sc", "tso"):
        assert run("check", file, "--model", model).out == "OK\n"


def test_a_corrupted_value_is_no(rec: Path, tmp_path: Path) -> None:
    text = run("trace", rec, "--format", "axe").out
    lines = text.splitlines()
    read = next(i for i, line in enumerate(lines) if "] == " in line and not line.startswith("final"))
    head, _, rest = lines[read].partition("] == ")
    value, blank, comment = rest.partition(" ")
    lines[read] = f"{head}] == {int(value) ^ 0x55AA}{blank}{comment}"
    file = tmp_path / "t.axe"
    file.write_text("\n".join(lines))
    ran = run("check", file, "--model", "sc", "--explain")
    assert (ran.code, ran.out.splitlines()[0]) == (1, "NO")
    assert f"line {read + 1}: " in ran.out


def test_export_holds_what_is_shared(rec: Path, tmp_path: Path) -> None:
    """Locations do not overlap, are touched by two threads and written; values at both ends are memory's."""
    file = tmp_path / "t.axe"
    assert run("trace", rec, "--format", "axe", "-o", file).code == 0
    (trace,) = read_traces(file)
    traces = RecordingTraces(Recording.open(rec))
    before, after = traces.initial(), traces.final()
    behind = traces.memory_bytes
    assert trace.name == "dma_race.elf: shared accesses of 3 cores"
    assert set(trace.threads.tolist()) <= {0, 1, 2, 3, 4}
    initial_thread = traces.n_streams
    stored = {}
    for op in range(trace.n_ops):
        if trace.threads[trace.thread[op]] == initial_thread and trace.kind[op] == STORE:
            stored[int(trace.addresses[trace.address[op]])] = int(trace.written[op])
    ends = {
        int(trace.addresses[a]): int(v) for a, v in zip(trace.final_address, trace.final_value, strict=True)
    }
    addresses = [int(a) for a in trace.addresses if a < behind]
    assert set(ends) == set(addresses)
    for index, a in enumerate(trace.addresses.tolist()):
        if a >= behind:
            continue
        touching = {int(trace.threads[t]) for t in trace.thread[trace.address == index]} - {initial_thread}
        assert len(touching) > 1, hex(a)
        assert int(after[a]) == ends[a] & 0xFF
        assert int(before[a]) == stored.get(a, 0) & 0xFF


def test_only_some_locations(rec: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.axe"
    assert run("trace", rec, "--format", "axe", "-o", file).code == 0
    (whole,) = read_traces(file)
    low, high = int(whole.addresses[2]), int(whole.addresses[5])
    part_file = tmp_path / "part.axe"
    ran = run("trace", rec, "--format", "axe", "--addr", f"{low}:{high}", "-o", part_file)
    assert ran.code == 0, ran.err
    (part,) = read_traces(part_file)
    memory = RecordingTraces(Recording.open(rec)).memory_bytes
    assert {a for a in part.addresses.tolist() if a < memory} == set(whole.addresses[2:5].tolist())
    assert run("check", part_file, "--model", "sc").out == "OK\n"


@pytest.mark.parametrize("option", [["--core", "0"], ["--ordered"], ["--limit", "5"], ["--kind", "R"]])
def test_parts_of_a_trace_are_refused(rec: Path, option: list[str]) -> None:
    ran = run("trace", rec, "--format", "axe", *option)
    assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1)
    assert "--format axe" in ran.err


def test_nothing_shared(tmp_path: Path) -> None:
    assert record(tmp_path / "rec", "fig1", "--cores", 1).code == 0
    ran = run("trace", tmp_path / "rec", "--format", "axe")
    assert ran.code == 0
    assert "no two cores share" in ran.err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.axe"
    file.write_text(to_text(*random_ops(Shape(3, 8, 3000), random.Random(1))))
    assert run("check", file, "--model", "sc").err == ""
    (trace,) = read_traces(file)
    for make, expected in ((_Terminal, True), (io.StringIO, False)):
        shown = make()
        monkeypatch.setattr("sys.stderr", shown)
        with check_progress(file) as progress:
            progress.read(file.stat().st_size)
            progress.begin(trace)
            progress.step("deduction, pass", 1, 0)
            progress.step("search", 1500, 3000)
            progress.step("search", 900, 3000)
        assert ("trace 1, 3,000 operations" in shown.getvalue()) == expected
        assert (shown.getvalue() == "") != expected
