"""Boundary values without solving equal the truth; damage is named where it is."""

from __future__ import annotations

import random

import numpy as np
import pytest
from engine_suite import SOAK, shape_of
from trace_factory import by_hand, copy, damage, make, oracle, problems

from corebraid.base.errors import FormatError, OrderError
from solver.sifting.boundary import Backward, Forward
from solver.sifting.filters import unfiltered
from solver.sifting.granules import find_granules
from solver.sifting.strata import iter_regions


def value(memory: np.ndarray, address: int, size: int) -> int:
    return int.from_bytes(memory[address : address + size].tobytes(), "little")


def test_values_at_every_stratum_are_the_truth_in_both_directions() -> None:
    regions = granules = 0
    for seed in range(200 * SOAK):
        made = make(seed, shape_of(seed, (10, 40, 120)))
        forward, backward = Forward(made.traces.initial()), Backward(made.traces.final())
        done = []
        for region in iter_regions(made.traces):
            table = find_granules(region)
            problem, delta = forward.advance(region, table, unfiltered(region, table)[0])
            done.append((problem, delta))
            before, after = made.memories[region.index], made.memories[region.index + 1]
            for g, (a, n) in enumerate(zip(problem.address.tolist(), problem.size.tolist(), strict=True)):
                assert problem.initial[g] == value(before, a, n), f"seed {seed}"
                assert problem.final[g] == value(after, a, n), f"seed {seed}"
                granules += 1
            for i, word in enumerate(delta.word.tolist()):
                assert delta.before[i] == value(before, word * 8, 8)
                assert delta.after[i] == value(after, word * 8, 8)
            regions += 1
        for problem, delta in reversed(done):
            backward.retreat(problem, delta)
            loaded = np.repeat(backward.memory.loaded, 4096)[: len(made.memories[0])] != 0
            truth = made.memories[problem.region]
            assert (backward.memory.state[loaded] == truth[loaded]).all(), f"seed {seed}"
    print(f"boundary values of {granules} granules in {regions} regions equal the truth, both directions")
    assert granules > 1000


def both_directions(traces) -> None:  # type: ignore[no-untyped-def]
    forward, backward = Forward(traces.initial()), Backward(traces.final())
    done = []
    for region in iter_regions(traces):
        table = find_granules(region)
        done.append(forward.advance(region, table, unfiltered(region, table)[0]))
    for problem, delta in reversed(done):
        backward.retreat(problem, delta)


def test_damage_that_is_reported_is_never_a_legal_trace() -> None:
    reported = 0
    for seed in range(300 * SOAK):
        bad, way = damage(make(seed, shape_of(seed, (4, 8, 14))).traces, random.Random(seed))
        try:
            both_directions(bad)
        except (OrderError, FormatError):
            reported += 1
            assert not oracle(bad), f"seed {seed}, {way}"
    assert reported > 80 * SOAK


def test_a_value_that_was_never_written_is_named() -> None:
    cores = [[(0x100, 0, 1), (0x100, 7, 2)], [(0x100, 1, 3)]]
    with pytest.raises(OrderError, match=r"region 0, address 0x100, 8 bytes.*old 0x7 x1") as caught:
        list(problems(by_hand(cores, {}, {0x100: 2})))
    assert caught.value.exit_code == 1


def test_an_initial_image_that_differs_is_named() -> None:
    cores = [[(0x100, 5, 6)], [(0x100, 6, 7)]]
    with pytest.raises(OrderError, match=r"address 0x100.*expected 0x5, found 0x4"):
        list(problems(by_hand(cores, {0x100: 4}, {0x100: 7})))


def test_a_local_chain_that_breaks_is_named() -> None:
    cores = [[(0x100, 5, 6), (0x100, 8, 7)], []]
    with pytest.raises(OrderError, match=r"address 0x100, 1 bytes, stream 0, event 1.*0x08, found 0x06"):
        list(problems(by_hand(cores, {0x100: 5}, {0x100: 7})))


def test_a_final_image_that_differs_is_named() -> None:
    traces = by_hand([[(0x100, 5, 6)], [(0x100, 6, 7)]], {0x100: 5}, {0x100: 9})
    with pytest.raises(OrderError, match=r"region 0, address 0x100"):
        both_directions(traces)
    local = by_hand([[(0x100, 5, 6)], []], {0x100: 5}, {0x100: 9})
    with pytest.raises(OrderError, match=r"region 0, address 0x100, 1 bytes"):
        both_directions(local)


def test_an_indivisible_access_that_contradicts_itself_is_named() -> None:
    traces = copy(by_hand([[(0x100, 5, 6), (0x100, 8, 7)], [(0x100, 6, 8)]], {0x100: 5}, {0x100: 7}))
    traces.rows[0]["flags"][0], traces.rows[0]["count"][1] = 2, 0
    with pytest.raises(OrderError, match="contradicts itself"):
        list(problems(traces))
