"""The accesses of a recording whose schedule is known, in the order in which they took place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import FETCH, UNCACHED
from corebraid.names.program import GuestProgram
from corebraid.study.causes.callers import UNKNOWN, Callers
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.causes.novelty import LIBRARY
from corebraid.study.course import Course
from corebraid.study.shared_rows import WORD, Access, Rows, access_of
from emu.schedule.noting import Stay
from recorder.files.reader import Recording
from recorder.replay.seek import accesses

#: Instructions of a run whose accesses are looked at, at most.
_MOST_INSTRUCTIONS = 30_000_000
#: A stay, by its number in its course, and its accesses to the words that are looked at.
Visit = tuple[int, list[Access]]


def visits_of(
    recording: Recording, program: GuestProgram, course: Course, words: NDArray[np.uint64]
) -> list[list[Access]]:
    """Of each stay of `course`, which is that of the recording, its accesses to these words (addresses over
    8, uint64[n], ascending); `Access.at` is the stay's number. Under TSO a store is where it was executed.
    Raises FormatError, Divergence, and UsageError for a run that is too long."""
    if sum(stay.end - stay.begin for stay in course.stays) > _MOST_INSTRUCTIONS:
        raise UsageError("the run is too long to look at its accesses in passing")
    names = CodeNames(program)
    found: list[list[Access]] = [[] for _ in course.stays]
    arrived = _arrived(course.stays)
    for core in sorted({stay.core for stay in course.stays}):
        mine = [(number, stay) for number, stay in enumerate(course.stays) if stay.core == core]
        for number, some in _of_core(recording, core, mine, words, names, arrived):
            found[number] += some
    last: dict[int, int] = {}
    return [list(_called(visit, last, names)) for visit in found]


def _called(visit: Iterable[Access], last: dict[int, int], names: CodeNames) -> Iterable[Access]:
    """With callers where a thread has come to another core in the middle of its calls. last: of each thread,
    where it was last in its own code, as far as its accesses show; brought up to date."""
    for one in visit:
        if one.caller == UNKNOWN:
            one = one._replace(caller=last.get(one.who, 0))
        last[one.who] = one.caller if names.kind(one.pc) == LIBRARY else one.pc
        yield one


def _of_core(
    recording: Recording, core: int, stays: list[tuple[int, Stay]], words: NDArray[np.uint64],
    names: CodeNames, arrived: set[int],
) -> Iterable[Visit]:  # fmt: skip
    """arrived: the stays that begin with a thread whose last one was on another core."""
    begins, callers, seen = np.array([stay.begin for _, stay in stays], np.uint64), Callers(names), -1
    for rows in accesses(recording, core, int(begins[0])):
        data: Rows = rows[(rows["flags"] & np.uint8(UNCACHED | FETCH)) == 0]
        places = np.searchsorted(begins, data["count"], side="right").astype(np.int64) - 1
        data, places = data[places >= 0], places[places >= 0]
        pcs = data["pc"].astype(np.uint64)
        wanted = _touches(data, words) & names.told(pcs)
        cuts = np.flatnonzero(np.diff(places)) + 1
        for first, end in pairwise([0, *cuts.tolist(), len(places)]):
            if first == end:
                continue
            place = int(places[first])
            number, stay = stays[place]
            if place != seen and number in arrived:
                callers.arrives(stay.who)
            seen = place
            called = callers.of(data[first:end], np.full(end - first, stay.who))
            for i in np.flatnonzero(wanted[first:end]).tolist():
                yield number, [access_of(data[first + i], number, stay.who, int(called[i]))]


def _arrived(stays: Sequence[Stay]) -> set[int]:
    """The stays whose thread was elsewhere before, by their numbers."""
    found, on = set(), dict[int, int]()
    for number, stay in enumerate(stays):
        if on.get(stay.who) != stay.core:
            found.add(number)
        on[stay.who] = stay.core
    return found


def _touches(rows: Rows, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each row's access is to one of the words."""
    first, last = rows["addr"] // WORD, (rows["addr"] + rows["size"] - np.uint64(1)) // WORD
    found: NDArray[np.bool_] = np.isin(first, words) | np.isin(last, words)
    return found
