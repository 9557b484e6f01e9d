"""Engines that need evidence of their own, by the name of their stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recorder.reader import Recording
    from solver.order import EvidenceEngine

#: Engines that order regions, and engines that replay the whole run.
ORDERING = ("linkage", "slices")
WHOLE: tuple[str, ...] = ()


@dataclass(frozen=True)
class WholeRun:
    """What an engine that replays found. text: for a reader. facts: for --json. wrong: what does not
    agree."""

    engine: str
    text: str
    facts: dict[str, object]
    wrong: list[str]


def evidence_engine(recording: Recording, name: str) -> EvidenceEngine | None:
    """The engine of this name for a recording; None for one that needs no evidence.

    Raises UsageError if the recording lacks the evidence, FormatError if it is damaged.
    """
    if name == "linkage":
        from solver.linkage.engine import LinkageEngine

        return LinkageEngine.of(recording)
    if name == "slices":
        from solver.lightplay.engine import SlicesEngine

        return SlicesEngine.of(recording)
    return None


def whole_runs(recording: Recording, names: list[str]) -> list[WholeRun]:
    """What the engines among `names` find that replay the whole run."""
    return []
