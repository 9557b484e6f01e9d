"""Algorithm 1 of the MICRO 2009 paper, as printed (section 4.3.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import z3

from solver.problem import Problem


def encode_paper(problem: Problem, solver: z3.Solver, on_time: Callable[[], None]) -> list[Any]:
    """Add the formula to `solver`. Returns the PO variable O_i of every operation.

    An operation has one PO variable in [1..|E|]; each of its accesses to a granule x has a TO variable in
    [1..|E_x|]. `on_time` is called now and then and may raise.
    """
    context = solver.ctx
    stream = problem.op_stream.tolist()
    order = [z3.Int(f"O_{i}", context) for i in range(problem.n_ops)]
    total = [z3.Int(f"X_{p}", context) for p in range(len(problem.granule))]
    for o in order:
        solver.add(o >= 1, o <= problem.n_ops)
    for i in range(problem.n_ops - 1):  # lines 1 to 4: program order
        if stream[i] == stream[i + 1]:
            solver.add(order[i] < order[i + 1])
    members: dict[int, list[int]] = defaultdict(list)
    for p, g in enumerate(problem.granule.tolist()):
        members[g].append(p)
    for parts in members.values():  # lines 5 to 8: uniqueness
        on_time()
        solver.add(*[total[p] >= 1 for p in parts], *[total[p] <= len(parts) for p in parts])
        if len(parts) > 1:
            solver.add(z3.Distinct([total[p] for p in parts]))
    for g, parts in members.items():  # lines 9 to 17: load-store semantics
        _load_store(problem, solver, int(problem.final[g]), parts, stream, order, total, on_time)
    return order


def _load_store(
    problem: Problem,
    solver: z3.Solver,
    final: int,
    parts: list[int],
    stream: list[int],
    order: list[Any],
    total: list[Any],
    on_time: Callable[[], None],
) -> None:
    part_op = np.searchsorted(problem.part_ptr, np.array(parts), side="right") - 1
    op = dict(zip(parts, part_op.tolist(), strict=True))
    with_old: dict[int, list[int]] = defaultdict(list)
    last = {}
    for p in parts:
        with_old[int(problem.old[p])].append(p)
        last[stream[op[p]]] = p
    for p in parts:
        on_time()
        i = op[p]
        ways = []
        for f in with_old[int(problem.new[p])]:
            j = op[f]
            if stream[j] == stream[i] and j <= i:
                continue
            ways.append(z3.And(total[p] == total[f] - 1, order[i] < order[j]))
        if int(problem.new[p]) == final and last[stream[i]] == p:
            ways.append(total[p] == len(parts))
        solver.add(z3.Or(*ways) if ways else z3.BoolVal(False, solver.ctx))
