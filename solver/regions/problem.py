"""What an engine is given, a region's unfiltered events, and what it answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Verdict(enum.Enum):
    """An engine's answer for one region."""

    LEGAL = "legal"
    ILLEGAL = "illegal"
    UNDECIDED = "undecided"


#: What a problem leaves out: nothing, what losses prove, or also what tenures prove.
NOTHING, LOSSES, TENURES = 0, 1, 2
#: That in words.
DROPPED = {
    LOSSES: "without losses, which contradict its events",
    TENURES: "by values alone: tenures contradict its events",
}


class ProblemView(NamedTuple):
    """What kernels need of a `Problem`, whose fields these are."""

    end_row: NDArray[np.int64]
    part_ptr: NDArray[np.int64]
    granule: NDArray[np.int32]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    initial: NDArray[np.uint64]


@dataclass(frozen=True)
class Problem:
    """The unfiltered events of one region as indivisible operations on granules.

    An operation is one event row, or several that are GLUED. Operations are numbered stream by stream in
    program order: those of stream s are stream_ptr[s] to stream_ptr[s + 1]. Operation o touches the parts
    part_ptr[o] to part_ptr[o + 1]; a part is an access to one granule, with its value before and after.

    region: its number. rows: int64 (n_streams,), event rows of each stream in the region, filtered ones
    included. end_row: int64 (n_ops,), how many rows of its stream have been placed once the operation is.
    granule: int32 (n_parts,). old, new: uint64 (n_parts,). address: uint64 (n_granules,). size: uint8
    (n_granules,), bytes. initial, final: uint64 (n_granules,), values at the region's two ends.

    edges: int64 (n, 2), operations of different streams, of which the first comes before the second; the last
    `deduced` of them follow from tenures (`solver.tenures`), the others are facts of the recording. syncs:
    where agents met cores, `solver.regions.sync_order.places`; what they say of operations is in `edges`.
    dropped:
    what `edges` has nothing of, since it contradicts the rows or itself (`LOSSES`, `TENURES`). links: how
    many of the granules, the last ones, only tell order (`solver.regions.links`).

    buffered: under TSO the number of cores, each of which has two streams, loads and stores
    (`solver.regions.program_order`): the first and the last ones. Then there is more, which else is empty.
    source:
    int64 (n_ops,), a store: as long as it has not committed, the load sees its bytes and not memory; -1 if
    none. loads_before: int32, for each row of the streams of stores how many rows of the core's other
    stream come before it. needs: int64 (n, 3), core, row of its loads, how many rows of its stores come
    before that and all later ones.
    """

    region: int
    rows: NDArray[np.int64]
    stream_ptr: NDArray[np.int64]
    end_row: NDArray[np.int64]
    part_ptr: NDArray[np.int64]
    granule: NDArray[np.int32]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    initial: NDArray[np.uint64]
    final: NDArray[np.uint64]
    edges: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), np.int64))
    deduced: int = 0
    dropped: int = 0
    syncs: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 5), np.int64))
    buffered: int = 0
    source: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    links: int = 0
    loads_before: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    needs: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), np.int64))
    rights: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 5), np.int64))

    @property
    def n_streams(self) -> int:
        """Number of streams."""
        return len(self.rows)

    @property
    def n_ops(self) -> int:
        """Number of operations: the paper's |E|."""
        return len(self.end_row)

    @property
    def op_stream(self) -> NDArray[np.int64]:
        """int64 (n_ops,): the stream of each operation."""
        return np.repeat(np.arange(self.n_streams), np.diff(self.stream_ptr))

    @property
    def part_op(self) -> NDArray[np.int64]:
        """int64 (n_parts,): the operation of each part."""
        return np.repeat(np.arange(self.n_ops), np.diff(self.part_ptr))

    @property
    def stream_core(self) -> NDArray[np.int64]:
        """int64 (n_streams,): the core of each stream; agents have numbers of their own."""
        streams = np.arange(self.n_streams)
        return np.where(
            streams < self.n_streams - self.buffered, streams, streams - self.n_streams + self.buffered
        )

    @property
    def view(self) -> ProblemView:
        """The problem as kernels see it."""
        return ProblemView(
            self.end_row, self.part_ptr, self.granule, self.old, self.new, self.address, self.size,
            self.initial,
        )  # fmt: skip

    @property
    def part_source(self) -> NDArray[np.int32]:
        """int32 (n_parts,): the operation's `source` where that stands for this part's granule, else -1.
        Empty if there is none at all."""
        if not (self.source >= 0).any():
            return np.empty(0, np.int32)
        told = self.granule < len(self.address) - self.links
        found: NDArray[np.int32] = np.where(told, self.source[self.part_op], -1).astype(np.int32)
        return found

    def by_values(self) -> Problem:
        """The same without what tenures say."""
        edges = self.edges[: len(self.edges) - self.deduced]
        return replace(self, edges=edges, deduced=0, dropped=TENURES)

    def bounded(self, initial: NDArray[np.uint64], final: NDArray[np.uint64]) -> Problem:
        """The same with the values at the region's two ends filled in."""
        return replace(self, initial=initial, final=final)


@dataclass(frozen=True)
class Solution:
    """An engine's answer. order: int64 (n_ops,), the operations in a legal order, if LEGAL.

    reason: why it is undecided: "timeout", "budget", "too large" or "gave up"; what was reached, where an
    order was chosen (`solver.freedom.choose`); what was dropped (`DROPPED`), if anything; empty otherwise.
    runs: (stream, rows), int64 (n,) each, the region's rows in a legal order, where the engine knows more of
    them than how operations stand: of an identical read that is repeated, when it was; None: as `order` says.
    """

    verdict: Verdict
    engine: str
    seconds: float
    order: NDArray[np.int64]
    reason: str = ""
    runs: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None


def no_order() -> NDArray[np.int64]:
    """The order of an answer that has none."""
    return np.empty(0, np.int64)


def implied_initial(problem: Problem, order: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Initial value of each granule (uint64) as a solved order implies it: the old value of the first
    operation on it (MICRO 2009, section 4.2)."""
    rank = np.empty(problem.n_ops, np.int64)
    rank[order] = np.arange(problem.n_ops)
    latest_first = np.argsort(-rank[problem.part_op], kind="stable")
    if len(source := problem.part_source):
        # What a store buffer may have answered says nothing of memory.
        latest_first = latest_first[source[latest_first] < 0]
    initial = problem.initial.copy()
    initial[problem.granule[latest_first]] = problem.old[latest_first]
    return initial
