"""Who took a line, under TSO: a loss of a line was caused by somebody's write (`solver.tenures.losses`).

The write began a time in which its core had the line alone, or was an agent's. It came when the core that
lost the line stood where the loss says: before that core's next load, store and miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.bus.losses import LOST
from solver.tenures.buffered_lines import Followed
from solver.tenures.buffered_losses import Noted, is_before
from solver.tenures.buffered_scan import BufferedBegins
from solver.tenures.candidates import some_after, some_before
from solver.tenures.clocks import first_after


class Taken(NamedTuple):
    """Losses of lines, of which all cores tell when they held them. line, owner, stream, node: int64 (n,)."""

    line: NDArray[np.int64]
    owner: NDArray[np.int64]
    stream: NDArray[np.int64]
    node: NDArray[np.int64]


def make_taken(
    found: Followed, begins: Sequence[BufferedBegins], losses: Sequence[Noted], lines: NDArray[np.int64]
) -> Taken:
    """The losses that the rule is about. lines: address / bytes in a line of each hot line."""
    n_cores, parts = len(begins), []
    loose = np.concatenate([mine.loose for mine in begins])
    by_address = np.argsort(lines)
    for k, mine in enumerate(losses):
        address = begins[k].line[mine.begin]
        node = np.flatnonzero((mine.way == LOST) & ~np.isin(address, loose))
        line = by_address[np.searchsorted(lines[by_address], address[node])] if len(node) else node
        lost = 3 * n_cores + 1 + k
        parts.append(np.column_stack([line, np.full(len(node), k), np.full(len(node), lost), node]))
    rows = np.concatenate(parts).astype(np.int64)
    return Taken(*(np.ascontiguousarray(rows[:, column]) for column in range(4)))


@njit(cache=True, nogil=True)
def _is_after_next(c, core, n_cores, lost, node, s, i):  # type: ignore[no-untyped-def]
    """Whether a node is known to come after what the core does next after a loss, or to be that."""
    for k in range(3):
        t = core + k * n_cores + (1 if k > 0 else 0)
        then = first_after(c, t, lost, node)
        if c.ptr[t] + then < c.ptr[t + 1] and (is_before(c, t, then, s, i) or (s == t and i == then)):
            return True
    return False


@njit(cache=True, nogil=True)
def apply_takers(taken, a, owners, c):  # type: ignore[no-untyped-def]
    """One sweep over losses (`Taken`): one of the spans alone (`Times`) of others began when the line was
    lost. owners: cores and agents. Returns a loss of which that is true of none, else -1."""
    n_streams, n_cores = c.clock.shape[1], owners - 1
    earliest, latest = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64)
    for x in range(taken.line.size):
        core, lost, node = taken.owner[x], taken.stream[x], taken.node[x]
        earliest[:], latest[:] = -1, -1
        found = False
        for v in range(owners):
            if v == core:
                continue
            low, high = a.ptr[taken.line[x] * owners + v], a.ptr[taken.line[x] * owners + v + 1]
            top = high
            while low < top:
                middle = (low + top) // 2
                b = a.begin[middle]
                if b[1] < 0 or is_before(c, b[0], b[1], lost, node):
                    low = middle + 1
                else:
                    top = middle
            for y in range(low, high):
                s, i = a.begin[y]
                if _is_after_next(c, core, n_cores, lost, node, s, i):
                    break
                found = True
                if earliest[s] < 0:
                    earliest[s] = i
                earliest[s], latest[s] = min(earliest[s], i), max(latest[s], i)
        if not found:
            return x
        for k in range(3):
            t = core + k * n_cores + (1 if k > 0 else 0)
            some_before(c, earliest, t, first_after(c, t, lost, node))
        some_after(c, latest, lost, node)
    return -1
