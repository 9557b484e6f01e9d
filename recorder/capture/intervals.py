"""Intervals of a ring on disk: recordings in the making that go on from one another (docs/format.md,
section 15).

Each begins with memory as it is then, and cores that have received nothing of it, so that it needs none of
those before it. Those that are kept are joined into one recording in the end; `join_killed` does that for a
recorder that was killed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corebraid.base.descriptors import locked
from corebraid.base.errors import FormatError, unless_short
from corebraid.base.rows.record import STRATUM
from recorder.evidence.losses.codec import FRAME_ROWS, encode
from recorder.evidence.losses.log import iter_all_losses
from recorder.files.agent_log import is_access
from recorder.files.evidence_names import LOSSES
from recorder.files.frame import UnwrittenError, open_regular, read_bytes
from recorder.files.json_fields import Scalar
from recorder.files.manifest import FINAL_IMG, INTERVALS, MANIFEST, Manifest, is_ring, load
from recorder.files.one_step import in_one_step
from recorder.files.reader import Recording, iter_agent_rows, iter_core_records, iter_image, iter_sealed_truth
from recorder.files.rebase import Base
from recorder.files.sealed_json import seal, sealed_fields
from recorder.files.writer import RecordingWriter

#: In a recording that is not finished: what the intervals are joined into; held by who writes them.
_JOINED, _LOCK = "joined", "lock"
_BASE = "base.json"
_MOST = 1 << 16
_NUMBER, _DROPPED = re.compile("[0-9]{1,18}"), ".dropped"


def place_of(directory: Path, number: int) -> Path:
    """The directory of an interval."""
    return directory / INTERVALS / str(number)


def write_base(place: Path, manifest: Manifest, base: Base) -> None:
    """Say where an interval begins. Raises FormatError if that cannot be written."""
    fields = {"id": manifest.id.hex(), "counts": list(base.counts), "accesses": base.accesses}
    stores = {"committed": list(base.committed)} if manifest.model == "tso" else {}
    try:
        with in_one_step(place / _BASE) as partial:
            partial.write_bytes(seal({**fields, "strata": base.strata, **stores}))
    except OSError as error:
        unless_short(error)
        raise UnwrittenError(f"cannot be written ({error.strerror})", where=str(place / _BASE)) from None


def _read_base(place: Path, manifest: Manifest) -> Base:
    path = place / _BASE
    with open_regular(path) as file:
        data = read_bytes(file, _MOST, path)
    fields = sealed_fields(data, path, "an interval's beginning", manifest.id)
    n_cores, committed = manifest.n_cores, Base.beginning(manifest.n_cores).committed
    counts = tuple(fields.integers("counts", n_cores))
    if manifest.model == "tso":
        committed = tuple(fields.integers("committed", n_cores))
    base = Base(counts, fields.integer("accesses"), fields.integer("strata"), committed)
    fields.done()
    return base


def drop_interval(place: Path) -> None:
    """Remove an interval. Raises FormatError."""
    # What is half removed must not look like an interval.
    gone = place.with_name(place.name + _DROPPED)
    try:
        os.replace(place, gone)
        shutil.rmtree(gone)
    except OSError as error:
        unless_short(error)
        raise FormatError(f"cannot be removed ({error.strerror})", where=str(place)) from None


def dropped(base: Base) -> dict[str, Scalar]:
    """What of the run came before a base, for a manifest's totals."""
    by_core = ",".join(map(str, base.counts))
    return {
        "dropped_instructions": sum(base.counts),
        "dropped_by_core": by_core,
        "dropped_strata": base.strata,
    }


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """The intervals of a recording, while nobody else writes them. Raises FormatError."""
    path = directory / INTERVALS / _LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        unless_short(error)
        what, remedy = f"cannot be opened ({error.strerror})", "let the recording's directory be written to"
        raise FormatError(what, where=str(path), remedy=remedy) from None
    try:
        if not locked(lock):
            what, remedy = "it is still being recorded, or put together", "wait until that has ended"
            raise FormatError(what, where=str(directory), remedy=remedy)
        yield
    finally:
        os.close(lock)


