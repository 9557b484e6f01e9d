"""Losses under TSO that are not what they were: noticed as far as rules tell, at no cost to tenures."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from tenure_factory import pairs_of
from test_tenures_buffered import false_edges

from bench.tiny_runs import Run
from solver.regions.problem import LOSSES, NOTHING
from solver.sifting.strata import iter_regions
from solver.tenures.buffered_deduce import BufferedTenures


def move_loss(run: Run, rng: random.Random) -> bool:
    """A loss comes two instructions of its core later than it did."""
    lost = run.lost()
    core = rng.randrange(len(lost))
    if not len(lost[core]):
        return False
    i = rng.randrange(len(lost[core]))
    lost[core]["count"][i:] += np.uint64(2)
    run.lost = lambda: lost  # type: ignore[method-assign]
    return True


def leave_loss_out(run: Run, rng: random.Random) -> bool:
    """A loss is missing."""
    lost = run.lost()
    core = rng.randrange(len(lost))
    if not len(lost[core]):
        return False
    lost[core] = np.delete(lost[core], rng.randrange(len(lost[core])))
    run.lost = lambda: lost  # type: ignore[method-assign]
    return True


def scatter_losses(run: Run, rng: random.Random) -> bool:
    """All losses come up to three instructions later than they did."""
    lost = run.lost()
    for mine in lost:
        for loss in mine:
            loss["count"] += rng.randrange(4)
        mine["count"].sort()
    run.lost = lambda: lost  # type: ignore[method-assign]
    return any(map(len, lost))


@pytest.mark.parametrize(("damage", "least"), [(move_loss, 16), (leave_loss_out, 118), (scatter_losses, 30)])
@pytest.mark.sampled(1)
def test_damaged_losses_are_noticed(damage: Callable[[Run, random.Random], bool], least: int) -> None:
    """A missing loss is, mostly. Of 167 that come two instructions later 16 are, and 134 change nothing of
    what is known: 98 of those came after the core's last load.

    Under SC, of runs by the same generator, 108 of 174 contradict their rows. Under TSO these rules are left
    out: that a downgrade was caused by a read that missed; that a miss on a line that a core had alone
    (MISS_OWNED), or an agent's access to it (OWNED), caused one loss and no other, and that one without it
    caused none. And a loss stands among the core's stores only as far as its loads and records on both sides
    tell, where under SC it stands exactly: of a core that only stores, or does nothing more, each place is as
    good as another."""
    noticed = damaged = 0
    for seed in range(600):
        run = Run(seed)
        if not run.strata and damage(run, random.Random(seed)):
            _, false, wrong = false_edges(run, losses=True)
            noticed, damaged = noticed + (false > 0 or wrong > 0), damaged + 1
    print(f"{noticed} of {damaged} noticed")
    assert noticed >= least


@pytest.mark.soak
def test_losses_that_contradict_cost_nothing_of_what_tenures_prove() -> None:
    """Not even where it is the places of losses that contradict each other."""
    dropped = 0
    for seed in range(200):
        run = Run(seed)
        scatter_losses(run, random.Random(seed))
        for region, plain in zip(
            iter_regions(run.traces(tenures=True, losses=True)),
            iter_regions(run.traces(tenures=True)),
            strict=True,
        ):
            assert isinstance(region.tenures, BufferedTenures)
            assert isinstance(plain.tenures, BufferedTenures)
            found = region.tenures.deduced(region)
            assert found.dropped in (NOTHING, LOSSES), f"Run({seed})"
            if found.dropped:
                dropped += 1
                n = len(run.ranks())
                assert pairs_of(found.clocks, n) == pairs_of(plain.tenures.deduced(plain).clocks, n)
    print(f"{dropped} regions without losses")
    assert dropped > 10
