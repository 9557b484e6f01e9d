"""Where a core met agents, as rows among those of its accesses.

What a sync point proves of a core (`emu.bus.sync_points`) is told by its rows: of the one before, or the one
after. Among all accesses there is nearly always one between two things that are known of a core. Where only
some of the accesses are rows there may be none, and what follows from the one for the other would be lost.
So a row stands at each sync point; it is no access, and no part of an order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.memory import DEVICE_BASE
from corebraid.base.rows.event import ALONE, EVENT, READ, UNCACHED

#: What such a row is: no access to a device.
MEETING = UNCACHED | ALONE


def meeting_rows(syncs: NDArray[np.void], core: int) -> NDArray[np.void]:
    """A row for each place where a core met an agent: EVENT[n], in its order. syncs: SYNC_POINT[m], of all
    cores."""
    mine = syncs[syncs["core"] == core]
    places = np.unique(np.stack([mine["stratum"].astype(np.uint64), mine["count"]], axis=1), axis=0)
    rows = np.zeros(len(places), EVENT)
    rows["stratum"], rows["count"] = places[:, 0], places[:, 1]
    rows["core"], rows["kind"], rows["size"] = core, READ, 1
    rows["addr"], rows["flags"] = DEVICE_BASE, MEETING
    return rows


def with_meetings(
    pieces: Iterator[NDArray[np.void]], meetings: NDArray[np.void]
) -> Iterator[NDArray[np.void]]:
    """A core's rows, piece by piece, EVENT[n], and those of `meeting_rows` among them: each before the first
    row of its instruction count."""
    at = 0
    for piece in pieces:
        if not len(piece):
            continue
        # The last row's count may go on in the next piece, where it is too late.
        end = at + int(np.searchsorted(meetings["count"][at:], piece["count"][-1], side="right"))
        before = np.searchsorted(piece["count"], meetings["count"][at:end])
        yield np.insert(piece, before, meetings[at:end]) if end > at else piece
        at = end
    if at < len(meetings):
        yield meetings[at:]
