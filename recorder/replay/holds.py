"""Of which pages holds are enough for an order, and when a core lost them: what a replay is told besides its
log.

Whoever uses a page holds it, nobody holds it while another has it alone, and a core's log and losses say from
which instruction to which it did. So of accesses to a page that only cores use an order need not know: it
follows from that of holds, of which there are thousands where there are millions of accesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.record import LOSES, MISS, RECORD, STORED
from emu.bus.losses import DOWNGRADED, LOST
from emu.native.state import PAGE_SHIFT
from recorder.evidence.losses.log import iter_all_losses, iter_losses, iter_losses_from
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.agents_words import stretches
from recorder.replay.driver import Piece
from recorder.replay.spells import (
    Changes,
    GainedPages,
    LostPages,
    Spells,
    most_lost,
    no_spells,
    spells_of,
    worth,
)

#: Some 60 bytes each.
_MOST_LOSSES = 1 << 23
Pages = NDArray[np.uint64]
Rows = NDArray[np.void]


@njit(cache=True)
def find_unclear(gains, losses, holds, unclear):  # type: ignore[no-untyped-def]
    """Mark the pages whose gains and losses by a core do not take turns, or of which a hold has no
    instruction. gains: count (uint64[n]) and page; losses: count, page, way. holds: one more than the count
    at which the core got a page that it has now, uint64[pages]; unclear: bool[pages]; pages are indices of
    these."""
    gained, page_of_gain = gains
    lost, page_of_loss, way = losses
    i, j = 0, 0
    while i < gained.size or j < lost.size:
        if j < lost.size and (i == gained.size or lost[j] <= gained[i]):
            page = page_of_loss[j]
            if holds[page] == 0 or lost[j] < holds[page]:
                unclear[page] = True
            if way[j] != DOWNGRADED:
                holds[page] = 0
            j += 1
        else:
            page = page_of_gain[i]
            if holds[page] != 0:
                unclear[page] = True
            holds[page] = gained[i] + np.uint64(1)
            i += 1


@dataclass(frozen=True)
class ByHolds:
    """pages: of which holds are enough for an order from the beginning to the end; words: those of them that
    agents use beside, uint64[n], ascending. spells: of other pages, when."""

    pages: Pages
    words: Pages
    spells: Spells


def no_holds() -> ByHolds:
    """No page at all."""
    return ByHolds(np.zeros(0, np.uint64), np.zeros(0, np.uint64), no_spells())


def pages_by_holds(
    recording: Recording, strata: NDArray[np.uint64], agents: Pages, *, beside: bool = False
) -> ByHolds:
    """The pages that some core lost, and of which an order needs holds. agents: pages that agents access.
    beside: of these it needs holds too while agents use few words of them, else not, as of those in which an
    instruction has stored that then failed. None of a recording with more losses than are held in memory.
    Raises FormatError."""
    found, n = [np.zeros(0, np.uint64)], 0
    for rows in iter_all_losses(recording):
        found.append(np.unique(rows["line"] >> PAGE_SHIFT))
        n += len(rows)
    pages = np.unique(np.concatenate(found))
    if not beside:
        pages = np.setdiff1d(pages, agents)
    if n > _MOST_LOSSES:
        return no_holds()
    unclear = np.zeros(len(pages) + 1, bool)
    used = np.isin(pages, agents) if beside else unclear[:-1]
    cores = range(recording.manifest.n_cores)
    lost = [_lost_pages(recording, core, strata, pages) for core in cores]
    wanted = worth(lost, used)
    known = stretches(recording, pages[used], len(strata) + 1, wanted)
    whole = (known.first == 0) & (known.end == len(strata) + 1)
    chosen = np.setdiff1d(most_lost(known, wanted), np.flatnonzero(whole))
    known = known._replace(page=np.flatnonzero(used)[known.page])
    changes = []
    for core in cores:
        gained = _look_at(recording, core, pages, lost[core], unclear)
        changes.append(Changes(gained, lost[core]))
    chosen = chosen[~unclear[known.page[chosen]]]
    spells = spells_of(pages, known, chosen, changes, strata)
    by_holds = ~unclear[:-1] & ~used
    by_holds[known.page[whole]] = ~unclear[known.page[whole]]
    told = np.flatnonzero(whole & by_holds[known.page]).tolist()
    words = [pages[:0], *(known.words[k][: known.n_words[k]] for k in told)]
    return ByHolds(pages[by_holds], np.sort(np.concatenate(words)), spells)


def _lost_pages(recording: Recording, core: int, strata: NDArray[np.uint64], pages: Pages) -> LostPages:
    none = np.zeros(0, np.int64)
    losses = [(np.zeros(0, np.uint64), none, np.zeros(0, np.uint8), none)]
    for rows in iter_losses(recording, core, strata):
        place = index_of(pages, rows["line"])
        losses.append((rows["count"], place, rows["way"], rows["stratum"].astype(np.int64)))
    counts, places, ways, regions = map(np.concatenate, zip(*losses, strict=True))
    return counts, places, ways, regions


def _look_at(
    recording: Recording, core: int, pages: Pages, lost: LostPages, unclear: NDArray[np.bool_]
) -> GainedPages:
    """Mark pages that are unclear by one core's gains and losses; the last mark is of all other pages.
    Returns its gains."""
    gains = [(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.uint8))]
    for rows, _ in iter_core_records(recording, core):
        missed = rows[rows["kind"] == MISS]
        gains.append((missed["count"], index_of(pages, missed["addr"]), missed["flags"]))
        stored = rows[rows["kind"] == STORED]
        unclear[index_of(pages, stored["addr"])] = True
        unclear[index_of(pages, stored["addr"] + stored["size"] - np.uint64(1))] = True
    counts, places, flags = map(np.concatenate, zip(*gains, strict=True))
    unclear[lost[1][(lost[2] != DOWNGRADED) & (lost[2] != LOST)]] = True
    find_unclear((counts, places), lost[:3], np.zeros(len(unclear), np.uint64), unclear)
    return counts, places, flags


def index_of(pages: Pages, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where the pages of addresses stand among `pages`, uint64[n], ascending; n for others."""
    wanted = addresses >> PAGE_SHIFT
    at = np.searchsorted(pages, wanted)
    found = at < len(pages)
    found[found] = pages[at[found]] == wanted[found]
    return np.where(found, at, len(pages)).astype(np.int64)


