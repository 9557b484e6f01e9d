"""What losses prove of tiny runs, against all interleavings that fit: nothing else, and most of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from engine_suite import SOAK
from tenure_factory import Row, Run, pairs_of
from tenure_oracle import Oracle
from test_tenures_rules import deduced

from solver.tenures import deduce
from solver.tenures import losses as rules
from solver.tenures.clocks import CHANGED

RUNS = 150 * SOAK
Pairs = set[tuple[Row, Row]]


def tiny(seed: int) -> Run:
    """A run of 2 or 3 cores."""
    return Run(seed, steps=10 + seed % 7, stops=False)


@cache
def must(seed: int) -> Pairs:
    """What always comes first, in one region: the strata say the rest."""
    run = tiny(seed)
    region = [[row[6] for row in rows] for rows in (*(core.rows for core in run.cores), run.agents)]
    return {(a, b) for a, b in Oracle(run).must() if region[a[0]][a[1]] == region[b[0]][b[1]]}


def known(seed: int, *, losses: bool = True) -> Pairs:
    """What is deduced, of all rows."""
    run, found = tiny(seed), set()
    n = len(run.cores) + 1
    base = [0] * n
    for region, told in deduced(run, losses=losses):
        assert not told.contradiction, f"tiny({seed})"
        for (s, last), (t, first) in pairs_of(told.clocks, n):
            after = range(first, len(region.streams[t]))
            found |= {((s, base[s] + i), (t, base[t] + j)) for i in range(last + 1) for j in after}
        base = [number + len(rows) for number, rows in zip(base, region.streams, strict=True)]
    return found


def share(*, losses: bool = True) -> float:
    """Which part of what always comes first is deduced. Asserts that nothing else is."""
    told = true = 0
    for seed in range(RUNS):
        found = known(seed, losses=losses)
        assert found <= must(seed), f"tiny({seed})"
        told, true = told + len(found), true + len(must(seed))
    return told / true


def test_what_is_deduced_holds_in_all_interleavings_and_is_most_of_what_does() -> None:
    by_losses, by_tenures = share(), share(losses=False)
    print(f"of what always comes first {by_losses:.1%} is deduced, by tenures alone {by_tenures:.1%}")
    assert by_losses > 0.88
    assert by_losses > by_tenures + 0.15


def without_mates(sweep: Callable[..., int]) -> Callable[..., int]:
    """The same sweep, in which nobody is known to be another's partner."""

    def swept(one: Any, other: Any, mate: Any, mate_of: Any, c: Any) -> int:
        changed, before = int(c.state[CHANGED]), c.clock.copy()
        wrong = sweep(one, other, np.full_like(mate, -1), np.full_like(mate_of, -1), c)
        c.state[CHANGED] = changed or not np.array_equal(before, c.clock)
        return int(wrong)

    return swept


OFF: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
    "alone": [(deduce, "apply_alone", lambda *_: -1)],
    "causes": [(rules, "apply_causes", lambda *_: -1)],
    "origins": [(rules, "apply_origins", lambda *_: -1)],
    "unowned": [(rules, "apply_unowned", lambda *_: None)],
    "mates": [
        (rules, "apply_causes", without_mates(rules.apply_causes)),
        (rules, "apply_origins", without_mates(rules.apply_origins)),
    ],
}


@pytest.mark.parametrize("rule", OFF)
@pytest.mark.sampled(1)
def test_every_rule_matters(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = share()
    for module, name, other in OFF[rule]:
        monkeypatch.setattr(module, name, other)
    less = share()
    print(f"without {rule}: {less:.2%}, with all {whole:.2%}")
    assert less < whole


def unsound_alone(a: Any, h: Any, c: Any) -> int:
    """Takes every other hold for one that begins after a span alone has ended."""
    for x in range(len(a.line)):
        others = (h.line == a.line[x]) & (h.stream != a.stream[x]) & (h.first >= 0)
        for y in np.flatnonzero(others):
            rules.tell(c, int(a.stream[x]), int(a.before[x]), int(h.stream[y]), int(h.first[y]))
    return -1


def unsound_causes(lost: Any, by: Any, mate: Any, mate_by: Any, c: Any) -> int:
    """Takes the first access that took or got the line for the cause of every loss."""
    for x in range(len(lost.line)):
        may = np.flatnonzero((by.line == lost.line[x]) & (by.stream != lost.stream[x]))
        for y in may[:1]:
            rules.tell(c, int(by.stream[y]), int(by.first[y]), int(lost.stream[x]), int(lost.after[x]))
    return -1


@pytest.mark.parametrize(
    ("module", "name", "rule"),
    [(deduce, "apply_alone", unsound_alone), (rules, "apply_causes", unsound_causes)],
)
def test_an_unsound_rule_is_caught(
    module: Any, name: str, rule: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, rule)
    with pytest.raises(AssertionError):
        share()
