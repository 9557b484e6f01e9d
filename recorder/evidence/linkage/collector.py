"""The collector of evidence `linkage`: Stride's recorder (ICSE 2012, Table I, section V).

A variable is a word of 8 bytes, a line, or a symbol of the program. Shared is what a second stream has
touched: a program's image has no types on which to run an escape analysis.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from corebraid.base.host_memory import host_memory
from recorder.evidence.linkage.codec import (
    ALL,
    BOUND,
    CHECK,
    DOUBLE,
    FETCH,
    GUARDED,
    LOOSE,
    LOOSENED,
    OPENED,
    ORDER,
    REPLAYED,
    SHARE,
    SKIPPED,
    VALUE,
    Grouping,
    Head,
    LinkageWriter,
)
from recorder.evidence.linkage.kernels import (
    MOST_ADDED,
    ORDERS,
    SHARES,
    STREAM,
    VARIABLE,
    Names,
    Shadow,
    State,
    Tables,
    close_bounds,
    close_orders,
    note_fetches,
    settle,
    take_rows,
)
from recorder.evidence.linkage.locks import LOOSENED as N_LOOSENED
from recorder.evidence.linkage.locks import OPENED as N_OPENED
from recorder.evidence.linkage.locks import SKIPPED as N_SKIPPED
from recorder.evidence.linkage.locks import new_guards
from recorder.files.access_digest import AccessDigest
from recorder.files.collectors import EvidenceWriter, Guest, Rows
from recorder.files.columns import Table

#: Entries of a core's tables of last values and of last versions, as powers of two.
SHADOW_BITS, SEEN_BITS = 15, 14
#: Rows that a table holds before it is written, and events that are taken down at once.
_ROOM, _AT_ONCE = 1 << 15, 1 << 12


class LinkageCollector:
    """Takes linkages down. compressions: bits of recorder/evidence/linkage/codec.py. late: whether versions
    are looked at as late as the paper's recorder may, at the core's next event; else at once, to compare."""

    def __init__(
        self,
        guest: Guest,
        writer: EvidenceWriter,
        group: str = "word",
        compressions: int = ALL,
        late: bool = True,
    ) -> None:
        objects: Table = np.array(guest.symbols, np.uint64).reshape(-1, 2)
        if group != "symbol":
            objects = objects[:0]
        grouping = Grouping(group, guest.line, len(guest.memory), objects)
        grouping.check()
        self._late = late
        self._writer = LinkageWriter(writer, Head(grouping, compressions, SHADOW_BITS, SEEN_BITS))
        names = Names(np.uint64(grouping.shift), np.uint64(len(objects)), grouping.symbol_of_word())
        n_streams = guest.n_cores + 1
        self._agents = guest.n_cores
        variables = host_memory(grouping.n_variables * VARIABLE.itemsize).view(VARIABLE)
        bits = np.array([SHADOW_BITS, SEEN_BITS], np.int64)
        shadow = Shadow(
            np.zeros((n_streams, 1 << SHADOW_BITS), np.uint64),
            np.zeros((n_streams, 1 << SEEN_BITS, 2), np.uint64),
        )
        #: Shared variables whose shares have been written.
        self._shared: list[Table] = []
        rows = _ROOM + MOST_ADDED * (_AT_ONCE + 1)
        tables = Tables(
            np.zeros((rows, 5), np.uint64),
            np.zeros((rows, 3), np.uint64),
            np.zeros((n_streams, rows, 2), np.uint64),
            np.zeros((n_streams, rows, 2), np.uint64),
            np.zeros(2, np.int64),
            np.zeros(n_streams, np.int64),
            np.zeros(n_streams, np.int64),
        )
        guards = new_guards(
            grouping.n_variables if compressions & GUARDED else 0,
            n_streams,
            rows,
            loosens=bool(compressions & LOOSE),
        )
        of_streams = np.zeros(n_streams, STREAM)
        self._state = State(names, variables, of_streams, shadow, bits, tables, compressions, guards)
        self._steps = _Steps(guest.n_cores, self._writer) if compressions & REPLAYED else None

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        self._settle(stream)
        if self._steps is not None and stream != self._agents:
            self._steps.take(stream, rows)
        for start in range(0, len(rows), _AT_ONCE):
            end = min(start + _AT_ONCE, len(rows))
            last = self._late and stream != self._agents and end == len(rows)
            take_rows(rows, start, end, last, stream, self._state)
            self._write_full(stream)

    def _settle(self, stream: int) -> None:
        if self._state.streams[stream]["late"]:
            settle(self._state, stream)

    def stratum(self) -> None:
        """See `Collector`: linkages know no strata, but a replay is compared there."""
        if self._steps is not None:
            self._steps.check()

    def _write_full(self, stream: int) -> None:
        tables = self._state.tables
        rows = self._state.guards.counts[[N_OPENED, N_LOOSENED]].max()
        if tables.filled[SHARES] >= _ROOM or tables.filled[ORDERS] >= _ROOM or rows >= _ROOM:
            self._write_variables()
        if tables.filled_bounds[stream] >= _ROOM or tables.filled_values[stream] >= _ROOM:
            self._write_stream(stream)

    def _write_variables(self) -> None:
        """Sorted by variable, so that nothing says how writes to different variables were ordered."""
        for kind, table, which in (
            (SHARE, self._state.tables.shares, 0),
            (ORDER, self._state.tables.orders, 1),
        ):
            part = table[: self._state.tables.filled[which]]
            if kind == SHARE:
                self._shared.append(part[:, 0].copy())
            self._writer.write(kind, 0, part[np.argsort(part[:, 0], kind="stable")])
            self._state.tables.filled[which] = 0
        guards = self._state.guards
        for kind, table, which in (
            (OPENED, guards.opened, N_OPENED),
            (LOOSENED, guards.loosened, N_LOOSENED),
        ):
            part = table[: guards.counts[which]]
            self._writer.write(kind, 0, part[np.argsort(part[:, 0], kind="stable")])
            guards.counts[which] = 0
        skipped = guards.counts[N_SKIPPED:]
        if skipped[0]:
            self._writer.write(SKIPPED, 0, skipped.reshape(1, 2).astype(np.uint64))
            skipped[:] = 0

    def _write_stream(self, stream: int) -> None:
        tables = self._state.tables
        self._writer.write(BOUND, stream, tables.bounds[stream, : tables.filled_bounds[stream]])
        self._writer.write(VALUE, stream, tables.values[stream, : tables.filled_values[stream]])
        tables.filled_bounds[stream] = tables.filled_values[stream] = 0

    def flush(self) -> None:
        """See `Collector`. Open runs are closed, so that they are there."""
        if self._steps is not None:
            self._steps.write()
        self._write_variables()
        shared = np.concatenate([np.empty(0, np.uint64), *self._shared])
        self._shared = [shared]
        start = 0
        while start < len(shared):
            start = close_orders(self._state.variables, self._state.tables, shared, start)
            self._write_variables()
        for stream in range(len(self._state.streams)):
            close_bounds(self._state.streams, self._state.tables, stream, self._state.compressions)
            self._write_stream(stream)

    def finish(self) -> None:
        """See `Collector`. What waits for a core's next event has it now: the end."""
        for stream in range(len(self._state.streams)):
            self._settle(stream)
        self.stratum()
        self.flush()


