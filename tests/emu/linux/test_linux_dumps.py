"""Dumps of a recorded Linux program: names, lines, threads and the kernel in every format, and kept files."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli_factory import ROOT, Ran, run

from corebraid.base.rows.event import EVENT
from corebraid.base.rows.record import CONTEXT
from corebraid.names.threads import Threads
from recorder.files.agent_codec import CALL, EXIT, PAGE, SIGNAL
from recorder.files.reader import Recording, iter_core_records

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"


def record(directory: Path, *arguments: object) -> Ran:
    """Record a Linux program on two cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROGRAMS)
        return run("record", "-o", directory, "--cores", 2, "--", *arguments)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A recording of a program with three threads, the last of which dies of SIGSEGV."""
    directory = tmp_path_factory.mktemp("crash") / "rec"
    return directory, record(directory, PROGRAMS / "crash")


@pytest.fixture
def copy(crashed: tuple[Path, Ran], tmp_path: Path) -> Path:
    """One to be damaged."""
    shutil.copytree(crashed[0], tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture(scope="module")
def every_row(crashed: tuple[Path, Ran]) -> list[dict[str, Any]]:
    """The whole trace of it."""
    return rows_of(crashed[0])


def rows_of(directory: Path, *arguments: object) -> list[dict[str, Any]]:
    """A trace as JSON."""
    ran = run("trace", directory, "--format", "jsonl", *arguments)
    assert ran.code == 0, ran.err
    assert "no " not in ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


# -- what is shown ---------------------------------------------------------------------------------------


def test_a_killed_program_is_shown_where_it_was(crashed: tuple[Path, Ran]) -> None:
    _, ran = crashed
    assert ran.code == 3
    for part in ("SIGSEGV", "look_up at crash.c:13", "mov rdi, qword ptr [rdi + 8]", "core "):
        assert part in ran.lines[-1]


def test_every_row_of_the_program_has_its_name_line_and_thread(every_row: list[dict[str, Any]]) -> None:
    rows = every_row
    mine = [row for row in rows if (row["line"] or "").startswith("crash.c:")]
    assert {row["symbol"] for row in mine} >= {"main", "look_up"}
    assert all(row["thread"] == 1000 for row in mine if row["symbol"] == "main")
    # The last thread dies of its first access there: it has a row only if its core had to fetch the line.
    assert 1001 in {row["thread"] for row in mine if row["symbol"] == "look_up"} <= {1001, 1002}
    assert {row["thread"] for row in rows if row["agent"] is None} >= {1000, 1001, 1002}
    named = Counter((row["symbol"] or "").partition("!")[0] for row in rows if row["agent"] is None)
    assert named["libc.so.6"] > 100
    assert named[""] == 0
    assert not any(row["disassembly"] == "(unknown)" for row in rows)
    assert any(row["data"] == "libc.so.6!stdout" for row in rows)


def test_the_kernel_is_a_stream_of_its_own(
    crashed: tuple[Path, Ran], every_row: list[dict[str, Any]]
) -> None:
    rows = rows_of(crashed[0], "--core", "kernel")
    assert rows == [row for row in every_row if row["core"] == 2]
    assert rows[:9] == rows_of(crashed[0], "--core", "dev", "--limit", 9)
    assert {row["agent"] for row in rows} >= {"call", "page", "exit"}
    assert {row["thread"] for row in rows} == {1000, 1001, 1002}
    assert {row["thread"] for row in rows if row["agent"] == "exit"} <= {1001, 1002}
    text = run("trace", crashed[0], "--core", "kernel", "--limit", 3).out.splitlines()
    assert all(" kernel " in line and "(call)" in line for line in text[1:])
    from corebraid.names.places import AGENTS

    assert [AGENTS[cause] for cause in (CALL, PAGE, SIGNAL, EXIT)] == ["call", "page", "signal", "exit"]


def test_formats_agree_on_names_lines_and_threads(crashed: tuple[Path, Ran], tmp_path: Path) -> None:
    wanted = ("--from", 0, "--until", 600)
    lines = rows_of(crashed[0], *wanted)
    ran = run("trace", crashed[0], "--format", "parquet", "-o", tmp_path / "t", *wanted)
    assert ran.code == 0
    table = pq.read_table(tmp_path / "t").to_pylist()
    text = run("trace", crashed[0], *wanted).out.splitlines()
    assert text[0].split()[1:4] == ["core", "thread", "count"]
    assert len(lines) == len(table) == len(text) - 1 > 100
    for line, row, shown in zip(lines, table, text[1:], strict=True):
        assert list(line) == list(row)
        for name in ("thread", "symbol", "offset", "line", "disassembly", "data", "agent"):
            assert line[name] == row[name]
        core = "kernel" if line["agent"] else f"c{line['core']}"
        assert shown.split()[1:3] == [core, str(line["thread"] or "-")]
        assert (line["line"] or " - ") in shown


def test_threads_are_those_of_the_context_headers(crashed: tuple[Path, Ran]) -> None:
    """Against a walk over the log; asked in any order."""
    recording = Recording.open(crashed[0])
    choose = np.random.default_rng(5)
    threads = Threads(recording)
    for core in range(2):
        headers: list[tuple[int, int]] = []
        for rows, _ in iter_core_records(recording, core):
            headers += [(int(r["count"]), int(r["addr"])) for r in rows[rows["kind"] == CONTEXT]]
        for _ in range(4):
            events = np.zeros(50, EVENT)
            events["core"] = core
            events["count"] = choose.integers(0, recording.manifest.instructions[core] + 5, 50)
            expected = [[tid for at, tid in headers if at <= count][-1] for count in events["count"].tolist()]
            assert threads.of(events).tolist() == expected
    assert threads.of(np.zeros(0, EVENT)).tolist() == []


def test_a_symbol_selects_its_bytes(crashed: tuple[Path, Ran]) -> None:
    rows = rows_of(crashed[0], "--addr", "libc.so.6!stdout")
    assert rows
    assert {row["data"] for row in rows} == {"libc.so.6!stdout"}
    assert rows == rows_of(crashed[0], "--addr", "stdout")
    assert {row["data"] for row in rows_of(crashed[0], "--addr", "pthread_create@got")} == {
        "pthread_create@got"
    }


def test_a_paused_core_says_where_it_is(crashed: tuple[Path, Ran]) -> None:
    end = Recording.open(crashed[0]).manifest.end
    assert end is not None
    ran = run("replay", crashed[0], "--core", end.core, "--until", end.count, "--json")
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)
    assert (facts["symbol"], facts["line"]) == ("look_up", "crash.c:13")
    assert (
        f" look_up {facts['line']}: mov "
        in run("replay", crashed[0], "--core", end.core, "--until", end.count).out
    )


def test_pairs_and_events_have_names_and_lines(crashed: tuple[Path, Ran]) -> None:
    ran = run("pairs", crashed[0], "--json", "--limit", 200)
    pairs = [json.loads(line) for line in ran.out.splitlines()]
    sides = [side for pair in pairs if pair["type"] == "pair" for side in (pair["first"], pair["second"])]
    assert any(side["event"].startswith("kernel:") and side["agent"] == "call" for side in sides)
    assert any((side["symbol"] or "").startswith("libc.so.6!pthread_create") for side in sides)
    assert all("line" in side for side in sides)


def test_info_says_what_the_guest_is(crashed: tuple[Path, Ran]) -> None:
    text = run("info", crashed[0]).out
    for part in ("Linux program", "/crash", "virtual clock", "3 thread(s)", "system calls", "2,048 MiB"):
        assert part in text
    facts = json.loads(run("info", crashed[0], "--json").out)
    assert (facts["guest"], facts["threads"], facts["agents"]) == ("linux", 3, ["kernel"])
    assert facts["calls"] > 10
    kept = {name for name in facts["files"] if name.startswith("objects")}
    assert kept == {"objects.json", *(f"objects/{path.name}" for path in (crashed[0] / "objects").iterdir())}


# -- the kept files --------------------------------------------------------------------------------------


def test_the_same_run_keeps_the_same_files(crashed: tuple[Path, Ran], tmp_path: Path) -> None:
    record(tmp_path / "again", PROGRAMS / "crash")
    for path in [crashed[0] / "objects.json", *(crashed[0] / "objects").iterdir()]:
        assert (tmp_path / "again" / path.relative_to(crashed[0])).read_bytes() == path.read_bytes()


def test_a_whole_recording_is_sound(crashed: tuple[Path, Ran]) -> None:
    ran = run("verify", crashed[0])
    assert ran.code == 0, ran.err
    assert "with its libraries: every byte" in ran.out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["changed", "cut", "longer", "missing", "directory"])
@pytest.mark.parametrize("what", ["objects.json", "objects/*"])
def test_damage_of_a_kept_file_is_a_finding(copy: Path, what: str, how: str) -> None:
    path = sorted(copy.glob(what))[0]
    data = path.read_bytes()
    path.unlink()
    if how == "directory":
        path.mkdir()
    elif how != "missing":
        changed = {"changed": data[:-9] + b"~" + data[-8:], "cut": data[:-1], "longer": data + b"\n"}
        path.write_bytes(changed[how])
    ran = run("verify", copy)
    assert ran.code == 1
    named = [line for line in ran.lines if str(path.relative_to(copy)) in line]
    assert len(named) == 1, ran.err
    shown = run("trace", copy, "--limit", 1)
    assert (shown.code == 0) == (how == "missing")
    assert len(shown.lines) == 1
    assert path.name in shown.err or "no copy of /" in shown.err


def test_a_recording_without_kept_files_replays_and_dumps(copy: Path) -> None:
    shutil.rmtree(copy / "objects")
    (copy / "objects.json").unlink()
    (copy / "program.elf").unlink()
    assert run("replay", copy, "--all", "--jobs", 1).code == 0
    ran = run("trace", copy, "--limit", 5)
    assert ran.code == 0
    assert ran.lines == [
        f"corebraid: {copy}: no objects.json here, so there are no symbols, lines and disassembly of it"
    ]
