"""The kinds of the campaign."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from bench.hostile.tally import Tally


@dataclass(frozen=True)
class Kind:
    """module: where its `campaign` is. cases: how many `make soak` tries."""

    module: str
    cases: int

    def load(self) -> Callable[..., Tally]:
        """Its function `campaign(numbers, seed, folder, jobs, heard=...)`."""
        found: Callable[..., Tally] = importlib.import_module(f"bench.hostile.{self.module}").campaign
        return found


KINDS = {
    "mutations": Kind("mutations", 20_000),
    "commands": Kind("commands", 200),
    "instructions": Kind("instructions", 1_000),
    "kills": Kind("kills", 200),
    "resources": Kind("resources", 1_000),
}
