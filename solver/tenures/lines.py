"""The lines of a region that several processors touch and one of them writes to, and what each did there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.kernels import inner
from corebraid.base.rows.event import OWNED, READ, UNCACHED
from solver.regions.image import zeros
from solver.tenures.scan import CONTINUED, Begins, tells_tenures

if TYPE_CHECKING:
    from solver.regions.region import Region

_SEVERAL = np.uint16(0x1FF)
_WRITTEN = np.uint16(0x200)

#: Whether a line came from, or was lost by, a core that had it alone. UNTOLD: of lines that some core got for
#: an instruction that did not run then, of which there is no row: nothing follows.
NO, YES, EITHER, UNTOLD = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)


class Tenures(NamedTuple):
    """Pieces of tenures on hot lines, stream after stream, each stream's in the order in which they begin.

    stream, line: int32 (n,), line: number of a hot line. first, last: int64 (n,), rows of the stream in the
    region. writes: bool (n,), whether one of its accesses writes. how: uint8 (n,), as of `Begins`. known:
    bool (n,), whether the line's bytes are known all along; before, after: uint64 (n,), digests of them right
    before the first access and after the last. begin: int32 (n,), which of the stream's `Begins` it is, -1 of
    agents. owned: uint8 (n,), of agents whether their row is OWNED, else EITHER."""

    stream: NDArray[np.int32]
    line: NDArray[np.int32]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    writes: NDArray[np.bool_]
    how: NDArray[np.uint8]
    known: NDArray[np.bool_]
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    begin: NDArray[np.int32]
    owned: NDArray[np.uint8]


class Writes(NamedTuple):
    """Writes to hot lines, in the order of their streams and rows. A write that touches two is two.

    tenure: int32 (n,), number in `Tenures`. row: int64 (n,). after: uint64 (n,), digest of the line's bytes
    after it.
    """

    tenure: NDArray[np.int32]
    row: NDArray[np.int64]
    after: NDArray[np.uint64]


class Found(NamedTuple):
    """Room for tenures and writes."""

    tenures: Tenures
    writes: Writes


class Opened(NamedTuple):
    """What a core has of the hot lines. shift: bits of an address within a line. ids: int32[lines], number of
    a hot line plus 1, 0 of others. current: int32 (hot lines,), the tenure that is open, -1 for none.
    content: uint8 (hot lines, line_bytes), the line's bytes as they are known."""

    shift: int
    ids: NDArray[np.int32]
    current: NDArray[np.int32]
    content: NDArray[np.uint8]


@inner
def byte_digest(place, value):  # type: ignore[no-untyped-def]
    """What a byte adds to the digest of its line (uint64): any two lines that are the same have the same."""
    x = (np.uint64(place) << np.uint64(8) | np.uint64(value)) + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inner
def line_digest(image):  # type: ignore[no-untyped-def]
    """Digest of a line's bytes (uint8 (n,))."""
    total = np.uint64(0)
    for k in range(image.size):
        total += byte_digest(k, image[k])
    return total


@njit(cache=True, nogil=True)
def mark_lines(rows, processor, shift, marks, touched, n):  # type: ignore[no-untyped-def]
    """Note which lines the rows touch. marks: uint16[lines]; touched: int64, lines with marks, n of them.
    Returns (n, rows done)."""
    me = np.uint16(processor + 1)
    for i in range(rows.size):
        row = rows[i]
        if not tells_tenures(row):
            continue
        if n + 2 > touched.size:
            return n, i
        first = np.int64(row.addr)
        for line in range(first >> shift, ((first + np.int64(row.size) - 1) >> shift) + 1):
            mark = marks[line]
            who = mark & _SEVERAL
            if mark == 0:
                touched[n] = line
                n += 1
            if who != me and who != _SEVERAL:
                marks[line] |= me if who == 0 else _SEVERAL
            if row.kind != READ:
                marks[line] |= _WRITTEN
    return n, rows.size


@njit(cache=True, nogil=True)
def mark_lost(lines, processor, marks, touched, n):  # type: ignore[no-untyped-def]
    """Note that the processor had these lines (int64), which it lost in the region: n lines are in `touched`,
    which has room. Returns how many then."""
    me = np.uint16(processor + 1)
    for line in lines:
        who = marks[line] & _SEVERAL
        if marks[line] == 0:
            touched[n] = line
            n += 1
        if who != me and who != _SEVERAL:
            marks[line] |= me if who == 0 else _SEVERAL
    return n


@njit(cache=True, nogil=True)
def hot_lines(touched, marks):  # type: ignore[no-untyped-def]
    """Which of the touched lines are hot (bool (n,)). The marks are forgotten."""
    hot = np.empty(touched.size, np.bool_)
    for k in range(touched.size):
        hot[k] = marks[touched[k]] == _SEVERAL | _WRITTEN
        marks[touched[k]] = 0
    return hot


