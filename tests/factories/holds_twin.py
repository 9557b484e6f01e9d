"""A naive twin of holds: what a core's log, its losses and all its accesses say, told row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.fingerprints import page_fingerprint
from corebraid.base.hold_places import HOLD_BYTES, WITH_AGENTS
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import (
    ALONE,
    BESIDE_AGENTS,
    EVENT,
    FETCH,
    GETS,
    GIVES,
    GLUED,
    HAD_IT,
    OF_WORD,
    READ,
    RMW,
    SHARES,
    TAKES,
    UNCACHED,
)  # fmt: skip
from corebraid.base.rows.record import MISS, MISS_WRITE
from emu.bus.losses import DOWNGRADED, LOST
from recorder.evidence.losses.log import iter_losses
from recorder.files.reader import Recording, iter_agent_trace, iter_core_records
from recorder.replay.contested import ALL, CONTESTED
from recorder.replay.handovers import NO_HANDOVERS, Handovers
from recorder.replay.traces import RecordingTraces

Rows = NDArray[Any]
#: Of a row: the page, what it tells, what was there before and after, None where that is the hold's own
#: number; and of each word that agents use the same.
Told = tuple[int, str, Any, Any, list[tuple[int, Any, Any]]]
#: More words than this of a page, and its accesses are ordered.
MOST = 15


def rows_of(pieces: Iterator[Rows]) -> Rows:
    return np.concatenate([np.zeros(0, EVENT), *(piece.copy() for piece in pieces)])


def with_holds(
    recording: Recording,
    rows: str = CONTESTED,
    holds: int = WITH_AGENTS,
    handovers: Handovers = NO_HANDOVERS,
) -> RecordingTraces:
    return RecordingTraces(recording, rows=rows, holds=holds, handovers=handovers)


Words = dict[int, dict[int, set[int]]]


def words_by_region(recording: Recording) -> Words:
    """Of each region and page the words that agents use."""
    found: Words = {}
    for rows in iter_agent_trace(recording):
        for row in rows:
            here = found.setdefault(int(row["stratum"]), {})
            for k in range(int(row["size"])):
                byte = int(row["addr"]) + k
                here.setdefault(byte // PAGE_BYTES, set()).add(byte // 8 * 8)
    return found


def words_of_agents(recording: Recording) -> dict[int, set[int]]:
    """Of each page the words that agents use."""
    found: dict[int, set[int]] = {}
    for here in words_by_region(recording).values():
        for page, words in here.items():
            found.setdefault(page, set()).update(words)
    return found


@dataclass
class Spell:
    """words: those that agents use of the page meanwhile. holders: how many cores have the page where it
    begins and ends, filled in."""

    page: int
    first: int
    end: int
    opener: int
    closer: int
    words: list[int]
    holders: list[int]


def spells_in(traces: RecordingTraces) -> list[Spell]:
    found = traces.pages.spells
    columns = (found.page, found.first, found.end, found.opener, found.closer)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        Spell(*row, found.words[found.ptr[k] : found.ptr[k + 1]].tolist(), [0, 0])
        for k, row in enumerate(rows)
    ]


class NaiveCore:
    """A core's memory, accesses and rights, one event after the other, and the rows that this should give."""

    def __init__(
        self,
        number: int,
        pages: set[int],
        words: dict[int, set[int]],
        spells: list[Spell],
        handovers: tuple[int, ...],
    ) -> None:
        self.number, self.spells, self.handovers = number, spells, handovers
        self.pages, self.memory = set(pages), dict[int, bytearray]()
        self.words = {page: sorted(words.get(page, ())) for page in pages}
        #: Pages that the core has, whether they are told or not.
        self.has = set[int]()
        #: By page: what it held when it was got, or last told; None if the core has stored to it since.
        self.held: dict[int, int | None] = {}
        self.pass_stratum(0)
        self.rows: list[Told] = []

    def fingerprint(self, page: int) -> int:
        bytes_of = bytearray(self.memory.setdefault(page, bytearray(PAGE_BYTES)))
        for word in self.words[page]:
            bytes_of[word % PAGE_BYTES : word % PAGE_BYTES + 8] = bytes(8)
        return int(page_fingerprint(np.frombuffer(bytes(bytes_of), np.uint8)))

    def tell(self, page: int, what: str, old: int | None, new: int | None) -> None:
        words = []
        for word in self.words[page]:
            held = self.memory[page][word % PAGE_BYTES :][:8]
            value = int.from_bytes(held, "little")
            words.append((word, None if old is None else value, None if new is None else value))
        self.rows.append((page, what, old, new, words))

    def pass_stratum(self, region: int) -> None:
        """A region begins."""
        if region in self.handovers:
            for page in self.held:
                self.lost(page, DOWNGRADED)
        for spell in self.spells:
            page = spell.page
            if spell.end == region:
                spell.holders[1] += page in self.has
                if self.number == spell.closer:
                    assert page in self.has
                    self.lost(page, DOWNGRADED)
                    self.tell(page, "closes", self.held.pop(page), 0)
                assert page not in self.held
                self.pages.discard(page)
            if spell.first == region:
                spell.holders[0] += page in self.has
                self.pages.add(page)
                self.words[page] = spell.words
                if self.number == spell.opener:
                    assert page in self.has
                    self.held[page] = self.fingerprint(page)
                    self.tell(page, "opens", 0, self.held[page])

    def got(self, page: int, record: np.void, blob: NDArray[np.uint8]) -> None:
        at = int(record["offset"])
        n = int(blob[at])
        mine = self.memory.setdefault(page, bytearray(PAGE_BYTES))
        for k in range(n):
            line, start = int(blob[at + 1 + k]), at + 1 + n + 64 * k
            mine[64 * line : 64 * line + 64] = blob[start : start + 64].tobytes()
        self.has.add(page)
        if page in self.pages:
            had = page in self.held
            self.held[page] = found = self.fingerprint(page)
            if record["flags"] & MISS_WRITE:
                self.begin(page, had=had)
            else:
                self.tell(page, "reads", found, found)

    def begin(self, page: int, *, had: bool) -> None:
        self.tell(page, "alone too" if had else "alone", self.held[page], None)
        self.held[page] = None

    def lost(self, page: int, way: int) -> None:
        if way == LOST:
            self.has.discard(page)
        if page not in self.held:
            return
        if self.held[page] is None:
            self.held[page] = found = self.fingerprint(page)
            self.tell(page, "over", None, found)
        elif way == LOST:
            self.tell(page, "reads", self.held[page], self.held[page])
        if way == LOST:
            del self.held[page]

    def access(self, row: np.void) -> None:
        for k in range(int(row["size"])):
            page, at = divmod(int(row["addr"]) + k, PAGE_BYTES)
            if row["kind"] == READ:
                continue
            if page in self.pages and self.held[page] is not None:
                self.begin(page, had=True)
            self.memory.setdefault(page, bytearray(PAGE_BYTES))[at] = int(row["new"]) >> 8 * k & 255


