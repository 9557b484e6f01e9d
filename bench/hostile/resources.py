"""Kind `resources`: a disk that is full, streams that are closed, an output that is removed during the run,
and guests that take all there is of something. Each ends as it does natively, or in one line.

A case's number chooses its scenario.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.hostile.campaign import Verdict
from bench.hostile.commands import execute
from bench.hostile.inside import run_nested
from bench.hostile.judging import Ended, fault_of
from bench.hostile.recordings import IMAGES, linux_program
from bench.hostile.slot import Limits

SOURCE = Path(__file__).parent / "guests" / "exhaust.c"
_LIMITS = Limits(seconds=300.0)
_FIRMWARE = (
    "--cores",
    "2",
    "--memory",
    "8m",
    "--limit",
    "60000",
    "--strata",
    "cycles:3000",
    str(IMAGES / "uts.elf"),
)
_FULL, _SMALL_FILES = Path("/dev/full"), 3000
#: Of unshare(2).
_CLONE_NEWNS = 0x20000


@dataclass(frozen=True)
class Scenario:
    """before: done to the process before it becomes `corebraid` with these arguments; PLACE is its folder.
    codes: exit codes that are right. says: what is in its messages then, of a code other than 0."""

    name: str
    arguments: tuple[str, ...]
    before: Callable[[Path], None] = lambda _: None
    codes: tuple[int, ...] = (2,)
    says: str = ""


def _close(*streams: int) -> Callable[[Path], None]:
    def before(_: Path) -> None:
        for stream in streams:
            os.close(stream)

    return before


def _to_full(*streams: int) -> Callable[[Path], None]:
    def before(_: Path) -> None:
        full = os.open(_FULL, os.O_WRONLY)
        for stream in streams:
            os.dup2(full, stream)

    return before


def _small_files(_: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_SMALL_FILES, _SMALL_FILES))


def _few_descriptors(_: Path) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))


def _broken_pipe(_: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, 1)


def _full_disk(place: Path) -> None:
    """A file system of 16 KiB at PLACE/disk, in a name space of its own; where none can be made, small
    files."""
    disk = place / "disk"
    disk.mkdir()
    script = f"mount --make-rprivate / && mount -t tmpfs -o size=16k none {disk}"
    made = 1
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS) == 0:
        made = subprocess.run(["sh", "-c", script], capture_output=True, check=False).returncode
    if made:
        _small_files(place)


def _removed(place: Path) -> None:
    """The recording is removed a moment after it was begun."""
    if os.fork() == 0:
        until = time.monotonic() + 60
        while time.monotonic() < until and not (place / "rec" / "manifest.json").exists():
            time.sleep(0.002)
        time.sleep(0.05)
        shutil.rmtree(place / "rec", ignore_errors=True)
        os._exit(0)


def _recorded(*arguments: str, rec: str = "PLACE/rec") -> tuple[str, ...]:
    return ("record", "-o", rec, *arguments)


def _reading() -> list[Scenario]:
    """What reads the recording PLACE/whole."""
    found = []
    for name, *more in (("info",), ("verify",), ("trace", "--core", "0"), ("replay", "--all"), ("order",),
                        ("pairs", "--summary")):  # fmt: skip
        line = (name, "PLACE/whole", *more)
        found += [
            Scenario(f"{line[0]}, stdout closed", line, _close(1), (0, 2)),
            Scenario(f"{line[0]}, stdout full", line, _to_full(1), (2,), "standard output"),
            Scenario(f"{line[0]}, a reader that has gone", line, _broken_pipe, (0,)),
            Scenario(f"{line[0]}, all streams closed", line, _close(0, 1, 2), (0,)),
            Scenario(f"{line[0]}, stderr full", line, _to_full(2), (0,)),
        ]
    return [
        *found,
        Scenario("order, small files", ("order", "PLACE/whole", "--jobs", "1"), _small_files, (0, 2)),
        Scenario(
            "order, two jobs, small files", ("order", "PLACE/whole", "--jobs", "2"), _small_files, (0, 2)
        ),
        Scenario("order, few descriptors", ("order", "PLACE/whole", "--jobs", "2"), _few_descriptors, (0, 2)),
        Scenario("trace, small files", ("trace", "PLACE/whole", "-o", "PLACE/new"), _small_files, (2,)),
    ]


def _recording() -> list[Scenario]:
    """What records."""
    linux = ("--cores", "2", "--memory", "64m", "--no-system", str(linux_program()))
    return [
        Scenario("record, stdout closed", _recorded(*_FIRMWARE), _close(1), (0, 2)),
        Scenario("record, stdout full", _recorded(*linux), _to_full(1), (0, 2)),
        Scenario("record, all streams closed", _recorded(*linux), _close(0, 1, 2), (0,)),
        Scenario("record, stdin closed", _recorded(*linux), _close(0), (0,)),
        Scenario(
            "record, full disk", _recorded(*_FIRMWARE, rec="PLACE/disk/rec"), _full_disk, (2,), "cannot be"
        ),
        Scenario("record, small files", _recorded(*_FIRMWARE), _small_files, (2,), "cannot be"),
        Scenario("record Linux, small files", _recorded(*linux), _small_files, (2,), "cannot be"),
        Scenario(
            "record, all evidence, small files",
            _recorded("--evidence", "all", *_FIRMWARE),
            _small_files,
            (2,),
        ),
        Scenario("record, few descriptors", _recorded(*_FIRMWARE), _few_descriptors, (0, 2)),
        Scenario(
            "record, removed",
            _recorded("--cores", "2", "--limit", "3000000", *_FIRMWARE[-1:]),
            _removed,
            (0, 2),
        ),
    ]


def _guests() -> list[Scenario]:
    """Guests that take all there is: exit code 7 where the kernel said that there is no more."""

    def scenario(name: str, codes: tuple[int, ...], *more: str) -> Scenario:
        line = (
            "--pass-exit-code",
            "--cores",
            "2",
            "--memory",
            "256m",
            "--no-system",
            *more,
            "PLACE/exhaust",
            name,
        )
        return Scenario(f"guest: {name}", _recorded(*line), codes=codes)

    return [
        *(
            scenario(name, (7,))
            for name in ("descriptors", "sockets", "pipes", "qpairs", "memory", "threads", "addresses")
        ),
        scenario("Memory", (3, 137)),
        scenario("output", (0,)),
        scenario("file", (0, 7), "--time-limit", "20"),
    ]


def scenarios() -> list[Scenario]:
    """All of them, in the order of their numbers."""
    return [*_recording(), *_reading(), *_guests()]


def run_scenario(one: Scenario, place: Path) -> str:
    """What is wrong with how it ends in the folder `place`, or ''."""
    arguments = [word.replace("PLACE", str(place)) for word in one.arguments]

    def work() -> int:
        one.before(place)
        return execute(arguments)

    how = run_nested(work, _LIMITS)
    if how.stopped or how.code < 0 or "Traceback" in how.err.decode(errors="replace"):
        return fault_of(tuple(arguments), how)
    if how.code not in one.codes:
        return f"exit code {how.code}, not {one.codes}: {how.err.decode(errors='replace').strip()[-300:]}"
    lines = [line for line in how.err.decode(errors="replace").splitlines() if line.startswith("corebraid: ")]
    lines = [line for line in lines if not line.startswith("corebraid: recorded ")]
    if how.code == 2 and len(lines) != 1:
        return f"{len(lines)} lines say why: {lines[:3]}"
    if how.code == 2 and one.says not in lines[0]:
        return f"does not say {one.says!r}: {lines[0]}"
    return ""


def _make_ready(folder: Path) -> str:
    """The recording that is read and the guest, in the new folder; what is missing for that, or ''."""
    folder.mkdir()
    recorded = run_nested(lambda: execute(["record", "-o", str(folder / "whole"), *_FIRMWARE]), _LIMITS)
    if recorded.code:
        return f"no recording: {recorded.err.decode(errors='replace')}"
    command = ["gcc", "-O1", "-static", "-pthread", "-o", str(folder / "exhaust"), str(SOURCE)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"no guest: {made.stderr}" if made.returncode else ""


class Trials:
    """The scenarios; numbers beyond the last one begin again. ready: the folder of what they need."""

    limits, turns = Limits(seconds=320.0), 1

    def __init__(self, ready: Path) -> None:
        self._ready, self._known = ready, scenarios()

    def work(self, number: int, folder: Path, note: int) -> int:
        """Run a scenario."""
        for path in self._ready.iterdir():
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
        os.write(note, run_scenario(self._one(number), folder).encode(errors="replace"))
        return 0

    def judge(self, number: int, how: Ended, note: str) -> Verdict:
        """What was wrong, if it came to an end."""
        one = self._one(number)
        fault = note or fault_of(("record",), Ended(how.code, b"-", how.err, how.stopped), (0,))
        return Verdict(one.name, one.arguments[0], "as it should", fault, " ".join(one.arguments))

    def _one(self, number: int) -> Scenario:
        return self._known[number % len(self._known)]


def prepare(numbers: Sequence[int], seed: int, folder: Path) -> Trials:
    """All scenarios."""
    ready = folder / "ready"
    if missing := _make_ready(ready):
        raise RuntimeError(missing)
    return Trials(ready)
