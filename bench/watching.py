"""What benchmarks of recorders have in common: a guest without a machine, and a count of its events."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from corebraid.base.rows.event import READ, UNCACHED
from corebraid.study.subjects import objects_of
from recorder.capture.firmware import RecordOptions
from recorder.files.collectors import Guest, Rows


class Watched:
    """Counts events: all, reads."""

    def __init__(self) -> None:
        self.events = self.reads = 0

    def take(self, stream: int, rows: Rows) -> None:
        """See `recorder.files.collectors.Collector`."""
        cached = (rows["flags"] & np.uint8(UNCACHED)) == 0
        self.events += int(cached.sum())
        self.reads += int((rows["kind"][cached] == READ).sum())

    def stratum(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""


def guest_of(program: Path, options: RecordOptions) -> Guest:
    """What a collector that watches a run of `program` is told."""
    memory = np.zeros(options.memory_bytes, np.uint8)
    return Guest(options.cores, options.cache.line, options.seed, memory, objects_of(program))
