"""Checkpoints of one core: where its replay can begin in place of the beginning (docs/format.md, section 14).

A checkpoint stands at a stratum: pages that changed since the last one (now and then all that the core ever
received), and a head. The core's own log has its registers there, and a fingerprint of its memory.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corebraid.base.errors import FormatError
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.wording import Call, Phrase, Text
from emu.core.saved_pages import SavedPages, is_plain, mask_bytes
from recorder.files.frame import (
    CHECKPOINTS,
    FRAME_HEADER_BYTES,
    DamageError,
    FileHeader,
    FrameHeader,
    FrameWriter,
    iter_frames,
)
from recorder.files.manifest import checkpoint_log
from recorder.files.reader import Recording

_HEAD = struct.Struct("<QQQQ")
_WORD = 8
_WHOLE = 1


def what_helps(recording: Path) -> Phrase:
    """Against checkpoints that are wrong. recording: its directory."""
    again = Call("checkpoint", str(recording))
    return Phrase("the recording is whole without it: remove the file, or make it again with ", again)


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint. stratum: its number; count: instructions retired there. whole: it has all pages that
    the core ever received, so that none before it is needed. pages: how many it has. unlisted: registers that
    the log does not have (`NativeIsa.unlisted`). frame: number of its head's frame; base: of the first frame
    of the pages that make up memory, those of checkpoints before it among them. stored: bytes on disk."""

    stratum: int
    count: int
    whole: bool
    pages: int
    unlisted: tuple[int, ...]
    frame: int
    base: int
    stored: int


class CheckpointWriter:
    """The checkpoints of one core, being written. path: a file that must not exist. room: what to do where
    there is none left. Raises FormatError."""

    def __init__(self, path: Path, header: FileHeader, room: Text | None = None) -> None:
        self._frames = FrameWriter(path, header, room)

    def append(
        self,
        stratum: int,
        count: int,
        pages: Iterable[SavedPages],
        unlisted: tuple[int, ...],
        *,
        whole: bool,
    ) -> int:
        """Write a checkpoint; returns the bytes that it took. pages: ascending; those that come at once are
        one frame."""
        before, n = self._frames.facts().bytes, 0
        for some in pages:
            raw = b"".join(np.ascontiguousarray(part).tobytes() for part in some)
            self._frames.append(raw, len(some.numbers), count, count)
            n += len(some.numbers)
        head = _HEAD.pack(stratum, count, _WHOLE * whole, n)
        self._frames.append(head + struct.pack(f"<{len(unlisted)}Q", *unlisted), 0, count, count)
        return self._frames.facts().bytes - before

    def close(self) -> None:
        """Close the file."""
        self._frames.close()


def checkpoint_path(recording: Recording, core: int) -> Path:
    """The file of a core's checkpoints; it need not be there."""
    return recording.path / checkpoint_log(core)


def checkpoint_header(recording: Recording, core: int) -> FileHeader:
    """What the header of that file must say."""
    return recording.header(CHECKPOINTS, core)


def checkpoints(recording: Recording, core: int) -> list[Checkpoint]:
    """The checkpoints of a core, ascending; none where there is no file. Of a recording whose recorder was
    killed, those that are complete. Raises FormatError."""
    path = checkpoint_path(recording, core)
    if not os.path.lexists(path):
        return []
    found: list[Checkpoint] = []
    pages = base = start = at = 0
    for frame, raw in _frames(recording, core):
        if frame.records:
            pages += frame.records
            continue
        # The head closes what the frames since the last head hold.
        stratum, count, flags, said, unlisted = _parse_head(path, frame, raw)
        whole = bool(flags)
        base = start if whole or not found else base
        last = found[-1] if found else None
        if said != pages or count != frame.last:
            expected, there = f"{pages} pages at {frame.last}", f"{said} at {count}"
            raise _damage(path, frame, "a checkpoint's head", expected=expected, found=there)
        if (last is None and not whole) or (last is not None and stratum <= last.stratum):
            raise _damage(path, frame, "checkpoints are out of sequence")
        end = frame.offset + FRAME_HEADER_BYTES + frame.stored
        found.append(Checkpoint(stratum, count, whole, pages, unlisted, frame.sequence, base, end - at))
        pages, start, at = 0, frame.sequence + 1, end
    if pages and not recording.killed:
        remedy = what_helps(path.parent)
        raise DamageError(path, at, "truncated", expected="a checkpoint's head", remedy=remedy)
    return found


