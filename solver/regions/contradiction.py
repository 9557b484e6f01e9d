"""Evidence that contradicts the replay: said in one way, whichever engine finds it."""

from __future__ import annotations

from corebraid.base.errors import Contradiction
from corebraid.base.wording import Option, Phrase
from solver.regions.region import Region


def contradicts(engine: str, region: int, what: str) -> Contradiction:
    """What to raise where an engine's evidence does not go with the replayed cores. what: at which stream and
    event, and why."""
    return Contradiction(
        "the evidence contradicts the replay",
        found=what,
        where=f"evidence {engine}, region {region}",
        remedy=Phrase("take another engine, or record again with ", Option("evidence", engine)),
    )


def event_of_row(region: Region, stream: int, row: int) -> str:
    """A row of a region, which numbers those of each stream from 0, as "stream S, event N"."""
    for rows in region.streams[stream].pieces():
        if row < len(rows):
            return f"stream {stream}, event {int(rows['seq'][row])}"
        row -= len(rows)
    return f"stream {stream}, its end"
