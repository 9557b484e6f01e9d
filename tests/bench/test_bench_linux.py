"""The bench of Linux programs runs on a tiny program; what other tools say is read rightly."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench import linux_speed, report
from bench.linux_bare import run_bare_linux
from bench.linux_means import MEANS, spec_of
from bench.linux_programs import OURS, LinuxProgram, make_inputs, programs
from bench.linux_speed import Measured, gdb_table, own_table, tool_table
from bench.linux_tools import Ran, _read_gdb, run_command, run_tool
from corebraid.base.errors import UsageError
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64

EXPECTED = json.loads((OURS.parent / "expected.json").read_text())


@pytest.mark.parametrize("name", ["static_hello", "mutexes", "jit", "segv_handler"])
@pytest.mark.sampled(1)
def test_the_bare_emulator_runs_a_program_as_natively(name: str) -> None:
    printed: list[bytes] = []
    done = run_bare_linux(spec_of([str(OURS / name)]), X86_64, LINUX_X86_64, printed.append, printed.append)
    assert done.exit_code == EXPECTED[name]["exit"]
    if not EXPECTED[name].get("env") and not EXPECTED[name].get("args"):
        assert b"".join(printed).decode() == EXPECTED[name]["stdout"]


@pytest.mark.soak
def test_every_means_runs_and_agrees(tmp_path: Path) -> None:
    spec = spec_of([str(OURS / "static_pie_threads")])
    results = {name: run(spec, tmp_path) for name, run in MEANS.items()}
    assert all(result["run"] > 0 for result in results.values())
    one, many = results["record, 1 core"], results["record, 4 cores"]
    assert one["exit"] == many["exit"] == results["bare"]["exit"] == 0
    assert results["replay, 4 cores"]["instructions"] == many["instructions"]
    assert 0 < many["core_log"] < many["whole"]
    assert many["calls"] >= results["bare"]["calls"] > 20


def test_inputs_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        make_inputs(tmp_path / name, 0.01)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert set(programs(tmp_path / "a")) >= {"mutexes", "pigz", "python3"}


def test_a_missing_tool_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.linux_tools.tool", lambda name: None)
    assert run_tool("qemu-user", ["/bin/true"], tmp_path, 5).why == "not installed"
    assert run_tool("native", ["/bin/true"], tmp_path, 5).why == ""


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    ran = run_command(["/bin/sh", "-c", "sleep 60 & wait"], tmp_path, 0.2, {})
    assert ran.why == "not done after 0.2 s"
    assert ran.wall < 10


def test_a_command_that_fails_is_quoted(tmp_path: Path) -> None:
    ran = run_tool("native", ["/bin/sh", "-c", "echo no such thing >&2; exit 3"], tmp_path, 5)
    assert ran.why == "status 3: no such thing"


def test_what_gdb_says_is_read() -> None:
    done = _read_gdb("x", "...\nLog contains 4339 instructions.\nMax", 2.0)
    assert (done.instructions, done.seconds, done.why) == (4339, 2.0, "")
    refused = (
        "Process record does not support instruction 0x62 at address 0x7f00.\nLog contains 5 instructions."
    )
    assert _read_gdb("x", refused, 1.0).why == (
        "Process record does not support instruction 0x62 at address 0x7f00."
    )
    assert _read_gdb("x", "No symbol table is loaded.", 1.0).why == "No symbol table is loaded."


def test_tables_of_a_case_done_by_hand() -> None:
    one = Measured(LinuxProgram("p", Path("/p")))
    for bare, record in ((1.0, 4.0), (2.0, 12.0), (1.0, 5.0)):
        one.means.setdefault("bare", []).append({"run": bare})
        line = {"run": record, "instructions": 8_000_000, "calls": 7}
        one.means.setdefault("record, 1 core", []).append(line)
    one.means["replay, 1 core"] = [{"failure": "broken"}]
    one.means["record, 4 cores"] = [{"printed": "b"}, {"printed": "a"}]
    one.commands = {
        "native": [Ran(cpu=0.5, digest="a")],
        "qemu-user": [Ran(why="not installed")],
        linux_speed.RECORD: [Ran(cpu=2.0, digest="b")],
    }
    assert own_table([one]).texts()[0][:6] == ["p", "8.0", "7", "8", "5.0", ""]
    assert tool_table([one], ("native", "qemu-user")).texts() == [["p", "0.500", "not installed", "2.00", ""]]
    assert sorted(one.failures()) == [
        "p, corebraid record: it printed something else than natively",
        "p, qemu-user: not installed",
        "p, record, 4 cores: it printed something else than natively",
        "p, replay, 1 core: broken",
    ]
    assert gdb_table([]).rows == []


@pytest.mark.soak
def test_a_whole_run_on_a_small_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")
    console = Console(file=io.StringIO(), width=200)
    linux_speed.main(console, chosen=("mutexes",), scale=0.01, tools=("native",), gdb=False, warm=False)
    tables = json.loads((tmp_path / "out" / "linux.json").read_text())
    assert tables["linux-ratios"]["rows"][0][0] == "mutexes"
    assert all(cell is not None for table in tables.values() for cell in table["rows"][0])
    assert not [note for note in tables["linux-tools"]["notes"] if note.startswith("mutexes")]
    with pytest.raises(UsageError):
        linux_speed.main(console, chosen=("nonsense",), gdb=False)
