"""`python -m bench seek`: a moment of a long run, with checkpoints and without, and what they cost.

Whole commands, one after the other in each round; processor seconds. A ratio is taken within a round.
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
from recorder.files.manifest import checkpoint_log, core_log

LARGE = Path(__file__).resolve().parents[1] / "firmware" / "x86_64-large"
PROGRAMS = ("uts", "matmul", "radix", "nqueens", "laplace")
#: Where the moment is, of the run.
_WHERE = 0.9
_WAYS = ("auto", "none")


def _text(size: int) -> bytes:
    return b"".join(b"%d squared is %d\n" % (k, k * k % 9973) for k in range(size))


def _subjects(folder: Path) -> dict[str, list[str]]:
    """What to record, by name: firmware on one core, and a compressor, if there is one."""
    found = {name: ["--cores", "1", str(LARGE / f"{name}.elf")] for name in PROGRAMS}
    if xz := shutil.which("xz"):
        text = folder / "text"
        text.write_bytes(_text(20_000))
        found["xz -6"] = ["--cores", "1", "--", xz, "-6", "-c", str(text)]
    return found


def main(console: Console, rounds: int = 5) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "seek",
        "A moment at nine tenths of a run",
        [
            Column("program"), Column("M instr", ",.0f"), Column("points", "d"), Column("log KB", ",.0f"),
            Column("KB", ",.0f"), Column("rec", ".2f"), Column("trace", ".2f"), Column("none", ".2f"),
            Column("/", ".1f"), Column("replay", ".2f"), Column("none ", ".2f"),
        ],
        [
            "Processor seconds of whole commands on one core, medians. points, KB: checkpoints, their bytes. "
            "rec: `record`, as it is over --checkpoint none. trace: `trace --core 0 --from N --limit 1` with "
            "checkpoints and with none. replay: `replay --core 0 --until N`."
        ],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        for name, arguments in _subjects(Path(scratch)).items():
            table.add(name, *_measured(Path(scratch), arguments, rounds))
    publish("seek", [table], console)
    return [table]


def _measured(folder: Path, arguments: list[str], rounds: int) -> list[int | float]:
    from recorder.files.checkpoints import checkpoints
    from recorder.files.reader import Recording

    ours = [sys.executable, "-m", "corebraid"]
    times: dict[tuple[str, str], list[float]] = {}
    # The first round fills caches.
    for turn in range(rounds + 1):
        for way in _WAYS:
            rec = folder / way
            shutil.rmtree(rec, ignore_errors=True)
            did = {"record": timed([*ours, "record", "-o", str(rec), "--checkpoint", way, *arguments])[0]}
            moment = str(int(Info.of(rec).manifest.instructions[0] * _WHERE))
            look = ["trace", str(rec), "--core", "0", "--from", moment, "--limit", "1"]
            did["trace"] = timed([*ours, *look])[0]
            did["replay"] = timed([*ours, "replay", str(rec), "--core", "0", "--until", moment])[0]
            for what, seconds in did.items():
                times.setdefault((what, way), []).extend([seconds] if turn else [])
    opened = Recording.open(folder / "auto")
    sizes = Info.of(folder / "auto").sizes

    def median(what: str, way: str) -> float:
        return statistics.median(times[what, way])

    def ratio(what: str, above: str, below: str) -> float:
        pairs = zip(times[what, above], times[what, below], strict=True)
        return statistics.median(one / other for one, other in pairs)

    return [
        opened.manifest.instructions[0] / 1e6, len(checkpoints(opened, 0)), sizes[core_log(0)] / 1e3,
        sizes.get(checkpoint_log(0), 0) / 1e3, ratio("record", "auto", "none"), median("trace", "auto"),
        median("trace", "none"), ratio("trace", "none", "auto"), median("replay", "auto"),
        median("replay", "none"),
    ]  # fmt: skip
