"""Files of frames: the container that every stream of a recording shares (docs/format.md, sections 2 and 3).

A file is one 32-byte header and then frames. A frame is a 44-byte header and an LZ4 block. Both headers
carry their own checksum, so no length is believed before its checksum is; every length is bounded, so a
hostile one cannot make a reader allocate more than `MAX_RAW`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import lz4.block

from corebraid.base.errors import FormatError, unless_short
from corebraid.base.wording import Option, Phrase, Text
from recorder.files.evidence_names import STREAMS

FILE_MAGIC, FRAME_MAGIC = b"CBRD", b"CBFR"
#: Version of the format that is written, and those that are read (docs/format.md says what each added).
VERSION, RING_VERSION, VERSIONS = 3, 4, (1, 2, 3, 4)
#: Kinds of a stream, as the file header names them.
CORE, AGENT, TRUTH, INITIAL_IMAGE, FINAL_IMAGE, CHECKPOINTS = 1, 2, 3, 4, 5, 13
KIND_NAMES = {
    CORE: "log of a core",
    AGENT: "agent log",
    TRUTH: "sealed truth",
    INITIAL_IMAGE: "initial image",
    FINAL_IMAGE: "final image",
    CHECKPOINTS: "checkpoints of a core",
    # Written by the solver (solver/check/certificate.py), in these frames.
    6: "certificate",
    7: "unfinished order",
    14: "found orders of slices",
} | {row.kind: f"evidence {row.name}" for row in STREAMS.values()}
#: Most bytes that a frame holds before compression; LZ4 grows what it cannot compress by at most 1/255.
MAX_RAW = 1 << 20
MAX_STORED = MAX_RAW + MAX_RAW // 255 + 16

_FILE = struct.Struct("<4sHBBHH16s")
_FRAME = struct.Struct("<4sIIIIQQI")
_CRC = struct.Struct("<I")
FILE_HEADER_BYTES = _FILE.size + _CRC.size
FRAME_HEADER_BYTES = _FRAME.size + _CRC.size

_COPY_AGAIN = "copy the recording again from its source, or record again"


class UnwrittenError(FormatError):
    """A file of a recording that cannot be made, or not be written to."""


class DamageError(FormatError):
    """A file of a recording that is damaged or not what was expected, at byte `offset` of `file`."""

    def __init__(
        self,
        path: Path,
        offset: int,
        what: Text,
        *,
        expected: object = None,
        found: object = None,
        remedy: Text = _COPY_AGAIN,
    ) -> None:
        self.file, self.offset = path.name, offset
        where = f"{path}, offset {offset}"
        super().__init__(what, expected=expected, found=found, where=where, remedy=remedy)


@dataclass(frozen=True)
class FileHeader:
    """What a file says of itself: kind of stream, its number (core number; 0 for the others), the 16-byte
    recording id, bytes in a line, version of the format."""

    kind: int
    stream: int
    recording: bytes
    line: int
    version: int = VERSION

    def pack(self) -> bytes:
        """The 32 bytes on disk."""
        body = _FILE.pack(FILE_MAGIC, self.version, self.kind, 0, self.stream, self.line, self.recording)
        return body + _CRC.pack(zlib.crc32(body))


@dataclass(frozen=True)
class FrameHeader:
    """What a frame says of itself. `first` and `last` bound what the frame holds, in the stream's own
    measure (instruction count, op number, slice number, page address); `offset` is where it begins."""

    sequence: int
    raw: int
    stored: int
    records: int
    first: int
    last: int
    checksum: int
    offset: int


@dataclass(frozen=True)
class FileFacts:
    """What the manifest keeps of a finished file: bytes, frames, records, and SHA-256 in hexadecimal."""

    bytes: int
    frames: int
    records: int
    sha256: str


class FrameWriter:
    """Appends frames to a new file; each frame is handed to the system in one write.

    path: a file that must not exist. header: what it is. room: what to do where there is none left; None:
    what helps while a guest is recorded. Raises FormatError if it cannot be created.
    """

    def __init__(self, path: Path, header: FileHeader, room: Text | None = None) -> None:
        self._path, self._room = path, room
        try:
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            unless_short(error)
            raise UnwrittenError(f"cannot be created ({error.strerror})", where=str(path)) from None
        self._digest = hashlib.sha256()
        self._bytes = self._frames = self._records = self._last = 0
        packed = header.pack()
        self._seed = _seed_of(packed, header.version)
        self._write(packed)

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        """Write one frame of `records` records that lie between `first` and `last` (inclusive).

        raw: 1 to `MAX_RAW` bytes. Raises FormatError if `first` lies before the last frame's `last`,
        ValueError if raw has a size that no frame may have.
        """
        if not 1 <= len(raw) <= MAX_RAW:
            raise ValueError(f"a frame holds 1 to {MAX_RAW} bytes, not {len(raw)}")
        if not self._last <= first <= last:
            what = "a frame that does not follow the one before it"
            raise FormatError(what, expected=f">= {self._last}", found=first, where=str(self._path))
        payload = lz4.block.compress(raw, store_size=False)
        checksum = zlib.crc32(payload)
        body = _FRAME.pack(FRAME_MAGIC, self._frames, len(raw), len(payload), records, first, last, checksum)
        self._write(body + _CRC.pack(zlib.crc32(body, self._seed)) + payload)
        self._frames += 1
        self._records += records
        self._last = last

    def facts(self) -> FileFacts:
        """What has been written so far."""
        return FileFacts(self._bytes, self._frames, self._records, self._digest.hexdigest())

    def close(self) -> None:
        """Close the file; frames were handed to the system as they were appended."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._file.write(view) :]
            except OSError as error:
                unless_short(error)
                what = f"cannot be written ({error.strerror})"
                more = "; if the guest had begun, what is there can be read"
                remedy = self._room or Phrase("make room, or choose another ", Option("directory"), more)
                raise UnwrittenError(what, where=str(self._path), remedy=remedy) from None
        self._digest.update(data)
        self._bytes += len(data)


