"""The kernels of tenures and losses under TSO against the rules in plain Python: what is known is equal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from engine_suite import SOAK
from tenure_buffered_twin import naive_buffered
from tenure_factory import pairs_of
from test_tenures_buffered import runs
from test_tenures_buffered_damage import leave_loss_out, move_loss

from bench.tiny_runs import Run
from solver.regions.problem import LOSSES, TENURES
from solver.tenures import buffered_deduce
from solver.tenures.buffered_losses import make_times, noted


def differences(run: Run, seen: Counter[str], *, losses: bool = True) -> int:
    """Of how many regions kernels and twin know not the same."""
    found = 0
    for region, naive in naive_buffered(run.traces(tenures=True, losses=losses), losses=losses):
        known = region.tenures.deduced(region)
        seen["wrong"] += naive.wrong
        if naive.wrong:
            found += known.dropped < (LOSSES if losses else TENURES)
            continue
        expected = naive.pairs()
        seen["pairs"] += len(expected)
        seen["alone"] += len(naive.alone)
        found += bool(known.dropped) or pairs_of(known.clocks, 2 * naive.n + 1) != expected
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("losses", [False, True])
def test_the_rules_in_plain_python_find_the_same(losses: bool) -> None:
    seen: Counter[str] = Counter()
    for seed, run in enumerate(runs(120 * SOAK)):
        assert not differences(run, seen, losses=losses), f"runs(...)[{seed}]"
    print(dict(seen))
    assert seen["pairs"] > 2500
    assert not seen["wrong"]
    assert seen["alone"] > 200 or not losses


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("damage", "least"), [(move_loss, 0), (leave_loss_out, 20)])
def test_they_find_the_same_of_damaged_losses(
    damage: Callable[[Run, random.Random], bool], least: int
) -> None:
    seen: Counter[str] = Counter()
    for seed, run in enumerate(runs(80 * SOAK)):
        if damage(run, random.Random(seed)):
            assert not differences(run, seen), f"runs(...)[{seed}]"
    print(dict(seen))
    assert seen["pairs"] > 800
    assert seen["wrong"] >= least


def _moved(**by: int) -> Callable[..., list[Any]]:
    """Losses that stand elsewhere than they do."""

    def planted(found: Any, begins: Sequence[Any], n_cores: int) -> list[Any]:
        losses = noted(found, begins, n_cores)
        return [
            one._replace(**{name: np.maximum(getattr(one, name) + n, 0) for name, n in by.items()})
            for one in losses
        ]

    return planted


def _nothing(*_: Any) -> int:
    """A rule that is left out."""
    return -1


def _begun_later(*arguments: Any) -> Any:
    """Times alone begin where they end, as by a bound that is off by one."""
    alone, holds = make_times(*arguments)
    return alone._replace(begin=alone.end.copy()), holds


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("noted", _moved(loads=-1)), ("noted", _moved(high=-1)), ("noted", _moved(low=1)),
        ("noted", _moved(at=1)), ("apply_takers", _nothing), ("apply_alone_times", _nothing),
        ("apply_foreign", _nothing), ("apply_contents", _nothing), ("apply_misses", _nothing),
        ("make_times", _begun_later),
    ],
)  # fmt: skip
@pytest.mark.sampled(1)
def test_a_planted_error_is_caught(
    name: str, planted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffered_deduce, name, planted)
    seen: Counter[str] = Counter()
    caught = sum(differences(run, seen) > 0 for run in runs(150))
    print(f"{caught} of 150 runs")
    assert caught > 0
