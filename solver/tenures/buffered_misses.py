"""A miss proves a foreign write (`solver.tenures.misses`), under TSO: between the last accesses of a tenure,
of both of its chains, and the record that begins the core's next one on the line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solver.tenures.buffered_lines import Followed
from solver.tenures.scan import MISSED


def parts_before(found: Followed, n_cores: int) -> NDArray[np.int64]:
    """For each part of a tenure that leads it, where that began with a miss: the parts of the tenure that the
    same core had on the line before, in the same region; int64 (n_parts, 2), -1 for none and of others."""
    t, parts = found.tenures, found.parts
    before = np.full((len(t.line), 2), -1, np.int64)
    core = np.where(t.stream > n_cores, t.stream - n_cores - 1, t.stream)
    mine = np.flatnonzero(t.begin >= 0)
    by = mine[np.lexsort((parts.tenure[mine], t.line[mine], core[mine]))]
    new = np.concatenate([[True], np.diff(parts.tenure[by]) != 0])[: len(by)]
    group = np.cumsum(new) - 1
    leaders = by[new]
    pairs = np.full((len(leaders) + 1, 2), -1, np.int64)
    pairs[group, (t.stream[by] > n_cores).astype(np.int64)] = by
    same = np.zeros(len(leaders), np.bool_)
    same[1:] = (t.line[leaders][1:] == t.line[leaders][:-1]) & (core[leaders][1:] == core[leaders][:-1])
    wanted = parts.lead[by] & (t.how[by] == MISSED) & same[group]
    before[by[wanted]] = pairs[group[wanted] - 1]
    return before
