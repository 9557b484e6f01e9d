"""`python -m bench contested`: an order from accesses to contested pages, and from all.

Whole commands, one after the other in each round, in one process each; processor seconds. A ratio is taken
within a round.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench.report import Column, Table, publish
from bench.start import timed
from corebraid.study.about import Info

_ROOT = Path(__file__).resolve().parents[1] / "firmware"
_FIRMWARE = ("uts", "radix")
#: Threads that sleep on one another's locks, as those of most programs do.
_QUEUE = """
import queue, threading
q, total = queue.Queue(16), []
def work():
    s = 0
    while (x := q.get()) is not None:
        s += x * x
    total.append(s)
ts = [threading.Thread(target=work) for _ in range(3)]
for t in ts: t.start()
for k in range(3000): q.put(k)
for t in ts: q.put(None)
for t in ts: t.join()
print(sum(total))
"""


def _subjects(folder: Path) -> dict[str, list[str]]:
    """What to record on four cores, by name: threaded programs, if they are here, and firmware."""
    text = folder / "text"
    text.write_bytes(b"".join(b"%d squared is %d\n" % (k, k * k % 9973) for k in range(20_000)))
    found = {}
    for name, options in (("xz", ["-T4", "--block-size=50000", "-3", "-c"]), ("zstd", ["-T4", "-9", "-c"])):
        if program := shutil.which(name):
            found[" ".join([name, options[0]])] = ["--", program, *options, str(text)]
    found |= {name: [str(_ROOT / "x86_64-large" / f"{name}.elf")] for name in _FIRMWARE}
    for name in ("histogram", "mutexes"):
        found[name] = ["--", str(_ROOT / "linux" / "x86_64" / name)]
    if Path("/usr/bin/python3").exists():
        found["python3 queue"] = ["--", "/usr/bin/python3", "-S", "-c", _QUEUE]
    return found


def main(console: Console, rounds: int = 3) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "contested",
        "Orders from accesses to contested pages",
        [
            Column("program"), Column("M instr", ",.0f"), Column("events", ",.0f"), Column("all", ",.0f"),
            Column("replay", ".2f"), Column("order", ".2f"), Column("/", ".2f"), Column("check", ".2f"),
            Column("/ ", ".2f"), Column("verify", ".2f"), Column("/  ", ".2f"),
        ],
        [
            "Four cores, processor seconds of whole commands, medians. events: thousands that are ordered; "
            "all: accesses there are. replay: `replay --all`; order: `order --fresh --jobs 1`; check: "
            "`check-order`; verify: all of it; /: over `replay --all`."
        ],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        for name, arguments in _subjects(Path(scratch)).items():
            table.add(name, *_measured(Path(scratch), arguments, rounds))
    publish("contested", [table], console)
    return [table]


def _measured(folder: Path, arguments: list[str], rounds: int) -> list[int | float]:
    import corebraid

    ours, rec = [sys.executable, "-m", "corebraid"], folder / "rec"
    shutil.rmtree(rec, ignore_errors=True)
    timed([*ours, "record", "-o", str(rec), "--cores", "4", *arguments])
    times: dict[str, list[float]] = {}
    commands = {
        "replay": ["replay", str(rec), "--all", "--jobs", "1"],
        "order": ["order", str(rec), "--fresh", "--jobs", "1"],
        "check": ["check-order", str(rec)],
        "verify": ["verify", str(rec), "--jobs", "1"],
    }
    # The first round fills caches.
    for turn in range(rounds + 1):
        for what, command in commands.items():
            seconds = timed([*ours, *command])[0]
            times.setdefault(what, []).extend([seconds] if turn else [])
    few = corebraid.check_order(rec).events
    every = sum(len(rows) for rows, _ in corebraid.trace(rec))

    def ratio(what: str) -> float:
        return statistics.median(a / b for a, b in zip(times[what], times["replay"], strict=True))

    medians = {what: statistics.median(seconds) for what, seconds in times.items()}
    return [
        sum(Info.of(rec).manifest.instructions) / 1e6, few / 1e3, every / 1e3, medians["replay"],
        medians["order"], ratio("order"), medians["check"], ratio("check"), medians["verify"],
        ratio("verify"),
    ]  # fmt: skip
