"""The MICRO 2009 paper's formula under TSO (section 4.4), with forwarding: against every order of small
regions, the chain encoding, and litmus tests whose answers are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import z3
from engine_suite import ENGINES, RECORDING, SOAK
from tso_oracle import all_orders

from bench.tiny_orders import is_legal
from bench.tiny_runs import Run, damage
from corebraid.base.errors import OrderError
from corebraid.base.rows.event import EVENT, FENCE, READ, RMW, UNCACHED, WRITE
from solver.check.certificate import Certificate
from solver.check.checker import check_certificate
from solver.passes.order import order_recording
from solver.passes.unfiltered import iter_problems
from solver.regions.links import with_links
from solver.regions.problem import Problem, Verdict
from solver.regions.traces import MemoryTraces
from solver.smt import paper
from solver.smt.formula import ENCODINGS, solve_formula

X, Y = 0, 8
#: A step of a core: ("w", address, what it overwrites, what it writes), ("r", address, what it reads),
#: ("swap", address, old, new), ("fence",).
Step = tuple[Any, ...]
Core = list[Step]
_KINDS = {"w": WRITE, "r": READ, "swap": RMW, "fence": FENCE}


def _row(seq: int, core: int, step: Step) -> tuple[int, ...]:
    kind, place = _KINDS[step[0]], step[1:]
    address, old, new = (0, 0, 0) if kind == FENCE else (place[0], place[1], place[-1])
    flags = UNCACHED if kind == FENCE else 0
    return (seq, seq, 0x1000 + seq, address, old, new, 0, core, 1 if kind == FENCE else 8, kind, flags)


def traces_of(cores: list[Core], final: dict[int, int], *, tso: bool = True) -> MemoryTraces:
    """A recording of one region from what its cores did; memory is 0 at first."""
    whole = [[_row(seq, k, step) for seq, step in enumerate(core)] for k, core in enumerate(cores)]
    first = [[row for row in rows if not tso or row[9] != WRITE] for rows in whole]
    stores = [[row for row in rows if row[9] == WRITE] for rows in whole] if tso else []
    after = np.zeros(64, np.uint8)
    for address, value in final.items():
        after[address] = value
    rows = [np.array(one, EVENT) for one in [*first, [], *stores]]
    return MemoryTraces(
        rows, np.zeros((0, len(rows)), np.uint64), np.zeros(64, np.uint8), after, buffered=len(stores)
    )


def problem_of(traces: MemoryTraces) -> Problem:
    ((_, problem),) = iter_problems(traces)
    return with_links(problem)


def verdict(problem: Problem, encoding: str = "paper") -> Verdict:
    return Verdict(solve_formula(problem, encoding, timeout_s=60)[0])


def _sb(between: Core) -> list[Core]:
    return [[("w", X, 0, 1), *between, ("r", Y, 0)], [("w", Y, 0, 1), *between, ("r", X, 0)]]


BOTH = {X: 1, Y: 1}
#: Two cores, memory at the end, and whether x86-TSO allows it. Where a load is forwarded, the paper's two
#: lines are silent.
LITMUS: dict[str, tuple[list[Core], dict[int, int], bool]] = {
    "sb": (_sb([]), BOTH, True),
    "sb+fence": (_sb([("fence",)]), BOTH, False),
    "sb+swap": (
        [
            [("w", X, 0, 1), ("swap", 16, 0, 3), ("r", Y, 0)],
            [("w", Y, 0, 1), ("swap", 24, 0, 3), ("r", X, 0)],
        ],
        {**BOTH, 16: 3, 24: 3},
        False,
    ),
    # Loads are not passed by later stores, nor by later loads.
    "lb": ([[("r", X, 1), ("w", Y, 0, 1)], [("r", Y, 1), ("w", X, 0, 1)]], BOTH, False),
    "mp": ([[("w", X, 0, 1), ("w", Y, 0, 1)], [("r", Y, 1), ("r", X, 0)]], BOTH, False),
    "2+2w": (
        [[("w", X, 2, 1), ("w", Y, 0, 2)], [("w", Y, 2, 1), ("w", X, 0, 2)]],
        {X: 1, Y: 1},
        False,
    ),
    # Each core sees its own store, in its buffer, before the other one's.
    "sb+rfi": (
        [
            [("w", X, 0, 1), ("r", X, 1), ("r", Y, 0)],
            [("w", Y, 0, 1), ("r", Y, 1), ("r", X, 0)],
        ],
        BOTH,
        True,
    ),
    "n6": (
        [[("w", X, 2, 1), ("r", X, 1), ("r", Y, 0)], [("w", Y, 0, 2), ("w", X, 0, 2)]],
        {X: 1, Y: 2},
        True,
    ),
    # The store that answered is overwritten before the load could have been answered by it.
    "forwarded too late": (
        [[("w", X, 0, 1), ("r", Y, 1), ("r", X, 1)], [("w", X, 1, 2), ("w", Y, 0, 1)]],
        {X: 2, Y: 1},
        False,
    ),
    # Nobody has overwritten the core's own store, buffered or not.
    "answered by memory": (
        [[("w", X, 2, 1), ("r", Y, 1), ("r", X, 1)], [("w", X, 0, 2), ("w", Y, 0, 1)]],
        {X: 1, Y: 1},
        True,
    ),
    # The load reads an older value than its own store's.
    "not its own store": (
        [[("w", X, 0, 1), ("r", X, 0)], [("r", X, 1), ("w", Y, 0, 1)]],
        BOTH,
        False,
    ),
}


@pytest.mark.parametrize("name", LITMUS)
def test_litmus_tests_have_their_known_answers(name: str) -> None:
    cores, final, allowed = LITMUS[name]
    traces = traces_of(cores, final)
    assert is_legal(traces) == allowed, "the test's own walk"
    expected = Verdict.LEGAL if allowed else Verdict.ILLEGAL
    problem = problem_of(traces)
    assert verdict(problem) is expected
    assert verdict(problem, "chain") is expected


def test_store_buffering_is_not_to_be_had_without_store_buffers() -> None:
    cores, final, _ = LITMUS["sb"]
    assert verdict(problem_of(traces_of(cores, final, tso=False))) is Verdict.ILLEGAL


# -- planted bugs: each must turn an answer above ---------------------------------------------------------


def _changed(name: str, plant: Callable[[Problem], Problem] | None = None) -> bool:
    cores, final, allowed = LITMUS[name]
    problem = problem_of(traces_of(cores, final))
    return (verdict(plant(problem) if plant else problem) is Verdict.LEGAL) != allowed


def test_leaving_out_what_empties_the_buffer_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    real = paper.waits
    monkeypatch.setattr(paper, "waits", lambda problem: (real(problem)[0], []))
    changed = [name for name in LITMUS if _changed(name)]
    assert changed == ["sb+fence", "sb+swap", "lb", "not its own store"]


def test_leaving_out_the_relaxation_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every load after the stores before it, as Algorithm 1 has it."""
    real = paper.waits

    def strict(problem: Problem) -> tuple[set[int], list[tuple[int, int]]]:
        granules, pairs = real(problem)
        loads = np.flatnonzero(problem.op_stream < problem.buffered)
        stores = np.flatnonzero(problem.op_stream >= problem.n_streams - problem.buffered)
        core = problem.stream_core[problem.op_stream]
        # Where such a test has loads before stores at all, it is not to be had anyway.
        return granules, pairs + [(s, o) for s in stores for o in loads if core[s] == core[o]]

    monkeypatch.setattr(paper, "waits", strict)
    assert [name for name in LITMUS if _changed(name)] == ["sb", "sb+rfi", "n6"]


