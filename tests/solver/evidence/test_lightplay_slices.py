"""One slice at a time: places, replay, fixing (Figure 7), relaxed search (Figure 8), constraints (2.5)."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lightplay_factory import interleavings
from slice_factory import collect
from trace_factory import Shape, make

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import EVENT, READ, RMW, WRITE
from recorder.evidence.slices.codec import CHECKPOINT, iter_regions_of
from solver.evidence.lightplay import decide as deciding
from solver.evidence.lightplay.constraints import before_in, minimal_constraints
from solver.evidence.lightplay.decide import (
    APART,
    CONTRADICTED,
    FIXED,
    FOUND,
    RELAXED,
    UNDECIDED,
    Decided,
    Settings,
    decide,
)
from solver.evidence.lightplay.engine import SlicesEngine
from solver.evidence.lightplay.fixing import fix_ordering
from solver.evidence.lightplay.interleavings import TooLong
from solver.evidence.lightplay.refine import alone, components, halves
from solver.evidence.lightplay.relaxed import search_apart, search_relaxed
from solver.evidence.lightplay.replay_one import AFTER, BEFORE, FINAL, INPUT, replay
from solver.evidence.lightplay.search_cpu import search_cpu
from solver.evidence.lightplay.search_cut import cut_graph
from solver.evidence.lightplay.slice_problem import Misfit, SliceProblem, make_problem
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Verdict

A, B = 0x1000, 0x1008


def slice_of(
    cores: list[list[tuple[Any, ...]]], updated: list[int], initial: dict[int, int] | None = None
) -> SliceProblem:
    """A slice from its cores; an access is (kind, address, old, new, checkpoint before, checkpoint after)."""
    accesses = [(s, k, *access) for s, core in enumerate(cores) for k, access in enumerate(core)]
    rows, checkpoints = np.zeros(len(accesses), EVENT), np.zeros(len(accesses), CHECKPOINT)
    for i, (s, k, kind, address, old, new, before, after) in enumerate(accesses):
        rows[i] = (k, k, 0, address, old, new, 0, s, 8, kind, 0)
        checkpoints[i] = (k, before, after, s, 8, kind, 0)
    problem = make_problem(0, rows, checkpoints, np.array(updated, np.uint64))
    values = [(initial or {}).get(int(a), 0) for a in problem.address]
    return replace(problem, initial=np.array(values, np.uint64))


def kept_slices(seed: int, shape: Shape, accesses: int = 16, backend: str = "cut") -> list[Decided]:
    """The slices of a random run as the engine decides them."""
    made, found = make(seed, shape), []
    tables = iter_regions_of(collect(made.traces, made.slices, accesses, seed).tables(shape.streams))
    engine = SlicesEngine(
        tables, shape.streams, Settings(backend=backend), on_slice=lambda one, _: found.append(one)
    )
    for region, problem in iter_problems(made.traces):
        assert engine.solve(region, problem).verdict is Verdict.LEGAL
    return found


WORDS = Shape(streams=3, steps=150, domain=3, sizes=(8,), aligned=True, hot=16, private=0.05, strata=0.0)


def naive_replays(problem: SliceProblem, order: list[int]) -> bool:
    """`replay`, from its definition: some moment for each checkpoint, in the order in which a core takes
    them."""
    memory = [problem.initial.tolist()]
    at = {op: k for k, op in enumerate(order)}
    for op in order:
        now = list(memory[-1])
        for part in range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1])):
            if now[problem.place[part]] != int(problem.old[part]):
                return False
            now[problem.place[part]] = int(problem.new[part])
        memory.append(now)
    if memory[-1] != problem.final.tolist():
        return False

    def seen(op: int, which: int, values: Any, moment: int) -> bool:
        parts = range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1]))
        return all(
            memory[moment][problem.place[p]] == int(values[p]) for p in parts if problem.how[p] & which
        )

    for core in range(len(problem.core_ptr) - 1):
        now = 0
        for op in range(int(problem.core_ptr[core]), int(problem.core_ptr[core + 1])):
            before = [m for m in range(now, at[op] + 1) if seen(op, 1, problem.before, m)]
            end = at[op + 1] if op + 1 < problem.core_ptr[core + 1] else problem.n
            after = [m for m in range(at[op] + 1, end + 1) if seen(op, 2, problem.after, m)]
            if not before or not after:
                return False
            now = min(after)
    return True


@pytest.mark.parametrize("seed", range(12))
def test_replay_and_every_stage_against_a_naive_twin(seed: int) -> None:
    """On each small slice of a random run: `replay` says what its definition says of every interleaving; and
    whatever stage finds an order, it is one of those that replay."""
    small = [one for one in kept_slices(seed, WORDS, accesses=7) if 1 < one.problem.n <= 8]
    assert len(small) > 3
    for one in small:
        problem = one.problem
        good = []
        for order in interleavings(np.diff(problem.core_ptr).tolist()):
            naive = naive_replays(problem, order)
            assert replay(problem, np.array(order)).fine == naive, (seed, problem.number, order)
            if naive:
                good.append(order)
        assert good, "the run itself replays"
        assert one.order.tolist() in good
        apart, _complete = search_apart(problem, 1 << 16)
        assert apart is not None
        assert apart.tolist() in good
        relaxed = search_relaxed(problem, 1 << 16)
        assert relaxed is None or relaxed.tolist() in good
        orders = search_cpu(problem.both()).orders.tolist()
        paired = search_cpu(problem.paired()).orders.tolist()
        real = search_cpu(problem.real()).orders.tolist()
        assert orders == [order for order in paired if order in real]
        for order in paired[:3]:
            fixed = fix_ordering(problem, np.array(order))
            assert fixed is None or fixed.tolist() in good


def test_all_stages_are_reached() -> None:
    how = {one.how for seed in range(6) for one in kept_slices(seed, WORDS)}
    assert how >= {FOUND, FIXED, RELAXED, APART}
    assert not how & {UNDECIDED, CONTRADICTED}


@pytest.mark.parametrize("backend", ["cpu", "cut", "auto"])
def test_back_ends_agree(backend: str) -> None:
    for seed in range(3):
        for one in kept_slices(seed, WORDS, 10, backend):
            assert one.problem.n == 0 or replay(one.problem, one.order).fine


# -- replay says why -----------------------------------------------------------------------------------


def test_what_fails_is_named() -> None:
    cores = [[(WRITE, A, 0, 1, 0, 1)], [(READ, A, 1, 1, 1, 0)]]
    problem = slice_of(cores, [1])
    assert replay(problem, np.array([0, 1])).fine
    assert (replay(problem, np.array([1, 0])).at, replay(problem, np.array([1, 0])).why) == (0, INPUT)
    assert replay(slice_of(cores, [2]), np.array([0, 1])).why == FINAL
    wrong_before = slice_of([[(WRITE, A, 0, 1, 0, 1)], [(READ, A, 1, 1, 7, 0)]], [1])
    assert replay(wrong_before, np.array([0, 1])).why == BEFORE
    wrong_after = slice_of([[(WRITE, A, 0, 1, 0, 7)], [(READ, A, 1, 1, 1, 0)]], [1])
    assert replay(wrong_after, np.array([0, 1])).why == AFTER


def test_figure_7_moves_an_access_before_the_one_that_fails() -> None:
    """Core 1 reads 1, but its checkpoint was taken before core 0 wrote that: the search puts the read
    first."""
    problem = slice_of([[(WRITE, A, 0, 1, 0, 1)], [(READ, A, 1, 1, 0, 0)]], [1])
    found = search_cpu(problem.paired())
    assert found.orders.tolist() == [[1, 0]]
    fixed = fix_ordering(problem, found.orders[0])
    assert fixed is not None
    assert fixed.tolist() == [0, 1]
    assert decide(problem, Settings()).how == FIXED


def test_figure_7_moves_an_access_after_the_one_that_fails() -> None:
    """Core 0 writes 1, core 1 writes 2 before core 0's checkpoint is taken, which therefore holds 2."""
    problem = slice_of([[(WRITE, A, 0, 1, 0, 2)], [(WRITE, A, 1, 2, 0, 2)]], [2])
    fixed = fix_ordering(problem, np.array([1, 0]))
    assert fixed is not None
    assert fixed.tolist() == [0, 1]


