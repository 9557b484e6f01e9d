"""Intervals whose replays are finished, in a folder of the recording until all are: who was killed goes on
from there (docs/format.md, section 16).

Of each interval two files: its rows, and what became of the replay, which is written when the rows are whole.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from corebraid.base.errors import FormatError
from corebraid.base.import_closure import import_closure_digest
from corebraid.base.own_secret import own_secret
from recorder.files.checkpoints import checkpoints
from recorder.files.json_fields import Fields, parse_object
from recorder.files.reader import Recording
from recorder.files.sealed_json import HEX_256, canonical, seal, sealed_fields
from recorder.replay.core import ReplayResult
from recorder.replay.interval import Interval

#: Chunks of an interval's rows, bytes of what is said of it, and bytes that are read at a time.
_MOST_CHUNKS, _MOST_BYTES, _PIECE = 1 << 20, 1 << 25, 1 << 22
#: Words of a row at least.
_LEAST_WORDS = 3
_WORD = 8
_WHAT = "a finished replay"


@dataclass(frozen=True)
class Chunks:
    """The rows of an interval in its file: of each chunk how many rows, and how many words; and the digest of
    all (`rows_digest`), in hexadecimal."""

    sizes: list[tuple[int, int]]
    digest: str = ""


def rows_digest() -> hashlib.blake2b:
    """Of the bytes of a file of rows."""
    return hashlib.blake2b(digest_size=32)


@dataclass(frozen=True)
class Finished:
    """What became of an interval. chunks: its rows; None if they are not kept."""

    result: ReplayResult
    chunks: Chunks | None


class FinishedReplays:
    """A folder for them, which nobody else uses as long as this is open. Nothing in it is followed anywhere
    else, and nothing is believed that this user has not written on this machine, of just this recording.
    folder: an open directory. what: which rows are kept, as JSON can say."""

    def __init__(self, path: Path, folder: int, recording: Recording, what: Mapping[str, object]) -> None:
        self._path, self._folder, self._id = path, folder, recording.manifest.id
        sources = import_closure_digest(Path(__file__).with_name("kept_rows.py"))
        found = [checkpoints(recording, core) for core in range(recording.manifest.n_cores)]
        manifest = hashlib.sha256(recording.manifest.render()).hexdigest()
        key = {"sources": sources, "what": what, "checkpoints": repr(found), "manifest": manifest}
        self._key = hashlib.sha256(canonical(key)).hexdigest()

    @classmethod
    def of(
        cls, path: Path, recording: Recording, what: Mapping[str, object], *, fresh: bool = False
    ) -> FinishedReplays | None:
        """None where there can be no such folder, or another process uses it. fresh: what is in it goes.
        Raises FormatError where checkpoints cannot be read."""
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            folder = _own_folder(path)
        except OSError:
            return None
        try:
            found = cls(path, folder, recording, what)
            if fresh or not all(entry.is_file(follow_symlinks=False) for entry in os.scandir(folder)):
                _clear(folder)
            return found
        except (OSError, FormatError) as error:
            os.close(folder)
            if isinstance(error, FormatError):
                raise
            return None

    def find(self, interval: Interval) -> Finished | None:
        """What became of an interval, if that is known."""
        try:
            finished = self._read(interval)
            return finished if self._has(interval, finished.chunks) else None
        except (OSError, FormatError):
            return None

    def rows(self, interval: Interval) -> IO[bytes]:
        """The file of an interval's rows, made if it is not there. Raises OSError."""
        name = _rows_of(interval)
        try:
            return open(self._open(name, os.O_RDWR), "r+b")
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._folder)
            return open(self._open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL), "r+b")

    def finish(self, interval: Interval, finished: Finished) -> None:
        """Keep what became of an interval, whose rows are written. Where there is no room it is not kept."""
        chunks = finished.chunks
        fields: dict[str, object] = {
            "id": self._id.hex(),
            "key": self._key,
            "first": [interval.core, interval.first],
            "end": None if interval.end is None else interval.end.count,
            "result": asdict(finished.result),
            "kept": chunks is not None,
            "sizes": [] if chunks is None else [list(pair) for pair in chunks.sizes],
            "rows": "" if chunks is None else chunks.digest,
        }
        name, partial = _facts_of(interval), f"{_facts_of(interval)}.partial"
        with suppress(OSError):
            with suppress(FileNotFoundError):
                os.unlink(partial, dir_fd=self._folder)
            with open(self._open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(seal({**fields, "by": _mark(fields)}))
            os.rename(partial, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def remove(self) -> None:
        """Nothing of it is needed any more."""
        with suppress(OSError):
            _clear(self._folder)
            self._path.rmdir()

    def close(self) -> None:
        """Leave it to others."""
        os.close(self._folder)

    def _open(self, name: str, flags: int) -> int:
        """A regular file of the folder that stands nowhere else, and that nobody else may write. Raises
        OSError."""
        file = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=self._folder)
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or not _is_own(found):
            os.close(file)
            raise OSError(errno.EINVAL, "not a file of one's own")
        return file

    def _read(self, interval: Interval) -> Finished:
        name = _facts_of(interval)
        path = self._path / name
        with open(self._open(name, os.O_RDONLY), "rb") as file:
            data = file.read(_MOST_BYTES)
        values = parse_object(data, path)
        fields = sealed_fields(data, path, _WHAT, self._id)
        told = {key: value for key, value in values.items() if key not in ("digest", "by")}
        if not hmac.compare_digest(fields.text("by", HEX_256), _mark(told)):
            raise fields.error("by", "this user's mark", "another")
        if (key := fields.text("key", HEX_256)) != self._key:
            raise fields.error("key", self._key, key)
        end = None if interval.end is None else interval.end.count
        bounds = fields.integers("first", 2), fields.optional_integer("end")
        if bounds != ((interval.core, interval.first), end):
            raise fields.error("end", f"{interval.first} to {end}", bounds)
        result = _result(Fields(fields.take("result"), path, "result"), interval.core)
        kept, digest = fields.truth("kept"), fields.text("rows")
        sizes = fields.rows("sizes", _MOST_CHUNKS, 2)
        fields.done()
        if any(not 0 < n * _LEAST_WORDS <= words for n, words in sizes):
            raise fields.error("sizes", "rows, and words that they take", "others")
        return Finished(result, Chunks([(n, words) for n, words in sizes], digest) if kept else None)

    def _has(self, interval: Interval, chunks: Chunks | None) -> bool:
        """Whether an interval's rows are what was written."""
        if chunks is None:
            return True
        digest = rows_digest()
        with open(self._open(_rows_of(interval), os.O_RDONLY), "rb") as file:
            if os.fstat(file.fileno()).st_size != _WORD * sum(words for _, words in chunks.sizes):
                return False
            while piece := file.read(_PIECE):
                digest.update(piece)
        return digest.hexdigest() == chunks.digest


def remove_left(path: Path) -> None:
    """Remove the folder that a process has left, unless another one uses it."""
    with suppress(OSError):
        folder = _own_folder(path)
        try:
            _clear(folder)
            path.rmdir()
        finally:
            os.close(folder)


def _own_folder(path: Path) -> int:
    """A folder that is this user's, and nobody else's from now on, opened. Raises OSError: it is not, or
    another process uses it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(folder).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "somebody else's")
        os.fchmod(folder, 0o700)
    except OSError:
        os.close(folder)
        raise
    return folder


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _clear(folder: int) -> None:
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(name, dir_fd=folder)


def _facts_of(interval: Interval) -> str:
    return f"core-{interval.core}-{interval.first}.json"


def _rows_of(interval: Interval) -> str:
    return f"core-{interval.core}-{interval.first}.rows"


def _mark(fields: Mapping[str, object]) -> str:
    """What only this user can have put there."""
    return hmac.new(own_secret(), canonical(fields), hashlib.sha256).hexdigest()


def _result(fields: Fields, core: int) -> ReplayResult:
    if (found := fields.integer("core")) != core:
        raise fields.error("core", str(core), found)
    count, strata = fields.integer("count"), fields.integer("strata")
    digests, contexts = fields.integer("digests"), fields.integer("contexts")
    complete = fields.truth("complete")
    fields.done()
    return ReplayResult(core, count, strata, digests, contexts, complete)
