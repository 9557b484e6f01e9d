"""The walk as long as it goes straight on: node after node, cut after cut, until a dead end.

The same steps as those of `solver.axe.walk`, in one kernel with the fields in variables: on most traces the
first choice at a cut is right, and reading fields and calling costs more than the work.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from solver.axe.chains import UNKNOWN
from solver.axe.trace import STORE
from solver.axe.walk import awaited, is_entangled


@njit(cache=True)
def is_first(y, a, c, chain_ptr, clock, writers, writer_at, to_come):  # type: ignore[no-untyped-def]
    """Whether write y, the next node of chain c, is known to come before all writes to come of location a."""
    n_chains = chain_ptr.size - 1
    for k in range(n_chains):
        i = to_come[a * n_chains + k]
        if k != c and i < writer_at[a * n_chains + k + 1] and clock[writers[i], c] <= y - chain_ptr[c]:
            return False
    return True


@njit(cache=True)
def dash(ch, f, w, prefer, cuts):  # type: ignore[no-untyped-def]
    """Run every node that can run at once, then open a cut and run the best write, and so on, for `cuts`
    cuts. True: nothing can run at once any more, and the cut reached is not open; or all has run. False: a
    dead end. prefer: as of `walk.best_choice`."""
    chain_ptr, address, reads, writes, kinds = ch.chain_ptr, ch.address, ch.reads, ch.writes, ch.kind
    buffered, chain, initial, final, n = ch.buffered, ch.chain, ch.initial, ch.final, ch.op.size
    need, reads_from, position, cell, loose = f.need, f.reads_from, w.position, w.cell, w.loose
    readers, makers, touches, own, thread = w.readers, w.makers, w.touches, w.own, w.thread
    path, over, blocked, tried, at = w.path, w.over, w.blocked, w.frame_tried, w.at
    clock, first, following, scratch = f.clock, f.first_reader, f.next_reader, w.scratch
    writers, writer_at, to_come = ch.writers, ch.writer_at, w.following
    n_chains, length, chosen = position.size, at[0], np.int64(-1)
    idle, k = 0, np.int64(0)
    while True:
        while idle < n_chains or chosen >= 0:
            # Chain after chain, until none has a node that can run; the chosen node runs in any case.
            idle += 1
            t = thread[k]
            while True:
                y = chain_ptr[k] + position[k]
                if y >= chain_ptr[k + 1]:
                    break
                if blocked[k, 0] == y and blocked[k, 2] > position[blocked[k, 1]]:
                    break
                ready = True
                for j in range(n_chains):
                    if need[y, j] > position[j]:
                        blocked[k, 0], blocked[k, 1], blocked[k, 2] = y, j, need[y, j]
                        ready = False
                        break
                if not ready:
                    break
                a, pair, new = address[y], reads[y], writes[y]
                if a < 0:
                    path[length] = y
                    length += 1
                    position[k] += 1
                    idle = 0
                    continue
                memory = np.int64(cell[a])
                holds = writes[memory] if memory >= 0 else initial[a]
                at_cell = memory if memory >= 0 else n + a
                source = np.int64(UNKNOWN)
                if pair >= 0:
                    seen, b = memory, buffered[y]
                    if b >= 0 and b - chain_ptr[chain[b]] >= position[chain[b]]:
                        seen = np.int64(b)
                    source = np.int64(reads_from[y])
                    if source != UNKNOWN:
                        if seen != source:
                            break
                    elif pair != (writes[seen] if seen >= 0 else initial[a]):
                        break
                if y != chosen and new >= 0 and new != pair and touches[a] != own[t, a]:
                    # Rules 4 and 5 of `solver.axe.walk`.
                    if loose[holds] > (pair >= 0 and source == UNKNOWN) or (
                        readers[at_cell] > (source != UNKNOWN)
                    ):
                        break
                    seen_later = kinds[y] != STORE or loose[new] > 0 or readers[y] > 0 or final[a] == new
                    if seen_later and not is_first(y, a, k, chain_ptr, clock, writers, writer_at, to_come):
                        break
                path[length] = y
                position[k] += 1
                touches[a] -= 1
                own[t, a] -= 1
                idle = 0
                if pair >= 0:
                    if source == UNKNOWN:
                        loose[pair] -= 1
                    else:
                        readers[source if source >= 0 else n + a] -= 1
                if new >= 0:
                    lost = readers[at_cell] > 0
                    over[length] = memory
                    cell[a] = y
                    to_come[a * n_chains + k] += 1
                    makers[new] -= 1
                    if holds != new and makers[holds] == 0 and (loose[holds] > 0 or final[a] == holds):
                        lost = True
                    if lost:
                        at[0] = length + 1
                        return False
                length += 1
                if y == chosen:
                    chosen = np.int64(-1)
                    if is_entangled(
                        a, chain_ptr, chain, address, writes, position, cell, readers, clock, reads_from,
                        first, following, scratch,
                    ):  # fmt: skip
                        at[0] = length
                        return False
            k = k + 1 if k + 1 < n_chains else np.int64(0)
        at[0] = length
        if cuts == 0 or length == n:
            return True
        cuts -= 1
        frame = at[1]
        at[1] = frame + 1
        w.frame_path[frame] = length
        tried[frame, :] = np.uint64(0)
        best, best_score = np.int64(-1), -1
        for j in range(n_chains):
            y = chain_ptr[j] + position[j]
            if y >= chain_ptr[j + 1] or (blocked[j, 0] == y and blocked[j, 2] > position[blocked[j, 1]]):
                continue
            if writes[y] < 0:
                continue
            a, pair = address[y], reads[y]
            memory = np.int64(cell[a])
            holds = writes[memory] if memory >= 0 else initial[a]
            if pair >= 0 and (memory != reads_from[y] if reads_from[y] != UNKNOWN else pair != holds):
                continue
            score = 0
            if loose[holds] == 0 and readers[memory if memory >= 0 else n + a] == 0:
                score = 4
            if prefer.size == 0:
                score += 2 if awaited(y, position, chain_ptr, reads, writes, reads_from) else 0
            if score > best_score or (prefer.size and score == best_score and prefer[y] < prefer[best]):
                best, best_score = y, score
        if best < 0:
            return False
        k = np.int64(chain[best])
        tried[frame, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
        chosen, idle = best, 0
