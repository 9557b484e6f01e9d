"""Kind `bombs`: files below a megabyte that say more than can be held, over all commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.hostile import mutations
from bench.hostile.mutate_much import much


def prepare(numbers: Sequence[int], seed: int, folder: Path) -> mutations.Trials:
    """The cases with these numbers, each in a process of its own."""
    return mutations.prepare(numbers, seed, folder, turns=1, change=much)
