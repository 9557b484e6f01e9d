"""When agents use few words of a page, and who can tell what it holds where that begins or ends."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from holds_twin import spells_in, with_holds
from numpy.typing import NDArray

import corebraid
from corebraid.base.errors import OrderError
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import EVENT, READ
from corebraid.base.rows.record import MISS_WRITE
from emu.bus.losses import DOWNGRADED, LOST
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay import agents_words, spells
from recorder.replay.agents_words import MOST_WORDS, Wanted, stretches
from recorder.replay.spells import Changes, find_teller, histories
from solver.check.checker import check_slices

LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"
Stretch = tuple[int, int, frozenset[int]]


def random_rows(rng: random.Random, regions: int) -> NDArray[Any]:
    """An agent's, of three pages: now few words, now many."""
    rows = []
    for region in range(regions):
        for page in range(3):
            span = rng.choice((1, 2, 3, 6, 20, 60))
            for _ in range(rng.choice((0, 0, 1, 3, 10))):
                address = page * PAGE_BYTES + rng.randrange(span) * 8 + rng.choice((0, 0, 4, 6))
                row = np.zeros(1, EVENT)
                row["addr"], row["size"] = address, rng.choice((1, 2, 4, 8))
                row["stratum"], row["kind"] = region, READ
                rows.append(row)
    return np.concatenate([np.zeros(0, EVENT), *rows])


def naive_stretches(rows: NDArray[Any], page: int, regions: int) -> list[Stretch]:
    """Region by region: as long as no more than `MOST_WORDS` are used in all of them."""
    found, first, words = list[Stretch](), 0, set[int]()
    for region in range(regions):
        here = set[int]()
        for row in rows[rows["stratum"] == region]:
            bytes_of = range(int(row["addr"]), int(row["addr"]) + int(row["size"]))
            here |= {byte // 8 * 8 for byte in bytes_of if byte // PAGE_BYTES == page}
        if len(words | here) > MOST_WORDS:
            if region > first:
                found.append((first, region, frozenset(words)))
            first, words = (region + 1, set()) if len(here) > MOST_WORDS else (region, here)
        else:
            words |= here
    return found + ([(first, regions, frozenset(words))] if first < regions else [])


def test_stretches_as_a_naive_twin_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, n = random.Random(5), 0
    monkeypatch.setattr(agents_words, "_ROOM", 3)
    for _ in range(150):
        regions = rng.randint(1, 12)
        rows = random_rows(rng, regions)
        cut = rng.randrange(len(rows) + 1)
        parts = [rows[:cut], rows[cut:]]
        monkeypatch.setattr(agents_words, "iter_agent_trace", lambda _, parts=parts: iter(parts))
        pages = np.array([0, 2], np.uint64)
        recording: Any = None
        lost = [rng.randrange(2) << 32 | rng.randrange(regions) for _ in range(rng.choice((0, 30)))]
        losses = np.sort(np.array(lost, np.int64))
        wanted = Wanted(losses, rng.choice((0, 3)))
        found = stretches(recording, pages, regions, wanted)
        for place, page in enumerate(pages.tolist()):
            mine = list[Stretch]()
            for k in np.flatnonzero(found.page == place):
                words = frozenset(found.words[k][: found.n_words[k]].tolist())
                mine.append((int(found.first[k]), int(found.end[k]), words))
            kept = []
            for first, end, words in naive_stretches(rows, page, regions):
                lost = sum(place << 32 | first <= loss < place << 32 | end for loss in losses.tolist())
                if lost >= wanted.least or (first == 0 and end == regions):
                    kept.append((first, end, words))
            assert mine == kept
            n += len(mine)
    assert n > 300


def changes(gains: list[tuple[int, int]], losses: list[tuple[int, int]]) -> Changes:
    """gains: count and flags; losses: count and way; all of page 0."""
    gained, lost = (np.array(some, np.int64).reshape(-1, 2).T for some in (gains, losses))
    return Changes(
        (gained[0].astype(np.uint64), np.zeros(len(gains), np.int64), gained[1].astype(np.uint8)),
        (
            lost[0].astype(np.uint64), np.zeros(len(losses), np.int64), lost[1].astype(np.uint8),
            np.zeros(len(losses), np.int64),
        ),
    )  # fmt: skip


#: Core 0 and core 1: gains and losses; who tells where both stand at 100, up to 200.
BORDERS = {
    "alone": (([(5, MISS_WRITE)], []), ([], []), 0),
    "nobody": (([(5, MISS_WRITE)], [(9, LOST)]), ([], []), -1),
    "lost right there": (([(5, MISS_WRITE)], [(100, LOST)]), ([], []), -1),
    "lost later": (([(5, MISS_WRITE)], [(101, LOST)]), ([(150, 0)], []), 0),
    "got right there": (([(5, MISS_WRITE)], []), ([(100, 0)], []), -1),
    "both": (([(5, 0)], []), ([(7, 0)], []), -1),
    "read alone": (([(5, 0)], []), ([], []), 0),
    "read, and another reads it too": (([(5, 0)], []), ([(150, 0)], []), -1),
    "shared again, and another reads it": (([(5, MISS_WRITE)], [(50, DOWNGRADED)]), ([(150, 0)], []), -1),
    "the other one": (([(5, MISS_WRITE)], [(9, LOST)]), ([(10, MISS_WRITE)], []), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", BORDERS)
def test_who_tells(name: str) -> None:
    *cores, expected = BORDERS[name]
    both = histories(np.array([0]), [changes(*one) for one in cores])
    here, there = np.full(2, 100, np.uint64), np.full(2, 200, np.uint64)
    assert find_teller(both, 0, here, there, 2) == expected
    # Who executes nothing in the region can tell nothing.
    assert find_teller(both, 0, here, here, 2) == -1


def slices_of(recording: Recording) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    for rows in iter_sealed_truth(recording):
        yield rows["stream"].astype(np.int64), rows["end"].astype(np.uint64)


def test_who_does_not_have_the_page_cannot_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spells, "_WORTH", 1)
    corebraid.record(LINUX / "condvars", tmp_path / "rec", cores=3, strata="cycles:10000", limit=400_000)
    recording = Recording.open(tmp_path / "rec")
    assert check_slices(with_holds(recording), slices_of(recording)).events
    plain = spells.find_border

    def another(*asked: Any) -> tuple[int, int]:
        region, teller = plain(*asked)
        return region, teller if teller < 0 else (teller + 1) % 3

    monkeypatch.setattr(spells, "find_border", another)
    assert spells_in(with_holds(recording))
    with pytest.raises(OrderError):
        check_slices(with_holds(recording), slices_of(recording))
