"""Kind `instructions`: guests of random code are recorded, replayed and verified. They may end as they like;
the recorder may not, and each replay does what was recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.hostile.campaign import Verdict
from bench.hostile.inside import quiet, run_nested_command
from bench.hostile.judging import Ended, fault_of
from bench.hostile.mutating import draw_of
from bench.hostile.random_guests import code_of, write_guest
from bench.hostile.slot import Limits
from corebraid.cli.group import cli
from emu.hooks.x86_64.native import load_coprocessor

_RECORD_CODES = (0, 1, 2, 3)
_LIMIT = 20_000
#: Ways to record that are tried before others, so that their kernels are loaded.
_WARMED = 8


def options_of(seed: int, number: int) -> list[str]:
    """How a case is recorded."""
    draw = draw_of(seed, number)
    options = ["--cores", str(draw.choice((1, 2, 2, 3))), "--limit", str(_LIMIT), "--seed", str(number)]
    options += ["--guest", draw.choice(("firmware", "linux")), "--slice", str(draw.choice((3, 50, 10_000)))]
    if draw.random() < 0.3:
        return [*options, "--bus", "page", "--strata", draw.choice(("none", "cycles:200"))]
    if draw.random() < 0.4:
        options += ["--model", "tso", "--store-buffer", str(draw.choice((1, 4, 64)))]
    elif draw.random() < 0.3:
        options += ["--evidence", "all" if "firmware" in options else "linkage,slices,opr,losses"]
    if draw.random() < 0.3:
        options += ["--cache", draw.choice(("64:2:32", "1k:2:64", "512:1:16"))]
    return [*options, "--strata", draw.choice(("none", "cycles:200", "downgrades:1"))]


def examine(number: int, seed: int, folder: Path) -> tuple[str, str, str]:
    """(how the recording ended, what is wrong or '', which command) of a case."""
    guest = write_guest(folder / "guest", code_of(f"instructions/{seed}/{number}"))
    options = options_of(seed, number)
    place = folder / "rec"
    memory = ["--memory", "8m"] if "firmware" in options else ["--memory", "64m", "--no-system"]
    line = ("record", "-o", place, *memory, *options, guest)
    recorded = run_nested_command(*line)
    if fault := fault_of(
        ("record",), Ended(recorded.code, b"-", recorded.err, recorded.stopped), _RECORD_CODES
    ):
        return "", fault, "record"
    outcome = f"exit code {recorded.code}"
    if not place.exists():
        return outcome, "", "record"
    for line in (("replay", place, "--all", "--jobs", "1"), ("verify", place, "--jobs", "1")):
        how = run_nested_command(*line)
        if fault := fault_of((str(line[0]),), how, (0,)):
            return outcome, fault, str(line[0])
    return outcome, "", "record"


class Trials:
    """The cases of a seed."""

    limits, turns = Limits(seconds=120.0), 1

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def work(self, number: int, folder: Path, note: int) -> int:
        """Record, replay and verify."""
        os.write(note, "\n".join(examine(number, self._seed, folder)).encode())
        return 0

    def judge(self, number: int, how: Ended, note: str) -> Verdict:
        """What `examine` said, if it came to an end."""
        outcome, fault, command = (*note.split("\n", 2), "", "", "")[:3]
        fault = fault or fault_of(("record",), Ended(how.code, b"-", how.err, how.stopped), (0,))
        options = options_of(self._seed, number)
        kind = "firmware" if "firmware" in options else "linux"
        return Verdict(kind, command or "record", outcome, fault, " ".join(options))


def prepare(numbers: Sequence[int], seed: int, folder: Path) -> Trials:
    """The cases with these numbers."""
    with quiet():
        for number in range(min(_WARMED, len(numbers))):
            (folder / f"warm-{number}").mkdir()
            _warm(number, seed, folder / f"warm-{number}")
    if len(numbers) > _WARMED:
        load_coprocessor()
    return Trials(seed)


def _warm(number: int, seed: int, folder: Path) -> None:
    """Load the kernels of a case's commands, here."""
    guest = write_guest(folder / "guest", bytes.fromhex("eb fe"))
    options, place = options_of(seed, number), folder / "rec"
    memory = ["--memory", "8m"] if "firmware" in options else ["--memory", "64m", "--no-system"]
    for line in (
        ["record", "-o", str(place), *memory, *options, str(guest)],
        ["replay", str(place), "--all", "--jobs", "1"],
        ["verify", str(place), "--jobs", "1"],
    ):
        try:
            cli.main(line, prog_name="corebraid", standalone_mode=False)
        except SystemExit:
            continue
