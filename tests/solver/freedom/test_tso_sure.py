"""How sure an order is under TSO: counts, pairs and chosen orders against all orders of small regions,
one by one."""

from __future__ import annotations

import numpy as np
from engine_suite import SOAK
from tso_oracle import all_orders

from bench.tiny_runs import Run
from solver.freedom.choose import Choice, choose, count_switches
from solver.freedom.count import count_orders
from solver.freedom.freedom import freedom_of
from solver.freedom.pairs import Order, iter_pairs
from solver.passes.unfiltered import iter_problems
from solver.regions.links import with_links


def test_counts_pairs_and_choices_are_those_of_all_orders() -> None:
    regions = pairs = weak = 0
    for seed in range(150 * SOAK):
        for _, problem in iter_problems(Run(seed).traces()):
            orders = all_orders(problem) if 1 < problem.n_ops < 14 else None
            if not orders:
                continue
            what = f"Run({seed}), region {problem.region}"
            regions += 1
            weak += int((problem.source >= 0).any())
            count = count_orders(problem)
            assert (count.orders, count.exact) == (len(orders), True), what
            fewest = choose(problem, Choice("fewest-switches"))
            assert fewest.figure == min(count_switches(problem, np.array(o)) for o in orders), what
            freedom = freedom_of(problem)
            assert freedom.exact, what
            rank = np.empty((len(orders), problem.n_ops), np.int64)
            for row, order in zip(rank, orders, strict=True):
                row[order] = np.arange(problem.n_ops)
            for found in iter_pairs(freedom):
                for a, b, order in zip(found.first, found.second, found.order, strict=True):
                    pairs += 1
                    assert problem.stream_core[problem.op_stream[[a, b]]].tolist() != [0, 0], what
                    before = rank[:, a] < rank[:, b]
                    expected = Order.MUST if before.all() else Order.MAY
                    assert order == expected, f"{what}: {a} and {b}"
                    assert before.any(), f"{what}: {a} and {b}"
    print(f"{regions} regions, {weak} with loads that a store buffer may answer, {pairs} pairs")
    assert regions > 100
    assert weak > 15


def test_links_keep_the_operations_and_their_order() -> None:
    for seed in range(100):
        for _, problem in iter_problems(Run(seed).traces()):
            linked = with_links(problem)
            assert linked.n_ops == problem.n_ops
            told = linked.granule >= len(problem.address)
            assert linked.links == len(np.unique(problem.edges[:, 0]))
            for first, op in problem.edges.tolist():
                mine = linked.granule[told & (linked.part_op == op) & (linked.old == 1)]
                theirs = linked.granule[told & (linked.part_op == first) & (linked.old == 0)]
                assert set(mine.tolist()) == set(theirs.tolist())
                assert len(mine) == 1
