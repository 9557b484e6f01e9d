"""Random traces: the search, z3 and an oracle without any reduction agree; the checker refuses wrong orders.

`python -m bench.axe_campaign --first N --traces 1` repeats trace N."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from axe_twin import naive_check

from bench.axe_campaign import disagreement, make_case
from bench.axe_traces import Shape, corrupted, random_ops, to_text, to_trace
from corebraid.base.errors import OrderError
from solver.axe import decide as decide_module
from solver.axe.chains import MODELS, make_chains
from solver.axe.checker import check_order
from solver.axe.decide import decide
from solver.axe.deduce import deduce
from solver.axe.facts import no_facts
from solver.axe.trace import LOAD, STORE
from solver.regions.problem import Verdict


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("first", "count", "smt"), [(100_000, 1500, False), (200_000, 120, True)])
def test_engines_agree(first: int, count: int, smt: bool) -> None:
    answers: Counter[str] = Counter()
    for number in range(first, first + count):
        case = make_case(1, number)
        wrong = disagreement(case, smt=smt, count=answers)
        assert not wrong, f"{number}: {wrong}\n{to_text(case.ops, case.finals)}"
    print(dict(answers))
    assert answers["sc corrupted NO"] > count // 10
    assert answers["tso legal run OK"] == count // 2
    assert answers["tso legal run NO"] == 0
    assert answers["sc legal run NO"] > 0 or smt


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "shape",
    [
        Shape(4, 8, 500),
        Shape(8, 64, 3000),
        Shape(3, 4, 400, rmw=0.5),
        Shape(4, 4, 100, values=4),
        Shape(64, 200, 900),
    ],
)
def test_larger_legal_runs(shape: Shape, model: str) -> None:
    """Far beyond the oracle: runs of the machine are OK, and what one wrong read makes of them is decided."""
    for seed in range(4):
        rng = random.Random(seed)
        case = random_ops(replace(shape, tso=model == "tso", drain=0.1), rng)
        trace = to_trace(*case)
        answer = decide(trace, model, engine="search", timeout_s=120)
        assert answer.verdict is Verdict.LEGAL, seed
        if not shape.values:
            broken = decide(to_trace(*corrupted(*case, rng)), model, engine="search", timeout_s=120)
            assert broken.verdict is not Verdict.UNDECIDED, seed


@pytest.mark.parametrize("model", MODELS)
def test_checker_and_its_twin_agree(model: str) -> None:
    rng = random.Random(11)
    counts: Counter[bool] = Counter()
    for _ in range(600):
        shape = Shape(3, 2, rng.randrange(2, 9), values=2, tso=model == "tso", finals=0.5)
        trace = to_trace(*random_ops(shape, rng))
        answer = decide(trace, model)
        assert naive_check(trace, answer.order.tolist(), model)
        for _ in range(6):
            order = answer.order.tolist()
            i, j = rng.randrange(len(order)), rng.randrange(len(order))
            order[i], order[j] = order[j], order[i]
            if rng.random() < 0.05:
                order[i] = order[j]
            legal = naive_check(trace, order, model)
            counts[legal] += 1
            try:
                check_order(trace, np.array(order, np.int64), model)
                assert legal, (trace, order)
            except OrderError:
                assert not legal, (trace, order)
    assert min(counts.values()) > 200, counts


@pytest.mark.parametrize("straight", [[], [0, 1, 2]])
def test_a_wrong_order_is_never_called_ok(straight: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a search, or a walk between two passes of deduction, that returns a program order of the
    threads one after the other."""
    trace = to_trace([(0, STORE, 0, 0, 1), (1, LOAD, 0, 1, 0), (0, STORE, 0, 0, 2)], [])

    def wrong(chains: object, facts: object, *_: object) -> tuple[Verdict, np.ndarray]:
        return Verdict.LEGAL, np.arange(3)

    monkeypatch.setattr(decide_module, "search_order", wrong)
    monkeypatch.setattr(decide_module, "walk_straight", lambda *_: np.array(straight, np.int64))
    with pytest.raises(OrderError, match="a read that would not read its value"):
        decide(trace, "sc", engine="search")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", MODELS)
def test_deduced_order_holds_in_every_legal_order(model: str) -> None:
    """What deduction says must come before holds in all orders, found by trying all permutations that keep
    the chains."""
    import itertools

    rng, told = random.Random(5), 0
    for _ in range(150):
        shape = Shape(3, 2, 6, values=rng.choice([0, 2]), tso=model == "tso", finals=0.5)
        trace = to_trace(*random_ops(shape, rng))
        chains = make_chains(trace, model)
        facts = no_facts(chains)
        assert deduce(chains, facts)
        legal = [o for o in itertools.permutations(range(6)) if naive_check(trace, list(o), model)]
        assert legal
        for x, y in itertools.permutations(range(6), 2):
            place = x - int(chains.chain_ptr[chains.chain[x]])
            if facts.clock[y, chains.chain[x]] > place:
                told += 1
                first, second = int(chains.op[x]), int(chains.op[y])
                assert all(order.index(first) < order.index(second) for order in legal)
    assert told > 500


@pytest.mark.parametrize("engine", ["auto", "smt"])
def test_out_of_time_is_undecided(engine: str) -> None:
    ops, finals = random_ops(Shape(6, 4, 900, values=3, rmw=0, sync=0, finals=0), random.Random(1))
    case = sorted(ops, key=lambda op: op[0]), finals
    answer = decide(to_trace(*case), "tso", engine=engine, timeout_s=0.01)
    assert answer.verdict is Verdict.UNDECIDED
    assert answer.reason == ("timeout" if engine == "auto" else "too large")
    assert not len(answer.order)
