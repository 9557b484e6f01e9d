"""The accesses of a recording whose schedule is known, in the order in which they took place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import FETCH, UNCACHED
from corebraid.names.program import GuestProgram
from corebraid.study.causes.callers import Callers, turns_of_calls
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.course import Course
from corebraid.study.shared_rows import WORD, Access, Rows, access_of, used_by_several, uses_of
from emu.schedule.noting import Stay
from recorder.files.reader import Recording
from recorder.replay.seek import accesses

#: Instructions of a run whose accesses are looked at, at most.
_MOST_INSTRUCTIONS = 30_000_000


class Piece(NamedTuple):
    """Part of what a stay did: rows, EVENT[n], that are looked at (wanted: bool[n]), or from which follows in
    which calls the thread is."""

    rows: Rows
    wanted: NDArray[np.bool_]


def visits_of(
    recording: Recording, program: GuestProgram, course: Course, words: NDArray[np.uint64]
) -> list[list[Access]]:
    """Of each stay of `course`, which is that of the recording, its accesses to these words (addresses over
    8, uint64[n], ascending); `Access.at` is the stay's number. Under TSO a store is where it was executed.
    Raises FormatError, Divergence, and UsageError for a run that is too long."""
    _check_length(course)
    names = CodeNames(program)
    pieces: list[list[Piece]] = [[] for _ in course.stays]
    for core in sorted({stay.core for stay in course.stays}):
        mine = [(number, stay) for number, stay in enumerate(course.stays) if stay.core == core]
        for number, piece in _of_core(recording, core, mine, words, names):
            pieces[number].append(piece)
    callers, found = Callers(names), list[list[Access]]()
    for number, stay in enumerate(course.stays):
        made: list[Access] = []
        for rows, wanted in pieces[number]:
            called = callers.of(rows, np.full(len(rows), stay.who))
            for k in np.flatnonzero(wanted).tolist():
                made.append(access_of(rows[k], number, stay.who, int(called[k])))
        found.append(made)
    return found


def words_of_several(recording: Recording, course: Course) -> NDArray[np.uint64]:
    """Words (addresses over 8, ascending) that several threads have used in the stays of `course`, one of
    them to write. Raises FormatError, Divergence, and UsageError for a run that is too long."""
    _check_length(course)
    uses = [np.zeros((0, 2), np.int64)]
    for core in sorted({stay.core for stay in course.stays}):
        mine = [stay for stay in course.stays if stay.core == core]
        begins, who = np.array([(stay.begin, stay.who) for stay in mine], np.int64).T
        for rows in accesses(recording, core, int(begins[0])):
            data: Rows = rows[(rows["flags"] & np.uint8(UNCACHED | FETCH)) == 0]
            places = np.searchsorted(begins.astype(np.uint64), data["count"], side="right") - 1
            uses.append(uses_of(data[places >= 0], who[places[places >= 0]]))
    return used_by_several(np.unique(np.concatenate(uses), axis=0))


def _check_length(course: Course) -> None:
    if sum(stay.end - stay.begin for stay in course.stays) > _MOST_INSTRUCTIONS:
        raise UsageError("the run is too long to look at its accesses in passing")


def _of_core(
    recording: Recording, core: int, stays: list[tuple[int, Stay]], words: NDArray[np.uint64],
    names: CodeNames,
) -> Iterator[tuple[int, Piece]]:  # fmt: skip
    """The pieces of a core's stays, with their numbers."""
    begins = np.array([stay.begin for _, stay in stays], np.uint64)
    for rows in accesses(recording, core, int(begins[0])):
        data: Rows = rows[(rows["flags"] & np.uint8(UNCACHED | FETCH)) == 0]
        places = np.searchsorted(begins, data["count"], side="right").astype(np.int64) - 1
        wanted = _touches(data, words) & names.told(data["pc"].astype(np.uint64))
        kept = (wanted | turns_of_calls(data, names)) & (places >= 0)
        data, wanted, places = data[kept], wanted[kept], places[kept]
        cuts = np.flatnonzero(np.diff(places)) + 1
        for first, end in pairwise([0, *cuts.tolist(), len(places)]):
            if first < end:
                yield stays[int(places[first])][0], Piece(data[first:end], wanted[first:end])


def _touches(rows: Rows, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each row's access is to one of the words."""
    first, last = rows["addr"] // WORD, (rows["addr"] + rows["size"] - np.uint64(1)) // WORD
    found: NDArray[np.bool_] = np.isin(first, words) | np.isin(last, words)
    return found
