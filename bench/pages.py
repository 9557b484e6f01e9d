"""`python -m bench pages`: recording on both buses, beside a hook-free replay of the same run.

Processor seconds of this process, of the run alone, all in one round one after the other; a ratio is taken
within a round. One core: private data. Several: data that is shared, at the worst one page that all write.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from bench.programs import image
from bench.report import Column, Table, publish
from bench.speed import Seconds, spread, time_record, time_replay
from emu.bus.names import BUSES
from recorder.capture.firmware import RecordOptions
from recorder.files.manifest import core_log
from recorder.files.reader import Recording


@dataclass(frozen=True)
class Case:
    """A program on some cores. size: of the image (`bench.programs.image`). limit: instructions; a run of a
    few hundredths of a second is strata more than anything else."""

    program: str
    cores: int
    size: str = "large"
    limit: int = 100_000_000

    @property
    def name(self) -> str:
        """In the table."""
        return f"{self.program}, {self.cores} core{'s' if self.cores > 1 else ''}"


CASES = (
    *(Case(name, 1) for name in ("uts", "matmul", "radix", "nqueens", "laplace")),
    *(Case(name, 4) for name in ("uts", "radix", "nqueens")),
    Case("bug_lost_update", 2, ""), Case("spin_ticket", 8, ""),
)  # fmt: skip


@dataclass
class Measured:
    """By bus: seconds of recording and of replaying that, one entry a round; bytes of the cores' logs."""

    record: dict[str, list[Seconds]]
    replay: dict[str, list[Seconds]]
    log_bytes: dict[str, int]
    instructions: int = 0


def measure_round(case: Case, measured: Measured) -> None:
    """Record on each bus and replay that, once."""
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        options = RecordOptions(cores=case.cores, seed=1, limit=case.limit, evidence=("losses",))
        for bus in BUSES:
            folder = Path(scratch) / bus
            seconds, measured.instructions, _ = time_record(
                image(case.program, case.size), folder, replace(options, bus=bus)
            )
            measured.record.setdefault(bus, []).append(seconds)
            measured.replay.setdefault(bus, []).append(time_replay(folder, traced=False))
            files = Recording.open(folder).manifest.files
            measured.log_bytes[bus] = sum(files[core_log(core)].bytes for core in range(case.cores))


def main(console: Console, rounds: int = 3, cases: tuple[Case, ...] = CASES) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "pages",
        "Recording on the page bus and on the line bus",
        [
            Column("program"), Column("instructions", ",d"), Column("page / its replay", ">"),
            Column("mesi / its replay", ">"), Column("page / mesi", ">"),
            *(Column(f"bytes per 1000, {bus}", ".2f") for bus in reversed(BUSES)),
        ],
        ["Run alone, processor seconds; median (least-most) of the rounds' ratios. Logs of the cores alone."],
    )  # fmt: skip
    results = {case: Measured({}, {}, {}) for case in cases}
    with console.status("kernels are being loaded") as status:
        measure_round(Case("uts", 2, ""), Measured({}, {}, {}))
        for number in range(rounds):
            for case, measured in results.items():
                status.update(f"round {number + 1} of {rounds}: {case.name}")
                measure_round(case, measured)
    for case, measured in results.items():
        mesi, page = BUSES
        table.add(
            case.name, measured.instructions, _ratio(measured.record[page], measured.replay[page]),
            _ratio(measured.record[mesi], measured.replay[mesi]),
            _ratio(measured.record[page], measured.record[mesi]),
            *(1000 * measured.log_bytes[bus] / measured.instructions for bus in (page, mesi)),
        )  # fmt: skip
    publish("pages", [table], console)
    return [table]


def _ratio(of: list[Seconds], over: list[Seconds]) -> str:
    return spread([one.run / other.run for one, other in zip(of, over, strict=True)])
