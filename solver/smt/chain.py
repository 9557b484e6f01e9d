"""A better encoding than the paper's: only positions, and booleans for which write follows which.

Per granule the accesses that change its value form a chain from the initial to the final value; the others
(reads, silent stores) each stand between one write and the next. So besides a position per operation there
is one boolean per possible neighbour: "write w' directly follows write w", "r sees what w left". Candidates
are pruned up front by program order, and a candidate that is alone is fixed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import z3

from solver.regions.problem import Problem

#: The pseudo writes that stand before and after all others of a granule.
_START, _END = -1, -2


@dataclass
class _Granule:
    """Candidates at one granule; parts are named by their operation.

    follow: edges (w, w') that may hold, both ways. sees: per silent operation the writes it may follow. weak:
    silent operations that need see none as long as this other one has not run (`Problem.source`).
    """

    after: dict[int, set[int]] = field(default_factory=dict)
    before: dict[int, set[int]] = field(default_factory=dict)
    sees: dict[int, set[int]] = field(default_factory=dict)
    weak: dict[int, int] = field(default_factory=dict)


def _propagate(g: _Granule) -> bool:
    """Fix edges that are alone on either side until nothing changes. False if some side has none."""
    work = [(side, w) for side in (0, 1) for w in (g.after, g.before)[side]]
    while work:
        side, w = work.pop()
        mine, other = (g.after, g.before) if side == 0 else (g.before, g.after)
        if not mine[w]:
            return False
        if len(mine[w]) > 1:
            continue
        (only,) = mine[w]
        for rival in [r for r in other[only] if r != w]:
            other[only].discard(rival)
            mine[rival].discard(only)
            work.append((side, rival))
    return all(ws or r in g.weak for r, ws in g.sees.items())


def _candidates(
    accesses: list[tuple[int, int, int]], initial: int, final: int, stream: list[int]
) -> _Granule:
    """Neighbours that values and program order allow. accesses: (operation, old, new), stream by stream."""
    g = _Granule()
    writes = [(op, old, new) for op, old, new in accesses if old != new]
    takers: dict[int, list[int]] = defaultdict(list)
    makers: dict[int, list[int]] = defaultdict(list)
    makers[initial].append(_START)
    previous: dict[int, int] = {_START: _START}
    last: dict[int, int] = {}
    following: dict[int, int] = {}
    for op, old, new in writes:
        takers[old].append(op)
        makers[new].append(op)
        s = stream[op]
        previous[op] = last.get(s, _START)
        if s in last:
            following[last[s]] = op
        last[s] = op
    ends = set(last.values())
    takers[final].append(_END)
    value = {_START: initial} | {op: new for op, _old, new in writes}
    for w, left in value.items():
        g.after[w] = {
            f for f in takers[left] if _may_follow(w, f, stream, previous, following, ends, len(writes))
        }
    g.before = {op: set() for op, _old, _new in writes}
    g.before[_END] = set()
    for w, fs in g.after.items():
        for f in fs:
            g.before[f].add(w)
    latest: dict[int, int] = {}
    for op, old, new in accesses:
        s = stream[op]
        if old != new:
            latest[s] = op
        else:
            own = latest.get(s, _START)
            g.sees[op] = {w for w in makers[old] if w == own or (w != _START and stream[w] != s)}
    return g


def _may_follow(
    w: int,
    f: int,
    stream: list[int],
    previous: dict[int, int],
    following: dict[int, int],
    ends: set[int],
    writes: int,
) -> bool:
    """Whether program order lets write f directly follow write w at their granule."""
    if w == _START and f == _END:
        return writes == 0
    if w == _START:
        return previous[f] == _START
    if f == _END:
        return w in ends
    if stream[w] == stream[f]:
        return following.get(w) == f
    return True


class _Encoder:
    """Adds one granule's formula after another."""

    def __init__(self, stream: list[int], solver: z3.Solver, on_time: Callable[[], None]) -> None:
        self._solver, self._context, self._on_time = solver, solver.ctx, on_time
        self.order: list[Any] = []
        for i, s in enumerate(stream):
            on_time()
            self.order.append(z3.Int(f"O_{i}", self._context))
            if i and stream[i - 1] == s:
                solver.add(self.order[i - 1] < self.order[i])

    def granule(self, number: int, g: _Granule) -> None:
        edges = self._edges(number, g)
        # At most one edge out of each and at least one into each: as many leave as enter, so both are one.
        for w, fs in g.after.items():
            if len(fs) > 1:
                self._solver.add(z3.PbLe([(edges[w, f], 1) for f in fs], 1))
        for f, ws in g.before.items():
            if len(ws) > 1:
                self._solver.add(z3.Or(*[edges[w, f] for w in ws]))
        self._reads(number, g, edges)

    def _edges(self, number: int, g: _Granule) -> dict[tuple[int, int], Any]:
        """The boolean of every candidate edge, True where the edge is fixed."""
        edges: dict[tuple[int, int], Any] = {}
        for w, fs in g.after.items():
            self._on_time()
            for f in fs:
                fixed = len(fs) == 1
                edges[w, f] = True if fixed else z3.Bool(f"F_{number}_{w}_{f}", self._context)
                if w != _START and f != _END:
                    self._given(edges[w, f], self.order[w] < self.order[f])
        return edges

    def _given(self, condition: Any, consequence: Any) -> None:
        self._solver.add(consequence if condition is True else z3.Implies(condition, consequence))

    def _reads(self, number: int, g: _Granule, edges: dict[tuple[int, int], Any]) -> None:
        readable = {w for ws in g.sees.values() for w in ws}
        overwritten = {}
        for w in readable:
            if g.after[w] == {_END}:
                continue
            if len(g.after[w]) == 1:
                (f,) = g.after[w]
                overwritten[w] = self.order[f]
                continue
            overwritten[w] = z3.Int(f"N_{number}_{w}", self._context)
            for f in g.after[w]:
                if f != _END:
                    self._given(edges[w, f], overwritten[w] <= self.order[f])
        for r, ws in g.sees.items():
            self._on_time()
            seen = {}
            for w in ws:
                b = (
                    True
                    if len(ws) == 1 and r not in g.weak
                    else z3.Bool(f"R_{number}_{w}_{r}", self._context)
                )
                seen[w] = b
                if w != _START:
                    self._given(b, self.order[w] < self.order[r])
                if w in overwritten:
                    self._given(b, self.order[r] < overwritten[w])
            if r in g.weak:
                self._solver.add(z3.Or(self.order[r] < self.order[g.weak[r]], *seen.values()))
            elif len(ws) > 1:
                self._solver.add(z3.Or(*seen.values()))


def encode_chain(problem: Problem, solver: z3.Solver, on_time: Callable[[], None]) -> list[Any] | None:
    """Add the formula to `solver`. Returns the position variable of every operation, or None if
    propagation alone proves that there is no order. `on_time` is called now and then and may raise."""
    stream = problem.op_stream.tolist()
    accesses: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    weak: dict[int, dict[int, int]] = defaultdict(dict)
    source = problem.part_source
    for p in np.flatnonzero(source >= 0).tolist():
        weak[int(problem.granule[p])][int(problem.part_op[p])] = int(source[p])
    columns = zip(
        problem.part_op.tolist(),
        problem.granule.tolist(),
        problem.old.tolist(),
        problem.new.tolist(),
        strict=True,
    )
    for op, g, old, new in columns:
        accesses[g].append((op, old, new))
    encoder = _Encoder(stream, solver, on_time)
    for g, here in accesses.items():
        on_time()
        candidates = _candidates(here, int(problem.initial[g]), int(problem.final[g]), stream)
        candidates.weak = weak[g]
        if not _propagate(candidates):
            return None
        encoder.granule(g, candidates)
    return encoder.order
