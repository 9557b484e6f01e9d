"""Windows of a trace against slices of the whole of it."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from cli_factory import FIRMWARE, run

import corebraid
from corebraid.base.errors import UsageError

Line = dict[str, Any]


@pytest.fixture(scope="module", params=["sc", "tso"])
def rec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cores and transfers, or two cores under TSO."""
    path: Path = tmp_path_factory.mktemp("windows") / "rec"
    name = {"sc": "dma_race", "tso": "peterson_nofence"}[request.param]
    corebraid.record(FIRMWARE / f"{name}.elf", path, cores=2, model=request.param, strata="cycles:5000")
    corebraid.order(path)
    return path


def lines(rec: Path, **options: Any) -> list[Line]:
    sink = io.BytesIO()
    corebraid.trace(rec, **options).write(sink, "jsonl")
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def at(rows: list[Line], core: int, count: int) -> tuple[int, bool]:
    """(where an event stands among rows, whether it is an access)."""
    mine = [k for k, row in enumerate(rows) if row["core"] == core]
    exact = [k for k in mine if rows[k]["count"] == count and row_is_data(rows[k])]
    later = [k for k in mine if rows[k]["count"] > count]
    return (exact or later or [len(rows)])[0], bool(exact)


def row_is_data(row: Line) -> bool:
    return bool(row["kind"] != "F")


def events(rows: list[Line], n: int) -> list[tuple[int, int]]:
    rng = random.Random(3)
    chosen = [rng.choice(rows) for _ in range(n)]
    return [(row["core"], row["count"] + rng.choice((0, 0, 1))) for row in chosen if row["core"] < 2]


@pytest.mark.parametrize("ordered", [False, True])
def test_rows_around_an_event(rec: Path, ordered: bool) -> None:
    every = lines(rec, ordered=ordered, fetches=True)
    for core, count in events(every, 8):
        rows = every if ordered else [row for row in every if row["core"] == core]
        k, exact = at(rows, core, count)
        data = (
            [row for row in rows[:k] if row_is_data(row)],
            [row for row in rows[k + exact :] if row_is_data(row)],
        )
        expected = [*data[0][-4:], *(rows[k : k + 1] if exact else []), *data[1][:4]]
        assert lines(rec, ordered=ordered, around=f"{core}:{count}", context=4) == expected, (core, count)


def test_rows_from_one_event_to_another(rec: Path) -> None:
    every = lines(rec, ordered=True, fetches=True)
    found = events(every, 12)
    for one, two in zip(found[::2], found[1::2], strict=False):
        (first, one), (until, two) = sorted((at(every, *event)[0], event) for event in (one, two))
        expected = [row for row in every[first:until] if row_is_data(row)]
        names = [f"{core}:{count}" for core, count in (one, two)]
        assert lines(rec, ordered=True, first=names[0], until=names[1]) == expected
        if first != until:
            with pytest.raises(UsageError, match="ends before it begins"):
                lines(rec, ordered=True, first=names[1], until=names[0])
        assert lines(rec, ordered=True, until=names[0], kind="W") == [
            row for row in every[:first] if row["kind"] == "W"
        ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "0:10"], "are a window of the order; add --ordered"),
        (["--around", "0:10", "--from", "5"], "--around is a window by itself"),
        (["--context", "5"], "--context is for --around"),
        (["--around", "0:99999999"], "no such event: its stream ends before"),
        (["--around", "7:1"], "no such core in this recording"),
        (["--around", "0:5.99"], "no such access of this instruction"),
        (["--thread", "1"], "firmware has no threads"),
        (["--function", "nothing"], "no such address or symbol 'nothing'"),
        (["--pc", "main", "--function", "main"], "both say where"),
        (["--format", "axe", "--around", "0:1"], "writes all accesses to a location"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_windows_that_cannot_be(rec: Path, arguments: list[str], said: str) -> None:
    ran = run("trace", rec, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_thread_and_the_kernel_for_it(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    corebraid.record(FIRMWARE.parent / "linux" / "x86_64" / "static_pie_threads", path, cores=2, seed=1)
    every = lines(path)
    for thread in {row["thread"] for row in every} - {None}:
        expected = [row for row in every if row["thread"] == thread]
        assert lines(path, thread=thread) == expected
    assert any(row["agent"] for row in lines(path, thread=1000))
    with pytest.raises(UsageError, match="no such thread: expected one of 1000, "):
        lines(path, thread="nobody")
