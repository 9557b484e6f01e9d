"""How sure an order is, on the command line: pairs, order --count, order --choose."""

from __future__ import annotations

import json
import math
import operator
import shutil
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from cli_factory import Ran, record, run

from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.freedom.count import Executions
from solver.passes.unfiltered import iter_problems, rows_of_ops


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of uts on 3 cores, not ordered."""
    path = tmp_path_factory.mktemp("sure") / "rec"
    assert record(path, "uts", "--cores", 3, "--strata", "cycles:3000", "--evidence", "none").code == 0
    return path


@pytest.fixture
def copy(rec: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(rec, tmp_path / "copy"))


def lines(ran: Ran) -> list[dict[str, object]]:
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def of_type(found: list[dict[str, object]], kind: str) -> list[dict[str, object]]:
    return [line for line in found if line["type"] == kind]


@pytest.fixture(scope="module")
def every(rec: Path) -> list[dict[str, object]]:
    return lines(run("pairs", rec, "--json"))


def test_pairs_add_up(rec: Path, every: list[dict[str, object]]) -> None:
    pairs, regions, (total,) = (of_type(every, kind) for kind in ("pair", "region", "total"))
    for order in ("must", "may", "undecided"):
        n = sum(pair["order"] == order for pair in pairs)
        assert n == total[order] == sum(region[order] for region in regions)  # type: ignore[misc]
    assert total["must"] > 100  # type: ignore[operator]
    assert total["may"] > 3  # type: ignore[operator]
    assert total["undecided"] == 0
    for pair in pairs:
        first, second = pair["first"], pair["second"]
        assert first["core"] != second["core"]  # type: ignore[index]
        assert {first["kind"], second["kind"]} & {"W", "RMW"}  # type: ignore[index]
    summary = lines(run("pairs", rec, "--summary", "--json"))
    executions = [Executions(*(int(n) for n in row.pop("executions").values())) for row in summary]  # type: ignore[attr-defined]
    assert summary == [*regions, total]
    assert executions[-1] == reduce(operator.mul, executions[:-1])
    assert executions[-1].least > 1
    assert run("pairs", rec, "--json").out == run("pairs", rec, "--json").out


def test_must_pairs_hold_in_the_order_that_is_found(copy: Path, every: list[dict[str, object]]) -> None:
    """And every event's name leads to its row in the trace."""
    assert run("order", copy).code == 0
    rank: dict[str, int] = {}
    seen: dict[tuple[object, object], int] = {}
    trace = run("trace", copy, "--ordered", "--format", "jsonl").out.splitlines()
    rows = []
    for number, line in enumerate(trace):
        row = json.loads(line)
        nth = seen.get((row["core"], row["count"]), 0)
        seen[row["core"], row["count"]] = nth + 1
        core = "dev" if row["agent"] else row["core"]
        rank[f"{core}:{row['count']}" + (f".{nth}" if nth else "")] = number
        rows.append(row)
    for pair in of_type(every, "pair"):
        first, second = (pair[side] for side in ("first", "second"))
        for side in (first, second):
            row = rows[rank[side["event"]]]  # type: ignore[index]
            for key in ("pc", "symbol", "offset", "addr", "size", "kind", "old", "new"):
                assert row[key] == side[key], side  # type: ignore[index]
        if pair["order"] == "must":
            assert rank[first["event"]] < rank[second["event"]]  # type: ignore[index]


def test_filters_of_pairs(rec: Path, every: list[dict[str, object]]) -> None:
    pairs = of_type(every, "pair")
    may = of_type(lines(run("pairs", rec, "--only", "may", "--json")), "pair")
    assert may == [pair for pair in pairs if pair["order"] == "may"]
    region = may[0]["region"]
    there = of_type(lines(run("pairs", rec, "--region", region, "--json")), "pair")
    assert there == [pair for pair in pairs if pair["region"] == region]
    address = may[0]["addr"]
    over = of_type(lines(run("pairs", rec, "--addr", address, "--json")), "pair")
    assert over == [
        pair
        for pair in pairs
        if int(pair["addr"], 16) <= int(address, 16) < int(pair["addr"], 16) + pair["size"]  # type: ignore
    ]
    ran = run("pairs", rec, "--core", 1, "--limit", 3, "--json")
    few = of_type(lines(ran), "pair")
    assert (
        few
        == [
            pair
            for pair in pairs
            if 1 in (pair["first"]["core"], pair["second"]["core"])  # type: ignore[index]
        ][:3]
    )
    assert "stopped after 3 pairs" in ran.err
    text = run("pairs", rec, "--only", "may").out.splitlines()
    assert len([line for line in text if " <> " in line]) == len(may)
    assert text[-1].startswith("all: ")


def test_a_may_has_a_witness_for_each_direction(copy: Path, every: list[dict[str, object]]) -> None:
    pair = next(pair for pair in of_type(every, "pair") if pair["order"] == "may")
    first, second = (str(pair[side]["event"]) for side in ("first", "second"))  # type: ignore[index]
    facts = json.loads(run("pairs", copy, "--witness", f"{first},{second}", "--json").out)
    for direction, (a, b) in zip(facts["directions"], ((first, second), (second, first)), strict=True):
        assert direction["possible"]
        assert direction["order"].index(a) < direction["order"].index(b)
        assert run("order", copy, "--choose", f"before:{a},{b}").code == 0
        assert run("check-order", copy).code == 0
        assert op_rank(copy, facts["region"], a) < op_rank(copy, facts["region"], b)
    text = run("pairs", copy, "--witness", f"{first},{second}").out
    assert f"{first} before {second}: a legal order of the" in text
    assert sum(line.startswith("> ") for line in text.splitlines()) == 4


