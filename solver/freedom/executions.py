"""How many different executions the orders of a region are: paths through its graph of cuts, one for each
class.

Orders are of one class if every two operations that conflict stand in the same order in both: then every read
reads from the same write, and the writes to every location come in the same order. A class is a Mazurkiewicz
trace, and has exactly one order that is least when streams are compared from the first operation on: the one
without a stretch a u b in which b is of an earlier stream than a and conflicts with nothing in a u (Anisimov
and Knuth, "Inhomogeneous sorting", 1979). So while paths are counted it is enough to know, of the next
operation b of every stream, whether an operation of a later stream came after the last one that b conflicts
with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN
from solver.deduction.chains import Chains
from solver.freedom.graph import CutGraph
from solver.freedom.limbs import TOP, add_limbs

#: States of one layer, a cut and the streams whose next operation is too late, at most.
MOST_STATES = 1 << 20
#: Streams that a state can tell apart.
MOST_STREAMS = 32
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True)
def conflict(a, b, c):  # type: ignore[no-untyped-def]
    """Whether two operations touch a granule that one of them changes."""
    for p in range(c.part_ptr[a], c.part_ptr[a + 1]):
        for q in range(c.part_ptr[b], c.part_ptr[b + 1]):
            if c.granule[p] == c.granule[q] and (c.old[p] != c.new[p] or c.old[q] != c.new[q]):
                return True
    return False


@njit(cache=True)
def late_after(late, s, position, end, c):  # type: ignore[no-untyped-def]
    """The streams (bits, uint64) whose next operation is too late once stream s has gone on from `position`
    (int32 (S,)). late: before that."""
    op = position[s]
    for t in range(position.size):
        bit = np.uint64(1) << np.uint64(t)
        if t == s or position[t] == end[t] or conflict(op, position[t], c):
            late &= ~bit
        elif s > t:
            late |= bit
    return late


@njit(cache=True)
def _slot(key, keys):  # type: ignore[no-untyped-def]
    mask = np.uint64(keys.size - 1)
    at = ((key * GOLDEN) >> np.uint64(20)) & mask
    while keys[at] != _NONE and keys[at] != key:
        at = (at + np.uint64(1)) & mask
    return at


@njit(cache=True)
def count_classes(position, child, layer, alive, c, most):  # type: ignore[no-untyped-def]
    """Paths that are the least of their class: uint64 words, the least significant first; no words if there
    are more than `most` states in a layer. The graph's arrays are those of `CutGraph`."""
    n_streams, words = child.shape[1], 1
    end = c.stream_ptr[1:]
    node, late = np.zeros(1, np.int64), np.zeros(1, np.uint64)
    now = np.ones((1, 1), np.uint64)
    for depth in range(layer.size - 2):
        first = layer[depth + 1]
        for i in range(node.size):
            if now[i, words - 1] >= TOP:
                words += 1
                break
        room = np.int64(1)
        while room < 4 * node.size * n_streams + 4:
            room *= 2
        keys = np.full(room, _NONE)
        where = np.empty(room, np.int64)
        limit = node.size * n_streams
        next_node, next_late = np.empty(limit, np.int64), np.empty(limit, np.uint64)
        after, wide, n = np.zeros((limit, words), np.uint64), np.zeros(words, np.uint64), 0
        for i in range(node.size):
            at = node[i]
            for k in range(now.shape[1]):
                wide[k] = now[i, k]
            for s in range(n_streams):
                to = child[at, s]
                if to < 0 or not alive[to] or (late[i] >> np.uint64(s)) & np.uint64(1):
                    continue
                marks = late_after(late[i], s, position[at], end, c)
                key = (np.uint64(to - first) << np.uint64(32)) | marks
                slot = _slot(key, keys)
                if keys[slot] == _NONE:
                    if n == most:
                        return np.empty(0, np.uint64)
                    keys[slot], where[slot] = key, n
                    next_node[n], next_late[n] = to, marks
                    n += 1
                add_limbs(after[where[slot]], wide)
        node, late, now = next_node[:n].copy(), next_late[:n].copy(), after[:n].copy()
    total = np.zeros(words + 1, np.uint64)
    for i in range(node.size):
        wide = np.zeros(words + 1, np.uint64)
        for k in range(now.shape[1]):
            wide[k] = now[i, k]
        add_limbs(total, wide)
    return total


def classes(graph: CutGraph, chains: Chains) -> int | None:
    """The number of classes of the graph's orders whose least order it holds: all of them if it is complete
    and not reduced. None if that would take too much memory."""
    if not graph.legal:
        return 0
    if graph.child.shape[1] > MOST_STREAMS:
        return None
    words: NDArray[np.uint64] = count_classes(
        graph.position, graph.child, graph.layer, graph.alive, chains, MOST_STATES
    )
    return int.from_bytes(words.astype("<u8").tobytes(), "little") if len(words) else None
