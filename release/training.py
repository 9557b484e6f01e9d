"""Commands that between them use nearly every kernel, so that all are compiled.

What they miss is compiled where it is first used. `REC` is the recording that the command before made.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_FIRMWARE, _LINUX = _ROOT / "firmware" / "x86_64", _ROOT / "firmware" / "linux" / "x86_64"
_SHORT = ("--strata", "cycles:3000", "--limit", "150000")
_LOOK = (
    "replay REC --all",
    "replay REC --core 0 --until 400",
    "order REC --count --count-budget 2000 --region-timeout 5",
    "check-order REC",
    "verify REC --jobs 1",
    "trace REC --ordered --limit 40",
    "trace REC --core 0 --from 500 --limit 3",
    "pairs REC --summary",
    "races REC --spinning --timeout 1",
)
_ENGINES = ("order REC --engine cut --fresh", "order REC --engine smt --region-timeout 2 --fresh --jobs 2")
_SEEK = ("checkpoint REC --every 5000", "trace REC --core 0 --from 30000 --limit 2")
_AXE = ("trace REC --format axe -o AXE",)
_EVIDENCE = ("crosscheck REC", "linkage REC", "linkage REC --replay", "slices REC", "opr REC --score")
_SCHEDULES = ("pct:3", "chaos", "round-robin")
_CHOICES = ("order REC --choose fewest-switches",)


def firmware(name: str, *options: str) -> str:
    """Record a firmware image."""
    return " ".join(("record -o REC --cores 3", *_SHORT, *options, str(_FIRMWARE / f"{name}.elf")))


def linux(name: str, *options: str) -> str:
    """Record a Linux program."""
    return " ".join(("record -o REC --cores 3", *_SHORT, *options, "--", str(_LINUX / name)))


#: Each is run by itself; of each the first command records.
SESSIONS: tuple[tuple[str, ...], ...] = (
    (firmware("radix"), *_LOOK, *_ENGINES, *_CHOICES, *_SEEK),
    *((firmware(name), *_LOOK) for name in ("timer", "dma_race", "smc", "ring")),
    (firmware("radix", "--bus mesi"), *_LOOK, *_ENGINES, *_CHOICES, *_AXE, "check AXE --model sc"),
    (firmware("pgas_uts", "--bus mesi"), *_LOOK),
    (firmware("radix", "--cache 4k:2:32"), *_LOOK),
    (firmware("uts", "--strata downgrades:200"), *_LOOK),
    (
        firmware("radix", "--model tso"),
        *_LOOK,
        *_ENGINES,
        *_CHOICES,
        *_AXE,
        "check AXE --model tso --explain",
    ),
    (firmware("radix", "--evidence all"), *_LOOK, *_EVIDENCE, "opr REC --relaxed --list"),
    (firmware("uts", "--evidence rpc,losses", "--model tso"), *_LOOK),
    (firmware("rpc_queens", "--evidence rpc"), "rpc REC --seed 7", "rpc REC --seed 7 --free"),
    (f"record -o REC {_FIRMWARE / 'uts.elf'}", "order REC --jobs 1", "order REC --jobs 2 --fresh", *_LOOK),
    (f"record -o REC -- {_LINUX / 'histogram'}", "order REC --jobs 2", *_LOOK),
    *((firmware("uts", f"--schedule {name}"), "replay REC --all") for name in _SCHEDULES),
    (f"record -o REC --cores 3 --strata cycles:2000 --last 20k -- {_LINUX / 'condvars'}", *_LOOK),
    (linux("mutexes"), *_LOOK),
    *((linux(name), *_LOOK) for name in ("signals", "pipes_poll", "jit", "float_math", "float_exceptions")),
    (linux("mutexes", "--bus mesi"), *_LOOK),
    (linux("mutexes", "--model tso"), *_LOOK),
    (linux("mutexes", "--evidence all"), *_LOOK, *_EVIDENCE),
    (f"hunt --runs 6 -o REC -- {_LINUX / 'bug_lost_update'}",),
    (f"hunt --runs 6 -o REC {_FIRMWARE / 'bug_aba.elf'}",),
)


def commands(folder: Path) -> Iterator[list[list[str]]]:
    """The words of each session's commands. folder: where they may write."""
    for number, session in enumerate(SESSIONS):
        places = {"REC": str(folder / f"rec-{number}"), "AXE": str(folder / f"axe-{number}")}
        yield [[places.get(word, word) for word in command.split()] for command in session]


def train(corebraid: list[str], environment: dict[str, str], told: Callable[[int, int], None]) -> list[str]:
    """Run all of it. corebraid: how it is called. told: called with how many sessions are done, and how many
    there are. Returns what failed for another reason than what was asked of it, in a line each."""
    folder, failed = Path(tempfile.mkdtemp(prefix="corebraid-training-")), list[str]()
    try:
        for number, session in enumerate(commands(folder)):
            told(number, len(SESSIONS))
            for words in session:
                ran = subprocess.run(
                    [*corebraid, *words],
                    env=environment,
                    stdin=-3,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if ran.returncode not in (0, 1, 3):
                    failed.append(f"{' '.join(words)}: exit code {ran.returncode}: {ran.stderr[-300:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return failed
