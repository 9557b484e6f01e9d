"""What of one thread meets what of another in a run: who saw whose write, and what came in between.

A bug that shows under some schedules alone shows by an encounter that runs without it do not have. So each
has a key, its kind and its places in the program, by which it is known again in another run. Kinds after Lu
et al., "AVIO: detecting atomicity violations via access interleaving invariants" (ASPLOS 2006), of which two
accesses of a thread with another's in between are unserializable; Lucia and Ceze, "Finding concurrency bugs
with context-aware communication graphs" (MICRO 2009), for who reads from whom; and Lu et al., "MUVI:
automatically inferring multi-variable access correlations" (SOSP 2007), for two words that belong together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from corebraid.study.shared_rows import Access

#: Between two accesses of a thread comes another's: read, write, write; and so on. Of the last the value has
#: come back meanwhile.
LOST_UPDATE, CHANGED, OVERWRITTEN, HALF_WAY, ABA = "rww", "rwr", "wwr", "wrw", "aba"
#: A thread reads what was written somewhere: by another, by itself, or by nobody in the run.
SAW = "saw"
#: Of two words that a thread writes together another reads one as it was, and the other as it is.
TORN, AHEAD = "torn", "ahead"

#: Instructions of its own within which a thread relies on what it has read, and in which it uses together
#: what belongs together.
_RELIES, _TOGETHER = 20_000, 2_000
#: Reads of other words that a thread is taken to remember.
_REMEMBERED = 6
#: Accesses to a word that are looked at for the last write, or the next one.
_FAR = 64
#: The same of a thread's own, for the one that it made before a store that has waited in a buffer.
_LATE = 20

Place = tuple[int, int]
Key = tuple[object, ...]
NOWHERE: Place = (0, 0)


class Encounter(NamedTuple):
    """kind: above. steps: the accesses, in order; of `SAW` the read alone where nobody wrote before."""

    kind: str
    steps: tuple[Access, ...]

    @property
    def key(self) -> Key:
        """What makes it the same as one of another run."""
        places = tuple(map(place_of, self.steps))
        if self.kind != SAW:
            return (self.kind, *places)
        wrote = self.steps[0] if len(self.steps) > 1 else None
        other = wrote is not None and wrote.who != self.steps[-1].who
        return (SAW, places[0] if wrote is not None else NOWHERE, other, places[-1])


def place_of(access: Access) -> Place:
    """Where in the program."""
    return access.pc, access.caller


def find_encounters(accesses: Iterable[Access]) -> Iterator[Encounter]:
    """All there are, word by word, and those of two words last."""
    words: dict[int, list[Access]] = defaultdict(list)
    every = list(accesses)
    for access in every:
        words[access.word].append(access)
    sources: dict[int, Access] = {}
    for here in words.values():
        yield from _of_word(here, sources)
    yield from _of_two_words(every, words, sources)


def changes(access: Access) -> bool:
    """Whether it stores something else than there was."""
    return access.writes and access.old != access.new


def _of_word(here: list[Access], sources: dict[int, Access]) -> Iterator[Encounter]:
    """sources: filled with whose write each read has seen, by its number, where that was another's."""
    last: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=_LATE))
    for index, access in enumerate(here):
        mine = last[access.who]
        # A buffered store stands where it commits, behind what its thread has read meanwhile.
        before = next((k for k in reversed(mine) if not _earlier(access, here[k])), None)
        mine.append(index)
        if access.reads:
            wrote = _last_write(here, index)
            if wrote is None or not _own_buffered(access, wrote):
                if wrote is not None and wrote.who != access.who:
                    sources[access.at] = wrote
                yield Encounter(SAW, (access,) if wrote is None else (wrote, access))
        if before is not None and before < index - 1:
            yield from _between(here, before, index)


def _earlier(one: Access, other: Access) -> bool:
    """Whether a thread has made an access before another one, which stands before it."""
    return one.core == other.core and one.retired < other.retired


