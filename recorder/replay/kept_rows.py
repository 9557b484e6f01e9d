"""What cores' traced replays gave, in unnamed temporary files, for those who read it several times.

A core's rows are kept whole or not at all: who finds none replays the core again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import numpy as np
from numpy.typing import NDArray

from corebraid.base.hold_places import NO_HOLDS
from corebraid.base.rows.event import EVENT
from corebraid.base.rows.packed import CHUNK_WORDS, drop_uncounted, pack_chunk, start_of_region, unpack_chunk
from recorder.files.reader import Recording
from recorder.replay.contested import ALL, CONTESTED, RECEIVED, Watched
from recorder.replay.core import ReplayResult
from recorder.replay.interval import HeldReplay, Interval

#: Bytes of a recording's rows that are kept at most, and what an access of a program takes at least, an
#: instruction, where all are kept.
MOST_BYTES, _BYTES_AN_INSTRUCTION = 4 << 30, 8
_WORD = 8


@dataclass(frozen=True)
class Chunks:
    """The rows of one core in its file: of each chunk how many rows, and how many words."""

    sizes: list[tuple[int, int]]


class RowsFile:
    """One core's rows on their way into a file, which is this process's or the one's that it was forked
    from. most: bytes."""

    def __init__(self, file: int, most: int) -> None:
        self._file, self._left = file, most
        self._packed = np.empty(0, np.uint64)
        self._at = 0
        self._sizes: list[tuple[int, int]] | None = []

    def add(self, rows: NDArray[np.void]) -> None:
        """The rows that come next, EVENT[n]. Where there is no room for them all are given up."""
        if self._sizes is None or not len(rows):
            return
        if len(self._packed) < len(rows) * CHUNK_WORDS:
            self._packed = np.empty(len(rows) * CHUNK_WORDS, np.uint64)
        n = int(pack_chunk(rows, self._packed, start_of_region()))
        self._left -= n * _WORD
        if self._left < 0 or not self._write(memoryview(self._packed[:n].view(np.uint8).data)):
            self._sizes = None
            return
        self._sizes.append((len(rows), n))

    def _write(self, data: memoryview) -> bool:
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
        return None if self._sizes is None else Chunks(self._sizes)


@dataclass
class KeptRows:
    """The rows of a recording's cores. rows: which are kept (`recorder.replay.contested`); holds: of which
    pages they are those of holds (`RecordingTraces`)."""

    rows: str
    files: list[IO[bytes]]
    holds: int = NO_HOLDS
    _chunks: dict[int, Chunks] = field(default_factory=dict)

    @classmethod
    def of(cls, recording: Recording, rows: str, *, holds: int = NO_HOLDS) -> KeptRows | None:
        """Room for them, made before the processes that fill it are forked. None where it is not worth it."""
        instructions = sum(recording.manifest.instructions)
        if rows == ALL and instructions * _BYTES_AN_INSTRUCTION > MOST_BYTES:
            return None
        cores = range(recording.manifest.n_cores)
        try:
            return cls(rows, [tempfile.TemporaryFile(prefix="corebraid-rows-") for _ in cores], holds)
        except OSError:
            return None

    def learn(self, core: int, chunks: Chunks | None) -> None:
        """Of what a process has written."""
        if chunks is not None:
            self._chunks[core] = chunks

    def has(self, core: int, rows: str, *, holds: int) -> bool:
        """Whether a core's rows are here, of this kind."""
        same = rows == self.rows or (rows, self.rows) == (CONTESTED, RECEIVED)
        return core in self._chunks and same and (rows == ALL or holds == self.holds)

    def chunks(self, core: int, rows: str) -> Iterator[NDArray[np.void]]:
        """A core's rows, as its replay gives them: EVENT[n]."""
        file, at, number = self.files[core].fileno(), 0, 0
        for n, words in self._chunks[core].sizes:
            packed = np.frombuffer(os.pread(file, words * _WORD, at), np.uint64)
            at += words * _WORD
            found = np.empty(n, EVENT)
            unpack_chunk(packed, core, found, start_of_region())
            if rows != self.rows:
                found = found[: int(drop_uncounted(found, np.uint64(number)))]
                number += len(found)
            yield found

    def close(self) -> None:
        """Give the disk space back."""
        for file in self.files:
            file.close()


def replay_and_keep(
    recording: Recording, core: int, watched: Watched | None, file: int
) -> tuple[ReplayResult, Chunks | None]:
    """Replay a core, hold the registers of its checkpoints against it, and write its rows, if there is room.
    watched: of which pages (`CoreReplay`). Raises Divergence, FormatError."""
    replay = HeldReplay(recording, Interval(core), traced=True, watched=watched)
    kept = RowsFile(file, MOST_BYTES // recording.manifest.n_cores)
    for rows in replay.run():
        kept.add(rows)
    return replay.result, kept.chunks