def naive_rows(
    recording: Recording,
    number: int,
    pages: set[int],
    words: dict[int, set[int]],
    spells: list[Spell],
    stands: list[int],
    handovers: tuple[int, ...],
) -> list[Told]:
    """Of one core, by page: rows that begin or end a hold, in their order. stands: where the core stands at
    each stratum."""
    done = NaiveCore(number, pages, words, spells, handovers)
    events: list[tuple[int, int, Callable[[], None]]] = []
    for stratum, count in enumerate(stands):
        events.append((count, 1, lambda region=stratum + 1: done.pass_stratum(region)))
    for rows in iter_losses(recording, number):
        for row in rows:
            page, way = int(row["line"]) // PAGE_BYTES, int(row["way"])
            events.append((int(row["count"]), 0, lambda page=page, way=way: done.lost(page, way)))
    for rows, blob in iter_core_records(recording, number):
        for row in rows[rows["kind"] == MISS]:
            page = int(row["addr"]) // PAGE_BYTES
            events.append(
                (int(row["count"]), 2, lambda page=page, row=row, blob=blob: done.got(page, row, blob))
            )
    for row in rows_of(RecordingTraces(recording, rows=ALL).chunks(number)):
        if not row["flags"] & (UNCACHED | FETCH):
            events.append((int(row["count"]), 3, lambda row=row: done.access(row)))
    for _, _, happen in sorted(events, key=lambda event: event[:2]):
        happen()
    for page in sorted(done.held):
        done.lost(page, DOWNGRADED)
    return done.rows


