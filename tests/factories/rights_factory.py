"""Random runs of cores that read pages and have them alone, as rows of holds; and of agents that access a
word of each page."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import (
    BESIDE_AGENTS,
    EVENT,
    GETS,
    GIVES,
    GLUED,
    HAD_IT,
    OF_HOLD,
    OF_WORD,
    READ,
    RMW,
    SHARES,
    TAKES,
)  # fmt: skip
from solver.passes.stages import sift_region
from solver.regions.problem import Problem
from solver.regions.region import Region, Rows

#: Bytes that stand for a page.
_PLACE = 64
#: Where in a page the word is that agents access.
_WORD = 2048


@dataclass
class Pages:
    """What stands for each page, who has it, who alone."""

    holds: dict[int, int] = field(default_factory=dict)
    holders: dict[int, set[int]] = field(default_factory=dict)
    alone: dict[int, int | None] = field(default_factory=dict)
    words: dict[int, int] = field(default_factory=dict)

    def copied(self) -> Pages:
        holders = {page: set(who) for page, who in self.holders.items()}
        return Pages(dict(self.holds), holders, dict(self.alone), dict(self.words))

    def held_at(self, address: int) -> int:
        """What stands for a page, or its word."""
        if address % PAGE_BYTES == _WORD:
            return self.words.get(address // PAGE_BYTES, 0)
        return self.holds.get(address // _PLACE, 0)

    def _follow_word(self, row: np.void) -> bool:
        page = int(row["addr"]) // PAGE_BYTES
        fits = self.words.get(page, 0) == int(row["old"])
        self.words[page] = int(row["new"])
        if int(row["flags"]) & OF_HOLD:
            return fits
        if row["kind"] != READ and self.holders.get(page):
            return False
        return fits and self.alone.get(page) is None

    def follow(self, core: int, row: np.void) -> bool:
        """What becomes of a page by a row. Returns whether it may be."""
        if int(row["addr"]) % PAGE_BYTES == _WORD:
            return self._follow_word(row)
        page, what = int(row["pc"]) // PAGE_BYTES, int(row["pc"]) & 3
        who, sole = self.holders.setdefault(page, set()), self.alone.get(page)
        fits = self.holds.get(page, 0) == int(row["old"])
        self.holds[page] = int(row["new"])
        if what in (GETS, TAKES):
            fits = fits and sole in (None, core) and not (what == TAKES and who - {core})
            who.add(core)
            if what == TAKES:
                self.alone[page] = core
            return fits
        if sole == core:
            self.alone[page] = None
        if what == GIVES:
            who.discard(core)
        return fits


@dataclass
class Run:
    """before: the pages where the region begins. streams: its rows. order: (stream, row), as they ran."""

    before: Pages
    streams: list[NDArray[Any]]
    order: list[tuple[int, int]]

    @property
    def region(self) -> Region:
        sources = []
        for rows in self.streams:
            source = Rows()
            if len(rows):
                source.append(rows)
            sources.append(source)
        return Region(0, sources)

    @property
    def problem(self) -> Problem:
        """Of the region, with its values at both ends."""
        problem = sift_region(self.region).problem
        after = self.before.copied()
        for stream, row in self.order:
            after.follow(stream, self.streams[stream][row])
        values = [
            np.array([pages.held_at(int(place)) for place in problem.address], np.uint64)
            for pages in (self.before, after)
        ]
        return replace(problem, initial=values[0], final=values[1])

    def overlaps(self, stream: NDArray[np.int64], run: NDArray[np.int64]) -> bool:
        """Whether an order, as runs, has a row that may not be."""
        pages, at = self.before.copied(), [0] * len(self.streams)
        for s, n in zip(stream.tolist(), run.tolist(), strict=True):
            for _ in range(n):
                if not pages.follow(s, self.streams[s][at[s]]):
                    return True
                at[s] += 1
        return False


def _row(page: int, what: int, old: int, new: int) -> NDArray[Any]:
    row = np.zeros(1, EVENT)
    row["pc"], row["addr"], row["size"], row["flags"] = page * PAGE_BYTES + what, page * _PLACE, 8, OF_HOLD
    row["old"], row["new"], row["kind"] = old, new, READ if old == new else RMW
    return row


def _with_word(rng: random.Random, pages: Pages, row: NDArray[Any]) -> NDArray[Any]:
    """A core's row, and what it tells of the word of the page."""
    both = np.concatenate([row, row])
    page, what = int(row["pc"][0]) // PAGE_BYTES, int(row["pc"][0]) & 3
    both["pc"] |= BESIDE_AGENTS
    both["flags"][0] |= GLUED
    word = both[1:]
    word["pc"] |= OF_WORD
    word["addr"] = page * PAGE_BYTES + _WORD
    word["old"] = pages.words.get(page, 0)
    alone = int(row["old"][0]) != int(row["new"][0])
    word["new"] = row["new"] if what == TAKES else rng.choice((1, 1, 2)) if alone else word["old"]
    word["kind"] = READ if word["old"][0] == word["new"][0] else RMW
    return both


def _agents_row(rng: random.Random, pages: Pages, page: int) -> NDArray[Any] | None:
    """What an agent may do with the word of this page."""
    if pages.alone.get(page) is not None:
        return None
    row = np.zeros(1, EVENT)
    held = pages.words.get(page, 0)
    row["addr"], row["size"] = page * PAGE_BYTES + _WORD, 8
    row["old"] = row["new"] = held
    row["kind"] = READ
    if not pages.holders.get(page) and rng.random() < 0.6:
        row["new"], row["kind"] = rng.choice((1, 1, 2)), RMW
    return row


def _next(
    rng: random.Random, pages: Pages, core: int, page: int, number: int, changed: float
) -> NDArray[Any] | None:
    """What this core may do with this page. changed: how often who has it alone leaves what nobody left."""
    who, sole, held = pages.holders.setdefault(page, set()), pages.alone.get(page), pages.holds.get(page, 0)
    if sole not in (None, core):
        return None
    if sole == core:
        left = number + (1 << 40) if rng.random() < changed else rng.choice((1, 1, 1, 2))
        return _row(page, rng.choice((SHARES, GIVES)), held, left)
    if core not in who:
        if not who and rng.random() < 0.5:
            return _row(page, TAKES, held, number)
        return _row(page, GETS, held, held)
    if who == {core} and rng.random() < 0.6:
        return _row(page, TAKES | HAD_IT, held, number)
    return _row(page, GIVES, held, held)


def random_run(
    seed: int,
    *,
    cores: int,
    pages: int,
    steps: int,
    earlier: int = 0,
    changed: float = 0.2,
    agents: bool = False,
) -> Run:
    """So many rows; `earlier` ones ran before the region. changed: see `_next`. agents: the last stream is
    theirs, and they use a word of each page."""
    rng, now = random.Random(seed), Pages()
    n = cores + agents
    before, streams, order = now.copied(), [[np.zeros(0, EVENT)] for _ in range(n)], []
    for step in range(earlier + steps):
        if step == earlier:
            before = now.copied()
        core, page = rng.randrange(n), rng.randrange(pages)
        if core == cores:
            rows = _agents_row(rng, now, page)
        else:
            rows = _next(rng, now, core, page, (step + 1) << 8 | core, changed)
        if rows is None:
            continue
        if agents and core < cores:
            rows = _with_word(rng, now, rows)
        for row in rows:
            assert now.follow(core, row)
            if step >= earlier:
                order.append((core, len(streams[core]) - 1))
                streams[core].append(row.reshape(1))
    return Run(before, [np.concatenate(rows) for rows in streams], order)
