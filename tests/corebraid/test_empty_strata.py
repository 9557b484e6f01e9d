"""A recording with many strata in which nothing ran: every command takes them for what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_factory import record, run
from empty_strata import with_empty_strata

from recorder.files.reader import Recording

MORE = 150


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recording of fig1, and the same with empty strata before it."""
    place = tmp_path_factory.mktemp("strata")
    assert record(place / "few", "fig1", "--cores", 2, "--strata", "cycles:2000").code == 0
    with_empty_strata(Recording.open(place / "few"), place / "many", MORE)
    return place / "few", place / "many"


def test_it_replays_orders_and_verifies(both: tuple[Path, Path]) -> None:
    for path in both:
        assert run("replay", path, "--all").code == 0
        assert run("order", path).code == 0
        assert run("check-order", path).code == 0
        assert run("verify", path).code == 0
        assert run("pairs", path).code == 0


def test_the_same_is_found_a_few_regions_later(both: tuple[Path, Path]) -> None:
    few, many = (json.loads(run("order", path, "--fresh", "--json").out) for path in both)
    assert many["regions"] == {**few["regions"], "legal": few["regions"]["legal"] + MORE}
    assert (many["events"], many["checked_events"]) == (few["events"], few["checked_events"])
    found = [[region["events"] for region in one["by_region"]] for one in (few, many)]
    assert found[1][MORE:] == found[0]
    assert all(not region["total"] for region in found[1][:MORE])
