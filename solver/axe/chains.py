"""A trace as chains of operations whose order a memory model keeps.

SC: one chain a thread, its operations in program order. TSO: two chains a thread. The *issue* chain holds
loads, atomics and fences, the *commit* chain the plain stores, at the moment they leave the store buffer.
Across the two, an operation needs
  - a store: every issue-chain operation before it in program order (loads are not delayed past stores);
  - an atomic or a fence: every store before it (they wait until the buffer is empty);
  - a load: nothing of the commit chain; it reads its thread's youngest buffered store to the location if
    there is one, else memory.
This is the operational semantics of the axe manual, section 4.2, with the moment at which a store enters
its buffer left out: nothing can observe it. So a legal order is a sequence of nodes that keeps `need` and
in which every read finds its value, and it has one place for each operation.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.axe.numbering import numbered
from solver.axe.trace import LOAD, RMW, STORE, SYNC, Trace

SC, TSO = "sc", "tso"
MODELS = (SC, TSO)
#: For reads_from: nothing is known yet; the initial value.
UNKNOWN, INITIAL = -2, -1


class Chains(NamedTuple):
    """n nodes, numbered chain by chain; chain k is chain_ptr[k] to chain_ptr[k + 1] (int64). A *pair* is a
    number for a location and a value.

    op: int64 (n,), the operation of a node. chain: int32 (n,). kind: uint8 (n,). address: int32 (n,).
    reads, writes: int32 (n,), pairs or -1. buffered: int32 (n,), the last plain store of the same thread
    before a load, to its location: under TSO its buffer may still hold it; else -1. own_commits: int32
    (n,), the chain whose stores are visible to the node before they commit, else -1. need: int32 (n, chains):
    how many nodes of each chain must have run before the node.
    initial: int32 (locations,), the pair of value 0. final: int32 (locations,), the pair that the trace
    demands at the end, -1 if it demands none. pair_address: int32 (pairs,).
    writer_ptr, writers; maker_ptr, makers: int64 and int32: the nodes that write a location; a pair;
    ascending. writer_at: int64 (locations * chains + 1,), where in `writers` those of a location and a chain
    begin. previous: int32 (n,), the node of the same chain before a node at its location, else -1.
    contradictory: whether two final constraints contradict each other.
    """

    chain_ptr: NDArray[np.int64]
    op: NDArray[np.int64]
    chain: NDArray[np.int32]
    kind: NDArray[np.uint8]
    address: NDArray[np.int32]
    reads: NDArray[np.int32]
    writes: NDArray[np.int32]
    buffered: NDArray[np.int32]
    own_commits: NDArray[np.int32]
    need: NDArray[np.int32]
    initial: NDArray[np.int32]
    final: NDArray[np.int32]
    pair_address: NDArray[np.int32]
    writer_ptr: NDArray[np.int64]
    writers: NDArray[np.int32]
    maker_ptr: NDArray[np.int64]
    makers: NDArray[np.int32]
    writer_at: NDArray[np.int64]
    previous: NDArray[np.int32]
    contradictory: bool


class Operations(NamedTuple):
    """Operations in file order, (n,): thread (int32), kind (uint8), address (int32), and place (int64), the
    node of each."""

    thread: NDArray[np.int32]
    kind: NDArray[np.uint8]
    address: NDArray[np.int32]
    place: NDArray[np.int64]


@njit(cache=True)
def fill_needs(chain_ptr, operations, tso, n_addresses, need, buffered, previous):  # type: ignore[no-untyped-def]
    """Fill in `need`, `buffered` and `previous`."""
    thread_of, kind, address, place = operations
    n_threads = (chain_ptr.size - 1) // 2 if tso else chain_ptr.size - 1
    done = np.zeros(chain_ptr.size - 1, np.int32)
    last = np.full((n_threads, n_addresses) if tso else (1, 1), -1, np.int32)
    touched = np.full((chain_ptr.size - 1, n_addresses), -1, np.int32)
    for i in range(kind.size):
        t, node = thread_of[i], place[i]
        if address[i] >= 0:
            k = 2 * t + np.int64(kind[i] == STORE) if tso else np.int64(t)
            previous[node] = touched[k, address[i]]
            touched[k, address[i]] = node
        if not tso:
            need[node, t] = done[t]
            done[t] += 1
            continue
        issue, commit = 2 * t, 2 * t + 1
        need[node, issue] = done[issue]
        if kind[i] != LOAD:
            need[node, commit] = done[commit]
        elif last[t, address[i]] >= 0:
            buffered[node] = last[t, address[i]]
        if kind[i] == STORE:
            done[commit] += 1
            last[t, address[i]] = node
        else:
            done[issue] += 1


def _grouped(group: NDArray[np.int32], n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(ptr, nodes): the nodes of each group, ascending; group -1 is none."""
    nodes = np.flatnonzero(group >= 0)
    order = np.argsort(group[nodes], kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(group[nodes], minlength=n))]).astype(np.int64)
    return ptr, nodes[order].astype(np.int32)


