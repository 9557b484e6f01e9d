"""A region whose linkages have a cycle with edges of fork and join: beyond the paper.

Of a value that was written more than once Algorithm 1 links a read to the newest write up to its bound, and
with the edges of definition 4.1 (e) and (f) that can be one too many. What stays true is said to a search: in
which order a variable was written, and that a read came before every write behind its bound.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solver.engines.decide import solve_auto
from solver.evidence.linkage.place import READS, WRITES, Placed
from solver.regions.links import with_links
from solver.regions.problem import Problem, Solution

#: Cuts that the search may open, and its seconds: where every write has its place there is little to choose.
_NODES, _SECONDS = 1_000_000, 60.0


def edges_of_bounds(problem: Problem, placed: Placed) -> NDArray[np.int64]:
    """int64 (n, 2), operations of different streams, of which the first comes before the second: a write and
    the next, a read and the first write behind its bound; of an exact bound also its write and the read."""
    writing, reading = np.flatnonzero(placed.kind == WRITES), np.flatnonzero(placed.kind == READS)
    # A place of its own for each granule and version, ascending.
    span = int(placed.version.max(initial=0)) + 2
    place = problem.granule.astype(np.int64) * span + placed.version
    writing = writing[np.argsort(place[writing], kind="stable")]
    behind = np.searchsorted(place[writing], place[reading], side="right")
    pairs = [np.stack([writing[:-1], writing[1:]], axis=1)]
    for part, write in ((True, behind), (False, behind - 1)):
        there = (write >= 0) & (write < len(writing))
        if not part:
            there &= placed.exact[reading] != 0
        reads, writes = reading[there], writing[write[there]]
        pairs.append(np.stack([reads, writes] if part else [writes, reads], axis=1))
    both = np.concatenate(pairs)
    both = both[problem.granule[both[:, 0]] == problem.granule[both[:, 1]]]
    edges = problem.part_op[both]
    stream = problem.op_stream
    return np.unique(edges[stream[edges[:, 0]] != stream[edges[:, 1]]], axis=0)


def search_within_bounds(problem: Problem, placed: Placed) -> Solution:
    """An order that keeps `edges_of_bounds` and the problem's edges. ILLEGAL where there is none: then the
    evidence contradicts the replay."""
    # What is deduced from tenures stays last.
    given = replace(problem, edges=np.concatenate([edges_of_bounds(problem, placed), problem.edges]))
    return solve_auto(with_links(given), timeout_s=_SECONDS, nodes=_NODES)
