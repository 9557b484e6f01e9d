"""One seed, one recording, bit for bit, whatever the host is called, counts, hashes or lists; another seed,
another one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_factory import ROOT, run

from bench.linux_soak import Plan, record_plan

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
#: An interpreter: the system's, or this one outside its virtual environment.
PYTHON = Path("/usr/bin/python3")
if not PYTHON.exists():
    PYTHON = Path(sys.base_prefix) / "bin" / "python3"
THREADS = """
import _thread, os, time
found = []
def work(i):
    time.sleep(os.urandom(1)[0] / 1e6)
    found.append((i, hash('text'), id(found), time.time(), os.urandom(4)))
for i in range(4):
    _thread.start_new_thread(work, (i,))
while len(found) < 4:
    time.sleep(1e-3)
print(found)
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def contents(recording: Path) -> dict[str, bytes]:
    """Every file of a recording."""
    files = [path for path in sorted(recording.rglob("*")) if path.is_file()]
    return {str(path.relative_to(recording)): path.read_bytes() for path in files}


def same(one: Path, other: Path) -> None:
    """Byte for byte, without a diff of megabytes."""
    first, second = contents(one), contents(other)
    assert list(first) == list(second)
    assert [name for name in first if first[name] != second[name]] == []


def in_a_process(directory: str, *arguments: object, **environment: str) -> str:
    """Record on the command line, in a process of its own. Returns what the guest printed."""
    command = [sys.executable, "-m", "corebraid", "record", "-o", directory, *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("program", "cores", "model"),
    [
        ("threads64", 4, "sc"),
        ("sockets", 3, "sc"),
        ("clocks", 2, "tso"),
        ("files", 4, "sc"),
        ("signals", 2, "tso"),
    ],
)
def test_one_seed_one_recording(program: str, cores: int, model: str, tmp_path: Path) -> None:
    """In this process, with others before it, and once more while the host gives other answers."""
    plan = Plan(program, cores, 5, model=model)
    record_plan(plan, tmp_path / "one")
    with pytest.MonkeyPatch.context() as host:
        listed, seconds = os.listdir, time.time_ns
        host.setattr(os, "listdir", lambda *where: listed(*where)[::-1])
        host.setattr(os, "getpid", lambda: 4242)
        host.setattr(os, "cpu_count", lambda: 3)
        host.setattr(os, "uname", lambda: os.uname_result(("Linux", "elsewhere", "9.9", "#2", "x86_64")))
        host.setattr(socket, "gethostname", lambda: "elsewhere")
        host.setattr(time, "time_ns", lambda: seconds() + 10**18)
        host.setattr(time, "time", lambda: 1e9)
        host.setenv("USER", "somebody")
        host.setenv("TZ", "Asia/Kathmandu")
        record_plan(plan, tmp_path / "two")
    same(tmp_path / "one", tmp_path / "two")


def test_another_seed_is_another_recording(tmp_path: Path) -> None:
    printed = [record_plan(Plan("threads64", 4, seed), tmp_path / f"rec{seed}").printed for seed in (1, 2)]
    assert printed[0] == printed[1]
    first, second = contents(tmp_path / "rec1"), contents(tmp_path / "rec2")
    assert first["core-1.log"] != second["core-1.log"]
    assert first["truth.log"] != second["truth.log"]


def test_processes_with_other_hashes_and_environments() -> None:
    program = PROGRAMS / "cancellation"
    in_a_process("one", "--seed", "9", program, PYTHONHASHSEED="1", LANG="C.UTF-8")
    in_a_process(
        "two", "--seed", "9", program, PYTHONHASHSEED="2", LANG="C", TZ="Asia/Tokyo", SECRET="x" * 500
    )
    same(Path("one"), Path("two"))


@pytest.mark.soak
def test_an_interpreter_with_threads() -> None:
    """Its hashes, addresses, random numbers and times come from the seed."""
    said = [
        in_a_process(name, "--seed", seed, "--", PYTHON, "-S", "-c", THREADS, PYTHONHASHSEED=hashes)
        for name, seed, hashes in (("one", "1", "5"), ("two", "1", "6"), ("three", "2", "5"))
    ]
    assert said[0] == said[1]
    assert said[0] != said[2]
    same(Path("one"), Path("two"))


def test_nothing_of_the_host_shows() -> None:
    facts = "uname -a; nproc; id; env; cat /proc/version /proc/cpuinfo /proc/uptime; date"
    words: set[str] = set()
    for number, command in enumerate(facts.split(";")):
        ran = run("record", "-o", f"rec{number}", "--cores", "3", "--", *command.split())
        assert ran.code == 0, ran.err
        words |= set(ran.out.split())
    told = {socket.gethostname(), os.uname().release, str(time.gmtime().tm_year), os.environ["PATH"]}
    assert not words & told
    assert words > {"guest", "3", "2035", "uid=1000(user)"}
