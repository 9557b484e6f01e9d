"""`order.partial`: the regions that an ordering has finished, kept until all are (docs/format.md, 10).

An entry is bound to its problem by a digest of all its arrays, so that it can only be used for the very
same question; and an order that is used again goes through the checker like any other.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import FormatError
from corebraid.base.import_closure import import_closure_digest
from corebraid.base.varint import MAX_VARINT
from recorder.files.frame import FileHeader, FrameWriter, iter_frames
from solver.check.certificate import FILE_VERSION, MAKE_ROOM, decode, encode
from solver.passes.answers import Options
from solver.passes.results import Answer
from solver.regions.problem import DROPPED, Problem, Verdict

FILE_NAME = "order.partial"
#: Kind of stream in the file header (recorder.files.frame).
PARTIAL = 7
_VERSION = 1
_HEAD = struct.Struct("<HHI16s16s16s")
_ENTRY = struct.Struct("<IBBHI16s16s")
_LEGAL, _ILLEGAL = 0, 1
#: Integers in a frame: even at 10 bytes each they fit a frame.
_FRAME_VALUES = 100_000
#: Integers that are taken over: of more than any order of ours has the regions are solved again.
_MOST_VALUES = 1 << 26


def problem_digest(problem: Problem) -> bytes:
    """16 bytes that are another problem's only by a miracle."""
    digest = hashlib.blake2b(digest_size=16)
    for field in fields(problem):
        value = getattr(problem, field.name)
        data = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else np.array([value], np.int64)
        digest.update(f"{field.name} {data.dtype.str} {data.size} ".encode() + data.tobytes())
    return digest.digest()


def solver_digest() -> bytes:
    """16 bytes that say which solver this is: a digest of its sources."""
    return bytes.fromhex(import_closure_digest(Path(__file__).with_name("answers.py")))


def _dropped(answer: Answer) -> int:
    """The key in `DROPPED` of what the answer says it leaves out, 0 for nothing."""
    return next((what for what, told in DROPPED.items() if answer.reason.startswith(told)), 0)


class Partial:
    """The finished regions of a recording, on disk; entries are added as regions finish.

    path: the file; what it holds is taken over. recording: 16 bytes, the recording's id. note: what a user
    should know of a file that could not be used, "" otherwise.
    """

    def __init__(self, path: Path, recording: bytes, options: Options, *, fresh: bool) -> None:
        self._path = path
        self._header = FileHeader(PARTIAL, 0, recording, 0, FILE_VERSION)
        self._head = _HEAD.pack(
            _VERSION, 0, 0, options.engine.encode(), options.encoding.encode(), solver_digest()
        )
        self._entries: dict[tuple[int, bytes], Answer] = {}
        self._writer: FrameWriter | None = None
        self._finished = 0
        self.note = ""
        if not fresh and path.exists():
            try:
                self._read()
            except FormatError as error:
                self._entries.clear()
                self.note = f"{error.what}; starting over (where: {error.where})"

    @property
    def taken_over(self) -> int:
        """How many finished regions the file held."""
        return len(self._entries)

    def find(self, problem: Problem) -> Answer | None:
        """The answer that is kept for a problem, if there is one."""
        return self._entries.get((problem.region, problem_digest(problem))) if self._entries else None

    def add(self, problem: Problem, answer: Answer) -> None:
        """Keep an answer, unless it is UNDECIDED. Raises FormatError if the file cannot be written."""
        if answer.verdict is not Verdict.UNDECIDED:
            self._append((problem.region, problem_digest(problem)), answer)

    def remove(self) -> None:
        """All is decided: nothing needs to be kept."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and leave it."""
        if self._writer is not None:
            self._writer.close()

    def _append(self, key: tuple[int, bytes], answer: Answer) -> None:
        if self._writer is None:
            self._begin()
        region, digest = key
        verdict = _LEGAL if answer.verdict is Verdict.LEGAL else _ILLEGAL
        runs = np.empty(2 * len(answer.stream), np.uint64)
        runs[0::2], runs[1::2] = answer.stream, answer.rows
        milliseconds = min(round(answer.seconds * 1000), 0xFFFFFFFF)
        at, last = 0, False
        while not last:
            part = runs[at : at + _FRAME_VALUES]
            at += len(part)
            last = at == len(runs)
            out = np.empty(len(part) * MAX_VARINT, np.uint8)
            name = answer.engine.encode("ascii")
            head = _ENTRY.pack(region, verdict, last, _dropped(answer), milliseconds, digest, name)
            assert self._writer is not None
            payload = head + out[: encode(part, out)].tobytes()
            self._writer.append(payload, len(part), self._finished, self._finished)
        self._finished += 1

    def _begin(self) -> None:
        """A new file with what was taken over, which then takes the old one's place."""
        new = self._path.with_name(self._path.name + ".new")
        new.unlink(missing_ok=True)
        try:
            self._writer = FrameWriter(new, self._header, MAKE_ROOM)
            self._writer.append(self._head, 1, 0, 0)
            for key, answer in self._entries.items():
                self._append(key, answer)
            new.replace(self._path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise

    def _read(self) -> None:
        frames = iter_frames(self._path, self._header, partial_tail=True)
        _, head = next(frames, (None, b""))
        if head != self._head:
            raise self._bad("kept by another version of the solver or for other options")
        parts: list[NDArray[np.uint64]] = []
        left = _MOST_VALUES
        for frame, raw in frames:
            if len(raw) < _ENTRY.size:
                raise self._bad(f"frame {frame.sequence} is too short")
            region, verdict, last, dropped, milliseconds, digest, engine = _ENTRY.unpack_from(raw)
            values = np.empty(len(raw), np.uint64)
            n = decode(np.frombuffer(raw, np.uint8, offset=_ENTRY.size), values)
            if (
                n < 0
                or n % 2
                or n > min(_FRAME_VALUES, left)
                or verdict not in (_LEGAL, _ILLEGAL)
                or (n and int(values[:n].max()) >= 1 << 56)
            ):
                raise self._bad(f"frame {frame.sequence} is malformed")
            parts.append(values[:n].copy())
            left -= n
            if not last:
                continue
            runs, parts = np.concatenate(parts).astype(np.int64), []
            what = Verdict.LEGAL if verdict == _LEGAL else Verdict.ILLEGAL
            name = engine.rstrip(b"\0").decode("ascii", "replace")
            self._entries[region, digest] = Answer(
                what, name, milliseconds / 1000, DROPPED.get(dropped, ""), runs[0::2], runs[1::2]
            )

    def _bad(self, what: str) -> FormatError:
        return FormatError(what, where=str(self._path), remedy="nothing: the regions are solved again")