class Carried(NamedTuple):
    """What the rows of a core's log, its losses among them, say up to where a replay begins. at: the count
    there. held: of the pages in question those that the core has there; got: those that it ever got;
    uint64[n], ascending. frame: so many frames of the stream of losses have none of the core's behind it."""

    at: int
    held: Pages
    got: Pages
    frame: int


def with_losses(
    recording: Recording,
    core: int,
    strata: NDArray[np.uint64],
    pages: Pages,
    behind: tuple[Carried, Iterator[Piece]] | None = None,
) -> Iterator[Piece]:
    """A core's log with a row of kind LOSES for each loss of one of these pages, before what else the log has
    at its count; and, as if everybody read them then, of all that the core ever got where it ends. behind:
    from there on, and the rows of the log that follow. Raises FormatError."""
    none = np.zeros(0, np.uint64)
    carried, pieces = behind or (Carried(-1, none, none, 0), iter_core_records(recording, core))
    losses, left = _losses_of(recording, core, strata, pages, carried), np.zeros(0, RECORD)
    end = recording.manifest.instructions[core] if recording.manifest.complete else None
    got = np.append(np.isin(pages, carried.got), False)
    for rows, blob in pieces:
        got[index_of(pages, rows["addr"][rows["kind"] == MISS])] = True
        left = _up_to(left, losses, int(rows["count"][-1]) if len(rows) else -1)
        if end is not None and len(rows) and int(rows["count"][-1]) >= end:
            last = _lost(np.full(int(got[:-1].sum()), end), pages[got[:-1]] << PAGE_SHIFT, DOWNGRADED)
            left, end = np.concatenate([left[left["count"] <= end], last]), None
        here = int(np.searchsorted(left["count"], rows["count"][-1], side="right")) if len(rows) else 0
        if here:
            at = np.searchsorted(rows["count"], left["count"][:here], side="left")
            rows, left = np.insert(rows, at, left[:here]), left[here:]
        yield rows, blob


def _losses_of(
    recording: Recording, core: int, strata: NDArray[np.uint64], pages: Pages, carried: Carried
) -> Iterator[Rows]:
    """What a core lost of these pages behind a place, as records, frame by frame."""
    for _, rows in iter_losses_from(recording, core, carried.frame, strata):
        behind = rows if carried.at < 0 else rows[rows["count"] > np.uint64(carried.at)]
        mine = behind[index_of(pages, behind["line"]) < len(pages)]
        if len(mine):
            yield _lost(mine["count"], mine["line"], mine["way"])


def _up_to(left: Rows, losses: Iterator[Rows], count: int) -> Rows:
    """Losses that were taken and are left, with as many more as there are up to a count at least."""
    parts = [left]
    while not len(parts[-1]) or int(parts[-1]["count"][-1]) <= count:
        more = next(losses, None)
        if more is None:
            break
        parts.append(more)
    return np.concatenate(parts) if len(parts) > 1 else left


def _lost(counts: NDArray[Any], addresses: NDArray[np.uint64], ways: NDArray[np.uint8] | int) -> Rows:
    losses = np.zeros(len(counts), RECORD)
    losses["count"], losses["addr"], losses["flags"], losses["kind"] = counts, addresses, ways, LOSES
    return losses
