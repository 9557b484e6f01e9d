"""Regions: the streams cut at the strata; rows that no trace may hold are refused."""

from __future__ import annotations

import numpy as np
import pytest
from trace_factory import MEMORY_BYTES, Shape, copy, make, rows_of

from corebraid.base.errors import FormatError
from corebraid.base.rows.event import GLUED, UNCACHED
from solver.regions import region as region_module
from solver.regions.traces import MemoryTraces
from solver.sifting.strata import iter_regions


@pytest.mark.parametrize("chunk_rows", [1, 3, 7, 1000])
@pytest.mark.parametrize("spill_rows", [0, 5, 1 << 20])
def test_regions_are_the_rows_by_stratum(
    chunk_rows: int, spill_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_module, "SPILL_ROWS", spill_rows)
    for seed in range(20):
        traces = make(seed, Shape(steps=60, strata=0.1), chunk_rows).traces
        found = list(iter_regions(traces))
        assert [region.index for region in found] == list(range(len(traces.strata) + 1))
        for region in found:
            for s, rows in enumerate(region.streams):
                expected = traces.rows[s][traces.rows[s]["stratum"] == region.index]
                for _again in range(2):
                    assert rows_of(region, s).tolist() == expected.tolist()
                assert len(rows) == len(expected)
                assert not any(piece["flags"][-1] & GLUED for piece in rows.pieces())
            assert region.events == sum(len(rows) for rows in region.streams)


def with_field(name: str, value: int, at: int = 2) -> MemoryTraces:
    traces = copy(make(1, Shape(steps=40, strata=0.1, glued=0, uncached=0)).traces)
    traces.rows[1][name][at] = value
    return traces


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("size", 0, "no possible size"),
        ("size", 9, "no possible size"),
        ("addr", MEMORY_BYTES, "outside memory"),
        ("addr", MEMORY_BYTES - 1, "outside memory"),
        ("addr", (1 << 64) - 1, "outside memory"),
        ("stratum", 10_000, "past the last stratum"),
        ("flags", GLUED, "rest of an indivisible access"),
    ],
)
def test_impossible_rows_are_refused(name: str, value: int, message: str) -> None:
    traces = with_field(name, value)
    if name == "addr" and value == MEMORY_BYTES - 1:
        traces.rows[1]["size"][2] = 2
    with pytest.raises(FormatError, match=message) as caught:
        list(iter_regions(traces))
    assert f"stream 1, event {3 if name == 'flags' else 2}" in str(caught.value)


def test_strata_that_run_backwards_are_refused() -> None:
    traces = with_field("stratum", 3, at=0)
    with pytest.raises(FormatError, match="backwards"):
        list(iter_regions(traces))


def test_a_trace_that_ends_inside_an_indivisible_access_is_refused() -> None:
    with pytest.raises(FormatError, match="ends inside an indivisible access"):
        list(iter_regions(with_field("flags", GLUED, at=-1)))


def test_an_indivisible_access_without_end_is_refused() -> None:
    traces = make(1, Shape(streams=1, steps=40, strata=0, uncached=0)).traces
    traces.rows[0]["flags"], traces.rows[0]["count"] = GLUED, 7
    with pytest.raises(FormatError, match="more than 16 events"):
        list(iter_regions(traces))


def test_an_uncached_row_may_lie_anywhere() -> None:
    traces = with_field("addr", (1 << 64) - 4)
    traces.rows[1]["flags"][2] |= UNCACHED
    assert sum(region.events for region in iter_regions(traces)) == sum(len(r) for r in traces.rows)


def test_no_events_at_all() -> None:
    traces = MemoryTraces(
        [np.empty(0, copy(make(1, Shape()).traces).rows[0].dtype)] * 2,
        np.zeros((2, 2), np.uint64),
        np.zeros(64, np.uint8),
        np.zeros(64, np.uint8),
    )
    assert [region.events for region in iter_regions(traces)] == [0, 0, 0]
