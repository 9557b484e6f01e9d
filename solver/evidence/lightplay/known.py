"""`slices.found`: orders of slices that were found while they were recorded (docs/format.md, section 17).

What is found is bound to its problem by a digest of all its arrays, so that it can only be taken over for the
very same question, and an order is taken over only if it replays. How many orders there are, and what all of
them have in common, no order tells: so each frame has a mark that only this user on this machine can have put
there. What cannot be used is not used, which is said, and searched again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from corebraid.base.clock import working_time
from corebraid.base.errors import FormatError
from corebraid.base.import_closure import import_closure_digest
from corebraid.base.own_secret import own_secret
from corebraid.base.wording import Phrase, Text
from recorder.files.frame import FileHeader, FrameWriter, iter_frames
from recorder.files.manifest import SLICES_FOUND
from recorder.files.reader import Recording
from recorder.files.sealed_json import canonical
from solver.evidence.lightplay.constraints import Constraint, Minimal, dependent
from solver.evidence.lightplay.decide import APART, FIXED, FOUND, RELAXED, Decided, Settings
from solver.evidence.lightplay.emulate import is_correct
from solver.evidence.lightplay.found import Found
from solver.evidence.lightplay.replay_one import replay
from solver.evidence.lightplay.slice_problem import SliceProblem

#: Kind of stream in the file header (recorder.files.frame), and its version, whatever the recording's is.
KIND, _FILE_VERSION, _VERSION = 14, 1, 1
_MARK_BYTES = 32
#: A frame is written when so many slices are found, or so many seconds after the one before.
_MOST_HELD, _EVERY_S = 256, 0.5
_ORDERED = (FOUND, FIXED, RELAXED, APART)
_Entry = dict[str, Any]


def problem_digest(problem: SliceProblem) -> str:
    """16 bytes, in hexadecimal, that are another problem's only by a miracle."""
    digest = hashlib.blake2b(digest_size=16)
    for field in fields(problem):
        if field.name in ("number", "begun"):
            continue
        data = np.ascontiguousarray(getattr(problem, field.name))
        digest.update(f"{field.name} {data.dtype.str} {data.size} ".encode() + data.tobytes())
    return digest.hexdigest()


def _head(settings: Settings) -> dict[str, object]:
    """What a file begins with: who has found it, and how it was to be searched."""
    solver = import_closure_digest(Path(__file__).with_name("ahead.py"))
    return {"version": _VERSION, "solver": solver, "settings": asdict(settings)}


def _mark(recording: bytes, frame: int, payload: bytes) -> bytes:
    """What only this user can have put there."""
    return hmac.digest(own_secret(), recording + frame.to_bytes(8, "little") + payload, "sha256")


