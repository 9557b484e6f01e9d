"""Where a replay begins that does not begin at the beginning: at a checkpoint, or where another one
stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from corebraid.base.errors import FormatError
from corebraid.base.rows.record import DIGEST, STRATUM
from emu.core.saved_pages import SavedPages
from emu.core.standing import CoreState
from recorder.files.checkpoints import (
    Checkpoint,
    checkpoint_path,
    checkpoints,
    pages_up_to,
    what_helps,
)
from recorder.files.digest import Digest
from recorder.files.frame import DamageError
from recorder.files.reader import Bytes, Recording, Rows, iter_core_records

Piece = tuple[Rows, Bytes]


@dataclass(frozen=True)
class Start:
    """state: the core's, between two instructions. pages: its memory; later ones take the place of earlier
    ones. pieces: the rows that follow there. fingerprint: what that of its memory must be, None if nobody
    says. checkpoint: what it is made of, if it is one. complete: the log has ended there."""

    state: CoreState
    pages: Iterable[SavedPages]
    pieces: Iterator[Piece]
    fingerprint: int | None = None
    checkpoint: Checkpoint | None = None
    complete: bool = False


@dataclass(frozen=True)
class _Place:
    """A stratum in a core's log. digest: the one behind it; committed, buffered: stores, under TSO. pieces:
    what follows."""

    count: int
    digest: Digest
    committed: int
    buffered: int
    pieces: Iterator[Piece]


def start_before(
    recording: Recording,
    core: int,
    count: int | None = None,
    strata: int | None = None,
    *,
    traced: bool = False,
) -> Start | None:
    """The last checkpoint of a core at which fewer than `count` instructions have retired, or at most
    `strata` strata have been passed; None where there is none.

    traced: under TSO, one at which the store buffer is empty, since what its stores overwrite is not known
    yet there. Raises FormatError.
    """
    for one in reversed(checkpoints(recording, core)):
        # At the count itself an interrupt, or a store that failed, may lie before the checkpoint.
        early = count is not None and one.count < count
        if not early and (strata is None or one.stratum >= strata):
            continue
        place = _find(recording, core, one)
        if place is not None and not (traced and place.buffered):
            return _start(recording, core, one, place)
    return None


def start_from(recording: Recording, core: int, one: Checkpoint) -> Start:
    """One of a core's checkpoints that its log reaches. Raises FormatError."""
    place = _find(recording, core, one)
    if place is None:
        raise checkpoint_damage(recording, core, one, "the core's log ends before")
    return _start(recording, core, one, place)


def _start(recording: Recording, core: int, one: Checkpoint, place: _Place) -> Start:
    context, fingerprint = place.digest.context, place.digest.fingerprint
    state = CoreState(one.count, one.stratum + 1, context, one.unlisted, place.committed)
    return Start(state, pages_up_to(recording, core, one), place.pieces, fingerprint, one)


def checkpoint_damage(recording: Recording, core: int, one: Checkpoint, what: str) -> FormatError:
    """The error of a checkpoint that is not what the core's log says."""
    what = f"the checkpoint at instruction {one.count}: {what}"
    return DamageError(checkpoint_path(recording, core), 0, what, remedy=what_helps(recording.path))


def _find(recording: Recording, core: int, one: Checkpoint) -> _Place | None:
    """Where the core's log has a checkpoint's stratum. None: the log lost its tail, and ends before."""
    pieces = iter_core_records(recording, core, wanted=lambda frame: frame.last >= one.count)
    mark = None
    for rows, blob in pieces:
        if mark is None:
            at = np.flatnonzero((rows["kind"] == STRATUM) & (rows["value"] == np.uint64(one.stratum)))
            if not len(at):
                if int(rows["count"][-1]) > one.count:
                    break
                continue
            mark, rows = rows[at[0]], rows[at[0] + 1 :]
            if int(mark["count"]) != one.count:
                break
        at = np.flatnonzero(rows["kind"] == DIGEST)
        if len(at):
            digest = digest_of(recording, rows[at[0]], blob)
            rest = (rows[at[0] + 1 :], blob)
            follow = chain([rest], pieces) if len(rest[0]) else pieces
            return _Place(one.count, digest, int(mark["addr"]), int(mark["size"]), follow)
    if recording.killed:
        return None
    raise checkpoint_damage(recording, core, one, f"the core's log has no stratum {one.stratum} there")


def digest_of(recording: Recording, row: np.void, blob: Bytes) -> Digest:
    """What a DIGEST row says. Raises FormatError."""
    begin, isa = int(row["offset"]), recording.manifest.instruction_set
    digest = Digest.unpack(blob[begin : begin + int(row["size"])].tobytes(), isa)
    if digest is None:
        raise FormatError(f"a digest is not of {isa.name}", where=str(recording.path), remedy="record again")
    return digest
