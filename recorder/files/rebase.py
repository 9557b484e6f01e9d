"""Rows counted from another beginning: those of a part of a run as a run of its own, and the other way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corebraid.base.rows.record import MISS, STRATUM
from recorder.files.agent_codec import SYNC

Rows = npt.NDArray[np.void]

_WORD = (1 << 64) - 1


def _words(numbers: Sequence[int]) -> npt.NDArray[np.uint64]:
    return np.array([number & _WORD for number in numbers], np.uint64)


@dataclass(frozen=True)
class Base:
    """How far a run is: instructions of each core, accesses of agents, strata, stores of each core that have
    left its store buffer (none without such); or how much farther than another one, negative where it is not
    as far."""

    counts: tuple[int, ...]
    accesses: int = 0
    strata: int = 0
    committed: tuple[int, ...] = ()

    @classmethod
    def beginning(cls, n_cores: int) -> Base:
        """Where a run begins."""
        return cls((0,) * n_cores, committed=(0,) * n_cores)

    def since(self, other: Base) -> Base:
        """How much farther this is than `other`."""
        counts, committed = (
            tuple(here - there for here, there in zip(one, another, strict=True))
            for one, another in ((self.counts, other.counts), (self.committed, other.committed))
        )
        return Base(counts, self.accesses - other.accesses, self.strata - other.strata, committed)

    @property
    def back(self) -> Base:
        """The way back."""
        committed = tuple(-stores for stores in self.committed)
        return Base(tuple(-count for count in self.counts), -self.accesses, -self.strata, committed)

    @property
    def _counts(self) -> npt.NDArray[np.uint64]:
        return _words(self.counts)

    def of_core(self, core: int, rows: Rows) -> Rows:
        """A core's rows (RECORD[n]), so much later."""
        moved = rows.copy()
        moved["count"] += self._counts[core]
        cuts = rows["kind"] == STRATUM
        moved["value"][cuts] += np.uint64(self.strata & _WORD)
        if self.committed:
            stores = np.uint64(self.committed[core] & _WORD)
            moved["addr"][cuts] += stores
            moved["value"][rows["kind"] == MISS] += stores
        return moved

    def of_agents(self, rows: Rows) -> Rows:
        """The agents' (AGENT_OP[n])."""
        moved = rows.copy()
        moved["number"] += np.uint64(self.accesses & _WORD)
        moved["stratum"] += np.uint32(self.strata & 0xFFFFFFFF)
        met = rows["kind"] == SYNC
        moved["addr"][met] += self._counts[rows["cause"][met]]
        return moved

    def of_truth(self, rows: Rows) -> Rows:
        """The sealed truth's (TRUTH[n])."""
        moved = rows.copy()
        by = np.concatenate([self._counts, _words([self.accesses]), _words(self.committed)])
        moved["end"] += by[rows["stream"]]
        return moved

    def of_losses(self, rows: Rows) -> Rows:
        """Losses (LOSS_NOTE[n]), whose counts have the strata cut so far in them."""
        moved = rows.copy()
        moved["count"] += self._counts[rows["core"]] + np.uint64(self.strata & _WORD)
        return moved