@inner
def store_row(row, first, line, shift, content, digest):  # type: ignore[no-untyped-def]
    """Lay a row's bytes over what is known of a line, and compare its old ones. Returns (digest, whether the
    old bytes were as known)."""
    fits = True
    for k in range(np.int64(row.size)):
        a = first + k
        if a >> shift != line:
            continue
        place, up = a - (line << shift), np.uint64(8 * k)
        old, new = np.uint8((row.old >> up) & np.uint64(0xFF)), np.uint8((row.new >> up) & np.uint64(0xFF))
        fits = fits and content[place] == old
        if row.kind != READ:
            digest = digest - byte_digest(place, content[place]) + byte_digest(place, new)
            content[place] = new
    return digest, fits


@njit(cache=True, nogil=True)
def follow_core(rows, place, begins, at, hot_lines, found, n, m):  # type: ignore[no-untyped-def]
    """Follow a core's rows. place: the number of rows[0], and of the stream. at: the next of `begins`. found:
    `Found`, of which n tenures and m writes are filled. Returns (at, n, m, rows done); fewer where there is
    no room."""
    number, stream = place
    shift, ids, current, content = hot_lines
    t_stream, t_line, t_first, t_last, t_writes, t_how, t_known, t_before, t_after, t_begin, t_owned = (
        found.tenures
    )
    w_tenure, w_row, w_after = found.writes
    for i in range(rows.size):
        row = rows[i]
        if not tells_tenures(row):
            continue
        if n + 2 > t_line.size or m + 2 > w_row.size:
            return at, n, m, i
        first = np.int64(row.addr)
        for line in range(first >> shift, ((first + np.int64(row.size) - 1) >> shift) + 1):
            hot = np.int64(ids[line]) - 1
            mine = at < begins.row.size and begins.row[at] == number + i and begins.line[at] == line
            if hot >= 0:
                if mine:
                    current[hot] = n
                    content[hot] = begins.image[at]
                    t_stream[n], t_line[n], t_first[n], t_how[n] = stream, hot, number + i, begins.how[at]
                    t_writes[n], t_known[n], t_begin[n], t_owned[n] = False, True, at, EITHER
                    t_before[n] = t_after[n] = line_digest(begins.image[at])
                    n += 1
                k = current[hot]
                t_last[k] = number + i
                t_after[k], fits = store_row(row, first, line, shift, content[hot], t_after[k])
                t_known[k] = t_known[k] and fits
                if row.kind != READ:
                    t_writes[k] = True
                    w_tenure[m], w_row[m], w_after[m] = k, number + i, t_after[k]
                    m += 1
            if mine:
                at += 1
    return at, n, m, rows.size


@njit(cache=True, nogil=True)
def follow_agents(rows, place, shift, ids, found, n, m):  # type: ignore[no-untyped-def]
    """As `follow_core`, of agents: each access is a tenure of its own, of which little is known."""
    number, stream = place
    t_stream, t_line, t_first, t_last, t_writes, t_how, t_known, t_before, t_after, t_begin, t_owned = (
        found.tenures
    )
    w_tenure, w_row, w_after = found.writes
    for i in range(rows.size):
        row = rows[i]
        if row.flags & UNCACHED:
            continue
        if n + 2 > t_line.size or m + 2 > w_row.size:
            return n, m, i
        first = np.int64(row.addr)
        for line in range(first >> shift, ((first + np.int64(row.size) - 1) >> shift) + 1):
            hot = np.int64(ids[line]) - 1
            if hot < 0:
                continue
            t_stream[n], t_line[n], t_first[n], t_last[n] = stream, hot, number + i, number + i
            t_writes[n], t_how[n], t_known[n], t_begin[n] = row.kind != READ, CONTINUED + 1, False, -1
            t_before[n] = t_after[n] = np.uint64(0)
            # Of two lines in one row it is not told whose it was.
            one = first >> shift == (first + np.int64(row.size) - 1) >> shift
            t_owned[n] = EITHER if not one else YES if row.flags & OWNED else NO
            if row.kind != READ:
                w_tenure[m], w_row[m], w_after[m] = n, number + i, np.uint64(0)
                m += 1
            n += 1
    return n, m, rows.size


_TENURE_COLUMNS: tuple[type[Any], ...] = (
    np.int32, np.int32, np.int64, np.int64, np.bool_, np.uint8, np.bool_, np.uint64, np.uint64, np.int32,
    np.uint8,
)  # fmt: skip
_WRITE_COLUMNS: tuple[type[Any], ...] = (np.int32, np.int64, np.uint64)