def test_figure_8_when_there_is_no_order_of_pairs() -> None:
    """An RMW whose checkpoints lie on both sides of the other core's write is no instruction; its checkpoints
    by themselves have an order."""
    cores = [
        [(RMW, A, 5, 6, 0, 6), (WRITE, B, 0, 3, 0, 3)],
        [(WRITE, A, 0, 5, 0, 5), (READ, B, 0, 0, 0, 0)],
    ]
    broken = slice_of(cores, [6, 3])
    assert search_cpu(broken.paired()).total == 0
    found = search_relaxed(broken, 1 << 16)
    assert found is not None
    assert replay(broken, found).fine


# -- refinement -----------------------------------------------------------------------------------------


def test_what_does_not_race_is_left_out() -> None:
    problem = slice_of(
        [[(READ, A, 0, 0, 0, 0), (WRITE, B, 0, 1, 0, 1)], [(READ, A, 0, 0, 0, 0), (READ, A, 0, 0, 0, 0)]], [1]
    )
    assert problem.n == 0
    assert decide(problem, Settings()).how == deciding.NOTHING


def test_places_of_overlapping_accesses() -> None:
    """8 bytes of one core against 2 of another: only those 2 race."""
    rows, checkpoints = np.zeros(2, EVENT), np.zeros(2, CHECKPOINT)
    rows[0] = (0, 0, 0, A, 0x1122334455667788, 0x1122334455667788, 0, 0, 8, READ, 0)
    rows[1] = (0, 0, 0, A + 2, 0x5566, 0x9999, 0, 1, 2, WRITE, 0)
    checkpoints[0] = (0, 0x1122334455667788, 0, 0, 8, READ, 0)
    checkpoints[1] = (0, 0, 0x9999, 1, 2, WRITE, 0)
    problem = make_problem(0, rows, checkpoints, np.array([0x9999], np.uint64))
    assert (problem.address.tolist(), problem.size.tolist()) == ([A + 2], [2])
    assert (problem.old.tolist(), problem.new.tolist()) == ([0x5566, 0x5566], [0x5566, 0x9999])
    assert (problem.final.tolist(), problem.agrees) == ([0x9999], True)


