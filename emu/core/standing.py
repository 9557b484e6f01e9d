"""Where a core that replays its own log stands, and why it has stopped there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NeedRows:
    """The replay needs the next rows of the log."""


@dataclass(frozen=True)
class AtBarrier:
    """The core stands exactly at a row that is not a miss or an input; `row` is that RECORD."""

    row: np.void


@dataclass(frozen=True)
class TraceFull:
    """The trace buffer must be emptied."""


@dataclass(frozen=True)
class Diverged:
    """The core did something that its log does not allow, in words."""

    what: str
    expected: str
    found: str


@dataclass(frozen=True)
class CoreState:
    """What a core is between two instructions, but for its memory. count: instructions retired; strata:
    passed; context: its registers, as the ISA lays them out; unlisted: those that are not among them;
    committed: stores that have left its store buffer, which must be empty; awaiting: not 0 if a system call
    got no result."""

    count: int
    strata: int
    context: bytes
    unlisted: tuple[int, ...]
    committed: int = 0
    awaiting: int = 0


Step = NeedRows | AtBarrier | TraceFull | Diverged
