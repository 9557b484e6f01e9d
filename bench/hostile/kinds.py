"""The kinds of the campaign."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from bench.hostile.campaign import Preparation


@dataclass(frozen=True)
class Kind:
    """module: where its `prepare` is. cases: how many `make soak` tries."""

    module: str
    cases: int

    def load(self) -> Preparation:
        """Its function `prepare`."""
        found: Preparation = importlib.import_module(f"bench.hostile.{self.module}").prepare
        return found


KINDS = {
    "mutations": Kind("mutations", 1_000_000),
    "commands": Kind("commands", 10_000),
    "bombs": Kind("bombs", 500),
    "instructions": Kind("instructions", 10_000),
    "kills": Kind("kills", 1_000),
    "resources": Kind("resources", 54),
}
