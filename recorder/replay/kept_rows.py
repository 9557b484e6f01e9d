"""What cores' traced replays gave, interval by interval, in temporary files, for those who read it several
times.

A core's rows are kept whole or not at all: who finds none replays the core again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import CorebraidError
from corebraid.base.rows.event import EVENT
from corebraid.base.rows.packed import CHUNK_WORDS, drop_uncounted, pack_chunk, start_of_region, unpack_chunk
from recorder.files.reader import Recording
from recorder.replay.contested import ALL, CONTESTED, RECEIVED, Watched
from recorder.replay.core import ReplayResult
from recorder.replay.finished import Chunks, Finished, FinishedReplays, rows_digest
from recorder.replay.handovers import Handovers
from recorder.replay.holds import Carried
from recorder.replay.interval import HeldReplay, Interval

#: Bytes of a recording's rows that are kept at most, and what an access of a program takes at least, an
#: instruction, where all are kept.
MOST_BYTES, _BYTES_AN_INSTRUCTION = 4 << 30, 8
_WORD = 8


class Kind(NamedTuple):
    """What rows are (`RecordingTraces`). rows: see `recorder.replay.contested`; holds: of which pages they
    are those of holds; handovers: that are asked for."""

    rows: str
    holds: int
    handovers: Handovers

    def serves(self, asked: Kind) -> bool:
        """Whether rows of this kind are those that are asked for, or have them among others."""
        same = self.rows == asked.rows or (asked.rows, self.rows) == (CONTESTED, RECEIVED)
        return same and (self.rows == ALL or self[1:] == asked[1:])


def worth_keeping(recording: Recording, kind: Kind) -> bool:
    """Whether a recording's rows of this kind are likely to have room."""
    instructions = sum(recording.manifest.instructions)
    return kind.rows != ALL or instructions * _BYTES_AN_INSTRUCTION <= MOST_BYTES


class RowsFile:
    """The rows of an interval on their way into a file. files: those of all intervals, this one among them,
    which are this process's or the one's that it was forked from."""

    def __init__(self, file: int, files: Sequence[int]) -> None:
        self._file, self._files = file, files
        self._packed = np.empty(0, np.uint64)
        self._at, self._digest = 0, rows_digest()
        self._sizes: list[tuple[int, int]] | None = []
        os.ftruncate(file, 0)

    def add(self, rows: NDArray[np.void]) -> None:
        """The rows that come next, EVENT[n]. Where there is no room for them all are given up."""
        if self._sizes is None or not len(rows):
            return
        if len(self._packed) < len(rows) * CHUNK_WORDS:
            self._packed = np.empty(len(rows) * CHUNK_WORDS, np.uint64)
        n = int(pack_chunk(rows, self._packed, start_of_region()))
        if not self._write(memoryview(self._packed[:n].view(np.uint8).data)):
            self._sizes = None
            os.ftruncate(self._file, 0)
            return
        self._sizes.append((len(rows), n))

    def _write(self, data: memoryview) -> bool:
        if sum(os.fstat(file).st_size for file in self._files) + len(data) > MOST_BYTES:
            return False
        self._digest.update(data)
        while data:
            try:
                n = os.pwrite(self._file, data, self._at)
            except OSError:
                return False
            data, self._at = data[n:], self._at + n
        return True

    @property
    def chunks(self) -> Chunks | None:
        """What was written, None if not all was."""
        return None if self._sizes is None else Chunks(self._sizes, self._digest.hexdigest())


@dataclass
class KeptRows:
    """The rows of a recording's cores. parts: the intervals that its cores are replayed in, of each core one
    after the other; files: theirs."""

    kind: Kind
    parts: list[Interval]
    files: list[IO[bytes]]
    finished: FinishedReplays | None = None
    _chunks: dict[Interval, Chunks] = field(default_factory=dict)
    _results: dict[Interval, ReplayResult] = field(default_factory=dict)

    @staticmethod
    def of(kind: Kind, parts: list[Interval], finished: FinishedReplays | None = None) -> KeptRows | None:
        """Room for them, made before the processes that fill it are forked. finished: has those that are to
        last until all are there, and what an earlier process has left; else files have no names. None where
        there is no room."""
        try:
            files = [_file(one, finished) for one in parts]
        except OSError:
            return None
        kept = KeptRows(kind, parts, files, finished)
        for one in parts:
            found = finished.find(one) if finished is not None else None
            if found is not None:
                kept._take(one, found)
        return kept

    def learn(self, part: Interval, finished: Finished) -> None:
        """Of what a process has replayed, and perhaps written."""
        self._take(part, finished)
        if self.finished is not None:
            self.finished.finish(part, finished)

    def _take(self, part: Interval, finished: Finished) -> None:
        self._results[part] = finished.result
        if finished.chunks is not None:
            self._chunks[part] = finished.chunks

    def result(self, part: Interval) -> ReplayResult | None:
        """What became of an interval, if that is known."""
        return self._results.get(part)

    @property
    def known(self) -> int:
        """Of how many intervals it is known what became of them."""
        return len(self._results)

    def has(self, core: int, asked: Kind) -> bool:
        """Whether a core's rows are here, of this kind."""
        mine = [one for one in self.parts if one.core == core]
        return bool(mine) and self.kind.serves(asked) and all(one in self._chunks for one in mine)

    def chunks(self, core: int, rows: str) -> Iterator[NDArray[np.void]]:
        """A core's rows, as its replay gives them: EVENT[n]."""
        number = 0
        for part, file in zip(self.parts, self.files, strict=True):
            if part.core != core:
                continue
            at, before = 0, np.uint64(number)
            for n, words in self._chunks[part].sizes:
                data = os.pread(file.fileno(), words * _WORD, at)
                if len(data) != words * _WORD:
                    what = f"rows of core {core} that were kept are not there any more"
                    raise CorebraidError(what, remedy="leave the recording alone, and try again")
                packed = np.frombuffer(data, np.uint64)
                at += words * _WORD
                found = np.empty(n, EVENT)
                unpack_chunk(packed, core, found, start_of_region())
                if rows != self.kind.rows:
                    found = found[: int(drop_uncounted(found, np.uint64(number)))]
                elif before:
                    found["seq"] += before
                number += len(found)
                yield found

    def close(self) -> None:
        """Give the disk space back, but for that of `finished`."""
        for file in self.files:
            file.close()


def _file(part: Interval, finished: FinishedReplays | None) -> IO[bytes]:
    if finished is None:
        return tempfile.TemporaryFile(prefix="corebraid-rows-")
    return finished.rows(part)


def replay_and_keep(
    recording: Recording,
    part: Interval,
    watched: Watched | None,
    file: int,
    files: Sequence[int],
    carried: Carried | None = None,
) -> Finished:
    """Replay an interval, hold the registers of checkpoints against it, and write its rows, if there is room.
    watched, carried: as of a `CoreReplay`. Raises Divergence, FormatError."""
    replay = HeldReplay(recording, part, traced=True, watched=watched, carried=carried)
    kept = RowsFile(file, files)
    for rows in replay.run():
        kept.add(rows)
    return Finished(replay.result, kept.chunks)
