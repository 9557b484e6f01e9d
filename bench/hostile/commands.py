"""Kind `commands`: the cases of `mutations` through the command line, from the start of Python to its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.hostile import mutations
from bench.hostile.fork_server import Limits
from bench.hostile.tally import Tally

_ROOT = Path(__file__).resolve().parents[2]


def execute(arguments: list[str]) -> int:
    """This process becomes `corebraid` with these arguments."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    os.execve(sys.executable, [sys.executable, "-m", "corebraid", *arguments], environment)


def campaign(
    numbers: Iterable[int],
    seed: int,
    folder: Path,
    jobs: int = 1,
    limits: Limits | None = None,
    heard: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Try the cases with these numbers."""
    return mutations.campaign(numbers, seed, folder, jobs, limits, execute, heard, "commands")
