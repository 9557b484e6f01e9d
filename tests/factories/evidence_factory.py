"""Recordings with evidence for the tests, and a collector that only keeps what it is handed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from corebraid.base.rows.event import EVENT
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions, record
from recorder.files.reader import Recording


@dataclass
class Spy:
    """A collector that keeps every turn: (stream, EVENT[n])."""

    turns: list[tuple[int, Any]] = field(default_factory=list)
    strata: list[int] = field(default_factory=list)

    def take(self, stream: int, rows: Any) -> None:
        self.turns.append((stream, rows.copy()))

    def stratum(self) -> None:
        self.strata.append(len(self.turns))

    def flush(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def rows(self, stream: int) -> Any:
        """All rows of a stream, EVENT[n]."""
        return np.concatenate([np.zeros(0, EVENT), *(rows for s, rows in self.turns if s == stream)])


def record_with(program: Path, directory: Path, **options: Any) -> Recording:
    """Record a firmware program; `options` are those of `RecordOptions`."""
    record(program, directory, X86_64, RecordOptions(**options), lambda _: None)
    return Recording.open(directory)


def spy_on(program: Path, directory: Path, **options: Any) -> tuple[Spy, Recording]:
    """Record with a spy that watches."""
    spy = Spy()
    record(program, directory, X86_64, RecordOptions(**options), lambda _: None, watchers=(spy,))
    return spy, Recording.open(directory)