def open_regular(path: Path, most: int | None = None) -> BinaryIO:
    """Open a regular file to read; a pipe or a device, which could block for ever, is refused.

    most: bytes that it may have. Raises FormatError if the file is missing, not a regular file, longer, or
    cannot be opened.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FormatError("not a regular file", where=str(path), remedy=_COPY_AGAIN)
        if most is not None and status.st_size > most:
            expected, found = f"at most {most:,} bytes", f"{status.st_size:,}"
            raise FormatError("too long", expected=expected, found=found, where=str(path), remedy=_COPY_AGAIN)
        return path.open("rb")
    except FileNotFoundError:
        raise FormatError("the file is missing", where=str(path), remedy=_COPY_AGAIN) from None
    except (OSError, ValueError) as error:
        unless_short(error)
        reason = getattr(error, "strerror", None) or error
        raise FormatError(f"cannot be opened ({reason})", where=str(path)) from None


def read_bytes(file: BinaryIO, count: int, path: Path) -> bytes:
    """At most `count` bytes from `file`; fewer only at its end. Raises FormatError if reading fails."""
    try:
        return file.read(count)
    except OSError as error:
        unless_short(error)
        raise FormatError(f"cannot be read ({error.strerror})", where=str(path)) from None


def _parse_header(path: Path, data: bytes) -> FileHeader:
    if data[:4] != FILE_MAGIC[: len(data[:4])]:
        remedy = "give the directory that `corebraid record -o` wrote"
        found = repr(data[:4])
        raise DamageError(
            path, 0, "not a corebraid file", expected=repr(FILE_MAGIC), found=found, remedy=remedy
        )
    if len(data) < FILE_HEADER_BYTES:
        expected, found = f"{FILE_HEADER_BYTES} bytes of header", f"{len(data)} bytes"
        raise DamageError(path, len(data), "truncated", expected=expected, found=found)
    _magic, version, kind, zero, stream, line, recording = _FILE.unpack_from(data)
    if version not in VERSIONS:
        remedy = (
            "another corebraid wrote it (or the header is damaged): read it with that one, or record again"
        )
        raise DamageError(path, 4, "format version", expected=versions(), found=version, remedy=remedy)
    if zlib.crc32(data[: _FILE.size]) != _CRC.unpack_from(data, _FILE.size)[0]:
        raise DamageError(path, 0, "bad checksum of the file header")
    if zero != 0:
        raise DamageError(path, 7, "reserved byte of the file header", expected=0, found=zero)
    return FileHeader(kind, stream, recording, line, version)


def versions() -> str:
    """The versions that are read, as messages name them."""
    return " or ".join(str(version) for version in VERSIONS)


def _check_header(path: Path, found: FileHeader, expected: FileHeader) -> None:
    if found.kind != expected.kind:
        names = [KIND_NAMES.get(kind, f"stream of kind {kind}") for kind in (expected.kind, found.kind)]
        raise DamageError(path, 6, "another kind of stream", expected=names[0], found=names[1])
    if found.recording != expected.recording:
        sides = expected.recording.hex(), found.recording.hex()
        raise DamageError(path, 12, "belongs to another recording", expected=sides[0], found=sides[1])
    if found.stream != expected.stream:
        raise DamageError(path, 8, "log of another core", expected=expected.stream, found=found.stream)
    if found.line != expected.line:
        raise DamageError(path, 10, "bytes in a line", expected=expected.line, found=found.line)
    if found.version != expected.version:
        raise DamageError(
            path, 4, "a version that is not the recording's", expected=expected.version, found=found.version
        )


def read_header(path: Path) -> FileHeader:
    """The header of a file of a recording. Raises FormatError (missing, not a corebraid file, other
    version, damaged)."""
    with open_regular(path) as file:
        return _parse_header(path, read_bytes(file, FILE_HEADER_BYTES, path))


def _seed_of(packed: bytes, version: int) -> int:
    """What the checksums of a file's frame headers go on from. packed: its file header. The CRC of bytes that
    end with their own CRC is the same for all: in version 1 a frame of another file does fit."""
    return zlib.crc32(packed if version == 1 else packed[: _FILE.size])


def _parse_frame(path: Path, data: bytes, offset: int, seed: int, before: FrameHeader | None) -> FrameHeader:
    number = before.sequence + 1 if before else 0
    magic, sequence, raw, stored, records, first, last, checksum = _FRAME.unpack_from(data)
    if magic != FRAME_MAGIC:
        raise DamageError(path, offset, f"frame {number} does not begin here")
    if zlib.crc32(data[: _FRAME.size], seed) != _CRC.unpack_from(data, _FRAME.size)[0]:
        raise DamageError(path, offset, f"bad checksum of the header of frame {number}")
    header = FrameHeader(sequence, raw, stored, records, first, last, checksum, offset)
    if header.sequence != number:
        raise DamageError(path, offset + 4, "frame number", expected=number, found=header.sequence)
    if not 1 <= header.raw <= MAX_RAW:
        raise DamageError(
            path, offset + 8, "raw bytes in a frame", expected=f"1 to {MAX_RAW}", found=header.raw
        )
    if not 1 <= header.stored <= MAX_STORED:
        raise DamageError(
            path, offset + 12, "stored bytes in a frame", expected=f"1 to {MAX_STORED}", found=header.stored
        )
    low = before.last if before else 0
    if not low <= header.first <= header.last:
        found = f"{header.first} to {header.last}"
        raise DamageError(path, offset + 20, "range of a frame", expected=f"from {low} on", found=found)
    return header


def _inflate(path: Path, payload: bytes, header: FrameHeader) -> bytes:
    at, number = header.offset + FRAME_HEADER_BYTES, header.sequence
    if zlib.crc32(payload) != header.checksum:
        raise DamageError(path, at, f"bad checksum of frame {number}")
    try:
        raw: bytes = lz4.block.decompress(payload, uncompressed_size=header.raw)
    except lz4.block.LZ4BlockError:
        raise DamageError(path, at, f"frame {number} does not decompress to {header.raw} bytes") from None
    if len(raw) != header.raw:
        raise DamageError(path, at, f"bytes in frame {number}", expected=header.raw, found=len(raw))
    return raw


def _skip(file: BinaryIO, count: int) -> int:
    """Go on behind the next `count` bytes; returns how many there are, if they are fewer."""
    at = file.tell()
    there = max(0, os.fstat(file.fileno()).st_size - at)
    file.seek(at + count)
    return min(count, there)


def iter_frames(
    path: Path,
    expected: FileHeader,
    *,
    partial_tail: bool = False,
    wanted: Callable[[FrameHeader], bool] | None = None,
) -> Iterator[tuple[FrameHeader, bytes]]:
    """The frames of a file in order, each with its bytes after decompression and all checks.

    expected: what the file header must say. partial_tail: the recorder was killed, so an incomplete last
    frame (or file header) quietly ends the iteration. wanted: the others are passed over; of them only the
    headers are read. Holds one frame at a time. Raises FormatError.
    """
    with open_regular(path) as file:
        data = read_bytes(file, FILE_HEADER_BYTES, path)
        if partial_tail and len(data) < FILE_HEADER_BYTES and data == expected.pack()[: len(data)]:
            return
        _check_header(path, _parse_header(path, data), expected)
        seed, offset = _seed_of(data, expected.version), len(data)
        header: FrameHeader | None = None
        while data := read_bytes(file, FRAME_HEADER_BYTES, path):
            number = header.sequence + 1 if header else 0
            if len(data) < FRAME_HEADER_BYTES:
                if partial_tail:
                    return
                missing = f"{FRAME_HEADER_BYTES} bytes of the header of frame {number}"
                raise DamageError(path, offset, "truncated", expected=missing, found=f"{len(data)} bytes")
            header = _parse_frame(path, data, offset, seed, header)
            offset += FRAME_HEADER_BYTES
            passed = wanted is not None and not wanted(header)
            payload = b"" if passed else read_bytes(file, header.stored, path)
            there = _skip(file, header.stored) if passed else len(payload)
            if there < header.stored:
                if partial_tail:
                    return
                missing = f"{header.stored} bytes of frame {number}"
                raise DamageError(path, offset, "truncated", expected=missing, found=f"{there} bytes")
            if not passed:
                yield header, _inflate(path, payload, header)
            offset += header.stored