def test_updated_values_that_do_not_fit_the_accesses_are_refused() -> None:
    with pytest.raises(Misfit):
        slice_of([[(WRITE, A, 0, 1, 0, 1)], [(READ, A, 1, 1, 1, 0)]], [1, 2])
    with pytest.raises(Misfit):
        slice_of([[(WRITE, A, 0, 1, 0, 1)], [(READ, A, 1, 1, 1, 0)]], [])


def counting(cores: int, times: int) -> SliceProblem:
    """Cores that add 1 to a counter in turn: a chain of RMWs."""
    made: list[list[tuple[Any, ...]]] = [[] for _ in range(cores)]
    for n in range(cores * times):
        made[n % cores].append((RMW, A, n, n + 1, n, n + 1))
    return slice_of(made, [cores * times])


def test_a_long_slice_is_split_for_permutations() -> None:
    problem = counting(3, 12)
    split = decide(problem, Settings(backend="cpu", limit=10))
    assert split.pieces >= 4
    assert (split.how, replay(problem, split.order).fine) == (FOUND, True)
    first, second, ops = next(halves(problem))
    assert (first.n, second.n, len(ops)) == (18, 18, 18)
    assert first.final.tolist() == second.initial.tolist() == [18]


def test_cores_that_share_nothing_are_slices_of_their_own() -> None:
    pair = [[(WRITE, A, 0, 1, 0, 1)], [(READ, A, 1, 1, 1, 0)]]
    other = [[(WRITE, B, 0, 1, 0, 1)], [(READ, B, 1, 1, 1, 0)]]
    problem = slice_of([*pair, *other], [1, 1])
    assert [group.tolist() for group in components(problem)] == [[0, 1], [2, 3]]
    assert alone(problem, components(problem)[0]).n == 2
    decided = decide(problem, Settings(backend="cpu", limit=3))
    assert (decided.how, decided.pieces) == (FOUND, 2)


