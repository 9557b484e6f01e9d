"""ReRun's race log of a run (Hower and Hill, ISCA 2008), as the MICRO 2009 paper describes it (section 2) and
compares with it (Figure 8). ReRun's own paper was not followed beyond its abstract.

A core's execution is a sequence of episodes. Before a core acknowledges an invalidation, or sends its data,
it ends its episode if the request conflicts with an access made in it. It also ends it when a line is pushed
out of its cache that the episode has used, since nobody will ask it about that line any more; and when its
counter of memory references is full. What is logged is the episode's length and a Lamport time stamp. Answers
carry time stamps, and so do the banks of the shared cache, which get those of what cores answer and push out.

Read and write sets are exact (the paper's ideal filter), or Bloom filters (`bench.bloom`). Exact sets are
kept beside filters, so that it is known which of their answers were wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.bloom import has, put
from bench.private_caches import HIT, SHARED, Caches, empty_caches, request
from corebraid.base.host_memory import host_memory
from corebraid.base.rows.event import READ, RMW, UNCACHED, WRITE
from emu.bus.cache import CacheGeometry
from recorder.files.collectors import Guest, Rows

READ_BYTES, WRITE_BYTES = 32, 128
#: Bits that a line sets in a filter. The paper does not say; `python -m bench rerun` shows others.
HASHES = 4
#: Memory references of an episode: its counter has two bytes, as has its place in the log.
LONGEST = (1 << 16) - 1
#: Bits of a time stamp in one 16-bit word of the log: what is more than the stamp before, as a varint of
#: words.
_WORD_BITS = np.uint64(15)

#: Indexes of `Episodes.counts`: entries and bytes of the log; requests that the bus saw; filters that were
#: asked; episodes that ended at a conflict, at a filter's false one, at an eviction, at one of a line that
#: only a filter held, at a full counter; with the run; entries in `Episodes.log`.
(
    ENTRIES, BYTES, REQUESTS, ASKED, CONFLICTS, FALSE_CONFLICTS, EVICTED, FALSELY_EVICTED, FULL, AT_END, KEPT,
) = range(11)  # fmt: skip
_AT_ONCE = 1 << 12

_U1 = np.uint64(1)


class Episodes(NamedTuple):
    """reads, writes: exact, int64 (lines, cores), 1 + the last episode that the line was read or written in.
    filters: uint64 (cores, 2, words), of reads and of writes. now: int64 (cores, 4), of the episode that runs
    its number, length and stamp, and the stamp logged last. banks: int64 (banks,), stamps. counts: int64
    (11,). log: int64 (rows, 3), core, length and stamp of entries. hashes: bits of a line, 0 for exact sets.
    snooped: whether all cores are asked at each request, and none ends its episode at an eviction."""

    reads: NDArray[np.int64]
    writes: NDArray[np.int64]
    filters: NDArray[np.uint64]
    now: NDArray[np.int64]
    banks: NDArray[np.int64]
    counts: NDArray[np.int64]
    log: NDArray[np.int64]
    hashes: int
    snooped: bool


_NUMBER, _LENGTH, _STAMP, _LAST = range(4)


@njit(cache=True)
def _words_of(value):  # type: ignore[no-untyped-def]
    n, value = 1, np.uint64(value) >> _WORD_BITS
    while value:
        n, value = n + 1, value >> _WORD_BITS
    return n


@njit(cache=True)
def _end(episodes, core, why):  # type: ignore[no-untyped-def]
    """The core's episode ends, unless it has none. why: index of what to count."""
    mine, counts = episodes.now[core], episodes.counts
    if mine[_LENGTH] == 0:
        return
    counts[why] += 1
    counts[ENTRIES] += 1
    counts[BYTES] += 2 + 2 * _words_of(mine[_STAMP] - mine[_LAST])
    at = counts[KEPT]
    episodes.log[at, 0], episodes.log[at, 1], episodes.log[at, 2] = core, mine[_LENGTH], mine[_STAMP]
    counts[KEPT] = at + 1
    mine[_LAST] = mine[_STAMP]
    mine[_NUMBER] += 1
    mine[_LENGTH] = 0
    mine[_STAMP] += 1
    episodes.filters[core] = 0


@njit(cache=True)
def _in_sets(episodes, core, line, also_reads):  # type: ignore[no-untyped-def]
    """Whether the core's episode has written to the line, or read it: what its sets say, and what is so."""
    number = episodes.now[core, _NUMBER] + 1
    so = episodes.writes[line, core] == number or (also_reads and episodes.reads[line, core] == number)
    if episodes.hashes == 0:
        return so, so
    key, filters = np.uint64(line), episodes.filters[core]
    said = has(filters[1], 8 * WRITE_BYTES, key, episodes.hashes)
    said = said or (also_reads and has(filters[0], 8 * READ_BYTES, key, episodes.hashes))
    return said, so


@njit(cache=True)
def _put_in_sets(episodes, core, line, is_write):  # type: ignore[no-untyped-def]
    number = episodes.now[core, _NUMBER] + 1
    if is_write:
        episodes.writes[line, core] = number
    else:
        episodes.reads[line, core] = number
    if episodes.hashes != 0:
        bits = 8 * (WRITE_BYTES if is_write else READ_BYTES)
        put(episodes.filters[core, 1 if is_write else 0], bits, np.uint64(line), episodes.hashes)


