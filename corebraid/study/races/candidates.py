"""The races of a recording by the order of its certificate: pairs of places in the program, how often each,
and where it was first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.names.threads import threads_of
from corebraid.study.races.accesses import Ordered, Rows, Shared
from corebraid.study.races.calls import calls_of
from corebraid.study.races.clocks import racing_pairs
from corebraid.study.races.histories import Braided, braided, synchronising
from corebraid.study.races.steps import WORD_BYTES, LinuxSteps, Step, firmware_steps
from emu.bus.sync_points import ENTER
from recorder.files.agent_codec import INTERRUPT
from recorder.files.reader import Recording, iter_agent_trace, sync_points

#: Racing accesses of a pair of places that are looked at more closely.
_KEPT = 4
#: Pairs of places, at most.
_MOST_PAIRS = 1 << 16
#: Words, and the spans of bytes (address, how many) in them that synchronise besides those that the recording
#: tells.
Spans = Callable[[Shared, NDArray[np.uint64]], Iterable[tuple[int, int]]]
#: What takes away steps: only tests do.
Chosen = Callable[[list[Step]], list[Step]]


@dataclass(frozen=True)
class Candidate:
    """Two places, as an instruction's address, or of agents' accesses the cause and bit 63; places, writes of
    each. times: racing accesses. rows: (earlier, later) rows of `Shared` of the first of them."""

    places: tuple[int, int]
    times: int
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Candidates:
    """found: in the order in which they came first. shared: what they are rows of. whole: their history.
    words: that are shared, addresses over 8, uint64[n]. synchronising: how many bytes of them synchronise.
    left_out: accesses that were not kept, since too many places used the same byte."""

    found: list[Candidate]
    shared: Shared
    whole: Braided
    words: NDArray[np.uint64]
    synchronising: int
    left_out: int


def _everything(steps: list[Step]) -> list[Step]:
    return steps


def candidates(
    recording: Recording, progress: Callable[[int], None], spans: Spans, chosen: Chosen = _everything
) -> Candidates:
    """Raises FormatError, OrderError, Divergence."""
    n_cores, points = recording.manifest.n_cores, sync_points(recording)
    ordered = Ordered(recording, progress)
    words = ordered.shared_words()
    shared = ordered.of_words(words)
    steps, more = _steps(recording, points, shared)
    synchronises = synchronising(shared.rows, n_cores, words, [*more, *spans(shared, words)])
    whole = braided(shared, points, chosen(steps), words, synchronises, n_cores)
    found, left_out = _gathered(whole, shared, n_cores)
    return Candidates(found, shared, whole, words, int(synchronises.sum()), left_out)


def _steps(recording: Recording, points: Rows, shared: Shared) -> tuple[list[Step], list[tuple[int, int]]]:
    """(steps, words that synchronise)."""
    threads = threads_of(recording)
    if threads is None:
        return firmware_steps(points, shared.device, shared.who, _framed(recording, points)), []
    if not len(points):
        return [], []
    linux = LinuxSteps(recording, points, calls_of(recording, points, threads))
    return linux.steps(), [(word, WORD_BYTES) for word in linux.words()]


def _framed(recording: Recording, points: Rows) -> set[int]:
    """Sync points at which an interrupt's frame was made."""
    found = set[int]()
    for rows in iter_agent_trace(recording) if len(points) else ():
        at = np.searchsorted(points["number"], rows["count"], side="right") - 1
        framed = (rows["pc"] == INTERRUPT) & (at >= 0)
        at = at[framed]
        found.update(at[(points["way"][at] & ENTER) != 0].tolist())
    return found


def _gathered(whole: Braided, shared: Shared, n_cores: int) -> tuple[list[Candidate], int]:
    rows, row, left_out = shared.rows, whole.row, 0
    agents = rows["core"] == n_cores
    keys = np.where(agents, rows["pc"] | np.uint64(1 << 63), rows["pc"])
    times: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for pairs, left_out in racing_pairs(whole.history):
        a, b = row[pairs[:, 0]], row[pairs[:, 1]]
        low, high = np.minimum(keys[a], keys[b]), np.maximum(keys[a], keys[b])
        both = np.stack([low, high], axis=1)
        unique, start, back = np.unique(both, axis=0, return_index=True, return_inverse=True)
        counts = np.bincount(back.reshape(-1), minlength=len(unique))
        for n, (key, count) in enumerate(zip(map(tuple, unique.tolist()), counts.tolist(), strict=True)):
            if key not in times and len(times) == _MOST_PAIRS:
                left_out += count
                continue
            times[key] = times.get(key, 0) + count
            kept = first.setdefault(key, [])
            if len(kept) < _KEPT:
                mine = [int(start[n])] if count == 1 else np.flatnonzero(back.reshape(-1) == n)[:_KEPT]
                kept += [(int(a[k]), int(b[k])) for k in mine[: _KEPT - len(kept)]]
    found = [Candidate(key, n, tuple(dict.fromkeys(first[key]))) for key, n in times.items()]
    return sorted(found, key=lambda one: one.rows[0][::-1]), left_out
