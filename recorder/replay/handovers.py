"""Where a replay for an order can begin though it is not the core's beginning: at a *handover*.

What a core's rows say of pages that are not traced, or of which holds are, depends on what became of them
before: what they held when that was last told, and since when the core has them alone. At a handover, which
is a stratum of the core, it tells all of that, as if everybody looked at its pages then. What follows depends
on its memory there, which a checkpoint has, and on the rights that it has, which its log and losses say.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.record import LOSES, MISS, STRATUM
from emu.bus.losses import DOWNGRADED
from recorder.evidence.losses.log import iter_losses_from
from recorder.files.checkpoints import checkpoints
from recorder.files.reader import Recording
from recorder.replay.holds import Carried, index_of, with_losses
from recorder.replay.spells import Spells

#: Of each core the regions that begin with a handover, ascending; empty where no core has one.
Handovers = tuple[tuple[int, ...], ...]
NO_HANDOVERS: Handovers = ()
Pages = NDArray[np.uint64]
#: Instructions between two of a core's handovers at least: a replay of them is worth another process, and
#: what is told at a handover is little beside what they did.
SHORTEST = 20_000_000


def at_checkpoints(recording: Recording) -> Handovers:
    """Handovers at a recording's checkpoints. Raises FormatError."""
    if recording.killed:
        return NO_HANDOVERS
    found = []
    for core in range(recording.manifest.n_cores):
        regions, last = list[int](), 0
        for one in checkpoints(recording, core):
            if one.count - last >= SHORTEST:
                regions.append(one.stratum + 1)
                last = one.count
        found.append(tuple(regions))
    return tuple(found) if any(found) else NO_HANDOVERS


def possible(asked: Handovers, strata: NDArray[np.uint64], spells: Spells) -> Handovers:
    """Those of them where a core has executed something in the region before, to which what it tells belongs,
    and no spell begins or ends. strata: uint64 (strata, streams), where each stream stands at each."""
    before = np.concatenate([np.zeros((1, strata.shape[1]), np.uint64), strata])
    moved = before[1:] > before[:-1]
    turns = {*spells.first.tolist(), *spells.end.tolist()}
    found = tuple(
        tuple(at for at in regions if 0 < at <= len(moved) and moved[at - 1, core] and at not in turns)
        for core, regions in enumerate(asked)
    )
    return found if any(found) else NO_HANDOVERS


@njit(cache=True)
def follow_rights(rows, place, held):  # type: ignore[no-untyped-def]
    """Take note of what rows of a core's log, its losses among them (`with_losses`), say of pages that it
    has. place: int64[n], of which page a row is, held.size - 1 for others. held: bool[pages + 1]."""
    for k in range(rows.size):
        if rows[k].kind == MISS:
            held[place[k]] = True
        elif rows[k].kind == LOSES and rows[k].flags != DOWNGRADED:
            held[place[k]] = False


def carried_at(
    recording: Recording, core: int, strata: NDArray[np.uint64], pages: Pages, regions: Collection[int]
) -> dict[int, Carried]:
    """What a core's log and losses say of `pages` (uint64[n], ascending) up to where each of these regions
    begins. strata: uint64 (strata, streams). One pass over the log, up to the last of them. Raises
    FormatError."""
    held, got = np.zeros(len(pages) + 1, bool), np.zeros(len(pages) + 1, bool)
    frames, found = _frames_behind(recording, core, strata, sorted(regions)), dict[int, Carried]()
    wanted = np.array(sorted(regions), np.uint64) - np.uint64(1)
    for rows, _ in with_losses(recording, core, strata, pages):
        place, missed, at = index_of(pages, rows["addr"]), rows["kind"] == MISS, 0
        marks = np.flatnonzero((rows["kind"] == STRATUM) & np.isin(rows["value"], wanted)).tolist()
        for mark in [*marks, len(rows)]:
            follow_rights(rows[at:mark], place[at:mark], held)
            got[place[at:mark][missed[at:mark]]] = True
            if mark < len(rows):
                region, count = int(rows["value"][mark]) + 1, int(rows["count"][mark])
                found[region] = Carried(count, pages[held[:-1]], pages[got[:-1]], frames[region])
            at = mark
        if len(found) == len(wanted):
            break
    return found


def _frames_behind(
    recording: Recording, core: int, strata: NDArray[np.uint64], regions: Sequence[int]
) -> dict[int, int]:
    """For each region, ascending, how many frames of the losses have none of the core's behind its
    beginning."""
    frames, left = dict[int, int](), list(reversed(regions))
    last = 0
    for number, losses in iter_losses_from(recording, core, 0, strata):
        while left and losses["count"][-1] > strata[left[-1] - 1, core]:
            frames[left.pop()] = number
        last = number + 1
    return frames | dict.fromkeys(left, last)