def _own_buffered(read: Access, wrote: Access) -> bool:
    """Whether a read cannot have seen the last write before it, but its own thread's, which commits later."""
    same = (read.address, read.size) == (wrote.address, wrote.size)
    return same and not read.atomic and read.old != wrote.new


def _last_write(here: list[Access], index: int) -> Access | None:
    for other in reversed(here[max(index - _FAR, 0) : index]):
        if other.writes and other.overlaps(here[index]):
            return other
    return None


def next_write(here: list[Access], index: int) -> Access | None:
    """The next write of these bytes, if it is another's and changes them."""
    access = here[index]
    for other in here[index + 1 : index + 1 + _FAR]:
        if changes(other) and other.overlaps(access):
            return other if other.who != access.who else None
    return None


def _between(here: list[Access], before: int, index: int) -> Iterator[Encounter]:
    first, second = here[before], here[index]
    if not first.overlaps(second) or second.retired - first.retired > _RELIES:
        return
    others = [one for one in here[before + 1 : index][:_FAR] if one.overlaps(second)]
    others = [one for one in others if one.who != second.who]
    wrote = next((one for one in others if changes(one)), None)
    read = next((one for one in others if one.reads and one.overlaps(first)), None)
    if wrote is not None:
        if first.reads and second.atomic and not first.atomic:
            if second.old == first.new != second.new:
                yield Encounter(ABA, (first, wrote, second))
            elif second.old != first.new and changes(second):
                yield Encounter(LOST_UPDATE, (first, wrote, second))
        elif first.reads and second.writes and not second.atomic:
            yield Encounter(LOST_UPDATE, (first, wrote, second))
        elif first.reads and second.reads:
            yield Encounter(CHANGED, (first, wrote, second))
        elif first.writes and second.reads:
            yield Encounter(OVERWRITTEN, (first, wrote, second))
    if read is not None and changes(first) and second.writes and not first.atomic:
        yield Encounter(HALF_WAY, (first, read, second))


def _of_two_words(
    every: list[Access], words: dict[int, list[Access]], sources: dict[int, Access]
) -> Iterator[Encounter]:
    recent: dict[int, deque[Access]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
    writes: dict[tuple[int, int], list[Access]] = defaultdict(list)
    for word, here in words.items():
        for one in here:
            if changes(one):
                writes[word, one.who].append(one)
    coming = _coming(words)
    for access in every:
        if not access.reads:
            continue
        mine = recent[access.who]
        for read in mine:
            if read.word == access.word or access.retired - read.retired > _TOGETHER:
                continue
            wrote = sources.get(access.at)
            if wrote is not None:
                other = _between_reads(writes[read.word, wrote.who], wrote, read, access)
                if other is not None:
                    yield Encounter(TORN, (read, other, access))
            saw, later = sources.get(read.at), coming.get(access.at)
            if saw is not None and later is not None and later.at > access.at and _together(saw, later):
                yield Encounter(AHEAD, (saw, read, access, later))
        mine.append(access)


def _coming(words: dict[int, list[Access]]) -> dict[int, Access]:
    """Of each read the next write that changes what it read, where that is another's."""
    found = {}
    for here in words.values():
        for index, access in enumerate(here):
            if access.reads and (later := next_write(here, index)) is not None:
                found[access.at] = later
    return found


def _between_reads(writes: list[Access], wrote: Access, first: Access, second: Access) -> Access | None:
    """The first write to the bytes of `first`, between two reads, that its thread made about when it made
    `wrote`. writes: those of the thread to the word, in order."""
    begin = bisect_right(writes, first.at, key=attrgetter("at"))
    for one in writes[begin : begin + _FAR]:
        if one.at >= second.at:
            return None
        if _together(one, wrote) and one.overlaps(first):
            return one
    return None


def _together(one: Access, other: Access) -> bool:
    """Whether a thread made both at about one time."""
    near = abs(one.retired - other.retired) <= _TOGETHER
    return near and (one.who, one.core) == (other.who, other.core)
