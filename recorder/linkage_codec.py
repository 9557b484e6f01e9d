"""The evidence stream `linkage` on disk (docs/format.md, section 11.1): Stride's logs as tables.

Source: Zhou, Xiao, Zhang, "Stride: Search-Based Deterministic Replay in Polynomial Time via Bounded Linkage"
(ICSE 2012), Figure 4 (execution log) and section V (compression).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from isa.errors import FormatError
from recorder.columns import Table, decode_table, encode_table, rows_a_frame
from recorder.evidence import LINKAGE, EvidenceWriter
from recorder.frame import DamageError
from recorder.reader import Recording, iter_evidence

#: What a frame holds. HEAD: how the stream was recorded. SHARE: a variable has been touched by a second
#: stream: variable, the stream that had it to itself, how many events that had made, writes to it until then.
#: ORDER: the paper's LW_x: variable, stream, how many writes it makes next. BOUND: of a stream's reads, the
#: version seen some time after (TR_i, second member), how many reads. VALUE: of a stream's reads, the value
#: (TR_i, first member), how many before it were predicted.
HEAD, SHARE, ORDER, BOUND, VALUE = range(5)
_COLUMNS = {SHARE: 4, ORDER: 3, BOUND: 2, VALUE: 2}
_STREAMED = (BOUND, VALUE)

#: Compressions of section V, as bits. PREDICT: values that the last access to the variable's place predicts
#: are counted, not written (V-A). RUNS: equal successive versions and writers are counted (V-A). DOUBLE: a
#: version counts twice a write, before and after it, and a value is left out where an even version has not
#: changed (V-B).
PREDICT, RUNS, DOUBLE = 1, 2, 4
ALL = PREDICT | RUNS | DOUBLE

_WORD, _LINE, _SYMBOL = 0, 1, 2
GROUPS = ("word", "line", "symbol")
_VERSION = 1
#: Every count in the stream is below this.
MOST = 1 << 48


@dataclass(frozen=True)
class Grouping:
    """Which variable an address belongs to. group: one of GROUPS. line: bytes in a line. objects:
    uint64[n, 2], first byte and bytes of the symbols, ascending, none inside another; group "symbol" only."""

    group: str
    line: int
    memory: int
    objects: Table = field(default_factory=lambda: np.empty((0, 2), np.uint64))

    @property
    def shift(self) -> int:
        """Addresses with the same bits above these are one variable, unless a symbol names them."""
        return self.line.bit_length() - 1 if self.group == "line" else 3

    @property
    def n_variables(self) -> int:
        """Variables are numbered from 0 up to this: symbols first."""
        return len(self.objects) + (self.memory >> self.shift)

    def symbol_of_word(self) -> npt.NDArray[np.uint32]:
        """uint32[words], 1 + the symbol that holds the word's first named byte, 0 for none; empty unless
        variables are symbols."""
        if self.group != "symbol":
            return np.empty(0, np.uint32)
        table = np.zeros(self.memory >> 3, np.uint32)
        for number in range(len(self.objects) - 1, -1, -1):
            first, size = (int(x) for x in self.objects[number])
            table[first >> 3 : (first + size + 7) >> 3] = number + 1
        return table

    def check(self) -> None:
        """Raises FormatError where the objects are not in order inside memory."""
        if len(self.objects):
            first, size = self.objects[:, 0], self.objects[:, 1]
            fits = (
                (size >= 1) & (size <= self.memory) & (first <= self.memory - np.minimum(size, self.memory))
            )
            if not fits.all() or (first[1:] < first[:-1] + size[:-1]).any():
                raise FormatError("the named objects overlap, or lie outside memory")


@dataclass(frozen=True)
class Head:
    """How the stream was recorded. compressions: bits PREDICT, RUNS, DOUBLE. shadow_bits, seen_bits: the
    recorder's tables of last values and last versions have 2**so many entries a stream."""

    grouping: Grouping
    compressions: int
    shadow_bits: int
    seen_bits: int


@dataclass(frozen=True)
class Piece:
    """Rows of one kind; stream: whose they are, where kinds are kept by stream."""

    kind: int
    stream: int
    table: Table


