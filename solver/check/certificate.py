"""The certificate: an order on disk, as runs of (stream, number of event rows) over all rows.

The file is frames (docs/format.md): the first says what it is, the others hold LEB128 integers. Per
region, first to last: its number and a status. Status 0, ordered: the number of runs, then stream and
rows of each run. Any other status says why the region has no order, and is followed by every stream's
number of rows in it. At the end: the number of regions, then every stream's number of rows in the whole
recording.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from corebraid.base.hold_places import NO_HOLDS, OF_CORES, WITH_AGENTS
from corebraid.base.varint import MAX_VARINT, get_varint, put_varint
from recorder.files.constraints import LOSSES, TENURES, VALUES
from recorder.files.frame import FileHeader, FrameHeader, FrameWriter, iter_frames

#: Kind of stream in the file header (recorder.files.frame).
CERTIFICATE = 6
ORDERED = 0
#: What follows the engine's name where it obeyed more than values (`solver.tenures`).
OBEYED = {VALUES: "", TENURES: "+tenures", LOSSES: "+losses"}
#: What helps against a full disk.
MAKE_ROOM = "make room, and run the same command again: finished regions are kept"
#: Why a region has no order, by status.
REASONS = {
    1: "timeout",
    2: "budget",
    3: "gave up",
    4: "illegal",
    5: "too large",
    6: "worker died",
    7: "no evidence",
}

_HEAD = struct.Struct("<HHI16s")
#: Versions of what follows: rows of all accesses; rows of those to contested pages (`Traces.contested`); rows
#: of holds in place of accesses to pages that cores alone use (`Traces.holds`), and to those of which agents
#: use few words. The last three with handovers, which follow the head, are numbered from there on.
_OF_ALL, _OF_CONTESTED, _BY_HOLDS, _BESIDE_AGENTS = 1, 2, 3, 4
_HANDED_OVER = 3
_LAST_VERSION = _BESIDE_AGENTS + _HANDED_OVER
#: Version in the file header of what an ordering writes, whatever the recording's is.
FILE_VERSION = 1
#: Integers in a frame: even at 10 bytes each they fit a frame.
_FRAME_VALUES = 100_000
#: That a frame has before the next begins: a region has few, and a frame its price.
_FULL_FRAME = 10_000
#: Of a region without rows: streams, and numbers of rows.
_NO_RUNS, _NO_VALUES = np.empty(0, np.int64), np.empty(0, np.uint64)
_REMEDY = "order the recording again"
_Bad = Callable[[str, object, object], FormatError]


@dataclass(frozen=True)
class Head:
    """What a certificate says of itself. engine: its name, with what it obeyed behind it (`OBEYED`); at most
    16 ASCII characters. contested: the rows that it counts are those of `Traces.contested`; holds, handovers:
    as of `Traces`."""

    engine: str
    n_streams: int
    n_regions: int
    contested: bool = False
    holds: int = NO_HOLDS
    handovers: tuple[tuple[int, ...], ...] = ()

    @property
    def version(self) -> int:
        """Of the certificate."""
        if not self.contested:
            return _OF_ALL
        version = {NO_HOLDS: _OF_CONTESTED, OF_CORES: _BY_HOLDS, WITH_AGENTS: _BESIDE_AGENTS}[self.holds]
        return version + _HANDED_OVER if self.handovers else version

    @property
    def constraints(self) -> str:
        """What the engine obeyed (`recorder.files.constraints`)."""
        behind = (name for name in (TENURES, LOSSES) if self.engine.endswith(OBEYED[name]))
        return next(behind, VALUES)


@dataclass(frozen=True)
class Block:
    """Part of a region of a certificate. Long regions come in several blocks of status ORDERED.

    stream: int64 (n,). rows: int64 (n,), rows of each run; if status is not ORDERED, the number of rows
    of each stream that are in no order. last: whether the region ends here. regions: how many are the same,
    from this one on: more than one only of those without rows.
    """

    region: int
    status: int
    stream: NDArray[np.int64]
    rows: NDArray[np.int64]
    last: bool
    regions: int = 1


@njit(cache=True)
def encode(values, out):  # type: ignore[no-untyped-def]
    """LEB128 of `values` (uint64) into `out` (uint8). Returns bytes written."""
    pos = 0
    for i in range(values.size):
        pos = put_varint(out, pos, values[i])
    return pos


@njit(cache=True)
def decode(raw, out):  # type: ignore[no-untyped-def]
    """Integers of a frame into `out` (uint64, room for raw.size). Returns how many, or -1 if malformed."""
    pos, n = 0, 0
    while pos < raw.size:
        value, pos = get_varint(raw, pos)
        if pos < 0:
            return -1
        out[n] = value
        n += 1
    return n


@njit(cache=True)
def count_empty(values, at, region):  # type: ignore[no-untyped-def]
    """How many regions without rows follow each other in `values` (uint64) from `at` on, numbered from
    `region`."""
    n = np.uint64(0)
    while at + 3 <= values.size and values[at] == np.uint64(region) + n:
        if values[at + 1] != np.uint64(ORDERED) or values[at + 2] != np.uint64(0):
            break
        n += np.uint64(1)
        at += 3
    return np.int64(n)


def _packed_handovers(handovers: tuple[tuple[int, ...], ...]) -> bytes:
    values = list[int]()
    for regions in handovers:
        values += [len(regions), *np.diff((0, *regions)).tolist()]
    out = np.empty(len(values) * MAX_VARINT, np.uint8)
    return out[: encode(np.array(values, np.uint64), out)].tobytes()


class CertificateWriter:
    """Writes a certificate, region by region from the first. path: a file that must not exist.

    recording: 16 bytes, the recording's id. Raises FormatError if the file cannot be written.
    """

    def __init__(self, path: Path, recording: bytes, head: Head) -> None:
        self._head = head
        self._held: list[NDArray[np.uint64]] = []
        self._n_held = self._first = 0
        self._writer = FrameWriter(path, FileHeader(CERTIFICATE, 0, recording, 0, FILE_VERSION), MAKE_ROOM)
        raw = _HEAD.pack(head.version, head.n_streams, head.n_regions, head.engine.encode("ascii"))
        self._writer.append(raw + _packed_handovers(head.handovers), 1, 0, 0)

    def ordered(self, region: int, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """A region with its order: the runs' streams and numbers of rows (int64, > 0)."""
        runs = np.empty(2 * len(stream), np.uint64)
        runs[0::2], runs[1::2] = stream, rows
        self._put(region, np.array([region, ORDERED, len(stream)], np.uint64), runs)

    def empty(self, first: int, end: int) -> None:
        """Regions `first` to `end` - 1, none of which has a row."""
        step = max(1, _FULL_FRAME // 3)
        for at in range(first, end, step):
            numbers = np.arange(at, min(at + step, end), dtype=np.uint64)
            values = np.zeros((len(numbers), 3), np.uint64)
            values[:, 0] = numbers
            self._put(at, values.ravel(), _NO_VALUES, last=int(numbers[-1]))

    def unordered(self, region: int, status: int, rows: NDArray[np.int64]) -> None:
        """A region without an order. status: a key of REASONS. rows: int64 (n_streams,)."""
        self._put(region, np.array([region, status], np.uint64), rows.astype(np.uint64))

    def finish(self, rows: NDArray[np.int64]) -> None:
        """The end. rows: int64 (n_streams,), every stream's rows in the whole recording."""
        n = self._head.n_regions
        self._put(n, np.array([n], np.uint64), rows.astype(np.uint64))
        self._flush(n)
        self._writer.close()

    def _put(
        self, region: int, first: NDArray[np.uint64], rest: NDArray[np.uint64], last: int | None = None
    ) -> None:
        """Of a region, or of some up to the one called `last`."""
        if not self._held:
            self._first = region
        self._held += [first, rest]
        self._n_held += len(first) + len(rest)
        if self._n_held >= _FULL_FRAME:
            self._flush(region if last is None else last)

    def _flush(self, last: int) -> None:
        if not self._held:
            return
        values = np.concatenate(self._held)
        self._held.clear()
        self._n_held = 0
        out = np.empty(min(len(values), _FRAME_VALUES) * MAX_VARINT, np.uint8)
        for at in range(0, len(values), _FRAME_VALUES):
            part = values[at : at + _FRAME_VALUES]
            self._writer.append(out[: encode(part, out)].tobytes(), len(part), self._first, last)
            self._first = last


class Certificate:
    """A certificate on disk. Raises FormatError if the file is missing, damaged, another recording's, or
    contradicts itself; nothing is held but one frame.

    path: the file. recording: 16 bytes, the id of the recording that it must belong to.
    """

    def __init__(self, path: Path, recording: bytes) -> None:
        self._path, self._header = path, FileHeader(CERTIFICATE, 0, recording, 0, FILE_VERSION)
        self.head = self._read_head()

    def _read_head(self) -> Head:
        for _header, raw in self._frames():
            if len(raw) < _HEAD.size:
                raise self._bad("a first frame of the wrong size", _HEAD.size, len(raw))
            version, n_streams, n_regions, engine = _HEAD.unpack_from(raw)
            if not _OF_ALL <= version <= _LAST_VERSION:
                raise self._bad("certificate version", f"{_OF_ALL} to {_LAST_VERSION}", version)
            handed = version > _BESIDE_AGENTS
            plain = version - _HANDED_OVER if handed else version
            holds = {_BY_HOLDS: OF_CORES, _BESIDE_AGENTS: WITH_AGENTS}.get(plain, NO_HOLDS)
            name = engine.rstrip(b"\0").decode("ascii", "replace")
            handovers = self._handovers(raw[_HEAD.size :], n_streams - 1 if handed else 0, n_regions)
            return Head(name, n_streams, n_regions, plain >= _OF_CONTESTED, holds, handovers)
        raise self._bad("truncated", "a first frame", "none")

    def _handovers(self, raw: bytes, n_cores: int, n_regions: int) -> tuple[tuple[int, ...], ...]:
        """What follows the head: of each core how many, and their distances."""
        values = np.empty(len(raw), np.uint64)
        n = decode(np.frombuffer(raw, np.uint8), values)
        left, found = values[: max(n, 0)].tolist(), []
        for _ in range(n_cores):
            many = left.pop(0) if left else len(left) + 1
            steps, left = left[:many], left[many:]
            if many != len(steps) or 0 in steps or sum(steps) >= n_regions:
                raise self._bad("malformed handovers", "regions, ascending", "others")
            found.append(tuple(accumulate(steps)))
        if n < 0 or left:
            raise self._bad("a first frame of the wrong size", _HEAD.size + len(raw) - len(left), len(raw))
        return tuple(found)

    def _frames(self) -> Iterator[tuple[FrameHeader, bytes]]:
        try:
            yield from iter_frames(self._path, self._header)
        except FormatError as error:
            # Unlike what was recorded it can be made again.
            error.remedy = _REMEDY
            raise

    def expect(self, n_streams: int, n_regions: int) -> None:
        """Raises FormatError if it is of another number of streams or regions: known before any is read."""
        for name, expected, found in (
            ("streams", n_streams, self.head.n_streams),
            ("regions", n_regions, self.head.n_regions),
        ):
            if expected != found:
                raise self._bad(f"a certificate for another number of {name}", expected, found)

    def _bad(self, what: str, expected: object, found: object) -> FormatError:
        return FormatError(what, expected=expected, found=found, where=str(self._path), remedy=_REMEDY)

    def _values(self) -> Iterator[NDArray[np.uint64]]:
        frames = self._frames()
        next(frames)
        for header, raw in frames:
            out = np.empty(len(raw), np.uint64)
            n = decode(np.frombuffer(raw, np.uint8), out)
            if n < 0:
                raise self._bad("a malformed integer", "LEB128", f"frame {header.sequence}")
            yield out[:n]

    def blocks(self) -> Iterator[Block]:
        """The regions in order, in blocks; every region of the head occurs, and the totals agree."""
        for block in self.stretches():
            if block.regions == 1:
                yield block
            else:
                for region in range(block.region, block.region + block.regions):
                    yield replace(block, region=region, regions=1)

    def stretches(self) -> Iterator[Block]:
        """The same, regions without rows that follow each other as one block."""
        source = _Source(self._values(), self._bad)
        totals = np.zeros(self.head.n_streams, np.int64)
        region, end = 0, self.head.n_regions
        while region < end:
            empty = min(source.empty(region), end - region)
            if empty:
                source.take(3 * empty)
                yield Block(region, ORDERED, _NO_RUNS, _NO_RUNS, True, empty)
            else:
                for block in self._region(region, source):
                    if len(block.stream):
                        np.add.at(totals, block.stream, block.rows)
                    yield block
            region += empty or 1
        said = source.take(1 + self.head.n_streams)
        if int(said[0]) != end:
            raise self._bad("region number", end, int(said[0]))
        if (said[1:].astype(np.int64) != totals).any():
            raise self._bad("rows of the streams", said[1:].tolist(), totals.tolist())
        source.expect_end()

    def _region(self, region: int, source: _Source) -> Iterator[Block]:
        number, status = source.take(2).tolist()
        if number != region:
            raise self._bad("region number", region, number)
        if status != ORDERED:
            if status not in REASONS:
                raise self._bad("status of a region", f"0 to {max(REASONS)}", status)
            rows = self._counts(source.take(self.head.n_streams), 0)
            yield Block(region, status, np.arange(self.head.n_streams), rows, True)
            return
        left = int(source.take(1)[0])
        if left == 0:
            yield Block(region, ORDERED, _NO_RUNS, _NO_RUNS, True)
        while left:
            n = min(left, _FRAME_VALUES)
            pairs = source.take(2 * n)
            stream = pairs[0::2]
            if int(stream.max()) >= self.head.n_streams:
                raise self._bad("stream of a run", f"below {self.head.n_streams}", int(stream.max()))
            left -= n
            yield Block(region, ORDERED, stream.astype(np.int64), self._counts(pairs[1::2], 1), left == 0)

    def _counts(self, rows: NDArray[np.uint64], least: int) -> NDArray[np.int64]:
        if len(rows) and (int(rows.min()) < least or int(rows.max()) >= 1 << 56):
            raise self._bad("rows of a run", f"{least} to 2**56", f"{int(rows.min())} to {int(rows.max())}")
        return rows.astype(np.int64)


class _Source:
    """Integers taken from frames, whatever the frames' borders."""

    def __init__(self, frames: Iterator[NDArray[np.uint64]], bad: _Bad) -> None:
        self._frames, self._bad = frames, bad
        self._held, self._at = np.empty(0, np.uint64), 0

    def take(self, n: int) -> NDArray[np.uint64]:
        if len(self._held) - self._at < n:
            self._hold(n)
        self._at += n
        return self._held[self._at - n : self._at]

    def empty(self, region: int) -> int:
        """How many regions without rows are known to come next, from that number on."""
        return int(count_empty(self._held, self._at, region))

    def _hold(self, n: int) -> None:
        """Hold n integers or more from here on."""
        held = len(self._held) - self._at
        parts = [self._held[self._at :]] if held else []
        while held < n:
            frame = next(self._frames, None)
            if frame is None:
                raise self._bad("truncated", f"{n} integers", held)
            parts.append(frame)
            held += len(frame)
        self._held, self._at = parts[0] if len(parts) == 1 else np.concatenate(parts), 0

    def expect_end(self) -> None:
        if self._at < len(self._held) or next(self._frames, None) is not None:
            raise self._bad("data after the end", "the end of the file", "more integers")
