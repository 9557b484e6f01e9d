"""Kind `commands`: the cases of `mutations` through the command line, from the start of Python to its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.hostile import mutations

_ROOT = Path(__file__).resolve().parents[2]


def execute(arguments: list[str]) -> int:
    """This process becomes `corebraid` with these arguments."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    os.execve(sys.executable, [sys.executable, "-m", "corebraid", *arguments], environment)


def prepare(numbers: Sequence[int], seed: int, folder: Path) -> mutations.Trials:
    """The cases with these numbers."""
    return mutations.prepare(numbers, seed, folder, execute, turns=1)