def pages_up_to(recording: Recording, core: int, checkpoint: Checkpoint) -> Iterator[SavedPages]:
    """The pages that make up a core's memory at a checkpoint, some at a time; later ones take the place of
    earlier ones. Raises FormatError."""
    reader = _Pages(recording, core, lambda number: checkpoint.base <= number < checkpoint.frame)
    return reader.before(checkpoint.frame)


def own_pages(recording: Recording, core: int) -> Callable[[Checkpoint], Iterator[SavedPages]]:
    """What gives the pages that each of a core's checkpoints itself has, asked for in their order. Raises
    FormatError."""
    reader = _Pages(recording, core, lambda _: True)
    return lambda checkpoint: reader.before(checkpoint.frame)


class _Pages:
    """The pages in a file of checkpoints. wanted: of frames' numbers."""

    def __init__(self, recording: Recording, core: int, wanted: Callable[[int], bool]) -> None:
        self._path, manifest = checkpoint_path(recording, core), recording.manifest
        self._line, self._mask = manifest.line, mask_bytes(manifest.line)
        self._limit, self._last = manifest.memory // PAGE_BYTES, -1
        self._frames = _read(recording, core, lambda frame: wanted(frame.sequence))

    def before(self, head: int) -> Iterator[SavedPages]:
        """Those of the frames that come next, up to the one with this number."""
        for frame, raw in self._frames:
            if frame.records:
                yield self._parse(frame, raw)
            else:
                self._last = -1
            if frame.sequence + 1 >= head:
                return

    def _parse(self, frame: FrameHeader, raw: bytes) -> SavedPages:
        n, mask = frame.records, self._mask
        if len(raw) != n * (_WORD + mask + PAGE_BYTES):
            raise _damage(
                self._path, frame, "bytes in a frame of pages", expected=f"{n} pages", found=len(raw)
            )
        data = np.frombuffer(raw, np.uint8)
        numbers = data[: n * _WORD].view(np.uint64).copy()
        if (
            int(numbers[0]) <= self._last
            or (numbers[1:] <= numbers[:-1]).any()
            or int(numbers[-1]) >= self._limit
        ):
            raise _damage(self._path, frame, "page numbers are out of range or out of order")
        self._last = int(numbers[-1])
        received = data[n * _WORD : n * (_WORD + mask)].reshape(n, mask).copy()
        pages = SavedPages(numbers, received, data[n * (_WORD + mask) :].reshape(n, PAGE_BYTES).copy())
        if not is_plain(pages, self._line):
            raise _damage(self._path, frame, "a page has bytes in lines that its core has not received")
        return pages


def _read(
    recording: Recording, core: int, wanted: Callable[[FrameHeader], bool]
) -> Iterator[tuple[FrameHeader, bytes]]:
    """The wanted frames of the file. Its damage has a remedy of its own."""
    path, header = checkpoint_path(recording, core), checkpoint_header(recording, core)
    try:
        yield from iter_frames(path, header, partial_tail=recording.killed, wanted=wanted)
    except FormatError as error:
        offset = error.offset if isinstance(error, DamageError) else 0
        sides = error.expected, error.found
        raise DamageError(
            path, offset, error.what, expected=sides[0], found=sides[1], remedy=what_helps(path.parent)
        ) from None


def _frames(recording: Recording, core: int) -> Iterator[tuple[FrameHeader, bytes]]:
    """All frames; those of pages without their bytes."""
    passed: list[FrameHeader] = []

    def is_head(frame: FrameHeader) -> bool:
        if frame.records:
            passed.append(frame)
        return not frame.records

    for frame, raw in _read(recording, core, is_head):
        yield from ((pages, b"") for pages in passed)
        passed.clear()
        yield frame, raw
    yield from ((pages, b"") for pages in passed)


def _parse_head(path: Path, frame: FrameHeader, raw: bytes) -> tuple[int, int, int, int, tuple[int, ...]]:
    if len(raw) < _HEAD.size or (len(raw) - _HEAD.size) % _WORD:
        raise _damage(path, frame, "bytes in a checkpoint's head", found=len(raw))
    stratum, count, flags, pages = _HEAD.unpack_from(raw)
    if flags > _WHOLE:
        raise _damage(path, frame, "flags of a checkpoint", expected=f"0 or {_WHOLE}", found=flags)
    n = (len(raw) - _HEAD.size) // _WORD
    return stratum, count, flags, pages, struct.unpack_from(f"<{n}Q", raw, _HEAD.size)


def _damage(
    path: Path, frame: FrameHeader, what: str, *, expected: object = None, found: object = None
) -> FormatError:
    remedy = what_helps(path.parent)
    return DamageError(path, frame.offset, what, expected=expected, found=found, remedy=remedy)