def test_a_must_has_a_witness_for_one_direction(copy: Path, every: list[dict[str, object]]) -> None:
    pair = next(pair for pair in of_type(every, "pair") if pair["order"] == "must")
    first, second = (str(pair[side]["event"]) for side in ("first", "second"))  # type: ignore[index]
    facts = json.loads(run("pairs", copy, "--witness", f"{first},{second}", "--json").out)
    assert [direction["possible"] for direction in facts["directions"]] == [True, False]
    assert "in no legal order" in run("pairs", copy, "--witness", f"{first},{second}").out
    ran = run("order", copy, "--choose", f"before:{second},{first}")
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert "in no legal order does the first event come before the second" in ran.err
    assert not (copy / "order.cert").exists()


def op_rank(path: Path, region: int, event: str) -> int:
    """Place of an event among the unfiltered ones of its region in the recording's certificate."""
    recording = Recording.open(path)
    here, problem = next((r, p) for r, p in iter_problems(RecordingTraces(recording)) if r.index == region)
    rows, nth = rows_of_ops(here, problem)
    core, _, rest = event.partition(":")
    count, _, number = rest.partition(".")
    (op,) = np.flatnonzero(
        (rows["core"] == int(core)) & (rows["count"] == int(count)) & (nth == int(number or 0))
    )
    # The last row of each operation, as a place in the region's rows.
    placed, rank = np.zeros(len(problem.rows), np.int64), {}
    for block in Certificate(path / "order.cert", recording.manifest.id).blocks():
        if block.region != region:
            continue
        for stream, n in zip(block.stream.tolist(), block.rows.tolist(), strict=True):
            first, end = problem.stream_ptr[stream : stream + 2]
            ends = problem.end_row[first:end]
            done = np.flatnonzero((ends > placed[stream]) & (ends <= placed[stream] + n))
            placed[stream] += n
            for o in done:
                rank[int(first + o)] = len(rank)
    return rank[int(op)]


def test_an_event_as_early_and_as_late_as_can_be(copy: Path, every: list[dict[str, object]]) -> None:
    pair = next(pair for pair in of_type(every, "pair") if pair["order"] == "may")
    event, region = str(pair["first"]["event"]), int(str(pair["region"]))  # type: ignore[index]
    ranks = []
    for kind in ("earliest", "latest"):
        ran = run("order", copy, "--choose", f"{kind}:{event}", "--json")
        assert ran.code == 0, ran.err
        row = json.loads(ran.out)["by_region"][region]
        ranks.append(op_rank(copy, region, event))
        assert row["engine"] == "choose"
        assert row["reason"].startswith(f"event is number {ranks[-1] + 1:,} of ")
        assert run("check-order", copy).code == 0
    assert ranks[0] < ranks[1]


def test_fewest_switches(copy: Path) -> None:
    facts = json.loads(run("order", copy, "--choose", "fewest-switches", "--json").out)
    assert facts["verdict"] == "legal"
    chosen = [row for row in facts["by_region"] if row["engine"] == "choose"]
    assert chosen
    assert all("switch" in row["reason"] for row in chosen)
    assert run("verify", copy).code == 0


def test_counts_of_a_recording(copy: Path) -> None:
    ran = run("order", copy, "--count", "--json")
    orders = json.loads(ran.out)["orders"]
    assert all(row["exact"] for row in orders["by_region"])
    counts = [int(row["orders"]) for row in orders["by_region"]]
    assert int(orders["all"]["orders"]) == math.prod(counts)
    assert min(counts) == 1
    assert max(counts) > 1
    text = run("order", copy, "--count").out
    assert f"region {counts.index(1)}: exactly this order is possible" in text
    assert "orders of the unfiltered events fit the evidence" in text
    few = json.loads(run("order", copy, "--count", "--count-budget", 1, "--json").out)["orders"]
    bounds = [row for row in few["by_region"] if not row["exact"]]
    assert bounds
    assert all(int(row["more_than"]) < counts[row["region"]] for row in bounds)
    assert "budget of 1 cuts" in bounds[0]["meaning"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["order", "--choose", "soon"], ["not a choice of order", "fewest-switches"]),
        (["order", "--choose", "earliest:x"], ["not an event", "CORE:COUNT"]),
        (["order", "--choose", "earliest:7:1"], ["no such core", "0 to 2"]),
        (["order", "--choose", "earliest:0:999999999"], ["no such event"]),
        (["order", "--choose", "latest:0:1"], ["no such event"]),
        (["order", "--choose", "earliest:0:0"], ["was filtered", "corebraid pairs"]),
        (["order", "--count-budget", "0"], ["--count-budget"]),
        (["pairs", "--region", "9999"], ["no such region"]),
        (["pairs", "--core", "9"], ["no such core"]),
        (["pairs", "--addr", "nowhere"], ["no such address or symbol"]),
        (["pairs", "--witness", "0:1"], ["not two events"]),
        (["pairs", "--budget", "0"], ["--budget"]),
    ],
)
def test_wrong_use_is_one_line(rec: Path, arguments: list[str], parts: list[str]) -> None:
    ran = run(arguments[0], rec, *arguments[1:])
    assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1), ran
    for part in parts:
        assert part in ran.err


def test_help_names_events() -> None:
    for command in ("pairs", "order"):
        out = " ".join(run(command, "--help").out.split())
        assert "CORE:COUNT.N" in out
        assert "corebraid pairs REC" in out or command == "order"
