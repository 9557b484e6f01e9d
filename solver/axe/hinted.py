"""A trace whose hints say what every store overwrote, given to the engines that order recordings.

Then memory is a function of the cut, as it is for recordings (`solver.cuts.search`), which the search for
foreign traces cannot assume. Each part of the run that hints tell apart is a problem of its own: what memory
holds between two parts follows from what is overwritten and left in them. Left out of a problem are accesses
to what one thread alone touches or nobody writes in that part, and successive loads that read the same, where
no order is told of them; they are put back behind what comes before them in their chain. What they see then
is the same in every order, and is looked at last.

Nothing here is proved of the trace: an order is one if `solver.axe.checker` says so, and that there is none
is said of the trace with its hints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from solver.axe.chains import LOAD, TSO, Chains, make_chains
from solver.cuts.search import DEFAULT_NODES
from solver.engines.decide import solve_auto
from solver.regions.links import with_links
from solver.regions.problem import Problem, Verdict

if TYPE_CHECKING:
    from solver.axe.trace import Trace

Show = Callable[[str, int, int], None]
_Ints = NDArray[np.int64]
_Mask = NDArray[np.bool_]
_NONE = -1


class _Nodes(NamedTuple):
    """The nodes of all chains (`Chains`) as rows of streams: issue chains come before commit chains, as in
    `Problem`. stream, part: int64 (n,), of each node. source: int64 (n,), the store that may answer a load
    out of the buffer, or -1. edges: int64 (m, 2), nodes."""

    stream: _Ints
    part: _Ints
    source: _Ints
    edges: _Ints
    n_streams: int
    n_buffered: int


def says_all(trace: Trace) -> bool:
    """Whether hints say of every store what it overwrote."""
    return bool(trace.hinted.any()) and bool((trace.hinted | (trace.kind != 1)).all())


def search_hinted(trace: Trace, model: str, deadline: float, show: Show) -> tuple[Verdict, NDArray[np.int64]]:
    """An order of the operations that meets the hints. ILLEGAL: there is none. trace: one of which `says_all`
    holds. deadline: as of working_time. show: called with how many operations of how many are placed."""
    none = np.empty(0, np.int64)
    chains = make_chains(trace, model, hints=True)
    nodes = _nodes_of(chains, trace, model)
    own = chains.need[np.arange(len(chains.op)), chains.chain]
    if (own > np.arange(len(own)) - chains.chain_ptr[chains.chain]).any():
        # An operation is said to come after a later one of its own chain.
        return Verdict.ILLEGAL, none
    if chains.contradictory or (nodes.part[nodes.edges[:, 0]] > nodes.part[nodes.edges[:, 1]]).any():
        return Verdict.ILLEGAL, none
    held, placed = chains.initial.copy(), [none]
    done = 0
    for here in _parts(nodes):
        after = _left_by(here, chains, held)
        if after is None:
            return Verdict.ILLEGAL, none
        if working_time() > deadline:
            return Verdict.UNDECIDED, none
        verdict, order = _solve(here, chains, nodes, (held, after), deadline)
        if verdict is not Verdict.LEGAL:
            return verdict, none
        placed.append(order)
        held, done = after, done + len(here)
        show("hints", done, trace.n_ops)
    order = np.concatenate(placed)
    wrong = first_wrong_write(order, chains.address, chains.reads, chains.writes, chains.initial.copy())
    if wrong >= 0 or ((chains.final >= 0) & (chains.final != held)).any():
        return Verdict.ILLEGAL, none
    return Verdict.LEGAL, chains.op[order]


@njit(cache=True, nogil=True)
def first_wrong_write(order, address, reads, writes, held):  # type: ignore[no-untyped-def]
    """The first place in an order of nodes of a write that does not overwrite what it says, or -1. held:
    int32 (locations,), the pairs in memory; updated."""
    for i in range(order.size):
        y = order[i]
        if writes[y] >= 0:
            if held[address[y]] != reads[y]:
                return i
            held[address[y]] = writes[y]
    return -1


def _nodes_of(ch: Chains, trace: Trace, model: str) -> _Nodes:
    n, n_chains = ch.need.shape
    stream = ch.chain.astype(np.int64)
    if model == TSO:
        stream = stream // 2 + np.where(stream % 2, n_chains // 2, 0)
    part = trace.part_of[ch.op].astype(np.int64)
    back = (np.diff(part) < 0) & (np.diff(ch.chain) == 0)
    if (part < 0).any() or back.any():
        part = np.zeros(n, np.int64)
    source, edges = ch.buffered.astype(np.int64), [_edges_of(ch, part)]
    buffered = np.flatnonzero(source >= 0)
    other = buffered[ch.writes[source[buffered]] != ch.reads[buffered]]
    edges.append(np.stack([source[other], other], axis=1))
    source[other] = _NONE
    gone = np.flatnonzero((source >= 0) & (part[source] < part))
    source[gone] = _NONE
    every = np.concatenate(edges)
    inside = part[every[:, 0]] >= part[every[:, 1]]
    return _Nodes(stream, part, source, every[inside], n_chains, n_chains // 2 if model == TSO else 0)


def _edges_of(ch: Chains, part: _Ints) -> _Ints:
    """What `need` says and the node before does not, as pairs of nodes."""
    found = [np.empty((0, 2), np.int64)]
    for k in range(ch.need.shape[1]):
        first, end = int(ch.chain_ptr[k]), int(ch.chain_ptr[k + 1])
        need = ch.need[first:end].astype(np.int64)
        told = np.zeros_like(need)
        told[1:] = np.maximum.accumulate(need, axis=0)[:-1]
        need[:, k] = 0
        at, chain = np.nonzero(need > told)
        found.append(np.stack([ch.chain_ptr[chain] + need[at, chain] - 1, first + at], axis=1))
    return np.concatenate(found)


def _parts(nodes: _Nodes) -> Iterator[_Ints]:
    """The nodes of each part of the run, stream by stream."""
    by = np.lexsort((np.arange(len(nodes.part)), nodes.stream, nodes.part))
    ends = np.flatnonzero(np.diff(nodes.part[by])) + 1
    if len(by):
        yield from np.split(by, ends)


def _left_by(here: _Ints, ch: Chains, held: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """What memory holds at the end of a part (pair of each location): of what is left there and was held
    before, all but one is overwritten. None if that cannot be."""
    writes = here[ch.writes[here] >= 0]
    pairs, inverse = np.unique(np.concatenate([ch.writes[writes], ch.reads[writes]]), return_inverse=True)
    net = np.bincount(inverse[: len(writes)], minlength=len(pairs)) - np.bincount(
        inverse[len(writes) :], minlength=len(pairs)
    )
    gone, left = pairs[net < 0], pairs[net > 0]
    if (np.abs(net) > 1).any() or len(gone) != len(left):
        return None
    places = ch.pair_address[gone]
    if (held[places] != gone).any() or not np.array_equal(np.sort(ch.pair_address[left]), np.sort(places)):
        return None
    after = held.copy()
    after[ch.pair_address[left]] = left
    return after


def _told(here: _Ints, ch: Chains, nodes: _Nodes, edges: _Ints) -> tuple[_Mask, _Mask]:
    """(which of the nodes touch a location that matters in this part; which are needed in its problem)."""
    address = ch.address[here].astype(np.int64)
    n, thread = len(ch.initial), nodes.stream[here]
    if nodes.n_buffered:
        thread = thread % nodes.n_buffered
    touching = address >= 0
    lowest, highest = np.full(n, 1 << 30), np.full(n, -1)
    np.minimum.at(lowest, address[touching], thread[touching])
    np.maximum.at(highest, address[touching], thread[touching])
    written = np.zeros(n, np.bool_)
    written[address[ch.writes[here] >= 0]] = True
    shared = written & (lowest < highest)
    # A load that only a store of a later part can answer looks at no memory.
    own = nodes.source[here]
    matters = touching & shared[address] & ~((own >= 0) & (nodes.part[own] > nodes.part[here]))
    needed = matters.copy()
    ends = np.zeros(len(ch.op), np.bool_)
    ends[edges.ravel()] = True
    ends[own[own >= 0]] = True
    needed |= ends[here]
    # Successive loads that read the same stand together.
    at = np.flatnonzero(needed)
    before, now = here[at[:-1]], here[at[1:]]
    same = (nodes.stream[before] == nodes.stream[now]) & (ch.reads[before] == ch.reads[now])
    same &= (ch.kind[before] == LOAD) & (ch.kind[now] == LOAD) & (nodes.source[before] < 0)
    same &= (nodes.source[now] < 0) & matters[at[:-1]] & matters[at[1:]] & ~ends[now]
    needed[at[1:][same]] = False
    return matters, needed


def _solve(
    here: _Ints,
    ch: Chains,
    nodes: _Nodes,
    held: tuple[NDArray[np.int32], NDArray[np.int32]],
    deadline: float,
) -> tuple[Verdict, _Ints]:
    """An order of the nodes of one part. held: what memory holds before and after."""
    edges = nodes.edges[nodes.part[nodes.edges[:, 1]] == nodes.part[here[0]]]
    matters, needed = _told(here, ch, nodes, edges)
    problem = _problem(here[needed], matters[needed], ch, nodes, held, edges)
    order: _Ints = np.empty(0, np.int64)
    if problem.n_ops:
        left = max(0.001, deadline - working_time())
        solution = solve_auto(with_links(problem), timeout_s=left, nodes=DEFAULT_NODES)
        if solution.verdict is not Verdict.LEGAL:
            return solution.verdict, order
        order = solution.order
    # Behind each node those of its chain that were left out; before all, those that nothing precedes.
    place = np.full(len(here), _NONE, np.int64)
    place[np.flatnonzero(needed)[order]] = np.arange(len(order))
    stream = nodes.stream[here]
    starts = np.flatnonzero(np.concatenate([[True], stream[1:] != stream[:-1]]))
    last = np.where(needed, np.arange(len(here)), _NONE)
    last = np.maximum.accumulate(last)
    begin = np.repeat(starts, np.diff(np.append(starts, len(here))))
    behind = np.where(last >= begin, place[np.maximum(last, 0)], _NONE)
    return Verdict.LEGAL, here[np.argsort(behind, kind="stable")]


def _problem(
    ops: _Ints,
    matters: _Mask,
    ch: Chains,
    nodes: _Nodes,
    held: tuple[NDArray[np.int32], NDArray[np.int32]],
    edges: _Ints,
) -> Problem:
    """The nodes `ops` of one part; pairs stand for values."""
    number = np.full(len(ch.op) + 1, _NONE, np.int64)
    number[ops] = np.arange(len(ops))
    touching = ops[matters]
    address, granule = np.unique(ch.address[touching], return_inverse=True)
    old = ch.reads[touching].astype(np.uint64)
    new = np.where(ch.writes[touching] >= 0, ch.writes[touching], ch.reads[touching]).astype(np.uint64)
    source = nodes.source[ops]
    rows = np.bincount(nodes.stream[ops], minlength=nodes.n_streams)
    stream_ptr = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    return Problem(
        region=0,
        rows=rows.astype(np.int64),
        stream_ptr=stream_ptr,
        end_row=np.arange(len(ops)) - np.repeat(stream_ptr[:-1], rows) + 1,
        part_ptr=np.concatenate([[0], np.cumsum(matters)]).astype(np.int64),
        granule=granule.astype(np.int32),
        old=old,
        new=new,
        address=address.astype(np.uint64),
        size=np.ones(len(address), np.uint8),
        initial=held[0][address].astype(np.uint64),
        final=held[1][address].astype(np.uint64),
        edges=number[edges],
        buffered=nodes.n_buffered,
        source=np.where(source >= 0, number[source], _NONE),
    )
