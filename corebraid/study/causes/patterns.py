"""Orders of accesses that correct programs seldom have: what to look at first in a run that failed.

Two accesses of one thread with another's in between are unserializable in the sense of Lu et al., "AVIO:
detecting atomicity violations via access interleaving invariants" (ASPLOS 2006). None of it is a proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from corebraid.study.shared_rows import Access

LOST_UPDATE, ABA, CHANGED = "lost update", "ABA", "changed between two uses"
TOO_EARLY = "used before it was filled in"
#: How suspicious each is.
_WEIGHTS = {ABA: 100, LOST_UPDATE: 90, TOO_EARLY: 85, CHANGED: 60}
#: Less so in the C library, which has its own means.
_IN_LIBRARY = 70
#: Instructions of its own within which a thread writes what belongs together.
_TOGETHER = 2_000
#: Instructions of its own within which a thread relies on what it has read.
_RELIES = 20_000


@dataclass(frozen=True)
class Pattern:
    """kind: above. steps: the accesses, in order. between: accesses of others that are not among them."""

    kind: str
    steps: tuple[Access, ...]
    between: int = 0

    @property
    def address(self) -> int:
        """The word that it is about."""
        return self.steps[-1].word

    @property
    def places(self) -> tuple[object, ...]:
        """What makes it the same as another: where in the program it happens."""
        return (self.kind, *(step.pc for step in self.steps))


def find_patterns(accesses: Iterable[Access]) -> list[Pattern]:
    """All there are, in the order in which they end."""
    words: dict[int, list[Access]] = defaultdict(list)
    for access in accesses:
        words[access.word].append(access)
    found = [pattern for here in words.values() for pattern in _of_word(here)]
    found += _too_early(words)
    return sorted(found, key=lambda pattern: pattern.steps[-1].at)


def _of_word(here: list[Access]) -> list[Pattern]:
    """Patterns of two accesses of a thread with others' writes between."""
    found = []
    last: dict[int, int] = {}
    for index, access in enumerate(here):
        before = last.get(access.who)
        last[access.who] = index
        if before is None or before == index - 1:
            continue
        first = here[before]
        writes = [
            other for other in here[before + 1 : index]
            if other.writes and other.old != other.new and other.overlaps(access)
        ]  # fmt: skip
        if writes and access.overlaps(first) and access.retired - first.retired <= _RELIES:
            kind = _kind(first, writes, access)
            if kind:
                found.append(Pattern(kind, (first, writes[0], access), len(writes) - 1))
    return found


def _kind(first: Access, writes: list[Access], access: Access) -> str:
    same_place = (first.address, first.size) == (access.address, access.size)
    if not first.reads:
        return ""
    if access.atomic:
        if first.atomic:
            return ""
        came_back = len(writes) > 1 and same_place and access.old == first.new != access.new
        return ABA if came_back and any(other.new != first.new for other in writes) else ""
    if access.writes:
        return "" if first.atomic else LOST_UPDATE
    # A thread that waits looks at one place again and again.
    return CHANGED if first.pc != access.pc and access.old != first.new and not first.atomic else ""


def _too_early(words: dict[int, list[Access]]) -> list[Pattern]:
    """A reads what B has published, and then a word that B writes only afterwards, for the first time."""
    seen: dict[tuple[int, int], list[tuple[Access, Access]]] = defaultdict(list)
    for here in words.values():
        writer: Access | None = None
        for access in here:
            if access.reads and writer is not None and writer.who != access.who:
                seen[access.who, writer.who].append((writer, access))
            if access.writes:
                writer = access
    found = []
    for here in words.values():
        first = next((access for access in here if access.writes and access.old != access.new), None)
        if first is None or first.atomic:
            continue
        for read in here:
            if read.at >= first.at:
                break
            if read.who != first.who and read.reads and read.overlaps(first):
                known = [
                    (wrote, saw) for wrote, saw in seen[read.who, first.who]
                    if saw.at < read.at and read.retired - saw.retired <= _TOGETHER
                    and 0 <= first.retired - wrote.retired <= _TOGETHER and wrote.core == first.core
                ]  # fmt: skip
                if known:
                    wrote, saw = max(known, key=lambda pair: pair[1].at)
                    found.append(Pattern(TOO_EARLY, (wrote, saw, read, first)))
    return found


@dataclass(frozen=True)
class Ranked:
    """A pattern, how suspicious it is, and how often it came about at the same places."""

    pattern: Pattern
    score: float
    times: int


def rank(patterns: list[Pattern], accesses: Iterable[Access]) -> list[Ranked]:
    """The most suspicious first, one for each group of places.

    Words that threads change atomically are mostly made for that, and what happens often is mostly meant.
    """
    atomic: dict[int, set[int]] = defaultdict(set)
    for access in accesses:
        if access.atomic:
            atomic[access.word].add(access.who)
    groups: dict[tuple[object, ...], list[Pattern]] = defaultdict(list)
    for pattern in patterns:
        groups[pattern.places].append(pattern)
    ranked = []
    for same in groups.values():
        last = same[-1]
        score: float = _WEIGHTS[last.kind]
        if last.steps[0].caller or last.steps[-1].caller:
            score -= _IN_LIBRARY
        if last.kind != ABA and len(atomic[last.address]) > 1:
            score -= 60
        score -= 2.0 * len(same).bit_length()
        ranked.append(Ranked(last, score, len(same)))
    # Of one word the most suspicious thing is told.
    ranked.sort(key=lambda one: (-one.score, -one.pattern.steps[-1].at))
    words: set[int] = set()
    best = []
    for one in ranked:
        if one.pattern.address not in words:
            words.add(one.pattern.address)
            best.append(one)
    return best
