"""Names of events where not all accesses of the region were rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corebraid
from corebraid.base.errors import FormatError, UsageError
from corebraid.base.rows.event import EVENT, READ, WRITE
from corebraid.study.freedom import numbering
from corebraid.study.freedom.numbering import Numbering, numbers_among
from corebraid.study.freedom.pair_lists import Pair, RegionPairs

LINUX = Path(__file__).parents[4] / "firmware" / "linux" / "x86_64"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans(), st.booleans())))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_numbers_are_those_among_all(drawn: list[tuple[int, int, bool, bool]]) -> None:
    """(count, address, whether it writes, whether it is kept)."""
    drawn = sorted(drawn, key=lambda access: access[0])
    every = np.zeros(len(drawn), EVENT)
    for row, (count, place, writes, _) in zip(every, drawn, strict=True):
        row["count"], row["addr"], row["size"] = count, 8 * place, 8
        row["kind"] = WRITE if writes else READ
    # Like accesses of an instruction cannot be told apart: the first ones are kept.
    kept, seen = [], set()
    for at, (count, place, writes, wanted) in enumerate(drawn):
        before = {access[:3] for access in drawn[:at]}
        if wanted and (count, place, writes) not in before:
            kept.append(at)
        seen.add((count, place, writes))
    found = numbers_among(every, every[kept])
    naive = [sum(1 for k in range(at) if drawn[k][0] == drawn[at][0]) for at in kept]
    assert found.tolist() == naive


def test_a_part_of_an_access_has_its_number() -> None:
    every = np.zeros(3, EVENT)
    every["addr"], every["size"], every["kind"] = [0x100, 0xFFC, 0x200], 8, READ
    part = every[1:2].copy()
    part["addr"], part["size"] = 0x1000, 4
    assert numbers_among(every, part).tolist() == [1]
    part["addr"] = 0x1001
    with pytest.raises(FormatError, match="other accesses"):
        numbers_among(every, part)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbering") / "rec"
    corebraid.record(LINUX / "mutexes", path, cores=2, strata="cycles:5000", limit=140_000)
    return path


def listed(path: Path, **asked: Any) -> list[str]:
    return [json.dumps(pair.facts()) for pair in corebraid.pairs(path, **asked) if isinstance(pair, Pair)]


def numbered(lines: list[str]) -> int:
    return sum("." in json.loads(line)["first"]["event"] for line in lines)


@pytest.mark.soak
def test_a_region_by_itself_has_the_same_names(recording: Path) -> None:
    """There only accesses to contested pages were rows; where all is listed all of them are."""
    every = listed(recording)
    regions = sorted({json.loads(line)["region"] for line in every})
    assert len(regions) > 3
    assert numbered(every)
    for region in regions:
        alone = listed(recording, region=region)
        assert alone == [line for line in every if json.loads(line)["region"] == region]


@pytest.mark.soak
def test_a_number_among_contested_accesses_alone_is_found(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = listed(recording)
    regions = sorted({json.loads(line)["region"] for line in every})
    monkeypatch.setattr(numbering, "numbers_among", lambda _, rows: np.zeros(len(rows), np.int64))
    alone = [line for region in regions for line in listed(recording, region=region)]
    assert alone != every
    assert len(alone) == len(every)


def test_how_many_there_are_is_the_same_of_all_and_of_few(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [one.facts() for one in corebraid.pairs(recording, summary=True)]
    counted = corebraid.order(recording, count=True).counted
    monkeypatch.setattr(numbering, "tells_contested", lambda _: False)
    assert [one.facts() for one in corebraid.pairs(recording, summary=True)] == few
    assert corebraid.order(recording, count=True).counted == counted
    assert sum(isinstance(one, RegionPairs) for one in corebraid.pairs(recording)) > 3


@pytest.mark.soak
def test_names_that_are_listed_are_accepted(recording: Path) -> None:
    """And what is no unfiltered event, or does not exist, is refused as where all accesses are rows."""
    lines = [json.loads(line) for line in listed(recording)]
    numbered_first = sorted(lines, key=lambda line: "." not in line["first"]["event"])
    for line in numbered_first[:3] + lines[-3:]:
        names = [line[which]["event"] for which in ("first", "second")]
        found = corebraid.witness(recording, ",".join(names))
        assert found.facts()["directions"][0]["possible"]
    core, count = lines[-1]["first"]["event"].split(".")[0].split(":")
    other = lines[-1]["second"]["event"]
    for name, said in (
        (f"{core}:{count}.99", "no such access of this instruction"),
        (f"{core}:999999999", "no such event"),
        (f"{core}:3", "of different regions|filtered|no such event"),
    ):
        with pytest.raises(UsageError, match=said):
            corebraid.witness(recording, f"{name},{other}")


def _earlier(lines: list[dict[str, Any]]) -> str:
    """An event of an earlier region than the last one's."""
    return str(lines[0]["first"]["event"])


def test_a_region_is_replayed_once_more_for_names_alone(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    every = Numbering.every

    def noted(self: Numbering, core: int, region: int, counts: Any) -> Any:
        asked.append(region)
        return every(self, core, region, counts)

    monkeypatch.setattr(Numbering, "every", noted)
    list(corebraid.pairs(recording, summary=True))
    assert not asked
    region = json.loads(listed(recording, limit=1)[0])["region"]
    assert not asked
    assert listed(recording, region=region, limit=5)
    assert set(asked) == {region}
