"""Intervals whose replays are finished, in a folder of the recording until all are: who was killed goes on
from there (docs/format.md, section 16).

Of each interval two files: its rows, and what became of the replay, which is written when the rows are whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from corebraid.base.errors import FormatError
from corebraid.base.import_closure import import_closure_digest
from recorder.files.checkpoints import checkpoints
from recorder.files.json_fields import Fields
from recorder.files.one_step import in_one_step
from recorder.files.reader import Recording
from recorder.files.sealed_json import HEX_256, canonical, seal, sealed_fields
from recorder.replay.core import ReplayResult
from recorder.replay.interval import Interval

#: Chunks of an interval's rows, and bytes that are read at a time.
_MOST_CHUNKS, _PIECE = 1 << 22, 1 << 22
_LOCK = "lock"
_WHAT = "a finished replay"


@dataclass(frozen=True)
class Chunks:
    """The rows of an interval in its file: of each chunk how many rows, and how many words; and the CRC of
    all."""

    sizes: list[tuple[int, int]]
    crc: int = 0


@dataclass(frozen=True)
class Finished:
    """What became of an interval. chunks: its rows; None if they are not kept."""

    result: ReplayResult
    chunks: Chunks | None


class FinishedReplays:
    """A folder for them. lock: held as long as this is open. what: which rows are kept, as JSON can say."""

    def __init__(
        self, folder: Path, lock: IO[bytes], recording: Recording, what: Mapping[str, object]
    ) -> None:
        self._folder, self._lock, self._id = folder, lock, recording.manifest.id
        sources = import_closure_digest(Path(__file__).with_name("kept_rows.py"))
        found = [checkpoints(recording, core) for core in range(recording.manifest.n_cores)]
        key = {"sources": sources, "what": what, "checkpoints": repr(found)}
        self._key = hashlib.sha256(canonical(key)).hexdigest()

    @classmethod
    def of(cls, folder: Path, recording: Recording, what: Mapping[str, object]) -> FinishedReplays | None:
        """None where there can be no such folder, or another process uses it. Raises FormatError where
        checkpoints cannot be read."""
        try:
            folder.mkdir(exist_ok=True)
            lock = (folder / _LOCK).open("wb")
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(folder, lock, recording, what)
        except OSError:
            lock.close()
            return None

    def find(self, interval: Interval) -> Finished | None:
        """What became of an interval, if that is known."""
        path = self._facts_of(interval)
        try:
            finished = self._read(path, interval)
            return finished if self._has(interval, finished.chunks) else None
        except (OSError, FormatError):
            return None

    def rows(self, interval: Interval) -> IO[bytes]:
        """The file of an interval's rows, made if it is not there. Raises OSError."""
        path = self._rows_of(interval)
        return path.open("r+b" if path.exists() else "w+b")

    def finish(self, interval: Interval, finished: Finished) -> None:
        """Keep what became of an interval, whose rows are written. Where there is no room it is not kept."""
        chunks = finished.chunks
        fields = {
            "id": self._id.hex(),
            "key": self._key,
            "end": None if interval.end is None else interval.end.count,
            "result": asdict(finished.result),
            "kept": chunks is not None,
            "sizes": [] if chunks is None else chunks.sizes,
            "crc": 0 if chunks is None else chunks.crc,
        }
        with suppress(OSError), in_one_step(self._facts_of(interval)) as path:
            path.write_bytes(seal(fields))

    def remove(self) -> None:
        """Nothing of it is needed any more."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Leave it to others."""
        self._lock.close()

    def _facts_of(self, interval: Interval) -> Path:
        return self._folder / f"core-{interval.core}-{interval.first}.json"

    def _rows_of(self, interval: Interval) -> Path:
        return self._folder / f"core-{interval.core}-{interval.first}.rows"

    def _read(self, path: Path, interval: Interval) -> Finished:
        fields = sealed_fields(path.read_bytes(), path, _WHAT, self._id)
        if (key := fields.text("key", HEX_256)) != self._key:
            raise fields.error("key", self._key, key)
        end = None if interval.end is None else interval.end.count
        if (there := fields.optional_integer("end")) != end:
            raise fields.error("end", str(end), there)
        result = _result(Fields(fields.take("result"), path, "result"), interval.core)
        kept, crc, sizes = fields.truth("kept"), fields.integer("crc"), fields.rows("sizes", _MOST_CHUNKS, 2)
        fields.done()
        return Finished(result, Chunks([(n, words) for n, words in sizes], crc) if kept else None)

    def _has(self, interval: Interval, chunks: Chunks | None) -> bool:
        """Whether an interval's rows are what was written."""
        if chunks is None:
            return True
        crc = 0
        with self._rows_of(interval).open("rb") as file:
            while piece := file.read(_PIECE):
                crc = zlib.crc32(piece, crc)
            return crc == chunks.crc and os.fstat(file.fileno()).st_size == 8 * sum(
                n for _, n in chunks.sizes
            )


def _result(fields: Fields, core: int) -> ReplayResult:
    if (found := fields.integer("core")) != core:
        raise fields.error("core", str(core), found)
    count, strata = fields.integer("count"), fields.integer("strata")
    digests, contexts = fields.integer("digests"), fields.integer("contexts")
    complete = fields.truth("complete")
    fields.done()
    return ReplayResult(core, count, strata, digests, contexts, complete)
