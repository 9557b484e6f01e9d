"""Rights to pages: orders in which nobody has a page while another has it alone, against all their rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from engine_suite import SOAK
from order_oracle import all_orders, directions
from rights_factory import Run, random_run

from corebraid.base.errors import OrderError
from corebraid.base.rows.event import GETS, GIVES, SHARES, TAKES
from solver.cuts.search import solve_cut
from solver.passes.answers import Options, runs_of, solve
from solver.passes.apart import keep_apart
from solver.regions.hold_rows import has_one_order, holds_of
from solver.regions.links import with_links
from solver.regions.presence import with_presence
from solver.regions.problem import Problem, Solution, Verdict
from solver.regions.rights import BEFORE, BEGIN, BEYOND, END, PAGE, clashes_of, rights_of

Span = tuple[int, int, int, int, int]


def naive_spans(run: Run) -> set[Span]:
    """Of all pages, from what each core had before the region."""
    spans = set[Span]()
    for core, rows in enumerate(run.streams):
        held = {page: BEFORE for page, who in run.before.holders.items() if core in who}
        alone = {page: BEFORE for page, who in run.before.alone.items() if who == core}
        for number, row in enumerate(rows):
            page, what = int(row["pc"]) >> 12, int(row["pc"]) & 3
            if what == GETS:
                held[page] = number
            elif what == TAKES:
                held.setdefault(page, number)
                alone[page] = number
            else:
                if page in alone:
                    spans.add((page, core, 1, alone.pop(page), number))
                if what == GIVES:
                    spans.add((page, core, 0, held.pop(page), number))
        spans |= {(page, core, 1, since, BEYOND) for page, since in alone.items()}
        spans |= {(page, core, 0, since, BEYOND) for page, since in held.items()}
    return spans


def told(run: Run, spans: set[Span]) -> set[Span]:
    """Those of cores with rows of a page that several have rows of and one takes alone or shares again. Of a
    page that a core had alone from before on and gives away, the rows tell only that it had it."""
    rows = [
        (int(row["pc"]) >> 12, core, int(row["pc"]) & 3) for core, r in enumerate(run.streams) for row in r
    ]
    cores = {page: {core for other, core, _ in rows if other == page} for page, _, _ in rows}
    alone = {page for page, _, what in rows if what in (TAKES, SHARES)}
    found = set[Span]()
    for page, core, sole, since, end in spans:
        first = next((what for other, who, what in rows if (other, who) == (page, core)), None)
        if page not in alone or first is None or len(cores[page]) < 2:
            continue
        if not sole or since != BEFORE or first == SHARES:
            found.add((page, core, sole, since, end))
    return found


@pytest.mark.parametrize("earlier", [0, 25])
def test_spans_are_those_that_the_rows_tell(earlier: int) -> None:
    found = 0
    for seed in range(200 * SOAK):
        run = random_run(seed, cores=4, pages=3, steps=60, earlier=earlier)
        spans = {tuple(span) for span in rights_of(holds_of(run.region.streams)).tolist()}
        assert spans == told(run, naive_spans(run)), f"seed {seed}"
        found += len(spans)
    assert found > 1000


def by_values(problem: Problem) -> Solution:
    return solve_cut(with_links(problem), timeout_s=60.0)


@pytest.mark.parametrize(
    ("earlier", "engine", "runs"), [(0, "auto", 150), (30, "auto", 150), (30, "smt", 12)]
)
def test_orders_keep_apart_what_may_not_overlap(earlier: int, engine: str, runs: int) -> None:
    overlap = 0
    for seed in range(runs * SOAK):
        run = random_run(seed, cores=5, pages=2, steps=90, earlier=earlier)
        problem = run.problem
        if not problem.n_ops:
            continue
        found = solve(problem, Options(engine))
        assert found.verdict is Verdict.LEGAL, f"seed {seed}"
        assert not run.overlaps(*runs_of(problem, found.order)), f"seed {seed}"
        overlap += run.overlaps(*runs_of(problem, by_values(problem).order))
    # By values alone many do.
    assert overlap > runs / 8


def test_presence_leaves_just_the_orders_without_overlaps() -> None:
    fewer = 0
    for seed in range(400 * SOAK):
        run = random_run(seed, cores=3, pages=1, steps=14)
        problem = run.problem
        orders = all_orders(problem, 3000)
        if not orders or not len(problem.rights):
            continue
        present = with_presence(problem, np.unique(problem.rights[:, PAGE]))
        runs = {tuple(order): runs_of(problem, np.array(order)) for order in orders}
        expected = {order for order in runs if not len(clashes_of(problem.rights, runs[order]))}
        assert {tuple(order) for order in all_orders(present, 3000) or []} == expected, f"seed {seed}"
        assert all(run.overlaps(*runs[order]) != (order in expected) for order in runs), f"seed {seed}"
        fewer += len(expected) < len(orders)
    assert fewer > 20


def test_where_no_order_keeps_them_apart_none_is_given() -> None:
    """A core reads a page all along that another has alone meanwhile: by values it fits."""
    tried = 0
    for seed in range(100):
        run = random_run(seed, cores=3, pages=1, steps=30)
        problem = run.problem
        spans = problem.rights
        if not len(spans) or not (spans[:, 2] == 1).any():
            continue
        spans[(spans[:, 2] == 0) & (spans[:, 1] == spans[0, 1]), BEGIN] = BEFORE
        spans[(spans[:, 2] == 0) & (spans[:, 1] == spans[0, 1]), END] = BEYOND
        if not len({*spans[spans[:, 2] == 1, 1].tolist()} - {int(spans[0, 1])}):
            continue
        with pytest.raises(OrderError, match="nobody has a page while another has it alone"):
            keep_apart(problem, by_values(problem), by_values, partial(runs_of, problem))
        tried += 1
    assert tried > 10


@pytest.mark.parametrize("changed", [0.0, 0.9])
def test_where_values_tell_the_order_there_is_one(changed: float) -> None:
    """Of what one leaves and another finds; and they tell it wherever each left something of its own."""
    told = found = 0
    for seed in range(400 * SOAK):
        run = random_run(seed, cores=3, pages=1, steps=14, changed=changed)
        problem = run.problem
        orders = all_orders(problem, 3000)
        if not orders or not len(problem.rights):
            continue
        found += 1
        if has_one_order(holds_of(run.region.streams)):
            told += 1
            assert all(len(ways) == 1 for ways in directions(problem, orders).values()), f"seed {seed}"
        own = {int(row["new"]) for rows in run.streams for row in rows if row["old"] != row["new"]}
        writes = sum(int(row["old"] != row["new"]) for rows in run.streams for row in rows)
        if len(own) == writes and run.before.holds.get(0, 0) not in own:
            assert has_one_order(holds_of(run.region.streams)), f"seed {seed}"
    # Where next to nothing is left that is one's own, many do not.
    assert told > 10
    assert told > found * 0.8 if changed > 0.5 else found - told > 10
