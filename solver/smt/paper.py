"""Algorithm 1 of the MICRO 2009 paper, as printed (section 4.3.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import z3

from solver.regions.problem import Problem


def encode_paper(problem: Problem, solver: z3.Solver, on_time: Callable[[], None]) -> list[Any]:
    """Add the formula to `solver`. Returns the PO variable O_i of every operation.

    An operation has one PO variable in [1..|E|]; each of its accesses to a granule x has a TO variable in
    [1..|E_x|]. `on_time` is called now and then and may raise.
    """
    context = solver.ctx
    stream = problem.op_stream.tolist()
    order, total = [], []
    for i in range(problem.n_ops):
        on_time()
        order.append(z3.Int(f"O_{i}", context))
        solver.add(order[i] >= 1, order[i] <= problem.n_ops)
    for p in range(len(problem.granule)):
        on_time()
        total.append(z3.Int(f"X_{p}", context))
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
    part_op = problem.part_op.tolist()
    for p, (fsml, may_be_last) in enumerate(followers(problem)):  # lines 9 to 17: load-store semantics
        on_time()
        i = part_op[p]
        ways = [z3.And(total[p] == total[f] - 1, order[i] < order[part_op[f]]) for f in fsml]
        if may_be_last:
            ways.append(total[p] == len(members[int(problem.granule[p])]))
        solver.add(z3.Or(*ways) if ways else z3.BoolVal(False, context))
    return order


def followers(problem: Problem) -> Iterator[tuple[list[int], bool]]:
    """Per part, its FSML set (parts that may directly follow it at its granule: their old value is its new
    one, and they are not earlier in its own core), and whether it may be the last access (lines 9 to 14).
    """
    op, stream = problem.part_op.tolist(), problem.op_stream.tolist()
    granule, old, new = problem.granule.tolist(), problem.old.tolist(), problem.new.tolist()
    with_old: dict[tuple[int, int], list[int]] = defaultdict(list)
    last: dict[tuple[int, int], int] = {}
    for p in range(len(granule)):
        with_old[granule[p], old[p]].append(p)
        last[granule[p], stream[op[p]]] = p
    for p in range(len(granule)):
        s, i = stream[op[p]], op[p]
        fsml = [f for f in with_old[granule[p], new[p]] if stream[op[f]] != s or op[f] > i]
        yield fsml, new[p] == problem.final[granule[p]] and last[granule[p], s] == p
