"""Algorithm 1 of the MICRO 2009 paper, as printed (section 4.3.1), and what section 4.4 changes of it under
TSO.

Section 4.4: "a total program order would be specified only for the store operations executed in a processor
core. This would relax the ordering of loads with respect to its preceding stores." So lines 1 to 4 make two
rows of each core, its loads (atomic accesses and fences among them) and its stores, which `Problem` has as
two streams. Of what is between them everything is kept but that a load comes after the stores before it: a
store comes after the loads before it, and what empties the store buffer (a fence, an atomic or device access,
a sync point) after the stores before that (`waits`).

The paper says nothing of forwarding. A load whose newest earlier overlapping store of the core has not
committed sees that store's bytes, whatever memory holds; `Problem.source` is that store where it covers the
load and wrote what it reads (where it does not, the load waits for it). Such a load has two ways:

- it comes before its source, was answered by the buffer, and is not one of the accesses to its location: its
  TO variable is above the location's *length*, how many accesses memory answered, and lines 9 to 17 ask
  nothing of it;
- it comes after its source and is an access to memory like all others, with a TO variable up to the length.

Lines 5 to 8 hold of all, so that those which memory answered have the numbers 1 to the length, each once; the
last of them is the one whose number is the length (line 13, where |M_x| stood). Taking out accesses that
change nothing does not alter which value is the unmatched one (section 4.2), so the first still finds the
initial value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import z3
from numpy.typing import NDArray

from solver.regions.problem import Problem

OnTime = Callable[[], None]


@dataclass
class _Places:
    """total: the TO variable of every part; None where its granule only tells order. length: of each granule,
    how many accesses memory answered, a number or a variable."""

    total: list[Any]
    length: dict[int, Any] = field(default_factory=dict)


def encode_paper(problem: Problem, solver: z3.Solver, on_time: OnTime) -> list[Any]:
    """Add the formula to `solver`. Returns the PO variable O_i of every operation.

    An operation has one PO variable in [1..|E|]; each of its accesses to a granule x has a TO variable in
    [1..|E_x|]. `on_time` is called now and then and may raise.
    """
    only_order, pairs = waits(problem)
    order = _program_order(problem, pairs, solver, on_time)
    places = _uniqueness(problem, only_order, solver, on_time)
    _load_store(problem, solver, order, places, on_time)
    return order


def waits(problem: Problem) -> tuple[set[int], list[tuple[int, int]]]:
    """The granules that only say which operations of other streams come after one (`solver.regions.links`:
    that one makes 1 of 0, they read 1), and those pairs: program order, told in one constraint each."""
    parts: dict[int, list[int]] = defaultdict(list)
    for p in np.flatnonzero(problem.granule >= len(problem.address) - problem.links).tolist():
        parts[int(problem.granule[p])].append(p)
    op, old, new = problem.part_op.tolist(), problem.old.tolist(), problem.new.tolist()
    granules, pairs = set(), []
    for g, here in parts.items():
        makers = [p for p in here if old[p] != new[p]]
        ends = int(problem.initial[g]), int(problem.final[g])
        if ends == (0, 1) and len(makers) == 1 and all(new[p] == 1 for p in here):
            granules.add(g)
            pairs += [(op[makers[0]], op[p]) for p in here if p != makers[0]]
    return granules, pairs


def _program_order(
    problem: Problem, pairs: list[tuple[int, int]], solver: z3.Solver, on_time: OnTime
) -> list[Any]:
    """Lines 1 to 4, and pairs of operations of different streams that are in order."""
    order, stream = [], problem.op_stream.tolist()
    for i in range(problem.n_ops):
        on_time()
        order.append(z3.Int(f"O_{i}", solver.ctx))
        solver.add(order[i] >= 1, order[i] <= problem.n_ops)
    for i in range(problem.n_ops - 1):
        if stream[i] == stream[i + 1]:
            solver.add(order[i] < order[i + 1])
    for first, then in pairs:
        on_time()
        solver.add(order[first] < order[then])
    return order


def _uniqueness(problem: Problem, only_order: set[int], solver: z3.Solver, on_time: OnTime) -> _Places:
    """Lines 5 to 8. only_order: granules that are no locations."""
    places = _Places([None] * len(problem.granule))
    members: dict[int, list[int]] = defaultdict(list)
    for p, g in enumerate(problem.granule.tolist()):
        if g not in only_order:
            places.total[p] = z3.Int(f"X_{p}", solver.ctx)
            members[g].append(p)
    weak = set(problem.granule[_weak(problem)].tolist())
    for g, parts in members.items():
        on_time()
        total = [places.total[p] for p in parts]
        solver.add(*[x >= 1 for x in total], *[x <= len(parts) for x in total])
        if len(parts) > 1:
            solver.add(z3.Distinct(total))
        places.length[g] = z3.Int(f"L_{g}", solver.ctx) if g in weak else len(parts)
    return places


def _weak(problem: Problem) -> NDArray[np.bool_]:
    """Which parts a store buffer may answer: bool (n_parts,)."""
    source = problem.part_source
    return np.asarray(source >= 0) if len(source) else np.zeros(len(problem.granule), np.bool_)


def _load_store(
    problem: Problem, solver: z3.Solver, order: list[Any], places: _Places, on_time: OnTime
) -> None:
    """Lines 9 to 17."""
    part_op, granule, weak = problem.part_op.tolist(), problem.granule.tolist(), _weak(problem).tolist()
    for p, (fsml, may_be_last) in enumerate(followers(problem)):
        on_time()
        x, i = places.total[p], part_op[p]
        if x is None:
            continue
        length = places.length[granule[p]]
        ways = []
        for f in fsml:
            way = [x == places.total[f] - 1, order[i] < order[part_op[f]]]
            ways.append(z3.And(*way, places.total[f] <= length) if weak[f] else z3.And(*way))
        if may_be_last:
            ways.append(x == length)
        meaning = z3.Or(*ways) if ways else z3.BoolVal(False, solver.ctx)
        if not isinstance(length, int):
            meaning = z3.And(x <= length, meaning)
        if weak[p]:
            source = order[int(problem.source[i])]
            meaning = z3.Or(
                z3.And(order[i] < source, x > length),
                z3.And(source < order[i], meaning),
            )
        solver.add(meaning)


def followers(problem: Problem) -> Iterator[tuple[list[int], bool]]:
    """Per part, its FSML set (parts that may directly follow it at its granule: their old value is its new
    one, and they are not earlier in its own row of program order), and whether it may be the last access
    (lines 9 to 14), later ones of its row being such as a store buffer may answer.
    """
    op, stream, weak = problem.part_op.tolist(), problem.op_stream.tolist(), _weak(problem).tolist()
    granule, old, new = problem.granule.tolist(), problem.old.tolist(), problem.new.tolist()
    with_old: dict[tuple[int, int], list[int]] = defaultdict(list)
    last: dict[tuple[int, int], int] = {}
    for p in range(len(granule)):
        with_old[granule[p], old[p]].append(p)
        if not weak[p]:
            last[granule[p], stream[op[p]]] = p
    for p in range(len(granule)):
        s, i = stream[op[p]], op[p]
        fsml = [f for f in with_old[granule[p], new[p]] if stream[op[f]] != s or op[f] > i]
        yield fsml, new[p] == problem.final[granule[p]] and last.get((granule[p], s), -1) <= p
