"""Who has a page, told in granules of its own, so that engines need not know of rights.

For each stream that has a page a granule is 1 while it does, and one is 1 while some stream has the page
alone. Who takes it alone reads 0 of all others, and who gets it reads 0 of the latter. So do agents, who have
it for an access each, which nobody sees. Everything that holds
of granules then holds of rights too, as of `links`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.regions.problem import Problem
from solver.regions.rights import BEFORE, BEGIN, BEYOND, END, PAGE, SOLE, STREAM, operations_of

_Parts = tuple[NDArray[np.int64], ...]


def with_presence(problem: Problem, pages: NDArray[np.int64]) -> Problem:
    """The problem with granules that tell who has these pages. Operations keep their numbers."""
    spans = np.flatnonzero(np.isin(problem.rights[:, PAGE], pages))
    table = problem.rights[spans]
    keys = np.where(table[:, SOLE] == 1, -1, table[:, STREAM])
    told, granule = np.unique(np.stack([table[:, PAGE], keys], axis=1), axis=0, return_inverse=True)
    granule = granule.reshape(-1)
    begins, ends = (operations_of(problem, column)[spans] for column in (BEGIN, END))
    last = table[:, BEGIN] != table[:, END]
    parts = [
        (begins[last], granule[last], 0, 1, table[last, BEGIN]),
        (ends[last], granule[last], 1, 0, table[last, END]),
    ]
    parts += _read(table, told, begins)
    return _added(problem, table, granule, len(told), _chained(problem.n_ops, _joined(parts)))


def _read(table: NDArray[np.int64], told: NDArray[np.int64], begins: NDArray[np.int64]) -> list[Any]:
    """What a span that begins reads: one alone the presence of all others, others whether it is alone."""
    found = []
    for g, (page, stream) in enumerate(told.tolist()):
        if stream == -1:
            mine = np.flatnonzero((table[:, PAGE] == page) & (table[:, SOLE] == 0))
        else:
            alone = (table[:, PAGE] == page) & (table[:, SOLE] == 1)
            mine = np.flatnonzero(alone & (table[:, STREAM] != stream))
        found.append((begins[mine], np.full(len(mine), g), 0, 0, table[mine, BEGIN]))
    return found


def _joined(pieces: list[Any]) -> _Parts:
    columns = zip(*(np.broadcast_arrays(*piece) for piece in pieces), strict=True)
    return tuple(np.concatenate(column).astype(np.int64) for column in columns)


def _chained(n_ops: int, parts: _Parts) -> _Parts:
    """One part for each operation and granule: what it finds first, and what it leaves. parts: operation,
    granule, old, new, row."""
    op, of, old, new, row = parts
    here = np.flatnonzero((op >= 0) & (op < n_ops))
    # Of one row a span ends before another begins, and is looked at before that.
    by = here[np.lexsort((new[here] - old[here], row[here], of[here], op[here]))]
    op, of, old, new = op[by], of[by], old[by], new[by]
    first = np.flatnonzero(np.r_[True, (op[1:] != op[:-1]) | (of[1:] != of[:-1])]) if len(op) else by
    last = np.r_[first[1:] - 1, len(op) - 1] if len(op) else by
    return op[first], of[first], old[first], new[last]


def _added(
    problem: Problem, table: NDArray[np.int64], granule: NDArray[np.int64], n: int, parts: _Parts
) -> Problem:
    op, of, old, new = parts
    initial, final = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
    initial[granule[table[:, BEGIN] == BEFORE]] = 1
    final[granule[table[:, END] == BEYOND]] = 1
    n_granules = len(problem.address)
    part_op = np.concatenate([problem.part_op, op])
    by = np.argsort(part_op, kind="stable")
    counts = np.bincount(part_op, minlength=problem.n_ops)
    return replace(
        problem,
        part_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        granule=np.concatenate([problem.granule, n_granules + of])[by].astype(np.int32),
        old=np.concatenate([problem.old, old.astype(np.uint64)])[by],
        new=np.concatenate([problem.new, new.astype(np.uint64)])[by],
        # Addresses that neither guest memory nor a link has.
        address=np.concatenate([problem.address, ~(np.arange(n, dtype=np.uint64) + np.uint64(1 << 40))]),
        size=np.concatenate([problem.size, np.ones(n, np.uint8)]),
        initial=np.concatenate([problem.initial, initial]),
        final=np.concatenate([problem.final, final]),
        links=problem.links + n,
    )