class Joining:
    """Intervals put together, one after the other, as one recording in `directory`."""

    def __init__(self, directory: Path, first: Path) -> None:
        self._directory, self._place = directory, directory / _JOINED
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.unlink(missing_ok=True)
        opened = Recording.open(first)
        self._manifest = manifest = opened.manifest
        if not is_ring(manifest):
            raise FormatError("not an interval of a ring", where=str(first))
        self.base = _read_base(first, manifest)
        self.writer = RecordingWriter.create(self._place, manifest)
        pages = ((at, np.frombuffer(page, np.uint8)) for at, page in iter_image(opened, "initial"))
        self.writer.write_image("initial", pages)
        self.writer.note(dropped(self.base))
        self._losses = 0
        #: Where those that were added end.
        self._counts, self._accesses, self._strata = [0] * manifest.n_cores, 0, 0
        self._committed = [0] * manifest.n_cores

    def add(self, place: Path, *, last: bool) -> None:
        """Add the next interval. last: none comes behind it, so that its files may end anywhere. Raises
        FormatError."""
        recording = Recording.open(place)
        if recording.manifest.id != self._manifest.id:
            raise FormatError("an interval of another recording", where=str(place))
        sealed = {name for name in recording.manifest.file_names() if name != FINAL_IMG}
        if not last and not sealed <= set(recording.manifest.files):
            raise FormatError("an interval that was not ended, before another one", where=str(place))
        by = _read_base(place, recording.manifest).since(self.base)
        self._check_that_it_goes_on(by, place)
        for core in range(recording.manifest.n_cores):
            for rows, blob in iter_core_records(recording, core):
                moved = by.of_core(core, rows)
                self.writer.append_core(core, moved, blob)
                self._counts[core] = int(moved["count"][-1]) if len(moved) else self._counts[core]
                cuts = moved[moved["kind"] == STRATUM]
                self._strata += len(cuts) if core == 0 else 0
                self._committed[core] = int(cuts["addr"][-1]) if len(cuts) else self._committed[core]
        for rows in iter_agent_rows(recording):
            self.writer.append_agent(by.of_agents(rows))
            self._accesses += int(is_access(rows).sum())
        for rows in iter_sealed_truth(recording):
            self.writer.append_truth(by.of_truth(rows))
        if LOSSES in recording.manifest.evidence:
            for rows in iter_all_losses(recording):
                self._append_losses(by.of_losses(rows), recording.manifest.line)

    def _check_that_it_goes_on(self, by: Base, place: Path) -> None:
        """An interval ends at a stratum, and the next one begins there."""
        expected = Base(tuple(self._counts), self._accesses, self._strata, tuple(self._committed))
        if by != expected:
            raise FormatError(
                "an interval does not begin where the one before it ends",
                expected=_where_text(expected),
                found=_where_text(by),
                where=str(place / _BASE),
            )

    def _append_losses(self, rows: npt.NDArray[np.void], line: int) -> None:
        assert len(rows) <= FRAME_ROWS
        first, self._losses = self._losses, self._losses + len(rows)
        self.writer.evidence(LOSSES).append(encode(rows, line), len(rows), first, self._losses - 1)

    def settle(self) -> None:
        """Put it in the place of the intervals: the manifest comes last."""
        self.writer.close()
        names = sorted(path.name for path in self._place.iterdir())
        for name in sorted(names, key=lambda name: name == MANIFEST):
            os.replace(self._place / name, self._directory / name)
        shutil.rmtree(self._directory / INTERVALS, ignore_errors=True)
        with suppress(OSError):
            self._place.rmdir()


def intervals(directory: Path) -> list[Path]:
    """The intervals of a ring, in their order; the last one may not have begun, and is none then. Raises
    FormatError."""
    found = [path for path in (directory / INTERVALS).iterdir() if _NUMBER.fullmatch(path.name)]
    found.sort(key=lambda path: int(path.name))
    if found and not _has_begun(found[-1]):
        found.pop()
    for before, after in pairwise(found):
        if int(after.name) != int(before.name) + 1:
            remedy = "copy the recording again from its source, or remove those before it"
            raise FormatError("an interval is missing", where=f"{before}, {after}", remedy=remedy)
    return found


def _where_text(place: Base) -> str:
    counts = ", ".join(map(str, place.counts))
    stores = ", ".join(map(str, place.committed))
    more = f", committed stores {stores}" if any(place.committed) else ""
    return f"instructions {counts}{more}, access {place.accesses} and stratum {place.strata} of what is kept"


def _has_begun(place: Path) -> bool:
    return (place / _BASE).exists() and (place / MANIFEST).exists() and not Recording.open(place).empty


def _spare(error: FormatError, place: Path, found: list[Path]) -> FormatError:
    """The error of an interval that cannot be read, with how to do without it."""
    rest = f"remove {place}" if place == found[-1] else f"remove {place} and those before it"
    remedy = f"copy the recording again from its source, or {rest}: the others stand for themselves"
    where = error.where or str(place)
    return FormatError(error.what, expected=error.expected, found=error.found, where=where, remedy=remedy)


def _are_left_of(directory: Path, manifest: Manifest) -> bool:
    """Whether the intervals of a finished recording are what it was put together from, and nothing else is
    there: they are somebody's own otherwise."""
    if not is_ring(manifest):
        return False
    for path in (directory / INTERVALS).iterdir():
        if path.name == _LOCK or path.name.endswith(_DROPPED):
            continue
        if not _NUMBER.fullmatch(path.name):
            return False
        try:
            if (path / _BASE).exists():
                _read_base(path, manifest)
        except FormatError:
            return False
    return True


def join_killed(directory: Path) -> bool:
    """Put together what a killed recorder has left of a ring. Returns whether there was one; does nothing to
    other recordings. Raises FormatError."""
    # A recording may have a folder of that name from somebody else.
    if not any((path / _BASE).exists() for path in (directory / INTERVALS).glob("[0-9]*")):
        return False
    finished = (directory / MANIFEST).exists()
    if finished and not _are_left_of(directory, load(directory)):
        return False
    with held(directory):
        if finished:
            # Killed while it was put in its place.
            shutil.rmtree(directory / INTERVALS, ignore_errors=True)
            return True
        found = intervals(directory)
        if not found:
            remedy = "record again: the recorder was killed before the guest began"
            raise FormatError("the recording is empty", where=str(directory), remedy=remedy)
        try:
            _join(directory, found)
        except UnwrittenError as error:
            remedy = "make room there, and let it be written to: all intervals are still there"
            raise FormatError(error.what, where=error.where, remedy=remedy) from None
    return True


def _join(directory: Path, found: list[Path]) -> None:
    joining = Joining(directory, found[0])
    for place in found:
        try:
            joining.add(place, last=place == found[-1])
        except UnwrittenError:
            raise
        except FormatError as error:
            raise _spare(error, place, found) from None
    joining.settle()
