"""What the solver reads: every stream's events, the strata, and the memory at both ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from corebraid.base.hold_places import NO_HOLDS
from emu.bus.sync_points import SYNC_POINT

#: Rows of `corebraid.base.rows.event.EVENT`; numpy cannot name a structured type more closely.
Events = NDArray[Any]


class Traces(Protocol):
    """The traces of one recording. Streams are the cores from 0, then the agents,
    then, under TSO, the stores of the cores in the order in which they left the store buffers; `seq`
    counts a core's rows through both its streams.

    n_streams: 1 to 254. buffered: 0, or the number of cores under TSO: stream n_streams - buffered + k
    has the stores of core k. memory_bytes: every event that is not UNCACHED lies in [0, memory_bytes).
    strata: uint64 (n_strata, n_streams), each stream's instruction count at the cut; an event whose count
    is below it lies before the cut. Of a stream of stores: how many of its events do. syncs: SYNC_POINT
    (n,), where agents met cores, in the agents' order, which every order of the events must keep
    (`solver.regions.sync_order`). line_bytes: bytes in a line of the cores' caches, 0 if tenures are not to
    be used (`solver.tenures`); else `records` gives the cores' miss records, and misses_prove_writes says
    whether every miss but the first on a line proves a foreign write. unbounded: whether caches are.
    has_losses:
    whether the cores have noted the lines that they lost; then `losses` gives them. agents_say_owned: whether
    agents' accesses are OWNED where a core had the line alone. whole_pages: whether lines come and go by
    pages, so that a core has one from its record on, accessed or not. untold: pages of whose bytes not
    all changes are rows (uint64[n], numbers). contested: whether the cores' rows are only those of
    accesses to pages that another stream may have had in the same region (`recorder.replay.contested`).
    holds: of which pages not accesses are rows but what became of rights to them
    (`corebraid.base.hold_places`, `recorder.replay.holds`). handovers: of each core the regions that
    begin where it tells all that it has made of its pages (`recorder.replay.handovers`). marked: whether
    they are all, and those that such traces leave out are UNCOUNTED.
    """

    @property
    def n_streams(self) -> int:
        """Number of streams."""

    @property
    def buffered(self) -> int:
        """Number of streams of stores."""

    @property
    def memory_bytes(self) -> int:
        """Size of the memory images, in bytes."""

    @property
    def strata(self) -> NDArray[np.uint64]:
        """(n_strata, n_streams) instruction counts."""

    @property
    def syncs(self) -> Events:
        """Where agents met cores, SYNC_POINT (n,)."""

    @property
    def line_bytes(self) -> int:
        """Bytes in a line, or 0."""

    @property
    def misses_prove_writes(self) -> bool:
        """Whether caches are unbounded, and lines are lost to writes alone."""

    @property
    def agents_say_owned(self) -> bool:
        """Whether agents' accesses say that a core had the line alone."""

    @property
    def whole_pages(self) -> bool:
        """Whether a core has lines that it does not access."""

    @property
    def untold(self) -> Events:
        """Pages of whose bytes not all changes are rows."""

    @property
    def unbounded(self) -> bool:
        """Whether a core keeps every line that nobody takes from it."""

    @property
    def has_losses(self) -> bool:
        """Whether the cores have noted what they lost."""

    @property
    def holds(self) -> int:
        """Of which pages holds are rows."""

    @property
    def handovers(self) -> tuple[tuple[int, ...], ...]:
        """Where cores tell what they have made."""

    @property
    def contested(self) -> bool:
        """Whether accesses to pages that are a stream's own in their region are left out."""

    @property
    def marked(self) -> bool:
        """Whether they are there, and marked."""

    def losses(self, core: int) -> Iterator[Events]:
        """What a core lost, in that order, piece by piece: LOSS (n,)."""

    def records(self, core: int) -> Iterator[tuple[Events, NDArray[np.uint8]]]:
        """A core's miss records, and perhaps others, in the order of its log, piece by piece: RECORD (n,) and
        the bytes that they index."""

    @property
    def has_final(self) -> bool:
        """Whether `final` is known: not where the recorder was killed."""

    def initial(self) -> NDArray[np.uint8]:
        """Memory before the first event, flat, (memory_bytes,). May be mapped and sparse: touch little."""

    def final(self) -> NDArray[np.uint8]:
        """Memory after the last event, flat, (memory_bytes,)."""

    def chunks(self, stream: int) -> Iterator[Events]:
        """All rows of a stream in program order, in chunks of bounded length, `stratum` filled in."""

    def streams(self) -> list[Iterator[Events]]:
        """`chunks` of all streams, for a reader who reads them side by side."""

    def program_order(self, stream: int) -> Iterator[Events]:
        """All of a core's rows in program order, stores included; of the agents `chunks`."""


@dataclass
class MemoryTraces:
    """`Traces` held in memory. rows: one EVENT array a stream; chunk_rows: how `chunks` cuts them."""

    rows: list[Events]
    strata: NDArray[np.uint64]
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    chunk_rows: int = 1 << 16
    has_final: bool = True
    buffered: int = 0
    syncs: Events = field(default_factory=lambda: np.zeros(0, SYNC_POINT))
    line_bytes: int = 0
    misses_prove_writes: bool = False
    unbounded: bool = False
    agents_say_owned: bool = False
    whole_pages: bool = False
    untold: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    contested: bool = False
    marked: bool = False
    holds: int = NO_HOLDS
    handovers: tuple[tuple[int, ...], ...] = ()
    logs: list[tuple[Events, NDArray[np.uint8]]] = field(default_factory=list)
    lost: list[Events] = field(default_factory=list)
    n_streams: int = field(init=False)
    memory_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_streams, self.memory_bytes = len(self.rows), len(self.before)

    def records(self, core: int) -> Iterator[tuple[Events, NDArray[np.uint8]]]:
        """A core's miss records."""
        return iter(self.logs[core : core + 1])

    @property
    def has_losses(self) -> bool:
        """Whether there is a list of losses."""
        return bool(self.lost)

    def losses(self, core: int) -> Iterator[Events]:
        """What a core lost."""
        return iter(self.lost[core : core + 1])

    def initial(self) -> NDArray[np.uint8]:
        """Memory before the first event."""
        return self.before

    def final(self) -> NDArray[np.uint8]:
        """Memory after the last event."""
        return self.after

    def chunks(self, stream: int) -> Iterator[Events]:
        """All rows of a stream, in chunks."""
        rows = self.rows[stream]
        for start in range(0, len(rows), self.chunk_rows):
            yield rows[start : start + self.chunk_rows]

    def streams(self) -> list[Iterator[Events]]:
        """`chunks` of all streams."""
        return [self.chunks(stream) for stream in range(self.n_streams)]

    def program_order(self, stream: int) -> Iterator[Events]:
        """All rows of a core, in one chunk."""
        rows = self.rows[stream]
        if stream < self.buffered:
            rows = np.concatenate([rows, self.rows[self.n_streams - self.buffered + stream]])
        yield rows[np.argsort(rows["seq"], kind="stable")]
