"""The deduction against a twin with sets and no clocks; numbers for values against numpy; one long trace."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from bench.axe_traces import Shape, corrupted, random_ops, to_trace
from solver.axe.chains import INITIAL, MODELS, UNKNOWN, Chains, make_chains
from solver.axe.decide import decide
from solver.axe.deduce import deduce
from solver.axe.facts import no_facts
from solver.axe.numbering import enter_values, numbered
from solver.regions.problem import Verdict


class Naive:
    """The rules of `solver.axe.deduce` on a matrix: before[x, y] if x is known to come before y."""

    def __init__(self, ch: Chains) -> None:
        self.ch, self.n = ch, len(ch.op)
        self.before = np.zeros((self.n, self.n), np.bool_)
        for y in range(self.n):
            for k, count in enumerate(ch.need[y].tolist()):
                self.before[ch.chain_ptr[k] : ch.chain_ptr[k] + count, y] = True
        self.source = np.full(self.n, UNKNOWN)

    def writers(self, a: int) -> list[int]:
        return [y for y in range(self.n) if self.ch.address[y] == a and self.ch.writes[y] >= 0]

    def visible(self, r: int) -> list[int]:
        own = [y for y in self.writers(self.ch.address[r]) if self.ch.chain[y] == self.ch.own_commits[r]]
        others = [y for y in self.writers(self.ch.address[r]) if y != r and self.before[y, r]]
        return [*others, *(y for y in own if y <= self.ch.buffered[r])]

    def is_own(self, r: int, s: int) -> bool:
        return bool(s >= 0 and self.ch.chain[s] == self.ch.own_commits[r])

    def taker(self, s: int, a: int) -> list[int]:
        ch = self.ch
        same = [r for r in range(self.n) if self.source[r] == s and ch.address[r] == a]
        return [r for r in same if ch.writes[r] >= 0]

    def can_read(self, r: int, s: int) -> bool:
        if s == r or (self.is_own(r, s) and s != self.ch.buffered[r]):
            return False
        if s >= 0 and not self.is_own(r, s) and self.before[r, s]:
            return False
        if self.ch.writes[r] >= 0 and [x for x in self.taker(s, self.ch.address[r]) if x != r]:
            return False
        return all(t == s or (s >= 0 and not self.before[s, t]) for t in self.visible(r))

    def read(self, r: int) -> bool:
        ch, a = self.ch, int(self.ch.address[r])
        makers = [y for y in self.writers(a) if ch.writes[y] == ch.reads[r]]
        first = [INITIAL] if ch.reads[r] == ch.initial[a] else []
        candidates = [s for s in [*first, *makers] if self.can_read(r, s)]
        if self.source[r] == UNKNOWN and len(candidates) == 1:
            self.source[r] = candidates[0]
        s = self.source[r]
        if s == UNKNOWN:
            known = [self.before[:, s] | (np.arange(self.n) == s) for s in candidates if s >= 0]
            if len(known) == len(candidates) and not any(self.is_own(r, s) for s in candidates):
                self.before[:, r] |= np.logical_and.reduce(known) if known else False
        elif s == INITIAL:
            self.before[r, [w for w in self.writers(a) if w != r]] = True
        else:
            self.before[s, r] |= not self.is_own(r, s)
            self.before[[t for t in self.visible(r) if t != s], s] = True
            self.before[r, [w for w in self.writers(a) if w != r and self.before[s, w]]] = True
        return bool(candidates)

    def final(self, a: int) -> bool:
        pair, writers = self.ch.final[a], self.writers(a)
        if not writers:
            return bool(pair == self.ch.initial[a])
        last = [s for s in writers if self.ch.writes[s] == pair and not self.taker(s, a)]
        last = [s for s in last if not any(self.before[s, t] for t in writers if t != s)]
        if len(last) == 1:
            self.before[[t for t in writers if t != last[0]], last[0]] = True
        return bool(last)

    def run(self) -> bool:
        """To the fixed point; False at a contradiction."""
        if self.ch.contradictory:
            return False
        while True:
            old = self.before.copy(), self.source.copy()
            reads = [r for r in range(self.n) if self.ch.reads[r] >= 0]
            if not all(self.read(r) for r in reads):
                return False
            if not all(self.final(a) for a in range(len(self.ch.final)) if self.ch.final[a] >= 0):
                return False
            for x in range(self.n):
                self.before |= self.before[:, [x]] & self.before[[x], :]
            if self.before.diagonal().any():
                return False
            if (old[0] == self.before).all() and (old[1] == self.source).all():
                return True


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("values", [0, 2, 4])
@pytest.mark.sampled(3)
def test_deduction_and_its_twin_know_the_same(model: str, values: int) -> None:
    rng, told = random.Random(17), Counter[str]()
    for number in range(45):
        shape = Shape(
            3, 2, rng.randrange(6, 26), values=values, rmw=0.2, tso=model == "tso", drain=0.1, finals=0.5
        )
        case = random_ops(shape, rng)
        chains = make_chains(to_trace(*(corrupted(*case, rng) if number % 3 == 2 else case)), model)
        facts, naive = no_facts(chains), Naive(chains)
        legal = naive.run()
        assert deduce(chains, facts) == legal, number
        told["legal" if legal else "illegal"] += 1
        if legal:
            assert facts.reads_from.tolist() == naive.source.tolist(), number
            known = naive.before | np.eye(naive.n, dtype=np.bool_)
            for k in range(len(chains.chain_ptr) - 1):
                within = known[chains.chain_ptr[k] : chains.chain_ptr[k + 1]]
                assert (facts.clock[:, k] == within.sum(axis=0)).all(), (number, k)
    assert min(told["legal"], told["illegal"]) > 5, told


def test_numbers_for_values() -> None:
    rng = np.random.default_rng(1)
    spread = rng.integers(0, 1 << 64, 3000, dtype=np.uint64)
    for values in (
        np.empty(0, np.uint64),
        np.zeros(5, np.uint64),
        spread,
        spread[rng.integers(0, 40, 9000)],
        np.arange(1000, dtype=np.uint64) << np.uint64(40),
    ):
        distinct, number = numbered(values)
        expected, inverse = np.unique(values, return_inverse=True)
        assert (distinct == expected).all()
        assert (number == inverse).all()
    number, distinct = np.empty(9, np.int32), np.empty(4, np.uint64)
    few = np.arange(9, dtype=np.uint64)
    for kernel in (enter_values, enter_values.py_func):
        with np.errstate(over="ignore"):
            assert kernel(few, number, np.full(8, -1, np.int32), distinct) == -1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.soak
def test_blocks_of_a_long_trace_know_of_each_other(model: str) -> None:
    """Many blocks, threads one after the other in the file; a late read is at odds with the first block."""
    ops, finals = random_ops(Shape(4, 16, 12_000, tso=model == "tso"), random.Random(2))
    trace = to_trace(sorted(ops, key=lambda op: op[0]), finals)
    answer = decide(trace, model)
    assert (answer.verdict, answer.engine) == (Verdict.LEGAL, "search")
    # The last read of a location read the first store to it, which was overwritten long ago.
    last = max(i for i, op in enumerate(ops) if op[1] == 0 and op[3] > 1)
    thread, kind, address, _, _ = ops[last]
    wrong = [*ops[:last], (thread, kind, address, 1, 0), *ops[last + 1 :]]
    answer = decide(to_trace(sorted(wrong, key=lambda op: op[0]), finals), model)
    assert (answer.verdict, answer.engine) == (Verdict.ILLEGAL, "deduction")
