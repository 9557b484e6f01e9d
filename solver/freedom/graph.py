"""The graph of legal cuts: nodes are cuts that can be reached, edges run one operation.

Every path from the first cut to the last is a legal order, and every legal order is one. An operation runs
only once all that must precede it (`solver.deduction.deduction`) has: that spares dead cuts and no order.

Reduced, the graph keeps at least one order of each class of orders that differ only in the sequence of
operations that do not conflict: at each cut only the streams of one stubborn set go on
(`solver.freedom.stubborn` has the proof).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from corebraid.base.kernels import copy_row, inner
from solver.cuts.table import node_slot
from solver.deduction.chains import Chains, no_contents, stuck
from solver.deduction.deduction import Clocks
from solver.freedom.stubborn import Cut, Rules, can_run, choose_streams, fill_danger, scratch_of

DEFAULT_CUTS = 2_000_000
#: Bytes that a graph may take, whatever its budget of cuts.
MAX_BYTES = 1 << 30

#: Indexes of `Nodes.at`: the next node to expand, how many nodes there are, the end of the layer being
#: expanded, whether nodes were left out, the layer being entered.
_NEXT, _COUNT, _LAYER_END, _LEFT_OUT, _LAYER = range(5)
_DONE, _GROW_NODES, _GROW_TABLE, _SLICE_ENDED, _BUDGET = 0, 1, 2, 3, 4
_SLICE = 20_000


class Nodes(NamedTuple):
    """A graph being built. position: int32 (room, S), each node's next operations. child: int32 (room, S),
    the node after the next operation of each stream, -1 for none. table: int32, open addressing; it holds
    nodes of the layer being entered, older numbers count as empty. at: int64 (5,), see _NEXT."""

    position: NDArray[np.int32]
    child: NDArray[np.int32]
    table: NDArray[np.int32]
    at: NDArray[np.int64]


class Limits(NamedTuple):
    """How much is expanded. guide: cuts that are never left out, int32 (n_ops + 1, S), or empty. most: nodes
    in all. width: nodes in a layer. reduced: one order of each class is enough."""

    guide: NDArray[np.int32]
    most: int
    width: int
    reduced: bool


@dataclass(frozen=True)
class CutGraph:
    """The graph of a region. Nodes are sorted by the number of operations run; the first is the start.

    position: int32 (n, S), the next operation of each stream. child: int32 (n, S), -1 where no edge is.
    layer: int64 (n_ops + 2,), where the nodes of each number of operations begin. alive: bool (n,), whether
    the last cut can be reached. complete: whether nothing was left out; then there is no legal order but
    those in the graph. cuts: how many were explored.
    """

    position: NDArray[np.int32]
    child: NDArray[np.int32]
    layer: NDArray[np.int64]
    alive: NDArray[np.bool_]
    complete: bool
    cuts: int

    @property
    def legal(self) -> bool:
        """Whether the graph holds a legal order."""
        return len(self.alive) > 0 and bool(self.alive[0])


@inner
def is_after(position, run, cut):  # type: ignore[no-untyped-def]
    """Whether `cut` is `position` with one more operation of stream `run`."""
    for s in range(position.size):  # noqa: SIM110
        if cut[s] != position[s] + (1 if s == run else 0):
            return False
    return True


@inner
def expand(nodes, rules, limits, steps, contents, scratch):  # type: ignore[no-untyped-def]
    """Expand up to `steps` nodes. What is beyond the limits is left out. Returns a status."""
    n_streams = nodes.position.shape[1]
    able, chosen, _, _ = scratch
    clock, c = rules.clock, rules.chains
    guide, most, width, reduced = limits
    stop = nodes.at[_NEXT] + steps
    while nodes.at[_NEXT] < nodes.at[_COUNT]:
        i = nodes.at[_NEXT]
        if i == nodes.at[_LAYER_END]:
            nodes.at[_LAYER_END] = nodes.at[_COUNT]
            nodes.at[_LAYER] += 1
        if i == stop:
            return _SLICE_ENDED
        if nodes.at[_COUNT] + n_streams > nodes.position.shape[0]:
            return _GROW_NODES
        if 2 * (nodes.at[_COUNT] - nodes.at[_LAYER_END] + n_streams) > nodes.table.size:
            return _GROW_TABLE
        position = nodes.position[i]
        count = can_run(position, c.stream_ptr[1:], clock, i, contents, c, able)
        for s in range(n_streams):
            chosen[s] = 1 if able[s] == 1 else 0
        if reduced and count > 1:
            choose_streams(Cut(position, i, contents), rules, scratch)
        for s in range(n_streams):
            nodes.child[i, s] = -1
            if chosen[s] == 0 and not (able[s] == 1 and guide.shape[0] > 0):
                continue
            guided = guide.shape[0] > 0 and is_after(position, s, guide[nodes.at[_LAYER]])
            if chosen[s] == 0 and not guided:
                continue
            slot = node_slot(position, s, nodes.position, nodes.table, nodes.at[_LAYER_END])
            if nodes.table[slot] < nodes.at[_LAYER_END]:
                if not guided and stuck(position[s], position, s, c):
                    continue
                if not guided and (
                    nodes.at[_COUNT] - nodes.at[_LAYER_END] >= width or nodes.at[_COUNT] >= most
                ):
                    nodes.at[_LEFT_OUT] = 1
                    if guide.shape[0] == 0 and nodes.at[_COUNT] >= most:
                        return _BUDGET
                    continue
                new = nodes.at[_COUNT]
                copy_row(position, nodes.position[new])
                nodes.position[new, s] += 1
                nodes.table[slot] = new
                nodes.at[_COUNT] += 1
            nodes.child[i, s] = nodes.table[slot]
        nodes.at[_NEXT] += 1
    return _DONE


@njit(cache=True)
def refill(nodes):  # type: ignore[no-untyped-def]
    """Enter the newest layer into a new table."""
    for i in range(nodes.at[_LAYER_END], nodes.at[_COUNT]):
        slot = node_slot(nodes.position[i], -1, nodes.position, nodes.table, nodes.at[_LAYER_END])
        nodes.table[slot] = i


@njit(cache=True)
def mark_alive(child, last, alive):  # type: ignore[no-untyped-def]
    """Mark the nodes from which the node `last` can be reached; children have higher numbers."""
    alive[last] = True
    for i in range(last - 1, -1, -1):
        for s in range(child.shape[1]):
            if child[i, s] >= 0 and alive[child[i, s]]:
                alive[i] = True
                break


def _grown(nodes: Nodes, room: int) -> Nodes:
    position = np.empty((room, nodes.position.shape[1]), np.int32)
    child = np.empty_like(position)
    n = int(nodes.at[_COUNT])
    position[:n], child[:n] = nodes.position[:n], nodes.child[:n]
    return Nodes(position, child, nodes.table, nodes.at)


def cuts_of_order(chains: Chains, order: NDArray[np.int64]) -> NDArray[np.int32]:
    """The cuts that an order passes: int32 (n_ops + 1, S), the next operation of each stream."""
    streams = chains.op_stream[order]
    step = np.zeros((len(order) + 1, len(chains.stream)), np.int32)
    step[0] = chains.stream_ptr[:-1]
    step[np.arange(1, len(order) + 1), streams] = 1
    return np.cumsum(step, axis=0, dtype=np.int32)


def _finish(nodes: Nodes, chains: Chains, complete: bool) -> CutGraph:
    n = int(nodes.at[_COUNT])
    position, child = nodes.position[:n], nodes.child[:n]
    child[int(nodes.at[_NEXT]) :] = -1
    n_ops = len(chains.op_stream)
    depth = position.sum(axis=1, dtype=np.int64) - chains.stream_ptr[:-1].sum()
    alive = np.zeros(n, bool)
    if depth[-1] == n_ops:
        mark_alive(child, n - 1, alive)
    layer = np.searchsorted(depth, np.arange(n_ops + 2)).astype(np.int64)
    return CutGraph(position, child, layer, alive, complete, n)


def build_graph(
    chains: Chains,
    clocks: Clocks,
    *,
    reduced: bool,
    cuts: int = DEFAULT_CUTS,
    width: int = 1 << 40,
    guide: NDArray[np.int32] | None = None,
    until: float = float("inf"),
) -> CutGraph:
    """The graph of a region, or part of it.

    clocks: `solver.deduction.deduction.Deduction.clocks`. cuts: nodes at most. width: nodes of a layer at
    most. guide:
    cuts of a legal order (`cuts_of_order`), which are kept whatever the limits; without it the graph ends
    where `cuts` does. until: working_time() after which it ends in any case.
    """
    clock, after = clocks
    n_streams = len(chains.stream)
    danger = np.zeros_like(clock)
    if reduced:
        fill_danger(danger, after, chains)
    kept = np.empty((0, n_streams), np.int32) if guide is None else guide
    most = max(1, min(cuts, MAX_BYTES // (8 * n_streams), (1 << 31) - 1))
    shape = (1 << 10, n_streams)
    nodes = Nodes(
        np.empty(shape, np.int32),
        np.empty(shape, np.int32),
        np.zeros(1 << 10, np.int32),
        np.zeros(5, np.int64),
    )
    rules, limits = Rules(clock, after, danger, chains), Limits(kept, most, width, reduced)
    nodes.position[0] = chains.stream_ptr[:-1]
    nodes.at[_COUNT] = 1
    contents, scratch = no_contents(chains), scratch_of(n_streams)
    while True:
        status = expand(nodes, rules, limits, _SLICE, contents, scratch)
        if status in (_DONE, _BUDGET) or working_time() > until:
            break
        if status == _GROW_NODES:
            nodes = _grown(nodes, 2 * len(nodes.position) + n_streams)
        elif status == _GROW_TABLE:
            nodes = nodes._replace(table=np.zeros(4 * len(nodes.table), np.int32))
            refill(nodes)
    return _finish(nodes, chains, status == _DONE and not nodes.at[_LEFT_OUT])