def test_leaving_out_forwarding_shows() -> None:
    changed = [name for name in LITMUS if _changed(name, lambda p: replace(p, source=np.full(p.n_ops, -1)))]
    assert changed == ["sb+rfi", "n6"]


def test_forwarding_from_a_store_that_has_committed_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load that is answered by a buffer need not come before its source: what it would be without."""
    real = z3.And

    def without_the_source(*parts: Any) -> Any:
        # Of `And(load < source, above the length)` only the second is kept.
        return parts[1] if len(parts) == 2 and z3.is_gt(parts[1]) else real(*parts)

    monkeypatch.setattr(paper.z3, "And", without_the_source)
    assert _changed("forwarded too late")


# -- small random regions ---------------------------------------------------------------------------------


def small_problems(seeds: range, most: int) -> Iterator[tuple[str, Problem]]:
    """Regions of random runs as they are, and with rows exchanged so that many have no order."""
    for seed in seeds:
        run = Run(seed)
        changed = [(f"damaged {k}", run.traces(damage(run.rows(), 1000 * k + seed))) for k in range(3)]
        for what, traces in [("run", run.traces()), *changed]:
            try:
                found = [problem for _, problem in iter_problems(traces)]
            except OrderError:
                continue
            for problem in found:
                if 1 < problem.n_ops <= most:
                    yield f"Run({seed}), {what}, region {problem.region}", problem


def test_verdicts_are_those_of_trying_every_order() -> None:
    tally, weak = dict.fromkeys(Verdict, 0), 0
    for what, problem in small_problems(range(45 * SOAK), 12):
        orders = all_orders(problem)
        if orders is None:
            continue
        expected = Verdict.LEGAL if orders else Verdict.ILLEGAL
        found, order, _ = solve_formula(with_links(problem), "paper", timeout_s=60)
        assert Verdict(found) is expected, what
        assert not orders or order.tolist() in orders, what
        tally[expected] += 1
        weak += int((problem.source >= 0).any())
    print(f"{tally}, {weak} with loads that a store buffer may answer")
    assert tally[Verdict.LEGAL] > 20 * SOAK
    assert tally[Verdict.ILLEGAL] > 10 * SOAK
    assert weak > 7 * SOAK


def orders_of_formula(problem: Problem, encoding: str) -> list[list[int]]:
    """Every interleaving of the problem's streams that the formula allows, by adding its pairs to it."""
    encode, new_solver = ENCODINGS[encoding]
    solver = new_solver()
    position = encode(with_links(problem), solver, lambda: None)
    if position is None:
        return []
    ends, found = problem.stream_ptr.tolist(), []

    def extend(order: list[int], at: list[int]) -> None:
        if solver.check() != z3.sat:
            return
        if len(order) == problem.n_ops:
            found.append(order)
            return
        for s, op in enumerate(at):
            if op < ends[s + 1]:
                solver.push()
                if order:
                    solver.add(position[order[-1]] < position[op])
                extend([*order, op], [*at[:s], op + 1, *at[s + 1 :]])
                solver.pop()

    extend([], ends[:-1])
    return found


def test_the_formula_allows_every_legal_order_and_no_other() -> None:
    regions = orders = weak = 0
    for what, problem in small_problems(range(24 * SOAK), 7):
        expected = all_orders(problem)
        if expected is None or len(expected) > 60:
            continue
        assert sorted(orders_of_formula(problem, "paper")) == sorted(expected), what
        assert sorted(orders_of_formula(problem, "chain")) == sorted(expected), what
        regions, orders = regions + 1, orders + len(expected)
        weak += int((problem.source >= 0).any())
    print(f"{regions} regions with {orders} orders, {weak} with loads that a store buffer may answer")
    assert regions > 16 * SOAK
    assert weak > 2 * SOAK


def test_recordings_are_ordered_and_the_checker_accepts(tmp_path: Path) -> None:
    for seed in range(30 * SOAK):
        traces = Run(seed, agents=seed % 2 == 1).traces()
        result = order_recording(traces, tmp_path / "c", RECORDING, ENGINES["smt-paper"])
        assert result.verdict is Verdict.LEGAL, f"Run({seed})"
        assert not check_certificate(traces, Certificate(tmp_path / "c", RECORDING)).unchecked