class LinkageWriter:
    """Writes tables as frames."""

    def __init__(self, writer: EvidenceWriter, head: Head) -> None:
        self._writer, self._number, self._runs = writer, 0, bool(head.compressions & RUNS)
        self._predict = bool(head.compressions & PREDICT)
        fields = [_VERSION, GROUPS.index(head.grouping.group), head.compressions]
        fields += [head.shadow_bits, head.seen_bits]
        first = encode_table(np.array([[value] for value in fields], np.uint64))
        self._append(bytes([HEAD, len(fields)]) + first, 1 + len(fields))
        step = rows_a_frame(2)
        for start in range(0, len(head.grouping.objects), step):
            part = head.grouping.objects[start : start + step]
            self._append(bytes([HEAD, 0]) + encode_table(part), len(part))

    def _append(self, raw: bytes, records: int) -> None:
        self._writer.append(raw, records, self._number, self._number)
        self._number += 1

    def write(self, kind: int, stream: int, table: Table) -> None:
        """Write a table of a kind, uint64[n, columns]; nothing if it is empty."""
        kept = table[:, : columns_of(kind, self._runs, self._predict)]
        step = rows_a_frame(kept.shape[1])
        for start in range(0, len(kept), step):
            part = kept[start : start + step]
            self._append(bytes([kind, stream]) + encode_table(part), len(part))


def columns_of(kind: int, runs: bool, predict: bool) -> int:
    """Columns of a table on disk: counts that are always 1, or 0, are not written."""
    dropped = (kind in (ORDER, BOUND) and not runs) or (kind == VALUE and not predict)
    return _COLUMNS[kind] - dropped


def _head(raw: bytes, recording: Recording, objects: Table, where: str) -> Head:
    manifest = recording.manifest
    fields = [int(row[0]) for row in decode_table(raw[2:], raw[1], 1, where)]
    if len(fields) != 5 or fields[0] != _VERSION or fields[1] >= len(GROUPS) or fields[2] > ALL:
        raise FormatError("how evidence linkage was recorded", found=str(fields), where=where)
    if not all(1 <= bits <= 30 for bits in fields[3:]):
        raise FormatError("sizes of the recorder's tables", found=str(fields[3:]), where=where)
    grouping = Grouping(GROUPS[fields[1]], manifest.line, manifest.memory, objects)
    grouping.check()
    return Head(grouping, *fields[2:])


def _check(piece: Piece, n_variables: int, n_streams: int, where: str) -> None:
    """Raises FormatError for what no recorder writes."""
    table = piece.table
    wrong = piece.stream >= (n_streams if piece.kind in _STREAMED else 1)
    if piece.kind in (SHARE, ORDER):
        wrong |= bool((table[:, 0] >= n_variables).any() or (table[:, 1] >= n_streams).any())
        wrong |= bool((table[:, 2:] >= MOST).any())
    elif piece.kind == BOUND:
        wrong |= bool((table >= MOST).any())
    if piece.kind in (ORDER, BOUND):
        wrong |= bool((table[:, -1] == 0).any())
    if piece.kind == VALUE:
        wrong |= bool((table[:, 1] >= MOST).any())
    if wrong:
        raise FormatError("a row of evidence linkage is out of range", where=where)


def _whole(kind: int, table: Table, head: Head) -> Table:
    """The table with the columns that were not written."""
    missing = _COLUMNS[kind] - table.shape[1]
    if not missing:
        return table
    filler = np.full((len(table), 1), 0 if kind == VALUE else 1, np.uint64)
    return np.concatenate([table, filler], axis=1)


def iter_linkage(recording: Recording) -> Iterator[Head | Piece]:
    """The stream's head, then its tables in the order in which they were written. Raises FormatError."""
    head: Head | None = None
    raw_head = b""
    objects = np.empty((0, 2), np.uint64)
    n_streams = recording.manifest.n_cores + 1
    for frame, raw in iter_evidence(recording, LINKAGE):
        path = recording.path / "evidence-linkage.log"
        where = f"frame {frame.sequence}"
        try:
            if len(raw) < 2 or raw[0] > VALUE or (frame.sequence == 0) != (raw[0] == HEAD and raw[1] > 0):
                raise FormatError("no such table", found=raw[:2].hex(), where=where)
            if raw[0] == HEAD:
                if head is not None:
                    raise FormatError("a head after the tables", where=where)
                if frame.sequence == 0:
                    raw_head = raw
                else:
                    objects = np.concatenate([objects, decode_table(raw[2:], frame.records, 2, where)])
                continue
            if head is None:
                head = _head(raw_head, recording, objects, where)
                yield head
            runs, predict = bool(head.compressions & RUNS), bool(head.compressions & PREDICT)
            columns = columns_of(raw[0], runs, predict)
            table = _whole(raw[0], decode_table(raw[2:], frame.records, columns, where), head)
            piece = Piece(raw[0], raw[1], table)
            _check(piece, head.grouping.n_variables, n_streams, where)
        except FormatError as error:
            raise DamageError(
                path, frame.offset, error.what, expected=error.expected, found=error.found
            ) from None
        yield piece
    if head is None and raw_head:
        yield _head(raw_head, recording, objects, "frame 0")
