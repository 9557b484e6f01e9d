"""Orders of traces as the score takes them, and sources counted in plain Python."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from engine_suite import RECORDING

from corebraid.base.rows.event import GLUED, READ, UNCACHED
from solver.check.certificate import Certificate, CertificateWriter, Head
from solver.regions.traces import MemoryTraces

Slices = tuple[np.ndarray, np.ndarray]
#: Stream, number in it.
Row = tuple[int, int]


def slices_of(traces: MemoryTraces, order: list[int]) -> Slices:
    """An order, given as the stream of each row, as slices of one row each."""
    at, ends = [0] * traces.n_streams, []
    first_store = traces.n_streams - traces.buffered
    for s in order:
        at[s] += 1
        ends.append(at[s] if s >= first_store else int(traces.rows[s]["count"][at[s] - 1]) + 1)
    return np.array(order, np.int64), np.array(ends, np.uint64)


def naive_sources(
    traces: MemoryTraces,
    order: list[int],
    changed: bool = False,
    afresh: bool = False,
    apart: int | None = None,
) -> tuple[dict[tuple[Row, int], Row | None], list[Row]]:
    """Of each byte that a row accesses the row that wrote it before, and the rows in order. changed: only
    writes that changed it count; afresh: only those of the same region; apart: a processor whose writes do
    not."""
    at, last, found, walked = [0] * traces.n_streams, {}, {}, []
    first_store, region = traces.n_streams - traces.buffered, 0
    for s in order:
        row, me = traces.rows[s][at[s]], (s, at[s])
        at[s] += 1
        walked.append(me)
        if afresh and row["stratum"] != region:
            last, region = {}, row["stratum"]
        if row["flags"] & UNCACHED:
            continue
        touched = range(int(row["addr"]), int(row["addr"]) + int(row["size"]))
        source = {a: last.get(a) for a in touched}
        if s < traces.buffered and row["kind"] == READ:
            own = first_store + s
            waiting = [
                j for j in range(at[own], len(traces.rows[own])) if traces.rows[own]["seq"][j] < row["seq"]
            ]
            for j in reversed(waiting):
                store = traces.rows[own][j]
                here = set(range(int(store["addr"]), int(store["addr"]) + int(store["size"]))) & set(touched)
                if here:
                    source |= dict.fromkeys(here, (own, j))
                    break
        found |= {(me, a): source[a] for a in touched}
        if row["kind"] != READ and apart != (s if s < first_store else s - first_store):
            values = (int(row[name]).to_bytes(8, "little") for name in ("old", "new"))
            differ = [was != now for was, now in zip(*values, strict=True)]
            last |= {a: me for k, a in enumerate(touched) if differ[k] or not changed}
    return found, walked


def any_order(traces: MemoryTraces, rng: random.Random) -> list[int]:
    """Rows of all streams in a random order that keeps theirs, and that of strata."""
    at, order, held = [0] * traces.n_streams, [], -1
    while True:
        left = [s for s in range(traces.n_streams) if at[s] < len(traces.rows[s])]
        if not left:
            return order
        now = min(int(traces.rows[s]["stratum"][at[s]]) for s in left)
        s = held if held >= 0 else rng.choice([s for s in left if traces.rows[s]["stratum"][at[s]] == now])
        held = s if traces.rows[s]["flags"][at[s]] & GLUED else -1
        order.append(s)
        at[s] += 1


def by_region(traces: MemoryTraces, order: list[int], path: Path) -> Certificate:
    """A certificate with every row under its own region."""
    path.unlink(missing_ok=True)
    writer = CertificateWriter(path, RECORDING, Head("hand", traces.n_streams, len(traces.strata) + 1))
    at, regions = [0] * traces.n_streams, [[] for _ in range(len(traces.strata) + 1)]
    for s in order:
        regions[traces.rows[s]["stratum"][at[s]]].append(s)
        at[s] += 1
    for region, streams in enumerate(regions):
        writer.ordered(region, np.array(streams, np.int64), np.ones(len(streams), np.int64))
    writer.finish(np.array([len(rows) for rows in traces.rows], np.int64))
    return Certificate(path, RECORDING)
