"""Runs of regions in which nothing happens are one thing to every pass, and nobody sees a difference."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_factory import record, run
from quiet_guest import STRATA, quiet_elf

from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.passes import ahead, unfiltered
from solver.passes.trace_spool import TraceSpool
from solver.regions.quiet import Quiet
from solver.score import score
from solver.sifting.strata import iter_regions, iter_stretches

#: What is asked of a recording under each memory model; `order` first, since others read what it writes.
ORDERS = {
    "sc": (
        "order",
        "order --constraints values",
        "order --jobs 2",
        "order --engine cut",
        "order --engine smt",
        "order --engine linkage",
        "order --engine slices",
        "order --engine opr",
        "order --choose fewest-switches",
    ),
    "tso": ("order", "order --constraints values", "order --jobs 2", "order --engine cut"),
}
ASKED = {
    "sc": ("crosscheck", "pairs", "order --count", "verify", "linkage", "slices", "check-order"),
    "tso": ("crosscheck", "pairs", "order --count", "verify", "check-order"),
}


@pytest.fixture(scope="module", params=["sc", "tso"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    place = tmp_path_factory.mktemp("quiet")
    guest = quiet_elf(place / "quiet.elf")
    evidence = "all" if model == "sc" else "losses"
    options = ("--cores", 3, "--strata", STRATA, "--evidence", evidence, "--model", model)
    assert record(place / "recording", guest, *options).code == 0
    return place / "recording"


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every region goes through every pass by itself."""
    for module in (ahead, unfiltered, score):
        monkeypatch.setattr(module, "iter_stretches", iter_regions)
    monkeypatch.setattr(TraceSpool, "is_quiet", lambda *_: False)


def timeless(facts: Any) -> Any:
    """Facts without times."""
    if isinstance(facts, dict):
        return {name: timeless(value) for name, value in facts.items() if name != "seconds"}
    return [timeless(fact) for fact in facts] if isinstance(facts, list) else facts


def documents(text: str) -> list[Any]:
    """The JSON documents that follow one another in a text."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        document, end = decoder.raw_decode(text, at)
        found.append(document)
        at = len(text) - len(text[end:].lstrip())
    return found


def said(recording: Path, command: str) -> tuple[int, object, str]:
    """Exit code, facts and text of a command, both without times."""
    name, *options = command.split()
    again = ("--fresh",) if name == "order" and "--count" not in options else ()
    told = run(name, recording, *options, *again, "--json")
    text = run(name, recording, *options, *again)
    assert told.code == text.code
    return told.code, timeless(documents(told.out)), re.sub(r" *\d+\.\d+", " TIME", text.out)


def test_there_are_runs_of_quiet_regions_between_others(recording: Path) -> None:
    stretches = list(iter_stretches(RecordingTraces(Recording.open(recording))))
    quiet = [k for k, stretch in enumerate(stretches) if isinstance(stretch, Quiet)]
    assert len(quiet) > 3
    assert quiet[0] + 1 < quiet[1]
    assert sum(one.end - one.first for one in stretches if isinstance(one, Quiet)) > 3 * len(stretches)


@pytest.fixture(scope="module")
def together(recording: Path, model: str) -> dict[str, object]:
    """What is said, and the certificates, when runs of quiet regions are passed together."""
    return everything(recording, model)


def everything(recording: Path, model: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for command in ORDERS[model]:
        found[command] = said(recording, command), (recording / "order.cert").read_bytes()
    for command in ASKED[model]:
        found[command] = said(recording, command)
    return found


@pytest.mark.soak
def test_all_is_as_if_every_region_were_passed_by_itself(
    recording: Path, model: str, together: dict[str, object], one_by_one: None
) -> None:
    for command, found in everything(recording, model).items():
        assert found == together[command], command