class KnownWriter:
    """Writes what was found, slice by slice, by ascending numbers. directory: of the recording, which has no
    such file yet. recording: 16 bytes, its id. Raises FormatError if it cannot be written."""

    def __init__(self, directory: Path, recording: bytes, settings: Settings) -> None:
        self._id, self._frames = recording, 0
        header = FileHeader(KIND, 0, recording, 0, _FILE_VERSION)
        room = "make room: what was not kept is searched again"
        self._writer = FrameWriter(directory / SLICES_FOUND, header, room)
        self._held: list[_Entry] = []
        self._written = working_time()
        self._append(canonical(_head(settings)), 0, 0, 0)

    def add(self, decided: Decided) -> None:
        """Keep a slice, if it has an order: where none was found nothing would have to be believed."""
        if decided.how in _ORDERED:
            self._held.append(_entry_of(decided))
            if len(self._held) == _MOST_HELD:
                self._flush()

    def idle(self) -> None:
        """There is nothing to search for the moment: write what is held, now and then."""
        if working_time() - self._written >= _EVERY_S:
            self._flush()

    def close(self) -> None:
        """Write the rest."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        held, self._held = self._held, []
        self._written = working_time()
        if held:
            first, last = held[0]["slice"], held[-1]["slice"]
            self._append(canonical({"slices": held}), len(held), first, last)

    def _append(self, payload: bytes, records: int, first: int, last: int) -> None:
        self._writer.append(_mark(self._id, self._frames, payload) + payload, records, first, last)
        self._frames += 1


def _entry_of(decided: Decided) -> _Entry:
    found, minimal = decided.found, decided.minimal
    return {
        "slice": decided.problem.number,
        "problem": problem_digest(decided.problem),
        "how": decided.how,
        "order": decided.order.tolist(),
        "pieces": decided.pieces,
        "seconds": [decided.seconds, decided.search_seconds, decided.fixing_seconds],
        "found": found and [found.total, found.exhausted, found.work, found.seconds, found.backend],
        "minimal": minimal
        and [[[c.first, c.second, c.always] for c in minimal.found], minimal.total, minimal.seconds],
    }


def _decided_of(entry: _Entry, problem: SliceProblem) -> Decided:
    """What an entry says of its problem. Raises KeyError, TypeError and ValueError."""
    order = np.array(entry["order"], np.int64)
    seconds, search_seconds, fixing_seconds = entry["seconds"]
    found, minimal = entry["found"], entry["minimal"]
    return Decided(
        problem, entry["how"], order, found and Found(order[None, :], *found), entry["pieces"],
        seconds, search_seconds, fixing_seconds, ahead=True,
        minimal=minimal and Minimal([Constraint(*c) for c in minimal[0]], *minimal[1:]),
    )  # fmt: skip


class KnownSlices:
    """What was found of a recording's slices while they were recorded, asked for by ascending numbers; one
    frame is held at a time. settings: how slices are to be searched now. used: slices that were taken over.
    note: why no more are, "" while nothing is wrong."""

    def __init__(self, recording: Recording, settings: Settings) -> None:
        self._path, self._settings = recording.path / SLICES_FOUND, settings
        self._id = recording.manifest.id
        self._entries = self._read()
        self._next: _Entry | None = None
        self.used = 0
        self.note: Text = ""

    @classmethod
    def of(cls, recording: Recording, settings: Settings) -> KnownSlices | None:
        """None where there is no such file."""
        return cls(recording, settings) if os.path.lexists(recording.path / SLICES_FOUND) else None

    def find(self, problem: SliceProblem) -> Decided | None:
        """What was found of a slice, if it was this very problem."""
        try:
            decided = self._decided(problem) if problem.n else None
        except FormatError as error:
            self._give_up(f"{error.what} (where: {error.where})")
            return None
        if decided is not None and not _holds(decided):
            self._give_up(f"what it says of slice {problem.number} does not hold (where: {self._path})")
            return None
        self.used += decided is not None
        return decided

    def _give_up(self, why: str) -> None:
        self._entries, self._next = iter(()), None
        self.note = Phrase(f"{SLICES_FOUND} is not used: {why}; slices are searched anew")

    def _decided(self, problem: SliceProblem) -> Decided | None:
        while self._next is None or self._next["slice"] < problem.number:
            self._next = next(self._entries, None)
            if self._next is None:
                return None
        entry = self._next
        if entry["slice"] != problem.number or entry["problem"] != problem_digest(problem):
            return None
        try:
            return _decided_of(entry, problem)
        except (KeyError, TypeError, ValueError):
            raise FormatError("it does not say what it should", where=str(self._path)) from None

    def _read(self) -> Iterator[_Entry]:
        """All entries. Raises FormatError. Whoever wrote the file may have been killed at any moment."""
        header = FileHeader(KIND, 0, self._id, 0, _FILE_VERSION)
        for frame, raw in iter_frames(self._path, header, partial_tail=True):
            mark, payload = raw[:_MARK_BYTES], raw[_MARK_BYTES:]
            if not hmac.compare_digest(mark, _mark(self._id, frame.sequence, payload)):
                what = "it was altered, or found by another user or on another machine"
                raise FormatError(what, where=str(self._path))
            told = json.loads(payload)
            if frame.sequence:
                yield from told["slices"]
            elif told["solver"] != _head(self._settings)["solver"]:
                raise FormatError("another version of corebraid has found it", where=str(self._path))
            elif told != _head(self._settings):
                raise FormatError("it was searched in another way", where=str(self._path))


def _holds(decided: Decided) -> bool:
    """Whether the order keeps program order and replays, is one of the search's if it says so, and has the
    constraints."""
    problem, order = decided.problem, decided.order
    if decided.how not in _ORDERED or not np.array_equal(np.sort(order), np.arange(problem.n)):
        return False
    rank = np.argsort(order)
    same = problem.stream[1:] == problem.stream[:-1]
    if (rank[1:] < rank[:-1])[same].any() or not replay(problem, order).fine:
        return False
    if decided.how == FOUND and decided.found and not is_correct(problem.paired(), order):
        return False
    pairs = dependent(problem) & (rank[:, None] < rank[None, :])
    minimal = decided.minimal.found if decided.minimal else []
    return all(max(c.first, c.second) < problem.n and pairs[c.first, c.second] for c in minimal)
