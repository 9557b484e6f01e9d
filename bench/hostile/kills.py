"""Kind `kills`: recorders killed by one of four signals at random moments, firmware and Linux, all evidence,
TSO.

What is left is nothing, a complete recording, or one that every command names incomplete or empty in one
line; and no file that a recording does not have, unless the signal was SIGKILL, which nobody can answer.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench.hostile.campaign import Verdict
from bench.hostile.inside import quiet, run_command, run_nested, run_nested_command
from bench.hostile.judging import Ended, fault_of
from bench.hostile.mutating import draw_of
from bench.hostile.recordings import IMAGES, linux_program
from bench.hostile.slot import Limits
from corebraid.base.errors import FormatError
from corebraid.cli.group import cli
from recorder.files.reader import Recording

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
#: Programs that run long enough to be killed, and how they are recorded.
PLANS: dict[str, tuple[str, ...]] = {
    "firmware": ("--strata", "cycles:3000", "--limit", "150000"),
    "firmware evidence": ("--evidence", "all", "--strata", "cycles:3000", "--limit", "60000"),
    "firmware tso": ("--model", "tso", "--strata", "cycles:3000", "--limit", "150000"),
    "firmware pages": ("--bus", "page", "--strata", "cycles:3000", "--limit", "150000"),
    "linux pages": ("--bus", "page", "--slice", "60", "--strata", "cycles:500"),
    "linux": ("--slice", "60", "--strata", "cycles:500"),
    "linux evidence": ("--slice", "60", "--evidence", "linkage,slices,opr,losses"),
    "linux tso": ("--slice", "60", "--model", "tso", "--cache", "64:2:32"),
}
#: What may lie in a recording, besides logs and evidence by their names.
_KNOWN = {"manifest.json", "objects.json", "objects", "program.elf", "initial.img", "final.img"}
_EXAMINED = (
    ("info", "REC"),
    ("verify", "REC", "--jobs", "1"),
    ("replay", "REC", "--all", "--jobs", "1"),
    ("trace", "REC", "--core", "0", "--limit", "5"),
    ("order", "REC", "--jobs", "1", "--region-timeout", "3"),
    ("trace", "REC", "--ordered", "--limit", "5"),
)
_SAYS_SO = ("incomplete", "empty", "killed", "stopped before", "has not been ordered")
_MOST_DELAY_S = 1.2


def plan_of(seed: int, number: int) -> tuple[str, signal.Signals, float]:
    """(which plan, the signal, seconds until it comes) of a case."""
    draw = draw_of(seed, number)
    name, sent = draw.choice(sorted(PLANS)), SIGNALS[number % len(SIGNALS)]
    return name, sent, draw.uniform(0, _MOST_DELAY_S) ** 2


def record_line(name: str, place: Path) -> list[str]:
    """The command line of a plan."""
    if name.startswith("linux"):
        program = ["--no-system", "--memory", "64m", str(linux_program())]
    else:
        program = ["--memory", "8m", str(IMAGES / "uts.elf")]
    return ["record", "-o", str(place), "--cores", "2", *PLANS[name], *program]


def _killed(line: list[str], sent: signal.Signals, delay: float, folder: Path) -> Ended:
    """How the recorder ends. Its own temporary files go into `folder`."""
    folder.mkdir()

    def work() -> int:
        os.environ["TMPDIR"] = str(folder)
        parent = os.getpid()
        if os.fork() == 0:
            time.sleep(delay)
            with suppress(OSError):
                os.kill(parent, sent)
            os._exit(0)
        return run_command(line)

    return run_nested(work)


def _wrong_end(how: Ended, sent: signal.Signals) -> str:
    """What is wrong with how the recorder ended, or ''."""
    err = how.err.decode(errors="replace")
    if how.stopped or "Traceback" in err or "Exception ignored" in err:
        return how.stopped or f"stderr: {err.strip().splitlines()[-1]}"
    if how.code in (0, 130, -sent, 128 + sent):
        return ""
    return f"exit code {how.code} by {sent.name}: {err.strip()[-200:]}"


def strange_files(place: Path) -> list[str]:
    """What lies in a recording that docs/format.md does not have."""
    return sorted(
        path.name
        for path in place.iterdir()
        if path.name not in _KNOWN and not (path.name.endswith(".log") and not path.name.startswith("."))
    )


def examine(place: Path, after: str) -> str:
    """What is wrong with a recording that was killed, or ''. after: the signal's name."""
    strange = strange_files(place)
    if strange and after != "SIGKILL":
        return f"left behind: {', '.join(strange)}"
    try:
        complete = Recording.open(place).manifest.complete
    except FormatError as error:
        # The manifest is the first that is written, in one step: without it there is an empty directory.
        names = [path.name for path in place.iterdir() if path.name not in strange]
        return f"cannot be opened: {error}" if names else ""
    for line in _EXAMINED:
        how = run_nested_command(*(str(place) if one == "REC" else one for one in line))
        if fault := fault_of(line, how, (0,) if complete else (0, 1, 2)):
            return f"{line[0]}: {fault}"
        said = (how.err + how.out).decode(errors="replace")
        if not complete and how.code and not any(words in said for words in _SAYS_SO):
            return f"{line[0]} does not say that it is incomplete: {said.strip()[-200:]}"
    return ""


class Trials:
    """The cases of a seed."""

    limits, turns = Limits(seconds=120.0), 1

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def work(self, number: int, folder: Path, note: int) -> int:
        """Record, kill, and look at what is left."""
        name, sent, delay = plan_of(self._seed, number)
        own, place = folder / "tmp", folder / "rec"
        how = _killed(record_line(name, place), sent, delay, own)
        fault = _wrong_end(how, sent)
        left = [path.name for path in own.iterdir()]
        if not fault and left and sent is not signal.SIGKILL:
            fault = f"temporary files are left: {', '.join(left)}"
        state = "none"
        if not fault and place.exists():
            fault = examine(place, sent.name)
            state = _state(place)
        os.write(note, f"{state}\n{fault}".encode(errors="replace"))
        return 0

    def judge(self, number: int, how: Ended, note: str) -> Verdict:
        """What was found, if it came to an end."""
        state, _, fault = note.partition("\n")
        name, sent, delay = plan_of(self._seed, number)
        fault = fault or fault_of(("record",), Ended(how.code, b"-", how.err, how.stopped), (0,))
        return Verdict(name, sent.name, state, fault, f"after {delay:.3f} s")


def _state(place: Path) -> str:
    try:
        recording = Recording.open(place)
    except FormatError:
        return "none"
    if recording.manifest.complete:
        return "complete"
    return "empty" if recording.empty else "incomplete"


def prepare(numbers: Sequence[int], seed: int, folder: Path) -> Trials:
    """All cases."""
    with quiet():
        for name in PLANS:
            place = folder / f"warm-{name.replace(' ', '-')}"
            for line in (
                record_line(name, place),
                *([str(place) if x == "REC" else x for x in row] for row in _EXAMINED),
            ):
                cli.main(list(line), prog_name="corebraid", standalone_mode=False)
    return Trials(seed)