#: What rows tell, by the names of the twin: who gives away what it only read has the same before and after.
WHAT = {
    "reads": (GETS,), "alone": (TAKES,), "alone too": (TAKES | HAD_IT,), "over": (SHARES, GIVES),
    "opens": (GETS | HAD_IT,), "closes": (GIVES | HAD_IT,),
}  # fmt: skip


def told_rows(recording: Recording, traces: RecordingTraces, number: int) -> list[Told]:
    memory, found = recording.manifest.memory, list[Told]()
    glued = False
    for row in rows_of(traces.chunks(number)):
        if row["flags"] & (ALONE | FETCH) != ALONE | FETCH:
            assert int(row["addr"]) < memory or row["flags"] & UNCACHED
            assert not glued or row["flags"] & ALONE
            continue
        pc, old, new = int(row["pc"]), int(row["old"]), int(row["new"])
        assert int(row["kind"]) == (READ if old == new else RMW)
        assert glued == bool(pc & OF_WORD)
        glued = bool(row["flags"] & GLUED)
        if pc & OF_WORD:
            assert int(row["addr"]) // PAGE_BYTES == pc // PAGE_BYTES == found[-1][0]
            found[-1][4].append((int(row["addr"]), old, new))
            continue
        page, left = divmod(int(row["addr"]) - memory, HOLD_BYTES)
        assert left == 0
        assert pc & -32 == page * PAGE_BYTES
        assert glued == bool(pc & BESIDE_AGENTS)
        what = next(name for name, kinds in WHAT.items() if pc & 7 in kinds)
        found.append((page, what, old, new, []))
    return found


def hold_against_naive(recording: Recording, handovers: Handovers = NO_HANDOVERS) -> tuple[int, int]:
    """Of each page the rows are what the twin has, a hold alone has a number of its own; how many rows, and
    how many of words."""
    traces = with_holds(recording, handovers=handovers)
    pages, words = set(traces.pages.by_holds.tolist()), words_of_agents(recording)
    assert all(len(words.get(page, ())) <= MOST for page in pages)
    spells, by_region = spells_in(traces), words_by_region(recording)
    for spell in spells:
        assert spell.page not in pages
        parts = [by_region.get(region, {}).get(spell.page, set()) for region in range(spell.first, spell.end)]
        here = set[int]().union(*parts)
        # Some agents may have used behind it, in the stretch that it is cut from.
        assert here <= set(spell.words)
        assert 0 < len(spell.words) <= MOST
    known = sorted(word for page in pages for word in words.get(page, ()))
    assert traces.pages.words.tolist() == known
    n, numbers = 0, list[tuple[int, int]]()
    told_words = 0
    for number in range(recording.manifest.n_cores):
        stands = traces.strata[:, number].tolist()
        regions = traces.handovers[number] if traces.handovers else ()
        expected = naive_rows(recording, number, pages, words, spells, stands, regions)
        told = told_rows(recording, traces, number)
        for page in pages | {spell.page for spell in spells}:
            mine = [row for row in told if row[0] == page]
            theirs = [row for row in expected if row[0] == page]
            assert len(mine) == len(theirs), (number, hex(page))
            own: int | None = None
            for (_, found, old, new, here), (_, what, before, after, there) in zip(mine, theirs, strict=True):
                assert found == what or (found == "over" and what == "reads" and old == new)
                if what.startswith("alone"):
                    own = new
                    numbers.append((page, new))
                parts = [((page, old, new), (page, before, after)), *zip(here, there, strict=True)]
                for got, wanted in parts:
                    filled = [own if value is None else value for value in wanted]
                    assert list(got) == filled, (number, hex(page), what)
                told_words += len(here)
            n += len(mine)
    assert len(numbers) == len(set(numbers))
    for spell in spells:
        # Whoever tells what the page holds is alone with it.
        assert spell.opener == -1 or spell.holders[0] == 1
        assert spell.closer == -1 or spell.holders[1] == 1
    return n, told_words
