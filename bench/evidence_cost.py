"""What evidence costs the recorder: wall time with each stream, and with all, over that without."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.programs import image
from bench.report import Column, Table
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, RecordOptions
from recorder.files.evidence_names import STREAMS, settled

PROGRAMS = ("uts", "radix", "laplace", "nqueens", "matmul", "ring")
ROUNDS = 3


def seconds(program: Path, cores: int, evidence: tuple[str, ...], folder: Path) -> float:
    """Wall time of one recording, from the first instruction to the last byte."""
    said = settled(evidence, {}, cores)
    options = RecordOptions(cores=cores, seed=1, evidence=evidence, evidence_options=said)
    capture = Capture(program, folder, X86_64, options, lambda _: None)
    began = time.perf_counter()
    with capture.writer:
        capture.run()
    return time.perf_counter() - began


def evidence_cost(programs: tuple[str, ...] = PROGRAMS, cores: int = 4, rounds: int = ROUNDS) -> Table:
    """The ratios, the best of some rounds in which all take turns."""
    ways = {"none": (), **{name: (name,) for name in STREAMS}, "all": tuple(STREAMS)}
    columns = [Column("program"), Column("cores", ",d"), Column("seconds", ".2f")]
    columns += [Column(name, ".2f") for name in list(ways)[1:]]
    notes = [
        "seconds: without evidence; the others: wall time over that, the best of three rounds in which all "
        "take turns. The goal: all of it at most 3."
    ]
    table = Table("cost", "Recording with evidence: wall time over recording without", columns, notes)
    for name in programs:
        best = dict.fromkeys(ways, float("inf"))
        with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as temporary:
            for number in range(rounds):
                for way, evidence in ways.items():
                    folder = Path(temporary) / f"{way}-{number}"
                    best[way] = min(best[way], seconds(image(name, "medium"), cores, evidence, folder))
        table.add(name, cores, best["none"], *(best[way] / best["none"] for way in list(ways)[1:]))
    return table