def room_for(tenures: int, writes: int) -> Found:
    """Room for so many of both."""
    return Found(
        Tenures(*(np.empty(tenures, kind) for kind in _TENURE_COLUMNS)),
        Writes(*(np.empty(writes, kind) for kind in _WRITE_COLUMNS)),
    )


def heads_of(columns: Iterable[NDArray[Any]], n: int) -> Iterator[NDArray[Any]]:
    """The first n of each column."""
    return (column[:n] for column in columns)


def _doubled(columns: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    return (np.concatenate([column, np.empty_like(column)]) for column in columns)


class HotLines:
    """Finds the hot lines of one region after the other. n_cores: streams of cores, the first ones; the one
    that follows is the agents'."""

    def __init__(self, memory_bytes: int, line_bytes: int, n_cores: int) -> None:
        lines = memory_bytes // line_bytes
        self._marks, self._ids = zeros(2 * lines).view(np.uint16), zeros(4 * lines).view(np.int32)
        self._shift, self._n_cores, self._line_bytes = line_bytes.bit_length() - 1, n_cores, line_bytes
        self._touched = np.empty(1 << 12, np.int64)
        # They serve region after region: a fresh page costs more than to fill it.
        self._found = room_for(1 << 10, 1 << 10)

    @property
    def shift(self) -> int:
        """Bits of an address within a line."""
        return self._shift

    def hot(self, region: Region, begins: Sequence[Begins]) -> NDArray[np.int64]:
        """The hot lines, address / bytes in a line, int64 (n_lines,). begins: those of each core."""
        touched = self._touch(region, begins)
        return touched[hot_lines(touched, self._marks)]

    def are_places(self, hot: NDArray[np.int64], addresses: NDArray[np.uint64]) -> bool:
        """Whether all these lines are of addresses (uint64 (n,))."""
        if not len(hot):
            return True
        return bool(np.isin(hot, np.unique(addresses >> np.uint64(self._shift)).view(np.int64)).all())

    def find(
        self, region: Region, begins: list[Begins], hot: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], Tenures, Writes]:
        """(lines, see `hot`; the tenures on them; the writes to them). begins: those of each core. hot: the
        lines, if they are known."""
        if hot is None:
            hot = self.hot(region, begins)
        self._ids[hot] = np.arange(1, len(hot) + 1)
        try:
            tenures, writes = self._follow(region, begins, len(hot))
        finally:
            self._ids[hot] = 0
        return hot, tenures, writes

    def _touch(self, region: Region, begins: Sequence[Begins]) -> NDArray[np.int64]:
        n = 0
        most = sum(len(mine.losses.line) for mine in begins)
        while most > len(self._touched):
            self._touched = np.concatenate([self._touched, np.empty_like(self._touched)])
        for processor, mine in enumerate(begins):
            n = int(mark_lost(mine.losses.line, processor, self._marks, self._touched, n))
        for stream, source in enumerate(region.streams):
            # Behind the agents, under TSO, come the cores' stores.
            processor = stream if stream <= self._n_cores else stream - self._n_cores - 1
            for rows in source.pieces():
                done = 0
                while done < len(rows):
                    n, more = mark_lines(rows[done:], processor, self._shift, self._marks, self._touched, n)
                    done += more
                    if done < len(rows):
                        self._touched = np.concatenate([self._touched, np.empty_like(self._touched)])
        return self._touched[:n]

    def _follow(self, region: Region, begins: list[Begins], n_lines: int) -> tuple[Tenures, Writes]:
        n = m = 0
        content = np.empty((n_lines, self._line_bytes), np.uint8)
        for stream in range(self._n_cores + 1 if n_lines else 0):
            opened = Opened(self._shift, self._ids, np.full(n_lines, -1, np.int32), content)
            number, at = 0, 0
            for rows in region.streams[stream].pieces():
                done = 0
                while done < len(rows):
                    rest, place, found = rows[done:], (number + done, stream), self._found
                    if stream < self._n_cores:
                        at, n, m, more = follow_core(rest, place, begins[stream], at, opened, found, n, m)
                    else:
                        n, m, more = follow_agents(rest, place, self._shift, self._ids, found, n, m)
                    done += more
                    self._make_room(n, m)
                number += len(rows)
        tenures, writes = self._found
        return (
            Tenures(*(column.copy() for column in heads_of(tenures, n))),
            Writes(*(column.copy() for column in heads_of(writes, m))),
        )

    def _make_room(self, n: int, m: int) -> None:
        """Make room beside n tenures and m writes for those of another row."""
        tenures, writes = self._found
        if n + 2 > len(tenures.line):
            tenures = Tenures(*_doubled(tenures))
        if m + 2 > len(writes.row):
            writes = Writes(*_doubled(writes))
        self._found = Found(tenures, writes)
