"""Engines that order from evidence of their own, by the name of their stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recorder.reader import Recording
    from solver.order import EvidenceEngine


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