class _Steps:
    """What a replay of the cores needs besides: where each fetched code, and digests of its accesses."""

    def __init__(self, n_cores: int, writer: LinkageWriter) -> None:
        self._writer = writer
        self._digests = [AccessDigest() for _ in range(n_cores)]
        self._fetches: list[list[Table]] = [[] for _ in range(n_cores)]
        self._checks: list[list[tuple[int, int]]] = [[] for _ in range(n_cores)]
        self._checked = [0] * n_cores

    def take(self, core: int, rows: Rows) -> None:
        """A core's next events, EVENT[n]."""
        self._digests[core].take(rows)
        found: Table = np.empty((len(rows), 4), np.uint64)
        n = int(note_fetches(rows, found))
        if n:
            self._fetches[core].append(found[:n].copy())

    def check(self) -> None:
        """A digest of each core that has made an access since the last."""
        for core, digest in enumerate(self._digests):
            if digest.accesses != self._checked[core]:
                self._checked[core] = digest.accesses
                self._checks[core].append((digest.accesses, digest.value))

    def write(self) -> None:
        """Write what there is."""
        for core, fetches in enumerate(self._fetches):
            for table in fetches:
                self._writer.write(FETCH, core, table)
            if self._checks[core]:
                self._writer.write(CHECK, core, np.array(self._checks[core], np.uint64))
            fetches.clear()
            self._checks[core].clear()


def make_linkage(guest: Guest, writer: EvidenceWriter, options: Mapping[str, object]) -> LinkageCollector:
    """The collector for a machine. options: "group", what shares one version, a word unless given;
    "read_values", "all" if none of those that reads returned is left out for its version; "protected", "skip"
    if accesses to what a lock protects are not logged, "writes" if neither are writes to what is read without
    it."""
    compressions = (ALL & ~DOUBLE if options.get("read_values") == "all" else ALL) | REPLAYED
    if options.get("protected") in ("skip", "writes"):
        compressions |= GUARDED
    if options.get("protected") == "writes":
        compressions |= LOOSE
    return LinkageCollector(guest, writer, str(options.get("group", "word")), compressions)
