"""LightPlay's search: the paper's numbering of interleavings, and back ends that find all correct ones."""

from __future__ import annotations

import numpy as np
import pytest
from lightplay_factory import interleavings, is_correct, random_instance

from solver.evidence.lightplay import emulate
from solver.evidence.lightplay import interleavings as numbering
from solver.evidence.lightplay import search_cpu as cpu
from solver.evidence.lightplay.interleavings import TooLong, checked_count, count, rank, steps, unrank
from solver.evidence.lightplay.search_cpu import search_cpu
from solver.evidence.lightplay.search_cut import cut_graph, search_cut
from solver.evidence.lightplay.search_deep import find_order

#: Figure 9(b): the interleaving of each GPU thread; instructions are numbered from 1.
FIGURE_9 = [
    (1, 2, 3, 4, 5), (1, 2, 4, 3, 5), (1, 2, 4, 5, 3), (1, 4, 2, 3, 5), (1, 4, 2, 5, 3),
    (1, 4, 5, 2, 3), (4, 1, 2, 3, 5), (4, 1, 2, 5, 3), (4, 1, 5, 2, 3), (4, 5, 1, 2, 3),
]  # fmt: skip
#: Figure 10: rank, perm_count, instructions left of both threads and my_perm, from Init. to iteration #3.
FIGURE_10 = [
    (4, 10, (3, 2), ()),
    (4, 6, (2, 2), (1,)),
    (1, 3, (2, 1), (1, 4)),
    (1, 2, (1, 1), (1, 4, 2)),
    (0, 1, (1, 0), (1, 4, 2, 5)),
]


def test_figure_9() -> None:
    assert count([3, 2]) == len(FIGURE_9)
    for number, permutation in enumerate(FIGURE_9):
        assert tuple((unrank(number, [3, 2]) + 1).tolist()) == permutation
        assert rank(np.array(permutation) - 1, [3, 2]) == number


def test_the_naive_twin_numbers_as_figure_9() -> None:
    assert [tuple(op + 1 for op in order) for order in interleavings([3, 2])] == FIGURE_9


def test_figure_10() -> None:
    rows = steps(4, [3, 2])
    shown = [(row.rank, row.ways, row.left, tuple(op + 1 for op in row.order)) for row in rows]
    assert shown[: len(FIGURE_10)] == FIGURE_10
    # The paper's last row counts 0 ways to order nothing; there is one.
    assert shown[-1] == (0, 1, (0, 0), (1, 4, 2, 5, 3))


@pytest.mark.parametrize("sizes", [[1], [4, 4], [2, 1, 3], [1, 1, 1, 1, 1], [3, 0, 2]])
def test_ranks_are_those_of_a_plain_recursion(sizes: list[int]) -> None:
    naive = list(interleavings(sizes))
    assert len(naive) == count(sizes)
    for number, order in enumerate(naive):
        assert unrank(number, sizes).tolist() == order
        assert rank(np.array(order), sizes) == number


def test_large_ranks_go_there_and_back() -> None:
    sizes = [5, 5, 4, 4]
    ways = checked_count(sizes)
    for number in (0, 1, ways // 3, ways - 2, ways - 1):
        assert rank(unrank(number, sizes), sizes) == number


def test_what_cannot_be_numbered_is_refused() -> None:
    with pytest.raises(TooLong, match=r"more interleavings than can be numbered.*backend='cut'"):
        checked_count([20, 20, 20])
    with pytest.raises(Exception, match="no interleaving of this rank"):
        unrank(10, [3, 2])


def naive_orders(problem: object) -> list[list[int]]:
    return [order for order in interleavings(problem.sizes) if is_correct(problem, order)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(60))
def test_every_back_end_finds_all_correct_orders(seed: int) -> None:
    problem = random_instance(seed, ops=4 + seed % 6, cores=2 + seed % 3)
    naive = naive_orders(problem)
    for skip in (False, True):
        for threads in (1, 2):
            found = search_cpu(problem, skip=skip, threads=threads)
            assert (found.orders.tolist(), found.total, found.exhausted) == (naive, len(naive), True), seed
    deep, complete = find_order(problem, 1 << 16)
    assert complete
    assert (deep.tolist() in naive) if deep is not None else naive == []
    cut = search_cut(problem)
    assert (cut.orders.tolist(), cut.total, cut.exhausted) == (naive, len(naive), True), seed


def test_trying_each_tries_each() -> None:
    problem = random_instance(5, ops=9, cores=3)
    assert search_cpu(problem, skip=False).work == count(problem.sizes)
    assert search_cpu(problem, skip=True).work < count(problem.sizes)


def test_threads_share_a_large_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_instance(0, ops=11, cores=3)
    one = search_cpu(problem, threads=1, skip=False)
    monkeypatch.setattr(cpu, "_SHARE_FROM", 100)
    two = search_cpu(problem, threads=2, skip=False)
    assert np.array_equal(one.orders, two.orders)
    assert (one.total, one.work, one.exhausted) == (two.total, two.work, two.exhausted)


def test_a_search_that_gives_up_says_so() -> None:
    problem = random_instance(0, ops=11, cores=3)
    found = search_cpu(problem, skip=False, tries=10, threads=1)
    assert (found.work, found.exhausted) == (10, False)
    assert not search_cut(problem, nodes=3).exhausted
    free = problem._replace(final=problem.final + np.uint64(77))
    assert find_order(free, 2) == (None, False)


@pytest.mark.parametrize("seed", range(20))
def test_which_of_two_may_come_first(seed: int) -> None:
    problem = random_instance(seed, ops=8, cores=3)
    naive = naive_orders(problem)
    core = np.repeat(np.arange(len(problem.sizes)), problem.sizes)
    before = np.zeros((problem.n, problem.n), bool)
    for order in naive:
        for i, a in enumerate(order):
            for b in order[i + 1 :]:
                before[a, b] |= core[a] != core[b]
    assert np.array_equal(cut_graph(problem).before(), before), seed


def test_far_more_than_18_accesses() -> None:
    problem = random_instance(1, ops=66, cores=3)
    found = search_cut(problem)
    assert found.exhausted
    for order in found.orders[:5].tolist():
        assert is_correct(problem, order)


def test_a_count_beyond_64_bits_is_exact() -> None:
    free = random_instance(1, ops=0, cores=1)
    problem = free._replace(
        core_ptr=np.array([0, 40, 80], np.int64), part_ptr=np.zeros(81, np.int64),
        place=np.zeros(0, np.int32), how=np.zeros(0, np.uint8), before=np.zeros(0, np.uint64),
        after=np.zeros(0, np.uint64),
    )  # fmt: skip
    assert cut_graph(problem).total == count([40, 40])


def test_a_wrong_unrank_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a step that takes the rank one too far."""
    real = numbering.first_step.py_func

    def wrong(rank: np.uint64, *rest: object) -> object:
        core, left, ways = real(rank, *rest)
        return core, left + np.uint64(left + np.uint64(1) < ways), ways

    monkeypatch.setattr(numbering, "first_step", wrong)
    with pytest.raises(AssertionError):
        test_figure_10()


@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_and_its_python_agree(seed: int) -> None:
    problem = random_instance(seed, ops=6)
    ways = np.uint64(count(problem.sizes))
    for skip in (False, True):
        found = np.zeros((2, 50), np.uint64)
        arguments = problem, ways, np.uint64(0), ways, skip, 1 << 30
        with np.errstate(over="ignore"):
            naive = emulate.try_ranks.py_func(*arguments, found[0])
        assert emulate.try_ranks(*arguments, found[1]) == naive
        assert np.array_equal(*found)
