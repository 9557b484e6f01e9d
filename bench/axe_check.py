"""`corebraid check` on foreign traces and on recordings', side by side with another state of the project.

    python -m bench.axe_check [--before CHECKOUT] [--axe PROGRAM] [--rounds N]

Work after start-up: reading the trace, deciding it, and checking its order, in processor time of a process
in which the kernels have run before. CHECKOUT: another checkout, measured in turn with this one. PROGRAM:
the axe checker, the whole of its run.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.axe_traces import Shape, random_ops, to_text
from bench.report import Column, Table, publish
from corebraid.base.kernel_cache import use_kernel_cache

ROOT = Path(__file__).resolve().parent.parent
#: Longest time for one trace; some stay undecided without their hints.
_TIMEOUT_S = 10
#: Programs whose traces are checked: cores, model, strata. The first is the README's own recording.
_RECORDED = (
    ("uts", 4, "sc", "cycles:10000"),
    ("uts", 4, "sc", "none"),
    ("uts", 8, "sc", "none"),
    ("bug_aba", 8, "sc", "none"),
    ("pgas_uts", 4, "sc", "none"),
    ("uts", 8, "tso", "none"),
)
_CHILD = """
import json, resource, sys, time
from pathlib import Path
from corebraid.base.kernel_cache import use_kernel_cache
use_kernel_cache()
from solver.axe.decide import decide
from solver.axe.text import read_traces

def work(path):
    began = time.process_time()
    trace = next(read_traces(Path(path)))
    verdict = decide(trace, sys.argv[2], timeout_s=float(sys.argv[4])).verdict.value
    return time.process_time() - began, verdict

work(sys.argv[3])
seconds, verdict = work(sys.argv[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "verdict": verdict, "megabytes": peak}))
"""


def _random_trace(threads: int, ops: int, model: str, by_thread: bool) -> str:
    shape = Shape(threads, 64, ops, tso=model == "tso")
    rows, finals = random_ops(shape, random.Random(7))
    return to_text(sorted(rows, key=lambda op: op[0]) if by_thread else rows, finals)


def _recorded(folder: Path, program: str, cores: int, model: str, strata: str) -> str:
    """The trace of a recording, with its hints."""
    corebraid = [sys.executable, "-m", "corebraid"]
    path = folder / f"rec-{program}-{cores}-{model}-{strata.replace(':', '-')}"
    guest = ROOT / "firmware" / "x86_64" / f"{program}.elf"
    options = ["--cores", str(cores), "--model", model, "--strata", strata]
    record = [*corebraid, "record", "-o", path, *options, guest]
    subprocess.run(record, check=True, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL)
    trace = [*corebraid, "trace", path, "--format", "axe"]
    return subprocess.run(trace, check=True, cwd=ROOT, capture_output=True, text=True).stdout


def _measure(checkout: Path, trace: Path, model: str, warm: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", _CHILD, trace, model, warm, str(_TIMEOUT_S)]
    ran = subprocess.run(command, check=True, cwd=checkout, capture_output=True, text=True)
    facts: dict[str, Any] = json.loads(ran.stdout)
    return facts


def _axe_seconds(program: Path, trace: Path, model: str) -> float | None:
    """Processor time of the axe checker, None if it does not take the trace or is not done in time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        ran = subprocess.run(
            [program, "check", model, trace], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used if ran.stdout.strip() in ("OK", "NO") else None


def _operations(text: str) -> int:
    return sum(line[:1].isdigit() for line in text.splitlines())


def _traces(folder: Path) -> list[tuple[str, str, str]]:
    """(what it is, model, text) of every trace."""
    made = []
    for threads in (4, 8):
        for model in ("sc", "tso"):
            for by_thread in (False, True):
                how = "thread by thread" if by_thread else "in order of issue"
                text = _random_trace(threads, 100_000, model, by_thread)
                made.append((f"{threads} threads, {how}", model, text))
    for model in ("sc", "tso"):
        made.append(("4 threads, in order of issue", model, _random_trace(4, 1_000_000, model, False)))
    for program, cores, model, strata in _RECORDED:
        text = _recorded(folder, program, cores, model, strata)
        name = f"{program} on {cores} cores, strata {strata}"
        made.append((name, model, text))
        made.append((f"{name}, without `after`", model, re.sub(r" (is|after) @\d+", "", text)))
        made.append((f"{name}, comments left out", model, re.sub(r" #.*", "", text)))
    return made


def measure(before: Path | None, axe: Path | None, rounds: int, folder: Path) -> Table:
    """The table; `folder` is for traces and recordings."""
    columns = [Column("trace"), Column("model"), Column("operations", ",d"), Column("answer")]
    columns += [Column("s", ".3f"), Column("peak MB", ",.0f")]
    columns += [Column("before: s", ".2f"), Column("answer"), Column("before / now", ".1f")] if before else []
    columns += [Column("axe: s", ".2f"), Column("axe / now", ".1f")] if axe else []
    notes = [
        f"Medians of {rounds} round(s) of processor time after start-up: read, decide, check the order; at "
        f"most {_TIMEOUT_S} s. Random traces: 64 locations, unique values, half of the accesses stores, a "
        "tenth atomics."
    ]
    table = Table("check", "`corebraid check`: work after start-up", columns, notes)
    warm = folder / "warm.axe"
    warm.write_text(_random_trace(3, 300, "sc", False))
    for name, model, text in _traces(folder):
        trace = folder / "t.axe"
        trace.write_text(text)
        now, then, other = [], [], []
        for _ in range(rounds):
            now.append(_measure(ROOT, trace, model, warm))
            if before:
                then.append(_measure(before, trace, model, warm))
            if axe:
                other.append(_axe_seconds(axe, trace, model))
        seconds = statistics.median(facts["seconds"] for facts in now)
        cells = [name, model, _operations(text), now[0]["verdict"], seconds, now[0]["megabytes"]]
        if before:
            old = statistics.median(facts["seconds"] for facts in then)
            cells += [old, then[0]["verdict"], old / seconds]
        if axe:
            known = [value for value in other if value is not None]
            cells += [statistics.median(known), statistics.median(known) / seconds] if known else ["-", "-"]
        table.add(*cells)
    return table


def main(console: Console, *, before: Path | None = None, axe: Path | None = None, rounds: int = 1) -> None:
    """Measure, print and write the table."""
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        publish("check", [measure(before, axe, rounds, Path(folder))], console)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.axe_check", description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout to measure in turn")
    parser.add_argument("--axe", type=Path, help="the axe checker, built")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    use_kernel_cache()
    main(Console(), before=options.before, axe=options.axe, rounds=options.rounds)
