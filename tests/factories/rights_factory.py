"""Random runs of cores that read pages and have them alone, as rows of holds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import EVENT, GETS, GIVES, HAD_IT, OF_HOLD, READ, RMW, SHARES, TAKES
from solver.passes.stages import sift_region
from solver.regions.problem import Problem
from solver.regions.region import Region, Rows

#: Bytes that stand for a page.
_PLACE = 64


@dataclass
class Pages:
    """What stands for each page, who has it, who alone."""

    holds: dict[int, int] = field(default_factory=dict)
    holders: dict[int, set[int]] = field(default_factory=dict)
    alone: dict[int, int | None] = field(default_factory=dict)

    def copied(self) -> Pages:
        return Pages(
            dict(self.holds), {page: set(who) for page, who in self.holders.items()}, dict(self.alone)
        )

    def follow(self, core: int, row: np.void) -> bool:
        """What becomes of a page by a row. Returns whether it may be."""
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
            np.array([pages.holds.get(int(place) // _PLACE, 0) for place in problem.address], np.uint64)
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
    seed: int, *, cores: int, pages: int, steps: int, earlier: int = 0, changed: float = 0.2
) -> Run:
    """So many rows; `earlier` ones ran before the region. changed: see `_next`."""
    rng, now = random.Random(seed), Pages()
    before, streams, order = now.copied(), [[np.zeros(0, EVENT)] for _ in range(cores)], []
    for step in range(earlier + steps):
        if step == earlier:
            before = now.copied()
        core, page = rng.randrange(cores), rng.randrange(pages)
        row = _next(rng, now, core, page, (step + 1) << 8 | core, changed)
        if row is None:
            continue
        assert now.follow(core, row[0])
        if step >= earlier:
            order.append((core, len(streams[core]) - 1))
            streams[core].append(row)
    return Run(before, [np.concatenate(rows) for rows in streams], order)
