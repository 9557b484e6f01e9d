"""Cores that wait for nothing but minimal constraints come to the same, whoever goes on; with one constraint
less they do not."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import record, run

from corebraid.base.errors import Divergence
from recorder.files.reader import Recording
from solver.evidence.lightplay.decide import Decided, Settings
from solver.evidence.lightplay.execute import Executed, execute, plan_of
from solver.evidence.lightplay.minimal import minimal_of
from solver.evidence.lightplay.parallel import InParallel, Waits, at_random, steps_of
from solver.evidence.lightplay.report import survey

NODES = Settings().nodes
Kept = list[tuple[Decided, Any]]


@pytest.fixture(scope="module")
def uts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Kept]:
    path, found = tmp_path_factory.mktemp("parallel") / "uts", list[tuple[Decided, Any]]()
    options = ("--cores", 3, "--slice", 60, "--strata", "cycles:3000", "--evidence", "slices")
    assert record(path, "uts", *options).code == 0
    recording = Recording.open(path)
    survey(recording, Settings(), constraints=False, also=lambda one, events: found.append((one, events)))
    return recording, [(one, events) for one, events in found if one.order.size]


def replayed(recording: Recording, kept: Kept) -> Executed:
    n_cores = recording.manifest.n_cores
    return execute(recording, [plan_of(one, events, n_cores) for one, events in kept])


def needs(one: Decided, waits: Waits) -> list[tuple[int, int]]:
    stream = one.problem.stream
    own = [(k, k + 1) for k in range(one.problem.n - 1) if stream[k] == stream[k + 1]]
    return [*own, *((first, second) for second, those in enumerate(waits.before) for first in those)]


@pytest.mark.parametrize("seed", range(5))
def test_any_order_that_waits_for_constraints_replays(uts: tuple[Recording, Kept], seed: int) -> None:
    recording, kept = uts
    n_cores, draw, orders = recording.manifest.n_cores, random.Random(seed), list[tuple[Decided, Any]]()
    for one, events in kept:
        orders.append((at_random(one, events, Waits.of(one, NODES), draw), events))
        place = np.argsort(orders[-1][0].order)
        assert sorted(place.tolist()) == list(range(one.problem.n))
        assert all(place[first] < place[second] for first, second in needs(one, Waits.of(one, NODES)))
    at_once = InParallel(seed, NODES)
    plans = [at_once.plan(one, events, n_cores) for one, events in kept]
    for done in (replayed(recording, orders), execute(recording, plans)):
        assert (done.slices, done.parted) == (len(kept), 0)
        assert done.accesses == sum(one.problem.n for one, _ in kept) > at_once.steps > 0
    pairs = zip(kept, orders, strict=True)
    assert sum(not np.array_equal(one.order, other.order) for (one, _), (other, _) in pairs) > 0


def test_every_constraint_is_needed(uts: tuple[Recording, Kept]) -> None:
    """Without one that all legal orders have, and the two the other way round, an instruction finds something
    else, or memory at the end."""
    recording, kept = uts
    tried = 0
    for one, events in kept[:: max(1, len(kept) // 12)]:
        waits = Waits.of(one, NODES)
        pairs = [(found.first, found.second) for found in minimal_of(one, NODES).found if found.always]
        for first, second in pairs[:2]:
            turned = [set(those) for those in waits.before]
            turned[second].discard(first)
            turned[first].add(second)
            other = replace(waits, before=tuple(tuple(sorted(those)) for those in turned))
            try:
                wrong = at_random(one, events, other, random.Random(0))
            except IndexError:
                # What follows from the others forbids it.
                continue
            tried += 1
            with pytest.raises(Divergence, match="does not replay"):
                replayed(recording, [(wrong, events)])
    assert tried >= 8


def test_steps_are_the_longest_chain(uts: tuple[Recording, Kept]) -> None:
    _, kept = uts
    for one, _ in kept:
        waits = Waits.of(one, NODES)
        # Level after level of what needs nothing that is left.
        left, levels, edges = set(range(one.problem.n)), 0, needs(one, waits)
        while left:
            left -= {op for op in left if not any(second == op and first in left for first, second in edges)}
            levels += 1
        assert steps_of(one.problem, waits) == levels


def test_orders_are_all_that_constraints_allow(uts: tuple[Recording, Kept]) -> None:
    """Of a slice of few accesses, each of an instruction of its own."""
    _, kept = uts
    small = [(one, events) for one, events in kept if 3 <= one.problem.n <= 6]
    assert small
    for one, events in small[:5]:
        waits = Waits.of(one, NODES)
        edges = needs(one, waits)
        places = permutations(range(one.problem.n))
        legal = {
            order for order in places
            if all(order.index(first) < order.index(second) for first, second in edges)
        }  # fmt: skip
        found = {
            tuple(at_random(one, events, waits, random.Random(seed)).order.tolist()) for seed in range(200)
        }
        assert found == legal


def test_a_slice_of_too_many_orders_waits_as_it_was_found(uts: tuple[Recording, Kept]) -> None:
    recording, kept = uts
    one, events = max(kept, key=lambda it: it[0].problem.n)
    waits = Waits.of(one, 1)
    assert waits.total == 0
    assert sum(map(len, waits.before)) > sum(map(len, Waits.of(one, NODES).before))
    assert replayed(recording, [(at_random(one, events, waits, random.Random(1)), events)]).slices == 1


def test_from_the_command_line(uts: tuple[Recording, Kept], tmp_path: Path) -> None:
    path = uts[0].path
    serial, first, again = (
        run("slices", path, *how) for how in (["--replay"], ["--parallel", 3], ["--parallel", 3])
    )
    assert (serial.code, first.code) == (0, 0)
    assert "executed in the orders found" in serial.out
    assert "executed as constraints let them" in first.out
    assert "steps on as many processors as cores" in first.out
    assert first.out.splitlines()[-3:] == again.out.splitlines()[-3:]
    assert run("slices", path, "--parallel", "-1").code == 2
