"""Reads a file of axe traces, one trace after the other, in memory that one trace needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import FormatError, unless_short
from solver.axe import scan
from solver.axe.numbering import numbered
from solver.axe.same import Maker
from solver.axe.ties import edges_of
from solver.axe.trace import STORE, SYNC, Trace

MAX_THREADS = 64
#: Bytes read at once, and the longest line that there may be.
_CHUNK = 1 << 22
_ROWS = 1 << 16
_SHOWN = 24

_Rows = NDArray[np.uint64]


def _show_nothing(_: int) -> None:
    pass


def read_traces(
    source: Path | BinaryIO, show: Callable[[int], None] = _show_nothing, *, hints: bool = True
) -> Iterator[Trace]:
    """Every trace of a file, by its path or open for reading; '-' is standard input.

    show: called with the bytes read so far. hints: whether comments may have any; else they are only
    comments.

    A trace ends with a line 'check' or with the file, there if it holds anything. Raises FormatError: no
    such file, a line that cannot be read (file, line, what was expected and found), more than MAX_THREADS
    threads, a hint that names an operation that there is not, or one of several, a file without a trace.
    """
    yield from _traces(_sections(source, show, hints), named(source))


def named(source: Path | BinaryIO) -> str:
    """What messages call it."""
    return str(source) if isinstance(source, Path) else "text"


def _open(source: Path | BinaryIO) -> BinaryIO:
    if not isinstance(source, Path):
        return source
    try:
        return open(0, "rb", closefd=False) if str(source) == "-" else source.open("rb")
    except (OSError, ValueError) as error:
        unless_short(error)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise FormatError(
            f"cannot be read ({reason})", where=named(source), remedy="name a file of axe traces"
        ) from None


def _blocks(source: Path | BinaryIO) -> Iterator[bytes]:
    """The file in blocks of whole lines; the last one gets its newline."""
    rest, lines = b"", 1
    with _open(source) as file:
        while True:
            try:
                read = file.read(_CHUNK)
            except OSError as error:
                unless_short(error)
                raise FormatError(f"cannot be read ({error.strerror})", where=named(source)) from None
            if not read:
                break
            rest += read
            end = rest.rfind(b"\n") + 1
            if end:
                yield rest[:end]
                lines += rest.count(b"\n", 0, end)
                rest = rest[end:]
            if len(rest) > _CHUNK:
                raise FormatError(
                    "a line that does not end",
                    expected=f"at most {_CHUNK:,} bytes",
                    where=f"{named(source)}:{lines}",
                    remedy="is this a text file of axe traces?",
                )
    if rest:
        yield rest + b"\n"


_Section = tuple[_Rows, str | None, bool]


def _sections(source: Path | BinaryIO, show: Callable[[int], None], hints: bool) -> Iterator[_Section]:
    """(rows of one trace, its name if it is among them, whether the trace ends here), piece by piece."""
    state = np.array([0, 1, 0], np.int64)
    read = 0
    for block in _blocks(source):
        read += len(block)
        show(read)
        state[scan.NEXT_BYTE], buf = 0, np.frombuffer(block, np.uint8)
        while state[scan.NEXT_BYTE] < len(buf):
            rows = np.empty((_ROWS + scan.MOST_TIES, scan.COLUMNS), np.uint64)
            filled, where, what = scan.scan(buf, rows, state, hints)
            if filled < _ROWS // 2:
                rows = rows[:filled].copy()
            yield from _split(rows[:filled], block)
            if what:
                raise _unreadable(source, block, int(state[scan.LINE_NUMBER]), int(where), int(what))


def _split(rows: _Rows, block: bytes) -> Iterator[_Section]:
    start = 0
    for end in [*np.flatnonzero(rows[:, scan.KIND] == scan.CHECK).tolist(), len(rows)]:
        part = rows[start:end]
        name = None
        if len(part) and part[0, scan.KIND] == scan.NAME:
            first, last = int(part[0, scan.READ]), int(part[0, scan.WRITTEN])
            name = block[first:last].decode("utf-8", "replace").strip()
        checked = end < len(rows)
        if len(part) or checked:
            yield rows[start : end + checked], name, checked
        start = end + 1


def _unreadable(source: Path | BinaryIO, block: bytes, line: int, where: int, what: int) -> FormatError:
    end = block.index(b"\n", where)
    found = block[where:end].decode("utf-8", "replace").strip()
    found = (
        repr(found if len(found) <= _SHOWN else found[:_SHOWN] + "...") if found else "the end of the line"
    )
    return FormatError(
        "not a line of an axe trace",
        expected=scan.EXPECTED[what],
        found=found,
        where=f"{named(source)}:{line}",
    )


def _traces(sections: Iterator[_Section], where: str) -> Iterator[Trace]:
    parts: list[_Rows] = []
    name, seen, made = "", False, Maker(make_trace)
    for rows, named, ends in sections:
        name = named if named is not None else name
        parts.append(rows)
        if ends:
            yield made(parts, name, where)
            parts, name, seen = [], "", True
    if any((rows[:, scan.KIND] != scan.NAME).any() for rows in parts):
        yield made(parts, name, where)
    elif not seen:
        raise FormatError(
            "no trace in this file",
            expected="operations such as '0: M[1] := 1', or a line 'check'",
            where=where,
        )


def _rows_of(chosen: NDArray[np.bool_]) -> slice | NDArray[np.bool_]:
    """The chosen rows, as a slice if they are one run."""
    at = np.flatnonzero(chosen)
    whole = len(at) and at[-1] - at[0] + 1 == len(at)
    return slice(int(at[0]), int(at[-1]) + 1) if whole else chosen


class _Columns:
    """Columns of the rows of one trace, each made when it is asked for, so that no second copy of all rows is
    ever held."""

    def __init__(self, parts: list[_Rows]) -> None:
        self._parts = parts
        self._kinds = [part[:, scan.KIND] for part in parts]
        self._ops = [_rows_of(kinds <= SYNC) for kinds in self._kinds]
        self._finals = [_rows_of(kinds == scan.FINAL) for kinds in self._kinds]

    def _chosen(self, column: int, chosen: list[slice | NDArray[np.bool_]]) -> NDArray[np.uint64]:
        pieces = [part[:, column][rows] for part, rows in zip(self._parts, chosen, strict=True)]
        return np.concatenate([np.empty(0, np.uint64), *pieces])

    def ops(self, column: int) -> NDArray[np.uint64]:
        """Of the operations."""
        return self._chosen(column, self._ops)

    def finals(self, column: int) -> NDArray[np.uint64]:
        """Of the final constraints."""
        return self._chosen(column, self._finals)

    def first_line(self) -> int:
        """The line of the first item that is not the name."""
        pairs = zip(self._parts, self._kinds, strict=True)
        return next(int(p[k != scan.NAME][0, scan.LINE]) for p, k in pairs if (k != scan.NAME).any())


def make_trace(parts: list[_Rows], name: str, where: str) -> Trace:
    """The trace of rows as `scan` makes them, piece after piece. Raises FormatError for more than MAX_THREADS
    threads, and as `ties.edges_of`."""
    rows = _Columns(parts)
    kind = rows.ops(scan.KIND).astype(np.uint8)
    threads, thread = numbered(rows.ops(scan.THREAD))
    if len(threads) > MAX_THREADS:
        first = np.sort(np.unique(thread, return_index=True)[1])[MAX_THREADS]
        raise FormatError(
            f"more than {MAX_THREADS} threads",
            found=len(threads),
            where=f"{where}:{int(rows.ops(scan.LINE)[first])}",
            remedy=f"a trace has at most {MAX_THREADS}",
        )
    accesses = kind != SYNC
    touched = rows.ops(scan.ADDRESS)[accesses]
    addresses, index = numbered(np.concatenate([touched, rows.finals(scan.ADDRESS)]))
    address = np.full(len(kind), -1, np.int32)
    address[accesses] = index[: len(touched)]
    return Trace(
        name=name,
        line=rows.first_line(),
        thread=thread,
        kind=kind,
        address=address,
        read=rows.ops(scan.READ),
        written=rows.ops(scan.WRITTEN),
        begin=rows.ops(scan.BEGIN).astype(np.int64) - 1,
        end=rows.ops(scan.END).astype(np.int64) - 1,
        lines=rows.ops(scan.LINE).astype(np.int64),
        threads=threads,
        addresses=addresses,
        final_address=index[len(touched) :],
        final_value=rows.finals(scan.READ),
        final_lines=rows.finals(scan.LINE).astype(np.int64),
        hinted=(rows.ops(scan.WAS) > 0) & (kind == STORE),
        old=rows.ops(scan.OLD),
        part_of=rows.ops(scan.PART).astype(np.int32) - 1,
        edges=edges_of(parts, where),
    )
