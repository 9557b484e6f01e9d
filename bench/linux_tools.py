"""Other programs that run a Linux program: none, emulators and tracers. Missing ones are said to be."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.linux_programs import OURS, tool

#: The recorder itself, as a command; the others by name: words before the program's own.
RECORD = "corebraid record"
TOOLS: dict[str, tuple[str, ...]] = {
    "native": (),
    "qemu-user": ("qemu-x86_64",),
    "valgrind none": ("valgrind", "-q", "--tool=none"),
    "lackey trace": ("valgrind", "-q", "--tool=lackey", "--trace-mem=yes", "--log-file=/dev/null"),
}

#: What gdb 13 cannot record is not used by the C library then.
_NO_AVX = "GLIBC_TUNABLES=glibc.cpu.hwcaps=" + ",".join(
    f"-{name}"
    for name in (
        "AVX", "AVX2", "AVX512F", "AVX512VL", "AVX_Fast_Unaligned_Load", "ERMS", "FSRM", "XSAVE", "XSAVEC",
        "SSSE3", "SSE4_1", "SSE4_2", "BMI2",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """One run of a command. wall, cpu: seconds. digest: of what it printed. why: why it says nothing, or "".
    text: its standard error."""

    wall: float = 0.0
    cpu: float = 0.0
    status: int = 0
    digest: str = ""
    why: str = ""
    text: str = ""


def run_command(command: list[str], folder: Path, limit: float, environment: dict[str, str]) -> Ran:
    """Run a command with its output in a file of `folder`; kill it and its children after `limit` seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    out, err = folder / "stdout", folder / "stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            status, why = process.wait(limit), ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status, why = process.wait(), f"not done after {limit:g} s"
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = err.read_text(errors="replace")
    return Ran(wall, cpu, status, hashlib.sha256(out.read_bytes()).hexdigest(), why, text)


def run_tool(name: str, command: list[str], folder: Path, limit: float) -> Ran:
    """Run a program under one of `TOOLS`, without environment, as the recorder's guest has none."""
    words = TOOLS[name]
    found = tool(words[0]) if words else ""
    if found is None:
        return Ran(why="not installed")
    ran = run_command([*([found, *words[1:]] if found else []), *command], folder, limit, {})
    return _refused(ran)


def run_recorder(command: list[str], folder: Path, cores: int, limit: float) -> Ran:
    """`corebraid record`, start-up included; the recording is in `folder`/command.rec."""
    recorder = [
        sys.executable, "-m", "corebraid", "record", "-o", str(folder / "command.rec"), "--cores", str(cores),
        "--seed", "1", "--pass-exit-code", "--",
    ]  # fmt: skip
    return _refused(run_command([*recorder, *command], folder, limit, dict(os.environ)))


def _refused(ran: Ran) -> Ran:
    """A failure with the tool's own last words."""
    if ran.why or ran.status == 0:
        return ran
    lines = ran.text.strip().splitlines()
    return Ran(
        ran.wall, ran.cpu, ran.status, ran.digest, f"status {ran.status}: {lines[-1] if lines else ''}"
    )


@dataclass(frozen=True)
class GdbRun:
    """`record full` on a program of ours. instructions: recorded. seconds: that recording them took, less a
    run without. why: in gdb's words, why it stopped before its end."""

    what: str
    instructions: int = 0
    seconds: float = 0.0
    why: str = ""


_GDB = """\
set pagination off
set confirm off
set record full insn-number-max 0
set record full stop-at-limit off
break main
run > /dev/null
{record}
{go}
info record
"""

#: What is recorded, the program, what gdb does after `record full`, with what C library.
GDB_RUNS: tuple[tuple[str, str, str, bool], ...] = (
    ("strings, as it stands", "strings", "continue", False),
    ("randoms to its end, no AVX in the C library", "randoms", "continue", True),
    ("strings, stepi 20000, no AVX in the C library", "strings", "stepi 20000", True),
)


def run_gdb(index: int, folder: Path, limit: float) -> GdbRun:
    """One of `GDB_RUNS`."""
    what, name, go, plain = GDB_RUNS[index]
    gdb = tool("gdb")
    if gdb is None:
        return GdbRun(what, why="not installed")
    environment = {"LD_BIND_NOW": "1", "HOME": str(folder)}
    if plain:
        environment |= dict([_NO_AVX.split("=", 1)])
    times = []
    text = ""
    for record, then in (("", "kill"), ("record full", go)):
        (folder / "gdb.in").write_text(_GDB.format(record=record, go=then))
        command = [gdb, "-nx", "-batch", "-x", str(folder / "gdb.in"), str(OURS / name)]
        ran = run_command(command, folder, limit, environment)
        if ran.why:
            return GdbRun(what, why=ran.why)
        times.append(ran.wall)
        text = (folder / "stdout").read_text(errors="replace") + ran.text
    return _read_gdb(what, text, times[1] - times[0])


def _read_gdb(what: str, text: str, seconds: float) -> GdbRun:
    """From gdb's words: how much it recorded, and what it could not."""
    found = re.search(r"Log contains (\d+) instructions", text)
    refused = re.search(r"Process record does(?: not|n't) support[^\n]*0x[^\n]*", text)
    why = refused.group().strip() if refused else ""
    if found is None:
        lines = text.strip().splitlines()
        return GdbRun(what, why=why or (lines[-1] if lines else "it said nothing"))
    return GdbRun(what, int(found.group(1)), max(seconds, 0.0), why)