def make_chains(trace: Trace, model: str, *, hints: bool = False) -> Chains:
    """The chains of a trace under SC or TSO. hints: as if they were demanded too. A store then also reads
    what it is said to have overwritten, at the moment at which it commits; what took effect in an earlier
    part of the run comes before what did in a later one, and so does what is said to come before."""
    tso = model == TSO
    kind = trace.kind
    chain = 2 * trace.thread + (kind == STORE) if tso else trace.thread
    n_chains = len(trace.threads) * (2 if tso else 1)
    op = np.argsort(chain, kind="stable")
    place = np.empty(trace.n_ops, np.int64)
    place[op] = np.arange(trace.n_ops)
    chain_ptr = np.concatenate([[0], np.cumsum(np.bincount(chain, minlength=n_chains))]).astype(np.int64)
    need = np.zeros((trace.n_ops, n_chains), np.int32)
    buffered = np.full(trace.n_ops, -1, np.int32)
    previous = np.full(trace.n_ops, -1, np.int32)
    n_addresses = len(trace.addresses)
    operations = Operations(trace.thread, kind, trace.address, place)
    fill_needs(chain_ptr, operations, tso, n_addresses, need, buffered, previous)
    reads, writes, initial, final, pair_address, contradictory = _pairs(trace, hints)
    if hints:
        need = keep_parts(trace.part_of[op], chain_ptr, need)
        first, then = place[trace.edges].T
        before = chain[op[first]]
        np.maximum.at(need, (then, before), (first - chain_ptr[before] + 1).astype(np.int32))
        if not tso:
            kind = np.where(trace.hinted, RMW, kind).astype(np.uint8)
    kind, address, reads, writes = kind[op], trace.address[op], reads[op], writes[op]
    writer_ptr, writers = _grouped(np.where(writes >= 0, address, -1).astype(np.int32), n_addresses)
    maker_ptr, makers = _grouped(writes, len(pair_address))
    by_chain = address[writers].astype(np.int64) * n_chains + chain[op][writers]
    counts = np.bincount(by_chain, minlength=n_addresses * n_chains)
    writer_at = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    own_commits = np.where(kind == LOAD, chain[op] + 1, -1) if tso else np.full(trace.n_ops, -1)
    return Chains(
        chain_ptr, op, chain[op].astype(np.int32), kind, address, reads, writes, buffered,
        own_commits.astype(np.int32), need, initial, final, pair_address, writer_ptr, writers, maker_ptr,
        makers, writer_at, previous, contradictory,
    )  # fmt: skip


_Ints = NDArray[np.int32]


def keep_parts(
    part_of: NDArray[np.int32], chain_ptr: NDArray[np.int64], need: NDArray[np.int32]
) -> NDArray[np.int32]:
    """`need` where a node also comes after all nodes of earlier parts of the run; unchanged if the parts go
    back along a chain. part_of: int32 (n,), of a node, -1 if it is not said."""
    before, need = need, need.copy()
    said = np.flatnonzero(part_of >= 0)
    for k, (first, last) in enumerate(pairwise(chain_ptr.tolist())):
        own = said[(said >= first) & (said < last)]
        if (np.diff(part_of[own]) < 0).any():
            return before
        ends = np.concatenate([[0], own - first + 1])
        earlier = ends[np.searchsorted(part_of[own], part_of[said], side="left")]
        need[said, k] = np.maximum(need[said, k], earlier)
    return need


def _pairs(trace: Trace, hints: bool) -> tuple[_Ints, _Ints, _Ints, _Ints, _Ints, bool]:
    """(reads, writes, initial, final, pair_address, contradictory) of `Chains`, by operation."""
    n_addresses = len(trace.addresses)
    seen = trace.read
    reading = np.flatnonzero((trace.kind == LOAD) | (trace.kind == RMW))
    if hints:
        seen = np.where(trace.hinted, trace.old, trace.read)
        reading = np.flatnonzero((trace.kind == LOAD) | (trace.kind == RMW) | trace.hinted)
    writing = np.flatnonzero((trace.kind == STORE) | (trace.kind == RMW))
    value = np.concatenate(
        [np.zeros(n_addresses, np.uint64), seen[reading], trace.written[writing], trace.final_value]
    )
    address = np.concatenate(
        [np.arange(n_addresses), trace.address[reading], trace.address[writing], trace.final_address]
    )
    values, number = numbered(value)
    keys, pair = numbered(address.astype(np.uint64) * np.uint64(len(values)) + number.astype(np.uint64))
    at = np.cumsum([n_addresses, len(reading), len(writing)])
    reads, writes = np.full(trace.n_ops, -1, np.int32), np.full(trace.n_ops, -1, np.int32)
    reads[reading], writes[writing] = pair[at[0] : at[1]], pair[at[1] : at[2]]
    final = np.full(n_addresses, -1, np.int32)
    final[trace.final_address] = pair[at[2] :]
    contradictory = bool((final[trace.final_address] != pair[at[2] :]).any())
    owner = (keys // np.uint64(max(len(values), 1))).astype(np.int32)
    return reads, writes, pair[: at[0]].astype(np.int32), final, owner, contradictory


__all__ = [
    "INITIAL",
    "LOAD",
    "MODELS",
    "RMW",
    "SC",
    "STORE",
    "SYNC",
    "TSO",
    "UNKNOWN",
    "Chains",
    "make_chains",
]
