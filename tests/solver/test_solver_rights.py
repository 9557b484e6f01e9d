"""Rights to pages: orders in which nobody has a page while another has it alone, against all their rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from engine_suite import SOAK
from order_oracle import all_orders, directions
from rights_factory import Run, random_run

from corebraid.base.errors import OrderError
from corebraid.base.hold_places import WITH_AGENTS
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import GETS, GIVES, OF_WORD, READ, SHARES, TAKES
from solver.check.certificate import Certificate, CertificateWriter, Head
from solver.check.checker import check_certificate
from solver.cuts.search import solve_cut
from solver.passes.answers import Options, runs_of, solve
from solver.passes.apart import keep_apart
from solver.regions.hold_rows import HoldRows, has_one_order, holds_of, with_agents
from solver.regions.links import with_links
from solver.regions.presence import with_presence
from solver.regions.problem import Problem, Solution, Verdict
from solver.regions.rights import BEFORE, BEGIN, BEYOND, END, PAGE, clashes_of, rights_of
from solver.regions.traces import MemoryTraces

Span = tuple[int, int, int, int, int]
#: What an agent's row tells here.
_LOOKS, _CHANGES = -1, -2


def naive_spans(run: Run) -> set[Span]:
    """Of all pages, from what each core had before the region."""
    spans = set[Span]()
    for core, rows in enumerate(run.streams):
        held = {page: BEFORE for page, who in run.before.holders.items() if core in who}
        alone = {page: BEFORE for page, who in run.before.alone.items() if who == core}
        for number, row in enumerate(rows):
            if not row["flags"]:
                spans.add((int(row["addr"]) >> 12, core, int(row["kind"] != READ), number, number))
            if not row["flags"] or int(row["pc"]) & OF_WORD:
                continue
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
    """Those of streams with rows of a page that several have rows of and one takes alone or shares again, or
    an agent changes. Of a page that a core had alone from before on and gives away, the rows tell only that
    it had it."""
    rows = [
        (int(row["pc"]) >> 12, core, int(row["pc"]) & 3)
        for core, r in enumerate(run.streams)
        for row in r
        if row["flags"] and not int(row["pc"]) & OF_WORD
    ]
    told = {page for page, _, _ in rows}
    rows += [
        (int(row["addr"]) >> 12, core, _LOOKS if row["kind"] == READ else _CHANGES)
        for core, r in enumerate(run.streams)
        for row in r
        if not row["flags"] and int(row["addr"]) >> 12 in told
    ]
    cores = {page: {core for other, core, _ in rows if other == page} for page, _, _ in rows}
    alone = {page for page, _, what in rows if what in (TAKES, SHARES, _CHANGES)}
    found = set[Span]()
    for page, core, sole, since, end in spans:
        first = next((what for other, who, what in rows if (other, who) == (page, core)), None)
        if page not in alone or first is None or len(cores[page]) < 2:
            continue
        if first in (_LOOKS, _CHANGES) or not sole or since != BEFORE or first == SHARES:
            found.add((page, core, sole, since, end))
    return found


def holds_in(run: Run) -> HoldRows:
    """With the rows of agents, if there are some."""
    streams = run.region.streams
    return with_agents(holds_of(streams), len(streams) - 1, streams[-1])


@pytest.mark.parametrize(("earlier", "agents"), [(0, False), (25, False), (0, True), (25, True)])
@pytest.mark.sampled(2)
def test_spans_are_those_that_the_rows_tell(earlier: int, agents: bool) -> None:
    found = 0
    for seed in range(200 * SOAK):
        run = random_run(seed, cores=4, pages=3, steps=60, earlier=earlier, agents=agents)
        spans = {tuple(span) for span in rights_of(holds_in(run)).tolist()}
        assert spans == told(run, naive_spans(run)), f"seed {seed}"
        found += len(spans)
    assert found > 1000


def by_values(problem: Problem) -> Solution:
    return solve_cut(with_links(problem), timeout_s=60.0)


@pytest.mark.parametrize(
    ("earlier", "engine", "runs", "agents"),
    [
        (0, "auto", 150, False), (30, "auto", 150, False), (30, "smt", 12, False), (0, "auto", 150, True),
        (30, "auto", 150, True), (30, "smt", 12, True),
    ],
)  # fmt: skip
@pytest.mark.sampled(3)
def test_orders_keep_apart_what_may_not_overlap(earlier: int, engine: str, runs: int, agents: bool) -> None:
    overlap = 0
    for seed in range(runs * SOAK):
        run = random_run(seed, cores=5, pages=2, steps=90, earlier=earlier, agents=agents)
        problem = run.problem
        if not problem.n_ops:
            continue
        found = solve(problem, Options(engine))
        assert found.verdict is Verdict.LEGAL, f"seed {seed}"
        assert not run.overlaps(*runs_of(problem, found.order)), f"seed {seed}"
        overlap += run.overlaps(*runs_of(problem, by_values(problem).order))
    # By values alone many do.
    assert overlap > runs / 8


@pytest.mark.parametrize("agents", [False, True])
@pytest.mark.soak
def test_presence_leaves_just_the_orders_without_overlaps(agents: bool) -> None:
    fewer = 0
    for seed in range(125 * SOAK):
        run = random_run(seed, cores=3 - agents, pages=1, steps=14, agents=agents)
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
    assert fewer > 8


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
    for seed in range(250 * SOAK):
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


def test_the_checker_refuses_agents_where_somebody_has_the_page(tmp_path: Path) -> None:
    """Orders by values alone, of which many have an agent's access inside a hold: just those are none."""
    refused = {"overlaps": 0, "fits": 0}
    for seed in range(150 * SOAK):
        run = random_run(seed, cores=3, pages=1, steps=40, agents=True)
        problem, n = run.problem, len(run.streams)
        if not problem.n_ops:
            continue
        before = np.zeros(2 * PAGE_BYTES, np.uint8)
        traces = MemoryTraces(run.streams, np.zeros((0, n), np.uint64), before, before, has_final=False)
        runs = runs_of(problem, by_values(problem).order)
        path = tmp_path / f"{seed}.cert"
        writer = CertificateWriter(path, bytes(16), Head("cut", n, 1, True, WITH_AGENTS))
        writer.ordered(0, *runs)
        writer.finish(np.array([len(rows) for rows in run.streams]))
        overlaps = run.overlaps(*runs)
        refused["overlaps" if overlaps else "fits"] += 1
        if overlaps:
            with pytest.raises(OrderError, match="and another holds it"):
                check_certificate(traces, Certificate(path, bytes(16)))
        else:
            assert check_certificate(traces, Certificate(path, bytes(16))).events == len(run.order)
    assert min(refused.values()) > 10
