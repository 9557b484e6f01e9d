"""The evidence stream `linkage` on disk (docs/format.md, section 11.1): Stride's logs as tables.

Source: Zhou, Xiao, Zhang, "Stride: Search-Based Deterministic Replay in Polynomial Time via Bounded Linkage"
(ICSE 2012), Figure 4 (execution log) and section V (compression).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corebraid.base.errors import FormatError
from recorder.files.collectors import EvidenceWriter
from recorder.files.columns import Table, decode_table, encode_table, rows_a_frame
from recorder.files.evidence_names import GROUPS, LINKAGE, evidence_log
from recorder.files.frame import DamageError, FrameHeader
from recorder.files.reader import Recording, iter_evidence

#: What a frame holds. HEAD: how the stream was recorded. SHARE: a variable has been touched by a second
#: stream: variable, the stream that had it to itself, how many events that had made, writes to it until then.
#: ORDER: the paper's LW_x: variable, stream, how many writes it makes next. BOUND: of a stream's reads, the
#: version seen some time after (TR_i, second member), how many reads; with FOLLOW how many before it saw
#: what was known. VALUE: of a stream's reads, the value
#: (TR_i, first member), how many before it were predicted.
#: For a replay without miss records (REPLAYED), of each core: FETCH: where it fetched code: the number of the
#: event, the instruction, the address, how many words. CHECK: at strata, how many accesses it had made, and a
#: digest of them (recorder/files/access_digest.py).
#: Where accesses that a lock protects are skipped (GUARDED, V-C), SHARE has one column more: 1 + the variable
#: that holds the lock under which this one is from then on, 0 for none. OPENED: a guarded variable has been
#: touched without its lock: variable, writes to it until then, of each stream how many events until then.
#: SKIPPED: accesses that were skipped since the last such row, writes among them.
#: Where a lock may protect a variable's writes only (LOOSE, V-C), LOOSENED: a variable whose reads are logged
#: from here on: variable, 0 if SHARE has its lock, else 1 + the variable that holds it, of each stream how
#: many events until then.
HEAD, SHARE, ORDER, BOUND, VALUE, FETCH, CHECK, OPENED, SKIPPED, LOOSENED = range(10)
_COLUMNS = {SHARE: 5, ORDER: 3, BOUND: 2, VALUE: 2, FETCH: 4, CHECK: 2, SKIPPED: 2}
_STREAMED = (BOUND, VALUE, FETCH, CHECK)
#: Kinds whose rows have a column for each stream.
_BY_STREAMS = (OPENED, LOOSENED)

#: Compressions of section V, as bits. PREDICT: values that the last access to the variable's place predicts
#: are counted, not written (V-A). RUNS: equal successive versions and writers are counted (V-A). DOUBLE: a
#: version counts twice a write, before and after it, and a value is left out where an even version has not
#: changed (V-B).
#: FOLLOW, not the paper's: versions that are what the stream has last seen of the variable are counted.
PREDICT, RUNS, DOUBLE, FOLLOW = 1, 2, 4, 8
PAPERS = PREDICT | RUNS | DOUBLE
ALL = PAPERS | FOLLOW
#: No compression: the stream has what a replay needs (FETCH, CHECK).
REPLAYED = 16
#: Accesses to what one lock protects are skipped (V-C): recorder/evidence/linkage/locks.py.
GUARDED = 32
#: Of what is read without the lock and always written under it the writes are skipped (V-C).
LOOSE = 64

_VERSION = 1
#: Words of code that a row of FETCH has at most.
MOST_WORDS = 1 << 12
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
    """How the stream was recorded. compressions: bits PREDICT to LOOSE. shadow_bits, seen_bits: the
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
        self._writer, self._number, self._compressions = writer, 0, head.compressions
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
        kept = table if kind in _BY_STREAMS else table[:, : columns_of(kind, self._compressions)]
        step = rows_a_frame(kept.shape[1])
        for start in range(0, len(kept), step):
            part = kept[start : start + step]
            self._append(bytes([kind, stream]) + encode_table(part), len(part))


def columns_of(kind: int, compressions: int, n_streams: int = 0) -> int:
    """Columns of a table on disk: counts that are always 1, or 0, are not written."""
    if kind in _BY_STREAMS:
        return 2 + n_streams
    counted = {SHARE: GUARDED, ORDER: RUNS, BOUND: RUNS | FOLLOW, VALUE: PREDICT}
    return _COLUMNS[kind] - (kind in counted and not compressions & counted[kind])


