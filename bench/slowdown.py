"""Modelled slowdown of recording (MICRO 2009, section 5.4): what the log's own write traffic costs.

One memory link of LINK_BYTES a cycle, shared by all cores. Each core runs on its own cycle clock: one
cycle an instruction, and for each miss the machine's latency (its mean over that core's misses) plus the
time that the link keeps it waiting. A miss occupies the link for its line and a packet header. With
recording, the line and a log header (address and instruction count) go back to memory right behind it:

plain        in the same queue, so that later misses of any core wait for it;
prioritised  only when no miss waits for the link, though a miss that comes while a record is under way
             waits for its end. Each core buffers BUFFERED records; a core whose buffer is full waits
             until its oldest record is out.

Requests are served in the order of time. Caches, network hops and banks are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.programs import Recorded
from corebraid.base.rows.record import END, MISS
from recorder.files.reader import iter_core_records

LINK_BYTES, PACKET_HEADER, LOG_HEADER = 16, 8, 16
BUFFERED = 32

_NONE, _PLAIN, _PRIORITISED = 0, 1, 2


@dataclass(frozen=True)
class Slowdown:
    """Recording's slowdown over not recording, as a share (0.01 is 1%) of all cores' cycles."""

    plain: float
    prioritised: float


@njit(cache=True)
def total_cycles(first, counts, ends, latency, fetch, log, scheme, buffered):  # type: ignore[no-untyped-def]
    """Cycles of all cores together, each to its end.

    first: int64 (cores + 1,), where each core's misses begin in counts. counts: int64, the instruction count
    of each miss. ends: int64 (cores,). latency: float64 (cores,), of a miss. fetch, log: link cycles of a
    miss and of a log record. scheme: 0 no log, 1 plain, 2 prioritised.
    """
    n = ends.size
    at = first[:-1].copy()
    extra = np.zeros(n)  # cycles besides instructions so far
    backlog = np.zeros(n, np.int64)
    free = 0.0
    oldest = 0  # the core whose buffer is emptied next
    for _ in range(counts.size):
        core, now = -1, np.inf
        for k in range(n):
            if at[k] < first[k + 1] and counts[at[k]] + extra[k] < now:
                core, now = k, counts[at[k]] + extra[k]
        while scheme == _PRIORITISED and free < now and backlog.sum() > 0:
            while backlog[oldest] == 0:
                oldest = (oldest + 1) % n
            backlog[oldest] -= 1
            oldest = (oldest + 1) % n
            free += log
        start = max(now, free)
        if scheme == _PRIORITISED and backlog[core] >= buffered:
            backlog[core] -= 1
            start += log
        free = start + fetch
        if scheme == _PLAIN:
            free += log
        elif scheme == _PRIORITISED:
            backlog[core] += 1
        extra[core] += start - now + latency[core]
        at[core] += 1
    return ends.sum() + extra.sum()


def _misses(recorded: Recorded) -> tuple[list[NDArray[np.int64]], list[int]]:
    counts, ends = [], []
    for core in range(recorded.recording.manifest.n_cores):
        parts, end = [np.empty(0, np.int64)], 0
        for rows, _ in iter_core_records(recorded.recording, core):
            parts.append(rows["count"][rows["kind"] == MISS].astype(np.int64))
            if len(last := rows["count"][rows["kind"] == END]):
                end = int(last[0])
        counts.append(np.concatenate(parts))
        ends.append(end)
    return counts, ends


def slowdown(recorded: Recorded) -> Slowdown:
    """Both schemes' slowdown for one recording."""
    counts, ends = _misses(recorded)
    line = recorded.recording.manifest.line
    misses = np.array([len(core) for core in counts])
    latency = recorded.clock.latency / np.maximum(misses, 1)
    fetch = -(-(PACKET_HEADER + line) // LINK_BYTES)
    log = -(-(LOG_HEADER + line) // LINK_BYTES)
    first = np.concatenate([[0], np.cumsum(misses)]).astype(np.int64)
    arguments = (first, np.concatenate(counts), np.array(ends, np.int64), latency, float(fetch), float(log))
    base, plain, prioritised = (
        total_cycles(*arguments, scheme, BUFFERED) for scheme in (_NONE, _PLAIN, _PRIORITISED)
    )
    return Slowdown(plain / base - 1, prioritised / base - 1)
