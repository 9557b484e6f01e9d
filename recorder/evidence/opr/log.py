"""The OPR stream as a file: its head, and its rows frame by frame (docs/opr.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from corebraid.base.errors import FormatError, UsageError
from recorder.evidence.opr.codec import Encoder, decode
from recorder.evidence.opr.rows import CHECK, CODE, EXACT, OPR_ROW, RELAXED, VALUE, Rows
from recorder.files.collectors import EvidenceWriter
from recorder.files.evidence_names import OPR, evidence_log
from recorder.files.frame import DamageError
from recorder.files.reader import Recording, iter_evidence

VERSION = 1
#: Bytes of a frame before compression, about.
_FRAME_BYTES = 1 << 18
_HEAD = struct.Struct("<HHHH")
#: More than there are kinds of rows.
_KINDS = 8


@dataclass(frozen=True)
class Head:
    """What the first frame says. members: the cores of the replay set, ascending. unit: bytes of code that
    are taken at once."""

    members: tuple[int, ...]
    unit: int

    def pack(self) -> bytes:
        """The payload of the first frame."""
        return _HEAD.pack(VERSION, len(self.members), self.unit, 0) + bytes(self.members)


def _unpack(raw: bytes, cores: int, line: int) -> Head:
    """Raises FormatError for anything that `Head.pack` would not have written."""
    if len(raw) < _HEAD.size:
        raise FormatError("the head of the OPR stream is cut short")
    version, n, unit, zero = _HEAD.unpack_from(raw)
    if version != VERSION:
        remedy = "another corebraid wrote it: read it with that one, or record again"
        raise FormatError("version of the OPR stream", expected=VERSION, found=version, remedy=remedy)
    members = tuple(raw[_HEAD.size :])
    wrong = (
        len(members) != n or n == 0 or zero or members != tuple(sorted(set(members))) or members[-1] >= cores
    )
    if wrong or unit != unit_of(line):
        raise FormatError("the head of the OPR stream is not one")
    return Head(members, unit)


def unit_of(line: int) -> int:
    """Bytes of code that are taken at once, for lines of `line` bytes: no fewer than a block has."""
    return max(64, line)


class OprWriter:
    """Writes the stream: its head at once, rows as they are given."""

    def __init__(self, writer: EvidenceWriter, head: Head, memory: int) -> None:
        self._writer, self._written = writer, 0
        self._encoder = Encoder(len(head.members), _FRAME_BYTES, memory)
        writer.append(head.pack(), len(head.members), 0, 0)

    def append(self, rows: Rows) -> None:
        """Write OPR_ROW[n] in frames. Raises FormatError if the format cannot hold one."""
        start = 0
        while start < len(rows):
            end, payload = self._encoder.encode_some(rows, start)
            first, n = self._written, end - start
            self._writer.append(payload, n, first, first + n - 1)
            self._written, start = first + n, end


def _gone_back(rows: Rows, reached: dict[int, int]) -> tuple[int, int] | None:
    """(expected, found) if rows of a frame begin before those of their member and kind in earlier ones end.
    reached: where those do, updated. The decoder sees to the order within a frame."""
    of = rows["member"].astype(np.int64) * _KINDS + rows["kind"]
    for which, at in zip(*(found.tolist() for found in np.unique(of, return_index=True)), strict=True):
        if int(rows["sn"][at]) < reached.get(which, 0):
            return reached[which], int(rows["sn"][at])
    for which, at in zip(*(found.tolist() for found in np.unique(of[::-1], return_index=True)), strict=True):
        reached[which] = int(rows["sn"][len(rows) - 1 - at])
    return None


def _frames(recording: Recording) -> Iterator[Head | Rows]:
    path, manifest = recording.path / evidence_log(OPR), recording.manifest
    head, number, reached = None, 0, dict[int, int]()
    for frame, raw in iter_evidence(recording, OPR):
        try:
            if head is None:
                head = _unpack(raw, manifest.n_cores, manifest.line)
                yield head
                continue
            rows = decode(raw, len(head.members), manifest.memory, frame.records, "")
        except FormatError as error:
            sides = error.expected, error.found
            raise DamageError(path, frame.offset, error.what, expected=sides[0], found=sides[1]) from None
        if (frame.first, frame.last) != (number, number + len(rows) - 1):
            found = f"{frame.first} to {frame.last}"
            raise DamageError(path, frame.offset, "rows in a frame", expected=f"from {number}", found=found)
        if back := _gone_back(rows, reached):
            least, found = map(str, back)
            what = "the number of an access goes back"
            raise DamageError(path, frame.offset, what, expected=f"at least {least}", found=found)
        number += len(rows)
        yield rows
    if head is None and not recording.killed:
        raise DamageError(path, 0, "the stream has no head")


def iter_opr(recording: Recording) -> Iterator[Rows]:
    """The rows of the stream, frame by frame: OPR_ROW[n]. Raises UsageError without one, FormatError."""
    for piece in _frames(recording):
        if not isinstance(piece, Head):
            yield piece


@dataclass(frozen=True)
class OprLog:
    """The whole stream. rows: OPR_ROW[n]; of each member and kind in the order of their SNs."""

    members: tuple[int, ...]
    unit: int
    rows: Rows

    def of(self, member: int, *kinds: int) -> Rows:
        """The rows of a member, by its place in the replay set, of some kinds: OPR_ROW[n]."""
        mine = self.rows[self.rows["member"] == member]
        return mine[np.isin(mine["kind"], kinds)]

    def values(self, member: int) -> Rows:
        """A member's value log."""
        return self.of(member, VALUE)

    def code(self, member: int) -> Rows:
        """The code that a member was given."""
        return self.of(member, CODE)

    def checks(self, member: int) -> Rows:
        """Digests of a member's accesses."""
        return self.of(member, CHECK)

    def orders(self, member: int, relaxed: bool) -> Rows:
        """What a member's accesses must wait for."""
        return self.of(member, RELAXED if relaxed else EXACT)


def read_opr(recording: Recording) -> OprLog:
    """Read the stream whole. Raises UsageError if the recording has none, FormatError."""
    head, pieces = None, [np.zeros(0, OPR_ROW)]
    for piece in _frames(recording):
        if isinstance(piece, Head):
            head = piece
        else:
            pieces.append(piece)
    if head is None:
        remedy = "record again: the recorder was killed before it had written any"
        raise UsageError("the OPR stream is empty", where=str(recording.path), remedy=remedy)
    return OprLog(head.members, head.unit, np.concatenate(pieces))
