"""An axe trace decided by z3: positions in difference logic, which write a read reads as booleans.

Per read r and write s of its value: if r reads s, then s comes before r (unless r's own thread can forward
it), and every other write t of the location comes before s or, unless t is visible to r in any case, after r.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import z3

from corebraid.base.clock import working_time
from solver.axe.chains import INITIAL, Chains, make_chains
from solver.axe.trace import Trace
from solver.regions.problem import Verdict, no_order
from solver.smt.formula import Found, OutOfTimeError, check_until

#: Largest number of (read, candidate, other write) for which a formula is built.
MOST_CLAUSES = 2_000_000


class _Encoder:
    """Adds the formula of a trace to a solver."""

    def __init__(self, chains: Chains, solver: z3.Solver, deadline: float) -> None:
        self._ch, self._solver, self._deadline = chains, solver, deadline
        self.position = [z3.Int(f"O_{node}", solver.ctx) for node in range(len(chains.op))]

    def encode(self) -> None:
        for y, need in enumerate(self._ch.need.tolist()):
            for k, count in enumerate(need):
                if count:
                    self._solver.add(self._before(int(self._ch.chain_ptr[k]) + count - 1, y))
        for r in np.flatnonzero(self._ch.reads >= 0).tolist():
            if working_time() > self._deadline:
                raise OutOfTimeError
            self._solver.add(self._any([self._reads(r, s) for s in self._candidates(r)]))
        for a in np.flatnonzero(self._ch.final >= 0).tolist():
            self._final(a)

    def _any(self, terms: list[Any]) -> Any:
        return z3.Or([z3.BoolVal(False, self._solver.ctx), *terms])

    def _all(self, terms: list[Any]) -> Any:
        return z3.And([z3.BoolVal(True, self._solver.ctx), *terms])

    def _before(self, x: int, y: int) -> Any:
        return self.position[x] < self.position[y]

    def _writers(self, a: int) -> list[int]:
        return [int(w) for w in self._ch.writers[self._ch.writer_ptr[a] : self._ch.writer_ptr[a + 1]]]

    def _makers(self, pair: int) -> list[int]:
        return [int(w) for w in self._ch.makers[self._ch.maker_ptr[pair] : self._ch.maker_ptr[pair + 1]]]

    def _candidates(self, r: int) -> list[int]:
        pair = int(self._ch.reads[r])
        first = [INITIAL] if pair == self._ch.initial[self._ch.address[r]] else []
        return first + [s for s in self._makers(pair) if s != r]

    def _own(self, r: int, t: int) -> bool:
        """Whether t is in the store buffer's chain of the thread of r, a load under TSO."""
        return bool(self._ch.chain[t] == self._ch.own_commits[r])

    def _reads(self, r: int, s: int) -> Any:
        buffered = int(self._ch.buffered[r])
        if s != INITIAL and self._own(r, s) and s > buffered:
            return self._any([])
        terms = [] if s == INITIAL or self._own(r, s) else [self._before(s, r)]
        for t in self._writers(int(self._ch.address[r])):
            if t in (r, s):
                continue
            older = [] if s == INITIAL else [self._before(t, s)]
            if not self._own(r, t):
                terms.append(self._any([*older, self._before(r, t)]))
            elif t <= buffered:
                terms.append(self._any(older))
        return self._all(terms)

    def _final(self, a: int) -> None:
        pair, writers = int(self._ch.final[a]), self._writers(a)
        if not writers:
            self._solver.add(z3.BoolVal(pair == self._ch.initial[a], self._solver.ctx))
            return
        options = [[self._before(t, s) for t in writers if t != s] for s in self._makers(pair)]
        self._solver.add(self._any([self._all(terms) for terms in options]))


def _clauses(ch: Chains) -> int:
    reads = ch.reads[ch.reads >= 0]
    candidates = np.diff(ch.maker_ptr)[reads] + 1
    writers = np.diff(ch.writer_ptr)[ch.pair_address[reads]]
    return int((candidates * writers).sum())


def solve_trace(trace: Trace, model: str, *, timeout_s: float) -> Found:
    """Decide a trace with z3: (verdict's value, order of operations if it is legal, why it is undecided)."""
    deadline = working_time() + timeout_s
    chains = make_chains(trace, model)
    if chains.contradictory:
        return Verdict.ILLEGAL.value, no_order(), ""
    if _clauses(chains) > MOST_CLAUSES:
        return Verdict.UNDECIDED.value, no_order(), "too large"
    solver = z3.SolverFor("QF_IDL", ctx=z3.Context())
    encoder = _Encoder(chains, solver, deadline)
    try:
        encoder.encode()
    except OutOfTimeError:
        return Verdict.UNDECIDED.value, no_order(), "timeout"
    result = check_until(solver, deadline)
    if result == z3.unsat:
        return Verdict.ILLEGAL.value, no_order(), ""
    if result != z3.sat:
        late = working_time() >= deadline
        return Verdict.UNDECIDED.value, no_order(), "timeout" if late else "gave up"
    found = solver.model()
    places = [found.eval(o, model_completion=True).as_long() for o in encoder.position]
    return Verdict.LEGAL.value, chains.op[np.argsort(places, kind="stable")], ""
