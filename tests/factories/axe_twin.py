"""The naive twin of the checker of axe traces."""

from __future__ import annotations

import numpy as np

from solver.axe.trace import LOAD, RMW, STORE, SYNC, Trace


def naive_check(trace: Trace, order: list[int], model: str) -> bool:
    """The checker's twin: the machine of the manual, driven by the order, with buffers as lists."""
    if sorted(order) != list(range(trace.n_ops)):
        return False
    memory: dict[int, int] = {}
    buffers: dict[int, list[int]] = {t: [] for t in range(len(trace.threads))}
    programs = {t: np.flatnonzero(trace.thread == t).tolist() for t in buffers}
    for op in order:
        t, kind, a = int(trace.thread[op]), int(trace.kind[op]), int(trace.address[op])
        # Stores before the operation enter the buffer as soon as they are next; nobody can tell.
        while model == "tso" and programs[t] and trace.kind[programs[t][0]] == STORE:
            if programs[t][0] > op:
                break
            buffers[t].append(programs[t].pop(0))
        if kind == STORE and model == "tso":
            if not buffers[t] or buffers[t].pop(0) != op:
                return False
        elif not programs[t] or programs[t].pop(0) != op:
            return False
        if kind in (RMW, SYNC) and buffers[t]:
            return False
        own = [b for b in buffers[t] if trace.address[b] == a and b < op]
        seen = int(trace.written[own[-1]]) if own and kind == LOAD else memory.get(a, 0)
        if kind in (LOAD, RMW) and seen != int(trace.read[op]):
            return False
        if kind in (STORE, RMW):
            memory[a] = int(trace.written[op])
    finals = zip(trace.final_address.tolist(), trace.final_value.tolist(), strict=True)
    return all(memory.get(a, 0) == value for a, value in finals)