def _check(piece: Piece, head: Head, n_streams: int) -> None:
    """Raises FormatError for what no recorder writes."""
    table, n_variables = piece.table, head.grouping.n_variables
    wrong = piece.stream >= (n_streams if piece.kind in _STREAMED else 1)
    if piece.kind in (SHARE, ORDER):
        wrong |= bool((table[:, 0] >= n_variables).any() or (table[:, 1] >= n_streams).any())
        wrong |= bool((table[:, 2:4] >= MOST).any())
    elif piece.kind in (OPENED, SKIPPED, LOOSENED):
        asked = LOOSE if piece.kind == LOOSENED else GUARDED
        wrong |= not head.compressions & asked or bool((table >= MOST).any())
    elif piece.kind == BOUND:
        wrong |= bool((table >= MOST).any())
    if piece.kind == SHARE:
        wrong |= bool((table[:, 4] > n_variables).any())
    if piece.kind in _BY_STREAMS:
        wrong |= bool((table[:, 0] >= n_variables).any())
    if piece.kind == LOOSENED:
        wrong |= bool((table[:, 1] > n_variables).any())
    if piece.kind == ORDER or (piece.kind == BOUND and not head.compressions & FOLLOW):
        wrong |= bool((table[:, -1] == 0).any())
    if piece.kind == VALUE:
        wrong |= bool((table[:, 1] >= MOST).any())
    if piece.kind in (FETCH, CHECK):
        wrong |= not head.compressions & REPLAYED or piece.stream == n_streams - 1
        wrong |= bool((table[:, 0] >= MOST).any())
    if piece.kind == FETCH:
        memory = np.uint64(head.grouping.memory)
        wrong |= bool(
            (table[:, 1] >= MOST).any() or (table[:, 2] >= memory).any() or (table[:, 3] == 0).any()
        )
        wrong |= bool((table[:, 3] > MOST_WORDS).any())
        wrong |= bool((table[:, 3] > (memory - np.minimum(table[:, 2], memory)) // np.uint64(8)).any())
    if wrong:
        raise FormatError("a row of evidence linkage is out of range")


def _whole(kind: int, table: Table) -> Table:
    """The table with the columns that were not written."""
    if kind in _BY_STREAMS or table.shape[1] == _COLUMNS[kind]:
        return table
    filler = np.full((len(table), 1), 0 if kind in (SHARE, VALUE) else 1, np.uint64)
    return np.concatenate([table, filler], axis=1)


Frames = Iterable[tuple[FrameHeader, bytes]]


@dataclass(frozen=True)
class Machine:
    """What the manifest says that a stream must go with."""

    line: int
    memory: int
    n_streams: int


def iter_linkage(recording: Recording) -> Iterator[Head | Piece]:
    """The stream's head, then its tables in the order in which they were written. Raises UsageError if the
    recording has no such stream, FormatError."""
    manifest = recording.manifest
    machine = Machine(manifest.line, manifest.memory, manifest.n_cores + 1)
    return decode_linkage(iter_evidence(recording, LINKAGE), machine, recording.path / evidence_log(LINKAGE))


def decode_linkage(frames: Frames, machine: Machine, path: Path) -> Iterator[Head | Piece]:
    """`iter_linkage` of frames, of whose bytes nothing is trusted. path: what to name in an error."""
    decoder, offset = _Decoder(machine), 0
    try:
        for frame, raw in frames:
            offset = frame.offset
            yield from decoder.take(frame.sequence, frame.records, raw)
        if decoder.head is None and decoder.fields:
            yield decoder.begin()
    except FormatError as error:
        if isinstance(error, DamageError):
            raise
        raise DamageError(path, offset, error.what, expected=error.expected, found=error.found) from None


class _Decoder:
    """The frames' tables. A head is complete when the first other table comes: symbols may go before."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._objects: Table = np.empty((0, 2), np.uint64)
        self.fields: list[int] = []
        self.head: Head | None = None

    def take(self, number: int, records: int, raw: bytes) -> list[Head | Piece]:
        """What one frame adds. Raises FormatError."""
        if len(raw) < 2 or raw[0] > LOOSENED or (number == 0) != (raw[0] == HEAD and raw[1] > 0):
            raise FormatError("no such table", found=raw[:2].hex())
        if raw[0] != HEAD:
            items: list[Head | Piece] = [] if self.head else [self.begin()]
            return [*items, self._table(raw[0], raw[1], records, raw[2:])]
        if self.head is not None:
            raise FormatError("a head after the tables")
        if number == 0:
            self.fields = [int(row[0]) for row in decode_table(raw[2:], records - 1, 1)]
        else:
            self._objects = np.concatenate([self._objects, decode_table(raw[2:], records, 2)])
        return []

    def begin(self) -> Head:
        """The head, from the fields and symbols so far. Raises FormatError."""
        fields = self.fields
        if (
            len(fields) != 5
            or fields[0] != _VERSION
            or fields[1] >= len(GROUPS)
            or fields[2] > ALL | REPLAYED | GUARDED | LOOSE
            or (fields[2] & LOOSE and not fields[2] & GUARDED)
        ):
            raise FormatError("how evidence linkage was recorded", found=str(fields))
        if not all(1 <= bits <= 30 for bits in fields[3:]):
            raise FormatError("sizes of the recorder's tables", found=str(fields[3:]))
        grouping = Grouping(GROUPS[fields[1]], self._machine.line, self._machine.memory, self._objects)
        grouping.check()
        self.head = Head(grouping, *fields[2:])
        return self.head

    def _table(self, kind: int, stream: int, records: int, raw: bytes) -> Piece:
        assert self.head is not None
        table = decode_table(raw, records, columns_of(kind, self.head.compressions, self._machine.n_streams))
        piece = Piece(kind, stream, _whole(kind, table))
        _check(piece, self.head, self._machine.n_streams)
        return piece
