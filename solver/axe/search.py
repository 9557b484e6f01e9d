"""The search: whether some walk over the cuts runs every node (`solver.cuts.search`, with old values
unknown)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from solver.axe.chains import Chains
from solver.axe.dash import dash
from solver.axe.facts import Facts
from solver.axe.walk import (
    CUTS,
    DEAD,
    ENTERING,
    FARTHEST,
    GIVEN_UP,
    LENGTH,
    POOLED,
    best_choice,
    describe,
    entangled,
    run,
    start_walk,
    take_back,
)
from solver.cuts.table import row_hash
from solver.regions.problem import Verdict

Show = Callable[[int], None]

_LEGAL, _ILLEGAL, _BUDGET, _GROW = 0, 1, 2, 3
#: Cuts given up, and cuts passed straight on, between two looks at the clock.
_SLICE, _STRAIGHT = 1_000, 1 << 17
#: Nodes beyond the farthest dead end after which a walk goes straight on again.
_NEAR = 64
#: Cuts that the first walk may give up.
_FIRST_CUTS = 5_000
#: Largest pool of dead cuts, in int32.
MOST_POOL = 1 << 27


def ignore(_: int) -> None:
    """Show nothing."""


@njit(cache=True)
def key_slot(key, length, table, pool):  # type: ignore[no-untyped-def]
    """(slot, found) of a key in the table of dead cuts; `pool` holds the whole keys, so it never errs."""
    mask = np.uint64(table.size - 1)
    slot = row_hash(key, length, -1) & mask
    while table[slot] >= 0:
        start, same = table[slot], True
        for i in range(length):
            if pool[start + i] != key[i]:
                same = False
                break
        if same:
            return np.int64(slot), True
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot), False


@njit(cache=True)
def enter_keys(used, table, pool):  # type: ignore[no-untyped-def]
    """Enter the keys of a pool into an empty table."""
    start = 0
    while start < used:
        length = pool[start]
        slot, _ = key_slot(pool[start : start + length], length, table, pool)
        table[slot] = start
        start += length


@njit(cache=True)
def search(ch, f, w, key, table, pool, cuts, prefer):  # type: ignore[no-untyped-def]
    """Go on with the walk until `cuts` cuts have been given up. Returns _LEGAL (the path is an order),
    _ILLEGAL, _BUDGET or _GROW (table or pool too small)."""
    stop = w.at[GIVEN_UP] + cuts
    straight = np.int64(_STRAIGHT)
    while True:
        if w.at[ENTERING]:
            if w.at[GIVEN_UP] >= stop or straight <= 0:
                return _BUDGET
            w.at[ENTERING] = 0
            # Near where the walk failed, each cut is looked up among the dead ones.
            most = straight if w.at[DEAD] == 0 or w.at[LENGTH] > w.at[FARTHEST] + _NEAR else 0
            before = w.at[CUTS]
            if dash(ch, f, w, prefer, most):
                straight -= w.at[CUTS] - before
                if w.at[LENGTH] == ch.op.size:
                    return _LEGAL
                if w.at[DEAD] == 0 or not key_slot(key, describe(ch, w, key), table, pool)[1]:
                    w.frame_path[w.at[CUTS]] = w.at[LENGTH]
                    w.frame_tried[w.at[CUTS], :] = np.uint64(0)
                    w.at[CUTS] += 1
            else:
                w.at[FARTHEST] = max(w.at[FARTHEST], w.at[LENGTH])
        if w.at[CUTS] == 0:
            return _ILLEGAL
        take_back(w.frame_path[w.at[CUTS] - 1], ch, f, w)
        y = best_choice(ch, f, w, prefer)
        if y >= 0:
            go_on = run(y, ch, f, w) and not entangled(ch.address[y], ch, f, w)
            w.at[ENTERING] = np.int64(go_on)
            continue
        if 2 * (w.at[DEAD] + 2) > table.size or w.at[POOLED] + key.size > pool.size:
            return _GROW
        length = describe(ch, w, key)
        slot, known = key_slot(key, length, table, pool)
        if not known:
            table[slot] = w.at[POOLED]
            pool[w.at[POOLED] : w.at[POOLED] + length] = key[:length]
            w.at[POOLED] += length
            w.at[DEAD] += 1
        w.at[GIVEN_UP] += 1
        w.at[CUTS] -= 1


def search_order(
    chains: Chains, facts: Facts, n_threads: int, deadline: float, cuts: int, show: Show = ignore
) -> tuple[Verdict, NDArray[np.int64]]:
    """Decide by search; the order is one of nodes, if LEGAL. UNDECIDED after `cuts` cuts were given up, at
    the deadline (working_time()), or when the dead cuts fill MOST_POOL. show: called with how many nodes
    the walk has run.

    A bad choice early in a long walk is found out late, so the walk is begun anew, with the next way to
    choose and each time more cuts; one that ends proves its answer. The ways: by how much is known to come
    before a write; by what is waited for; by the file, which often follows time.
    """
    ways = (_known_before(facts), np.empty(0, np.int32), chains.op.astype(np.int32))
    turn, number = _FIRST_CUTS, 0
    while True:
        budget = min(turn, cuts)
        prefer = ways[number % len(ways)]
        verdict, nodes = _walk(chains, facts, n_threads, deadline, budget, prefer, show)
        cuts -= budget
        if verdict is not Verdict.UNDECIDED or cuts <= 0 or working_time() > deadline or not len(nodes):
            return verdict, nodes
        turn, number = turn * 3 // 2, number + 1


def _known_before(facts: Facts) -> NDArray[np.int32]:
    return facts.clock.sum(axis=1, dtype=np.int64).astype(np.int32)


def walk_straight(chains: Chains, facts: Facts, n_threads: int, show: Show = ignore) -> NDArray[np.int64]:
    """Nodes in a legal order if the first walk of `search_order` meets no dead end, else none. What is known
    need not be all that can be deduced. show: as there."""
    verdict, nodes = _walk(chains, facts, n_threads, math.inf, 1, _known_before(facts), show)
    return nodes if verdict is Verdict.LEGAL else np.empty(0, np.int64)


def _walk(
    chains: Chains,
    facts: Facts,
    n_threads: int,
    deadline: float,
    cuts: int,
    prefer: NDArray[np.int32],
    show: Show,
) -> tuple[Verdict, NDArray[np.int64]]:
    """As `search_order`, one walk. If UNDECIDED the nodes are its path, none if there is no room."""
    w = start_walk(chains, facts, n_threads)
    key = np.zeros(1 + len(w.position) + 2 * len(w.cell), np.int32)
    table, pool = np.full(1 << 10, -1, np.int64), np.zeros(max(1 << 14, 4 * len(key)), np.int32)
    while True:
        slice_ = min(_SLICE, cuts - int(w.at[GIVEN_UP]))
        result = search(chains, facts, w, key, table, pool, slice_, prefer)
        show(int(w.at[LENGTH]))
        if result == _LEGAL:
            return Verdict.LEGAL, w.path.astype(np.int64)
        if result == _ILLEGAL:
            return Verdict.ILLEGAL, np.empty(0, np.int64)
        if result == _GROW:
            if len(pool) > MOST_POOL:
                return Verdict.UNDECIDED, np.empty(0, np.int64)
            if w.at[POOLED] + len(key) > len(pool):
                pool = np.concatenate([pool, np.zeros(3 * len(pool), np.int32)])
            if 2 * (w.at[DEAD] + 2) > len(table):
                table = np.full(4 * len(table), -1, np.int64)
                enter_keys(int(w.at[POOLED]), table, pool)
        if working_time() > deadline or w.at[GIVEN_UP] >= cuts:
            return Verdict.UNDECIDED, w.path.astype(np.int64)