def test_a_slice_that_cannot_be_split_is_refused() -> None:
    """No checkpoint of it holds what its access did, so no cut is clean; and its values alternate."""
    cores = [[(RMW, A, n, n + 1, 99, 99) for n in range(s, 24, 2)] for s in range(2)]
    with pytest.raises(TooLong, match=r"longer than the back end takes.*backend='cut'"):
        decide(slice_of(cores, [24]), Settings(backend="cpu", limit=6))


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in (Settings(backend="x"), Settings(limit=1), Settings(tries=0)):
        with pytest.raises(UsageError):
            wrong.check()


# -- constraints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_constraints_say_it_all_and_nothing_twice(seed: int) -> None:
    """The orders that keep program order and the constraints between dependent accesses run the reference's
    way round; and without any one of them some order does not."""
    small = [one for one in kept_slices(seed, WORDS, accesses=6) if 1 < one.problem.n <= 7]
    assert len(small) > 3
    for one in small:
        problem = one.problem
        legal = search_cpu(problem.real()).orders
        graph = cut_graph(problem.real())
        assert np.array_equal(graph.before() | same_core(problem), before_in(legal) | same_core(problem))
        found = minimal_constraints(problem, before_in(legal), one.order)
        everything = [np.array(o) for o in interleavings(np.diff(problem.core_ptr).tolist())]
        wanted = outcomes(problem, one.order)
        assert all(outcomes(problem, o) == wanted for o in everything if keeps(o, found))
        for k in range(len(found)):
            fewer = found[:k] + found[k + 1 :]
            assert any(outcomes(problem, o) != wanted for o in everything if keeps(o, fewer))
        for c in found:
            both = [o for o in legal.tolist() if o.index(c.first) < o.index(c.second)]
            assert c.always == (len(both) == len(legal))


def same_core(problem: SliceProblem) -> np.ndarray[Any, Any]:
    return problem.stream[:, None] == problem.stream[None, :]


def keeps(order: Any, constraints: Any) -> bool:
    at = {op: k for k, op in enumerate(order.tolist())}
    return all(at[c.first] < at[c.second] for c in constraints)


def outcomes(problem: SliceProblem, order: Any) -> set[tuple[int, int]]:
    """Which way round dependent accesses run."""
    at = {op: k for k, op in enumerate(order.tolist())}
    parts = [range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1])) for op in range(problem.n)]
    found = set()
    for a, b in itertools.permutations(range(problem.n), 2):
        shared = [(p, q) for p in parts[a] for q in parts[b] if problem.place[p] == problem.place[q]]
        writes = any(problem.how[p] & 2 or problem.how[q] & 2 for p, q in shared)
        if problem.stream[a] != problem.stream[b] and writes and at[a] < at[b]:
            found.add((a, b))
    return found


# -- planted faults -------------------------------------------------------------------------------------


def replayed_with(seed: int, fault: str) -> tuple[int, int]:
    """(slices in which a fault was planted, those that came out contradicted)."""
    rng = random.Random(seed)
    planted = caught = 0
    for one in kept_slices(seed, WORDS, 8):
        problem = one.problem
        if not problem.n:
            continue
        if fault == "final":
            final = problem.final.copy()
            final[rng.randrange(len(final))] ^= np.uint64(1 << 40)
            bad = replace(problem, final=final)
        else:
            side = rng.choice(("before", "after"))
            column = getattr(problem, side).copy()
            used = np.flatnonzero(problem.how & (1 if side == "before" else 2))
            if not len(used):
                continue
            column[rng.choice(used.tolist())] ^= np.uint64(1 << 40)
            bad = replace(problem, **{side: column})
        planted += 1
        caught += decide(bad, Settings(backend="cut")).how == CONTRADICTED
    return planted, caught


@pytest.mark.parametrize("fault", ["checkpoint", "final"])
def test_a_wrong_checkpoint_or_final_state_is_caught(fault: str) -> None:
    """No order explains a value that was never there: the slice has none, never a wrong one."""
    for seed in range(4):
        planted, caught = replayed_with(seed, fault)
        assert planted > 5
        assert caught == planted
