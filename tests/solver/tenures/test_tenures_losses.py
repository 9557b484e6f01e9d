"""What losses prove: true of every run, never less than tenures alone, and damaged losses are noticed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from engine_suite import SOAK
from tenure_factory import Run, pairs_of
from tenure_losses_twin import naive_regions
from test_tenures_rules import deduced, false_edges

from corebraid.base.rows.event import OWNED
from corebraid.base.rows.record import MISS_OWNED


def lossy(seed: int, *, forgetting: bool = False) -> Run:
    """A run without reads that are stopped after they have obtained their lines: such leave losses that no
    access explains."""
    return Run(seed, stops=False, forgetting=forgetting)


@pytest.mark.parametrize("forgetting", [False, True])
@pytest.mark.sampled(1)
def test_what_is_deduced_from_losses_is_true_of_random_runs(forgetting: bool) -> None:
    edges = 0
    for seed in range(400 * SOAK):
        n, false, contradictions = false_edges(lossy(seed, forgetting=forgetting), losses=True)
        assert not contradictions, f"Run({seed})"
        assert not false, f"Run({seed})"
        edges += n
    print(f"{edges} edges")
    assert edges > 3000


def test_losses_prove_all_that_tenures_do_and_more() -> None:
    more = 0
    for seed in range(150 * SOAK):
        run = lossy(seed)
        n = len(run.cores) + 1
        for (_, by_losses), (_, by_tenures) in zip(deduced(run, losses=True), deduced(run), strict=True):
            known, before = pairs_of(by_losses.clocks, n), pairs_of(by_tenures.clocks, n)
            assert before <= known, f"Run({seed})"
            rows = {row for pair in before for row in pair}
            more += sum(a in rows and b in rows for a, b in known - before)
    print(f"{more} more pairs")
    assert more > 1000


def move_loss(run: Run, rng: random.Random) -> bool:
    """A loss comes one event of its core later or earlier than it did."""
    for core in rng.sample(run.cores, len(run.cores)):
        counts = [row[1] for row in core.rows]
        for i in rng.sample(range(len(core.losses)), len(core.losses)):
            count, line, stratum, way = core.losses[i]
            later = [c + 1 for c in counts if c >= count]
            earlier = [c for c in counts if c < count]
            if not later or not earlier:
                continue
            moved = rng.choice((min(later), max(earlier)))
            core.losses[i] = moved, line, stratum, way
            core.losses.sort(key=lambda loss: loss[0])
            return True
    return False


def leave_loss_out(run: Run, rng: random.Random) -> bool:
    """A loss is missing."""
    core = rng.choice(run.cores)
    if core.losses:
        core.losses.pop(rng.randrange(len(core.losses)))
    return bool(core.losses)


def turn_owned(run: Run, rng: random.Random) -> bool:
    """A record says the contrary of whether the line came from a core that had it alone."""
    core = rng.choice(run.cores)
    if core.records:
        i = rng.randrange(len(core.records))
        core.records[i] = (*core.records[i][:6], core.records[i][6] ^ MISS_OWNED)
    return bool(core.records)


def turn_agents(run: Run, rng: random.Random) -> bool:
    """An agent's access says the contrary of whether a core had the line alone."""
    if run.agents and run.agents_say:
        i = rng.randrange(len(run.agents))
        run.agents[i] = (*run.agents[i][:10], run.agents[i][10] ^ OWNED)
    return bool(run.agents and run.agents_say)


@pytest.mark.parametrize(
    ("damage", "least"), [(move_loss, 40), (leave_loss_out, 28), (turn_owned, 40), (turn_agents, 1)]
)
def test_damaged_losses_are_noticed(damage: Callable[[Run, random.Random], bool], least: int) -> None:
    noticed = damaged = 0
    for seed in range(150):
        run = lossy(seed)
        if not run.unbounded or run.strata or not damage(run, random.Random(seed)):
            continue
        damaged += 1
        _, false, contradictions = false_edges(run, losses=True)
        noticed += bool(false or contradictions)
    print(f"{noticed} of {damaged} noticed")
    assert noticed > least


@pytest.mark.sampled(1)
@pytest.mark.parametrize("damage", [None, turn_owned, turn_agents])
def test_the_rules_in_plain_python_find_the_same(
    damage: Callable[[Run, random.Random], bool] | None,
) -> None:
    pairs = wrong = 0
    for seed in range((100 if damage is None else 40) * SOAK):
        run = lossy(seed)
        if damage is not None:
            damage(run, random.Random(seed))
        n = len(run.cores) + 1
        for (_, found), naive in zip(deduced(run, losses=True), naive_regions(run), strict=True):
            assert found.contradiction == naive.wrong, f"Run({seed})"
            wrong += naive.wrong
            if not naive.wrong:
                expected = {(a, b) for a, b in naive.before if a[0] != b[0]}
                assert pairs_of(found.clocks, n) == expected, f"Run({seed})"
                pairs += len(expected)
    print(f"{pairs} pairs, {wrong} regions contradict themselves")
    assert pairs > 100 if damage else pairs > 5000
