"""What all engines' tests share: how many cases, of which shape, by which engines."""

from __future__ import annotations

import os
import random
from pathlib import Path

from trace_factory import Shape

from corebraid.base.errors import FormatError, OrderError
from solver.passes.answers import Options
from solver.passes.order import order_recording
from solver.regions.problem import Verdict
from solver.regions.traces import MemoryTraces

#: COREBRAID_SOAK multiplies the numbers of random cases.
SOAK = int(os.environ.get("COREBRAID_SOAK", "1"))

RECORDING = bytes(range(16))

ENGINES = {
    "cut": Options(engine="cut", timeout_s=20),
    "smt-chain": Options(engine="smt", encoding="chain", timeout_s=20),
    "smt-paper": Options(engine="smt", encoding="paper", timeout_s=20),
    "auto": Options(timeout_s=20),
}


def shape_of(seed: int, steps: tuple[int, ...]) -> Shape:
    rng = random.Random(seed)
    return Shape(
        streams=rng.randrange(1, 6),
        steps=rng.choice(steps),
        domain=rng.choice((0, 16, 4, 2)),
        hot=rng.choice((16, 24, 40)),
        strata=rng.choice((0, 0.05, 0.2)),
        aligned=rng.random() < 0.3,
        spin=rng.choice((0, 0.1, 0.3)),
        glued=rng.choice((0, 0.05, 0.2)),
    )


def verdict_of(traces: MemoryTraces, path: Path, options: Options) -> Verdict:
    try:
        return order_recording(traces, path, RECORDING, options).verdict
    except (OrderError, FormatError):
        return Verdict.ILLEGAL
