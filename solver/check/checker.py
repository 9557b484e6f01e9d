"""The independent checker: is an order legal? Linear in the number of events, byte by byte.

It walks all rows of all streams in the given order over the initial image: every row's old bytes must be
what memory holds, its new bytes are stored, and at the end memory must be the final image. It shares no
code with granules, filters or engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import OrderError
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import HELD
from solver.check.certificate import ORDERED, REASONS, Certificate
from solver.check.progress import STRATUM, UNFINISHED, WALKED, no_progress
from solver.check.store_queue import (
    MISSING,
    VIOLATIONS,
    make_queues,
    view_of,
    with_room,
)
from solver.check.sync_walk import BEHIND, sync_walk
from solver.check.walk import (
    BEHIND_SYNC,
    BUFFER,
    EARLIER_STRATUM,
    HELD_BY_OTHERS,
    OK,
    OTHER_STRATUM,
    OUTSIDE,
    REFILL,
    ROOM,
    SPLIT,
    TOUCHED,
    Course,
    Ground,
    Runs,
    first_difference,
    forget,
    pass_holds,
    walk,
)
from solver.check.windows import Windows
from solver.regions.image import FlatMemory, zeros
from solver.regions.traces import Events, Traces
from solver.regions.violations import (
    LEFT_OUT,
    held_by_others,
    misplaced,
    name_row,
    not_as_held,
    not_final,
    not_the_page,
    outside_memory,
    split_access,
    too_many,
    unfinished_access,
)

_BUFFER_ROWS = 1 << 13


@dataclass(frozen=True)
class CheckReport:
    """What was checked. events: rows walked in order. unchecked: (region, reason) of every region that
    the certificate gives no order for; its `unchecked_events` rows were passed over."""

    events: int
    unchecked_events: int
    unchecked: list[tuple[int, str]]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "legal": not any(reason == "illegal" for _, reason in self.unchecked),
            "events": self.events,
            "unchecked_events": self.unchecked_events,
            "unchecked_regions": [{"region": region, "reason": reason} for region, reason in self.unchecked],
        }


#: Values of memory after a region that has no order: address (uint64) and value (uint8) of the bytes.
Rebase = Mapping[int, tuple[NDArray[np.uint64], NDArray[np.uint8]]]


class _Walk:
    """A walk in progress."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._windows = Windows(traces.streams(), _BUFFER_ROWS)
        self._view = view_of(self._windows)
        self._queues = make_queues(traces.n_streams, traces.buffered)
        self._syncs = sync_walk(traces.syncs, traces.n_streams - traces.buffered - 1)
        strata = np.ascontiguousarray(traces.strata, np.uint64).reshape(-1, traces.n_streams)
        self._course = Course(no_progress(), np.zeros(traces.n_streams, np.int64), strata)
        self._memory = FlatMemory(traces.initial())
        state = self._memory.state
        pages = -(-len(state) // PAGE_BYTES)
        self._ground = Ground(
            state, self._memory.loaded, self._memory.image, zeros(len(state)),
            zeros(8 * pages).view(np.uint64), zeros(pages),
        )  # fmt: skip

    @property
    def walked(self) -> int:
        """How many rows were walked in order."""
        return int(self._course.progress[WALKED])

    def runs(self, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Walk runs of so many rows. Raises OrderError at the first violation."""
        self._walk(Runs(stream, rows.copy(), np.empty(0, np.uint64), True))

    def slices(self, stream: NDArray[np.int64], end: NDArray[np.uint64]) -> None:
        """Walk rows up to instruction counts, stores up to numbers. Raises OrderError at the first
        violation."""
        self._walk(Runs(stream, np.full(len(stream), np.iinfo(np.int64).max), end, False))

    def _walk(self, runs: Runs) -> None:
        run = 0
        while run < len(runs.stream):
            run, status, s, byte = walk(
                runs, run, self._view, self._queues, self._syncs, self._course, self._ground
            )
            if status == REFILL:
                self._windows.refill(s)
            elif status == ROOM:
                self._queues = with_room(self._queues)
            elif status != OK:
                raise self._violation(status, s, byte)

    def pass_over(self, region: int, rows: NDArray[np.int64]) -> None:
        """Skip rows[s] rows of every stream s, all of `region`; what they touch becomes unknown."""
        for s, count in enumerate(rows.tolist()):
            self._course.done[s] += count
            while count:
                piece = self._some_rows(s, count)
                other = np.flatnonzero(piece["stratum"] != region)
                if len(other):
                    raise self._name_violation(OTHER_STRATUM, s, piece[other[0]], 0)
                forget(piece, len(piece), self._ground)
                pass_holds(piece, s, self._ground)
                count -= len(piece)

    def _some_rows(self, s: int, most: int) -> Events:
        """At least one and at most so many of a stream's next rows, which are taken."""
        w, q = self._view, self._queues
        core = s - int(q.base[0])
        if core >= 0 and q.n[core]:
            n = min(most, int(q.n[core]))
            taken = q.rows[core, q.head[core] : q.head[core] + n]
            q.head[core] += n
            q.n[core] -= n
            return taken
        if w.at[s] == w.fill[s] and not self._windows.refill(s):
            raise too_many(f"stream {s}")
        first = int(w.at[s])
        n = min(most, int(w.fill[s]) - first)
        w.at[s] += n
        return w.rows[s, first : first + n]

    def rebase(self, address: NDArray[np.uint64], value: NDArray[np.uint8]) -> None:
        """Give bytes their values after a region that was passed over."""
        self._memory.store(address, np.ones(len(address), np.uint8), value.astype(np.uint64))
        self._ground.marks[address.astype(np.int64)] = TOUCHED

    def finish(self) -> None:
        """Check that every row was walked and memory is the final image, where that is known."""
        w, q = self._view, self._queues
        for core in range(len(q.n)):
            if q.n[core]:
                row = q.rows[core, q.head[core]]
                raise OrderError(LEFT_OUT, where=name_row(int(q.base[0]) + core, row))
        for s in range(self._traces.n_streams):
            if w.at[s] < w.fill[s] or self._windows.refill(s):
                raise OrderError(LEFT_OUT, where=name_row(s, w.rows[s, w.at[s]]))
        unfinished = int(self._course.progress[UNFINISHED])
        if unfinished >= 0:
            raise unfinished_access(f"stream {unfinished}")
        if not self._traces.has_final:
            return
        final = np.asarray(self._traces.final())
        state, loaded, marks = self._ground.state, self._ground.loaded, self._ground.marks
        a = first_difference(state, loaded, marks, final)
        if a >= 0:
            raise not_final(int(a), int(final[a]), int(state[a]))

    def _violation(self, status: int, s: int, byte: int) -> OrderError:
        if status == BUFFER + MISSING:
            return too_many(f"stream {s}")
        return self._name_violation(status, s, self._queues.taken[0], byte)

    def _name_violation(self, status: int, s: int, row: np.void, byte: int) -> OrderError:
        where = name_row(s, row)
        if status > BUFFER:
            return OrderError(VIOLATIONS[status - BUFFER], where=where)
        if status == EARLIER_STRATUM:
            return OrderError(
                "an event stands after one of a later region",
                expected=f"stratum {int(self._course.progress[STRATUM])} or later",
                found=f"stratum {row['stratum']}",
                where=where,
            )
        if status == OTHER_STRATUM:
            return misplaced(where)
        if status == HELD_BY_OTHERS:
            return held_by_others(where)
        if status == BEHIND_SYNC:
            return OrderError(BEHIND, where=where)
        if status == SPLIT:
            return split_access(int(self._course.progress[UNFINISHED]), where)
        if status == OUTSIDE:
            return outside_memory(where)
        if row["kind"] == HELD:
            return not_the_page(int(row["addr"]), where)
        return not_as_held(row, byte, int(self._memory.state[int(row["addr"]) + byte]), where)


def check_certificate(traces: Traces, certificate: Certificate, rebase: Rebase | None = None) -> CheckReport:
    """Walk the traces in the certificate's order. Raises OrderError at the first violation, FormatError
    for a certificate that cannot be read or is of another number of streams or regions.

    A region without an order is passed over and reported as unchecked; what its events touched is unknown
    afterwards, and the next event there is believed, unless `rebase` gives the bytes' values after it.
    """
    certificate.expect(traces.n_streams, len(traces.strata) + 1)
    state = _Walk(traces)
    unchecked: list[tuple[int, str]] = []
    passed = 0
    for block in certificate.stretches():
        if block.status == ORDERED:
            state.runs(block.stream, block.rows)
            continue
        state.pass_over(block.region, block.rows)
        passed += int(block.rows.sum())
        unchecked.append((block.region, REASONS[block.status]))
        if rebase is not None and block.region in rebase:
            state.rebase(*rebase[block.region])
    state.finish()
    return CheckReport(state.walked, passed, unchecked)


def check_slices(
    traces: Traces, slices: Iterable[tuple[NDArray[np.int64], NDArray[np.uint64]]]
) -> CheckReport:
    """Check an order given as slices: of each, all rows of a stream with an instruction count below an end
    come next. slices: batches of (stream int64 (n,), end uint64 (n,)). Raises OrderError."""
    state = _Walk(traces)
    for stream, end in slices:
        if len(stream) and not 0 <= int(stream.min()) <= int(stream.max()) < traces.n_streams:
            raise OrderError(
                "a slice of no stream", expected=f"0 to {traces.n_streams - 1}", found=stream.tolist()[:8]
            )
        state.slices(stream.astype(np.int64), end.astype(np.uint64))
    state.finish()
    return CheckReport(state.walked, 0, [])
