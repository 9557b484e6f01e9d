"""The search over cuts in place of permutations: exact, and far beyond 18 accesses.

Interleavings that have run the same operations and left the same memory go on alike, so they are one node: a
cut (how many operations of each core have run) with memory there. Nodes are found layer by layer; those from
which the final state is reached make a graph whose paths are all correct orders. Where memory is a function
of the cut, as with the values that replayed cores saw, the work is polynomial for a fixed number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN
from solver.evidence.lightplay.found import MOST_LISTED, Found
from solver.evidence.lightplay.interleavings import count
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, Instance

#: Nodes that a search explores at most.
DEFAULT_NODES = 1 << 17
_DONE, _GROW = 0, 1
_FIRST = 1 << 9


@njit(cache=True)
def node_of(state, states, table, first, n):  # type: ignore[no-untyped-def]
    """The node of the layer that begins with node `first` which has this state, or node `n`, which is new.
    table: int32, a power of two long; what it says of earlier layers counts as empty."""
    h = np.uint64(0)
    for k in range(state.size):
        h = (h ^ state[k]) * GOLDEN
        h ^= h >> np.uint64(29)
    mask = table.size - 1
    slot = np.int64(h & np.uint64(mask))
    while table[slot] >= first:
        known = table[slot]
        same = True
        for k in range(state.size):
            if states[known, k] != state[k]:
                same = False
                break
        if same:
            return known
        slot = (slot + 1) & mask
    table[slot] = n
    for k in range(state.size):
        states[n, k] = state[k]
    return n


@njit(cache=True, nogil=True)
def explore(instance, states, child, layer, table):  # type: ignore[no-untyped-def]
    """Find all nodes. states: uint64 (room, cores + places). child: int32 (room, cores), -1 for none. layer:
    int64 (n + 2,), first node of each layer. Returns (status, nodes)."""
    core_ptr, part_ptr, place, how, before, after, initial, _final = instance
    cores = core_ptr.size - 1
    state = np.zeros(cores + initial.size, np.uint64)
    state[cores:] = initial
    table[:] = -1
    states[0] = state
    layer[0], layer[1] = 0, 1
    n = 1
    for depth in range(part_ptr.size - 1):
        for node in range(layer[depth], layer[depth + 1]):
            for core in range(cores):
                child[node, core] = -1
                op = core_ptr[core] + np.int64(states[node, core])
                if op == core_ptr[core + 1]:
                    continue
                for k in range(state.size):
                    state[k] = states[node, k]
                state[core] += np.uint64(1)
                fits = True
                for part in range(part_ptr[op], part_ptr[op + 1]):
                    g = cores + place[part]
                    if how[part] & TAKES and state[g] != before[part]:
                        fits = False
                        break
                    if how[part] & GIVES:
                        state[g] = after[part]
                if not fits:
                    continue
                if n == states.shape[0]:
                    return _GROW, n
                got = node_of(state, states, table, layer[depth + 1], n)
                child[node, core] = got
                n = max(n, got + 1)
        layer[depth + 2] = n
    for node in range(layer[part_ptr.size - 1], n):
        for core in range(cores):
            child[node, core] = -1
    return _DONE, n


@njit(cache=True)
def mark_alive(states, child, layer, final, alive):  # type: ignore[no-untyped-def]
    """Which nodes lead to the final state, and by how many paths (uint64, modulo 2**64)."""
    cores, last = child.shape[1], layer.size - 2
    for node in range(layer[last], layer[last + 1]):
        alive[node] = 1
        for p in range(final.size):
            if states[node, cores + p] != final[p]:
                alive[node] = 0
                break
    paths = alive.astype(np.uint64)
    for node in range(layer[last] - 1, -1, -1):
        for core in range(cores):
            if child[node, core] >= 0 and alive[child[node, core]]:
                alive[node] = 1
                paths[node] += paths[child[node, core]]
    return paths


@njit(cache=True)
def mark_before(states, alive, core_ptr, before):  # type: ignore[no-untyped-def]
    """before[a, b]: whether some correct order has operation a before operation b, of another core: there is
    a cut on the way to the end where a has run and b has not."""
    cores = core_ptr.size - 1
    for node in range(alive.size):
        if not alive[node]:
            continue
        for c in range(cores):
            ran = core_ptr[c] + np.int64(states[node, c])
            for d in range(cores):
                if c != d:
                    for a in range(core_ptr[c], ran):
                        for b in range(core_ptr[d] + np.int64(states[node, d]), core_ptr[d + 1]):
                            before[a, b] = 1


@dataclass(frozen=True)
class CutGraph:
    """The correct orders of an instance as paths. complete: whether all nodes were found."""

    instance: Instance
    states: NDArray[np.uint64]
    child: NDArray[np.int32]
    alive: NDArray[np.uint8]
    paths: NDArray[np.uint64]
    complete: bool

    @property
    def any(self) -> bool:
        """Whether there is a correct order."""
        return self.complete and bool(self.alive[0])

    @cached_property
    def total(self) -> int:
        """How many correct orders there are, exactly."""
        if not self.any:
            return 0
        if count(self.instance.sizes) < 1 << 63:
            return int(self.paths[0])
        ways = [int(a and (kids < 0).all()) for a, kids in zip(self.alive, self.child, strict=True)]
        for node in range(len(ways) - 1, -1, -1):
            for kid in self.child[node].tolist():
                if kid >= 0:
                    ways[node] += ways[kid]
        return ways[0]

    def orders(self, most: int) -> NDArray[np.int64]:
        """The first correct orders, at most so many, by rank: int64 (k, n)."""
        found: list[list[int]] = []
        if self.any and most > 0:
            self._follow(0, [], found, most)
        return np.array(found, np.int64).reshape(len(found), self.instance.n)

    def _follow(self, node: int, path: list[int], found: list[list[int]], most: int) -> None:
        stack = [(node, 0)]
        while stack and len(found) < most:
            node, core = stack.pop()
            if len(path) == self.instance.n:
                found.append(path.copy())
            elif core < self.child.shape[1]:
                stack.append((node, core + 1))
                kid = int(self.child[node, core])
                if kid >= 0 and self.alive[kid]:
                    path.append(int(self.instance.core_ptr[core] + self.states[node, core].astype(np.int64)))
                    stack.append((kid, 0))
                continue
            if path:
                path.pop()

    def before(self) -> NDArray[np.bool_]:
        """bool (n, n), whether some correct order has the one before the other; only of different cores."""
        found = np.zeros((self.instance.n, self.instance.n), np.uint8)
        if self.any:
            mark_before(self.states, self.alive, self.instance.core_ptr, found)
        return found != 0


def cut_graph(instance: Instance, nodes: int = DEFAULT_NODES) -> CutGraph:
    """All correct orders of an instance, exploring at most so many nodes."""
    cores, n = len(instance.core_ptr) - 1, instance.n
    room = min(_FIRST, nodes)
    while True:
        states = np.empty((room, cores + len(instance.initial)), np.uint64)
        child, layer = np.empty((room, cores), np.int32), np.zeros(n + 2, np.int64)
        table = np.empty(1 << (2 * room - 1).bit_length(), np.int32)
        status, used = explore(instance, states, child, layer, table)
        if status == _DONE or room == nodes:
            break
        room = min(room * 8, nodes)
    states, child, alive = states[:used], child[:used], np.zeros(used, np.uint8)
    paths = np.zeros(used, np.uint64)
    if status == _DONE:
        paths = mark_alive(states, child, layer, instance.final, alive)
    return CutGraph(instance, states, child, alive, paths, status == _DONE)


def search_cut(instance: Instance, *, nodes: int = DEFAULT_NODES, listed: int = MOST_LISTED) -> Found:
    """All correct orders of a slice by a search over cuts; at most `listed` of them are listed."""
    began = working_time()
    graph = cut_graph(instance, nodes)
    orders = graph.orders(listed)
    return Found(orders, graph.total, graph.complete, len(graph.states), working_time() - began, "cut")
