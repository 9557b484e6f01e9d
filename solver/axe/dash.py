"""The walk as long as it goes straight on: node after node, cut after cut, until a dead end.

The same steps as those of `solver.axe.walk`, put into one kernel: on most traces the first choice at a cut is
right, and to call costs more than the work.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.kernels import inlined, inner
from solver.axe.chains import UNKNOWN
from solver.axe.trace import STORE
from solver.axe.walk import CUTS, LENGTH, awaited, entangled, finds_value, held, readers_of_cell, run


@inlined
def is_held_up(y, k, f, w):  # type: ignore[no-untyped-def]
    """Whether node y, the next of chain k, waits for a node that has not run, of which note is taken."""
    blocked, position = w.blocked, w.position
    if blocked[k, 0] == y and blocked[k, 2] > position[blocked[k, 1]]:
        return True
    for j in range(position.size):
        if f.need[y, j] > position[j]:
            blocked[k, 0], blocked[k, 1], blocked[k, 2] = y, j, f.need[y, j]
            return True
    return False


@inlined
def is_first(y, a, c, ch, f, w):  # type: ignore[no-untyped-def]
    """Whether write y, the next node of chain c, is known to come before all writes to come of location a."""
    n_chains = w.position.size
    for k in range(n_chains):
        i, end = w.following[a * n_chains + k], ch.writer_at[a * n_chains + k + 1]
        if k != c and i < end and f.clock[ch.writers[i], c] <= y - ch.chain_ptr[c]:
            return False
    return True


@inlined
def may_go_first(y, k, ch, f, w):  # type: ignore[no-untyped-def]
    """Whether node y, the next of chain k, may run before all others to come: rules 1 to 5 of
    `solver.axe.walk`."""
    a, pair, new = ch.address[y], ch.reads[y], ch.writes[y]
    if new < 0 or new == pair or w.touches[a] == w.own[w.thread[k], a]:
        return True
    source = np.int64(f.reads_from[y]) if pair >= 0 else np.int64(UNKNOWN)
    if w.loose[held(a, ch, w)] > (pair >= 0 and source == UNKNOWN):
        return False
    if readers_of_cell(a, ch, w) > (source != UNKNOWN):
        return False
    seen_later = ch.kind[y] != STORE or w.loose[new] > 0 or w.readers[y] > 0 or ch.final[a] == new
    return not seen_later or is_first(y, a, k, ch, f, w)


@inlined
def run_what_can(ch, f, w, chosen):  # type: ignore[no-untyped-def]
    """Run every node that can run at once, chain after chain, and in any case the chosen one, which is next
    in its chain (-1: none). False: a dead end."""
    n_chains = w.position.size
    k = np.int64(ch.chain[chosen]) if chosen >= 0 else np.int64(0)
    idle = 0
    while idle < n_chains or chosen >= 0:
        idle += 1
        while True:
            y = ch.chain_ptr[k] + w.position[k]
            if y >= ch.chain_ptr[k + 1] or is_held_up(y, k, f, w) or not finds_value(y, ch, f, w):
                break
            if y != chosen and not may_go_first(y, k, ch, f, w):
                break
            idle = 0
            if not run(y, ch, f, w):
                return False
            if y == chosen:
                chosen = np.int64(-1)
                if entangled(ch.address[y], ch, f, w):
                    return False
        k = k + 1 if k + 1 < n_chains else np.int64(0)
    return True


@inlined
def open_cut(ch, f, w, prefer):  # type: ignore[no-untyped-def]
    """Open the cut reached. Returns the best write, marked as tried, or -1 if there is none."""
    frame, blocked, position = w.at[CUTS], w.blocked, w.position
    w.at[CUTS] = frame + 1
    w.frame_path[frame] = w.at[LENGTH]
    w.frame_tried[frame, :] = np.uint64(0)
    best, best_score = np.int64(-1), -1
    for j in range(position.size):
        y = ch.chain_ptr[j] + position[j]
        if y >= ch.chain_ptr[j + 1] or (blocked[j, 0] == y and blocked[j, 2] > position[blocked[j, 1]]):
            continue
        if ch.writes[y] < 0:
            continue
        a, pair = ch.address[y], ch.reads[y]
        holds = held(a, ch, w)
        if pair >= 0 and (w.cell[a] != f.reads_from[y] if f.reads_from[y] != UNKNOWN else pair != holds):
            continue
        score = 4 if w.loose[holds] == 0 and readers_of_cell(a, ch, w) == 0 else 0
        if prefer.size == 0 and awaited(y, ch, f, w):
            score += 2
        if score > best_score or (prefer.size and score == best_score and prefer[y] < prefer[best]):
            best, best_score = y, score
    if best >= 0:
        k = np.int64(ch.chain[best])
        w.frame_tried[frame, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    return best


@inner
def dash(ch, f, w, prefer, cuts):  # type: ignore[no-untyped-def]
    """Run every node that can run at once, then open a cut and run the best write, and so on, for `cuts`
    cuts. True: nothing can run at once any more, and the cut reached is not open; or all has run. False: a
    dead end. prefer: as of `walk.best_choice`."""
    chosen = np.int64(-1)
    while True:
        if not run_what_can(ch, f, w, chosen):
            return False
        if cuts == 0 or w.at[LENGTH] == ch.op.size:
            return True
        cuts -= 1
        chosen = open_cut(ch, f, w, prefer)
        if chosen < 0:
            return False
