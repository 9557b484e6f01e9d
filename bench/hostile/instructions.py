"""Kind `instructions`: guests of random code are recorded, replayed and verified. They may end as they like;
the recorder may not, and each replay does what was recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.hostile.fork_server import Limits, run_cases
from bench.hostile.inside import quiet, run_nested_command
from bench.hostile.judging import Ended, fault_of
from bench.hostile.mutating import draw_of
from bench.hostile.random_guests import code_of, write_guest
from bench.hostile.tally import Tally
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


def campaign(
    numbers: Iterable[int],
    seed: int,
    folder: Path,
    jobs: int = 1,
    limits: Limits | None = None,
    heard: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Try the cases with these numbers."""
    numbers, tally = list(numbers), Tally("instructions", seed)
    with quiet():
        for number in range(min(_WARMED, len(numbers))):
            (folder / f"warm-{number}").mkdir()
            _warm(number, seed, folder / f"warm-{number}")
    if len(numbers) > _WARMED:
        load_coprocessor()

    def work(number: int, place: Path, note: int) -> int:
        os.write(note, "\n".join(examine(number, seed, place)).encode())
        return 0

    def ended(number: int, how: Ended, note: str) -> None:
        outcome, fault, command = (*note.split("\n", 2), "", "", "")[:3]
        fault = fault or fault_of(("record",), Ended(how.code, b"-", how.err, how.stopped), (0,))
        options = options_of(seed, number)
        kind = "firmware" if "firmware" in options else "linux"
        tally.add(number, kind, command or "record", outcome, fault, " ".join(options), how.seconds)
        heard(tally)

    run_cases(numbers, work, ended, folder, jobs, Limits(seconds=120.0))
    return tally


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
