"""Every engine, regions, certificate, checker and explanations against a search over all orders of the rows,
under SC and TSO; `python -m order_campaign_module` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_suite import SOAK

from bench import order_campaign as order_campaign_module
from bench.order_campaign import campaign
from bench.tiny_orders import is_legal
from bench.tiny_runs import Run, damage
from solver.regions.traces import MemoryTraces


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.soak
def test_every_engine_agrees_with_the_search_over_all_orders(model: str, tmp_path: Path) -> None:
    counts = campaign(model, 25 * SOAK, 0, tmp_path / "order.cert")
    print(dict(counts))
    assert counts["DISAGREE"] == counts["WRONG"] == 0
    assert counts["not legal"] > 1
    assert counts["explained"] > 1


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.soak
def test_they_agree_where_agents_meet_cores(model: str, tmp_path: Path) -> None:
    counts = campaign(model, 20 * SOAK, 0, tmp_path / "order.cert", agents=True)
    print(dict(counts))
    assert counts["DISAGREE"] == counts["WRONG"] == 0
    assert counts["not legal"] > 1


def test_undamaged_runs_are_legal_and_many_damaged_ones_are_not() -> None:
    illegal = 0
    for seed in range(300):
        run = Run(seed)
        assert is_legal(run.traces())
        illegal += not is_legal(run.traces(damage(run.rows(), seed)))
    assert illegal > 80


@pytest.mark.soak
def test_a_wrong_engine_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that finds no order where there is just one stratum: the campaign says so."""
    verdict = order_campaign_module.verdict

    def wrong(traces: MemoryTraces, path: Path, options: object) -> tuple[bool, list[int]]:
        legal, regions = verdict(traces, path, options)  # type: ignore[arg-type]
        return (legal and len(traces.strata) != 1), regions

    monkeypatch.setattr(order_campaign_module, "verdict", wrong)
    assert campaign("tso", 40, 0, tmp_path / "order.cert")["DISAGREE"] > 0
