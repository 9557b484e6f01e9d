"""Accesses to bytes that several threads use and one of them writes, in the order of a recording's
certificate, and who made each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, FETCH, READ, UNCACHED, copy_rows
from corebraid.names.threads import Threads, threads_of
from corebraid.study.certificates import all_traces_of, certificate_of
from corebraid.study.shared_rows import used_by_several
from emu.bus.sync_points import ENTER
from recorder.files.agent_codec import INTERRUPT, PAGE
from recorder.files.reader import Recording, sync_points
from solver.check.braid import braid

Rows = NDArray[np.void]
WORD = 8
_WORD = np.uint64(WORD)
#: Who makes the accesses of a device that works for no core: this and its cause.
DEVICES = 1 << 16
#: A word and who used it as one number: of these bits who, and whether it was to write. Guest addresses have
#: 36 bits.
_WHO_BITS = 20
#: What nobody's account is.
NOBODY = -1
#: Accesses to shared words that are held, at most.
MOST = 20_000_000


@dataclass(frozen=True)
class Shared:
    """rows: EVENT (n,), cores' and agents', in order. who: int64 (n,), of a Linux guest the thread, of
    firmware the core, or `DEVICES` and a cause; `NOBODY`: the page is made present, and what it was before is
    nothing to what it is then. device: EVENT (m,), what cores of firmware did to device registers. unordered:
    int64 (k,), before which of the rows lies a region that has no order, and which those are: int64 (k,).
    dropped: whether there were more than can be held, and the last are not here."""

    rows: Rows
    who: NDArray[np.int64]
    device: Rows
    unordered: NDArray[np.int64]
    regions: NDArray[np.int64]
    dropped: bool


class Ordered:
    """The accesses of a recording that has an order. progress: called with how many have been read. Raises
    FormatError, OrderError, Divergence."""

    def __init__(self, recording: Recording, progress: Callable[[int], None]) -> None:
        self._recording, self._progress = recording, progress
        self._n_cores = recording.manifest.n_cores
        self._certificate = certificate_of(recording)
        self._read = 0

    def _braided(self) -> Iterator[tuple[Rows, NDArray[np.int64], bool]]:
        """(rows, who made each, whether there is an order), data accesses and device registers."""
        threads = threads_of(self._recording)
        points = sync_points(self._recording)
        traces = all_traces_of(self._recording, self._certificate)
        for rows, has_order in braid(traces, self._certificate):
            self._read += len(rows)
            self._progress(self._read)
            kept = rows[(rows["flags"] & np.uint8(FETCH)) == 0]
            if len(kept):
                yield kept, self._who(kept, threads, points), has_order

    def _who(self, rows: Rows, threads: Threads | None, points: Rows) -> NDArray[np.int64]:
        if threads is not None:
            who = threads.of(rows)
            agents = rows["core"] == self._n_cores
            return np.where(agents & ((rows["pc"] == PAGE) | (who == 0)), NOBODY, who)
        who = rows["core"].astype(np.int64)
        agents = np.flatnonzero(who == self._n_cores)
        if len(agents):
            cause = rows["pc"][agents].astype(np.int64)
            who[agents] = DEVICES + cause
            frames = agents[cause == INTERRUPT]
            if len(points):
                last = np.searchsorted(points["number"], rows["count"][frames], side="right") - 1
                met = (last >= 0) & ((points["way"] & ENTER) != 0)[np.maximum(last, 0)]
                who[frames[met]] = points["core"][np.maximum(last, 0)][met]
        return who

    def shared_words(self) -> NDArray[np.uint64]:
        """Words that two use and one of them writes, as addresses over 8: uint64[n]."""
        found = [np.zeros(0, np.int64)]
        held = 0
        for rows, who, _ in self._braided():
            mine = ((rows["flags"] & np.uint8(UNCACHED)) == 0) & (who != NOBODY)
            rows, who = rows[mine], who[mine]
            key = who.astype(np.int64) << 1 | (rows["kind"] != READ)
            first = rows["addr"] // _WORD
            last = (rows["addr"] + rows["size"].astype(np.uint64) - np.uint64(1)) // _WORD
            both = last != first
            words = np.concatenate([first, last[both]]).astype(np.int64)
            found.append(np.unique(words << _WHO_BITS | np.concatenate([key, key[both]])))
            held += len(found[-1])
            if held > 1 << 22:
                found, held = [np.unique(np.concatenate(found))], 0
        uses = np.unique(np.concatenate(found))
        return used_by_several(np.stack([uses >> _WHO_BITS, uses & ((1 << _WHO_BITS) - 1)], axis=1))

    def of_words(self, words: NDArray[np.uint64]) -> Shared:
        """Accesses to these words, uint64[n], ascending."""
        rows, whose, device = [np.zeros(0, EVENT)], [np.zeros(0, np.int64)], [np.zeros(0, EVENT)]
        unordered: list[tuple[int, int]] = []
        n = 0
        for piece, who, has_order in self._braided():
            uncached = (piece["flags"] & np.uint8(UNCACHED)) != 0
            if not self._recording.manifest.linux and uncached.any():
                device.append(copy_rows(piece[uncached]))
            if not has_order:
                unordered += [(n, region) for region in np.unique(piece["stratum"]).tolist()]
                continue
            kept = ~uncached & touches(piece, words)
            rows.append(copy_rows(piece[kept]))
            whose.append(who[kept])
            n += len(rows[-1])
            if n > MOST:
                break
        at, regions = np.array(sorted(set(unordered)), np.int64).reshape(-1, 2).T
        return Shared(
            np.concatenate(rows), np.concatenate(whose), np.concatenate(device), at, regions, n > MOST
        )


def touches(rows: Rows, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each of the rows (EVENT (n,)) has a byte in one of these words (uint64[n], ascending): bool
    (n,)."""
    if not len(words):
        return np.zeros(len(rows), np.bool_)
    first = rows["addr"] // _WORD
    last = (rows["addr"] + rows["size"].astype(np.uint64) - np.uint64(1)) // _WORD
    at = np.searchsorted(words, first)
    found: NDArray[np.bool_] = (at < len(words)) & (words[np.minimum(at, len(words) - 1)] <= last)
    return found