@njit(cache=True)
def _push_out(episodes, core, line):  # type: ignore[no-untyped-def]
    """The core's cache no longer has the line. Its bank gets the core's stamp, and with it all episodes that
    used it."""
    if not episodes.snooped:
        said, so = _in_sets(episodes, core, line, True)
        if said:
            _end(episodes, core, EVICTED if so else FALSELY_EVICTED)
    bank = line % episodes.banks.size
    episodes.banks[bank] = max(episodes.banks[bank], episodes.now[core, _STAMP])


@njit(cache=True)
def _anyone_else(episodes, stream, line):  # type: ignore[no-untyped-def]
    """Whether another core's sets say that its episode has used the line."""
    for other in range(episodes.now.shape[0]):
        if other != stream and _in_sets(episodes, other, line, True)[0]:
            return True
    return False


@njit(cache=True)
def _ask(episodes, stream, line, is_write, answers):  # type: ignore[no-untyped-def]
    """A request reaches the others. answers: a bit for each core that the line is taken from."""
    bank = line % episodes.banks.size
    for other in range(episodes.now.shape[0]):
        answering = (answers >> np.uint64(other)) & _U1 != 0
        if other == stream or not (answering or episodes.snooped):
            continue
        episodes.counts[ASKED] += 1
        said, so = _in_sets(episodes, other, line, is_write)
        if said:
            _end(episodes, other, CONFLICTS if so else FALSE_CONFLICTS)
        if said or answering:
            episodes.banks[bank] = max(episodes.banks[bank], episodes.now[other, _STAMP])
    if stream < episodes.now.shape[0]:
        episodes.now[stream, _STAMP] = max(episodes.now[stream, _STAMP], episodes.banks[bank])


@njit(cache=True)
def _use(episodes, caches, stream, line, is_write):  # type: ignore[no-untyped-def]
    """A stream uses a line; the bus asks the others if it has to."""
    kind, answers, victim = request(caches, stream, line, is_write)
    if kind == HIT:
        return
    episodes.counts[REQUESTS] += 1
    if victim != 0:
        _push_out(episodes, stream, victim - 1)
    _ask(episodes, stream, line, is_write, answers)
    # Who has it alone writes to it without a request. Where evictions end no episode, that must not be while
    # another's episode has it: that core says on the bus that it shares the line.
    reads = stream < episodes.now.shape[0] and not is_write
    if episodes.snooped and reads and _anyone_else(episodes, stream, line):
        caches.state[line, stream] = SHARED


@njit(cache=True)
def rerun_rows(rows, stream, shift, caches, episodes):  # type: ignore[no-untyped-def]
    """Follow rows (EVENT (n,)) of one stream. What an agent asks ends episodes; it has none."""
    is_core = stream < episodes.now.shape[0]
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & np.uint8(UNCACHED)) != 0:
            continue
        is_write = row.kind != READ
        first = np.int64(row.addr >> shift)
        end = np.int64((row.addr + np.uint64(row.size) - _U1) >> shift) + 1
        # The machine's bus is asked by an atomic instruction twice, as by one that reads and then writes.
        for step in range(2 if row.kind == RMW else 1):
            for line in range(first, end):
                _use(episodes, caches, stream, line, is_write and (step == 1 or row.kind == WRITE))
        if not is_core:
            continue
        # After all its requests: an access that spans lines belongs to one episode.
        for line in range(first, end):
            _put_in_sets(episodes, stream, line, is_write)
        episodes.now[stream, _LENGTH] += 1
        if episodes.now[stream, _LENGTH] == LONGEST:
            _end(episodes, stream, FULL)


class Rerun:
    """ReRun's log of a run, as a watcher. cache: of each core. hashes: bits that a line sets in a filter, 0
    for exact sets. snooped: see `Episodes`. kept: entries of the log, int64 (n, 3), if `keep`."""

    def __init__(
        self,
        guest: Guest,
        cache: CacheGeometry,
        hashes: int = HASHES,
        snooped: bool = False,
        keep: bool = False,
    ) -> None:
        n, lines = guest.n_cores, len(guest.memory) // cache.line
        self._shift, self._keep = np.uint64(cache.line.bit_length() - 1), keep
        self.caches: Caches = empty_caches(cache, n, len(guest.memory))
        reads, writes = (host_memory(8 * lines * n).view(np.int64).reshape(lines, n) for _ in range(2))
        self.kept: list[NDArray[np.int64]] = []
        self.episodes = Episodes(
            reads,
            writes,
            np.zeros((n, 2, max(READ_BYTES, WRITE_BYTES) // 8), np.uint64),
            np.zeros((n, 4), np.int64),
            np.zeros(n, np.int64),
            np.zeros(11, np.int64),
            np.zeros((_AT_ONCE * 2 * (n + 2), 3), np.int64),
            hashes,
            snooped,
        )

    def take(self, stream: int, rows: Rows) -> None:
        """See `recorder.files.collectors.Collector`."""
        for start in range(0, len(rows), _AT_ONCE):
            rerun_rows(rows[start : start + _AT_ONCE], stream, self._shift, self.caches, self.episodes)
            self._drain()

    def _drain(self) -> None:
        if self._keep:
            self.kept.append(self.episodes.log[: self.episodes.counts[KEPT]].copy())
        self.episodes.counts[KEPT] = 0

    def stratum(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """The episodes that run."""
        for core in range(len(self.episodes.now)):
            _end(self.episodes, core, AT_END)
        self._drain()

    @property
    def bytes(self) -> int:
        """Bytes of log so far."""
        return int(self.episodes.counts[BYTES])
