"""An order's score against the order that ran, and the same counted in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import record, run
from engine_suite import RECORDING, SOAK, shape_of
from score_factory import any_order, by_region, naive_sources, slices_of
from test_solver_checker import certificate
from test_tso_checker import is_legal, random_order
from trace_factory import MEMORY_BYTES, by_hand, make

from bench.tiny_runs import Run
from corebraid.base.rows.event import READ, UNCACHED, WRITE
from corebraid.study.certificates import traces_of
from recorder.files.reader import Recording, iter_sealed_truth
from solver.check.certificate import Certificate, CertificateWriter, Head
from solver.regions.traces import MemoryTraces
from solver.score import Score, score_certificate
from solver.score import sources as sources_module


def naive_score(traces: MemoryTraces, ran: list[int], order: list[int]) -> Score:
    """The score of one order against another, pair by pair and byte by byte."""
    true, first = naive_sources(traces, ran)
    said, second = naive_sources(traces, order)
    true_change, said_change = (naive_sources(traces, way, True)[0] for way in (ran, order))
    first_store = traces.n_streams - traces.buffered

    def processor(s: int) -> int:
        return s - first_store if s >= first_store else s

    who: dict[int, set[int]] = {}
    written, cover = set(), {}
    for s, i in first:
        row = traces.rows[s][i]
        cover[s, i] = (
            set()
            if row["flags"] & UNCACHED
            else set(range(int(row["addr"]), int(row["addr"]) + int(row["size"])))
        )
        for a in cover[s, i]:
            who.setdefault(a, set()).add(processor(s))
        if row["kind"] != READ:
            written |= cover[s, i]
    shared = {a for a in written if len(who[a]) > 1}
    tally: Counter[str] = Counter()
    for me in first:
        if traces.rows[me[0]]["kind"][me[1]] != WRITE and cover[me] & shared:
            same = all(true[me, a] == said[me, a] for a in cover[me])
            tally["same" if same else "other"] += 1
            tally["changed"] += any(true_change[me, a] != said_change[me, a] for a in cover[me])
    place = {row: k for k, row in enumerate(second)}
    for one, two in combinations(first, 2):
        a, b = traces.rows[one[0]][one[1]], traces.rows[two[0]][two[1]]
        if processor(one[0]) == processor(two[0]) or a["stratum"] != b["stratum"]:
            continue
        if cover[one] & cover[two] and (a["kind"] != READ or b["kind"] != READ):
            tally["ran" if place[one] < place[two] else "turned"] += 1
    reads, pairs = tally["same"] + tally["other"], tally["ran"] + tally["turned"]
    return Score(
        reads, tally["same"], tally["other"], 0, tally["changed"], pairs, tally["ran"], tally["turned"], 0
    )


def sc_campaign(path: Path) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(60 * SOAK):
        made = make(seed, shape_of(seed, (10, 40)))
        order = any_order(made.traces, random.Random(seed))
        score = score_certificate(made.traces, by_region(made.traces, order, path), [made.slices])
        assert score == naive_score(made.traces, made.order, order), f"seed {seed}"
        seen.update(other=score.other, same=score.same, turned=score.turned, as_ran=score.as_ran)
        own = score_certificate(made.traces, by_region(made.traces, made.order, path), [made.slices])
        assert (own.same, own.as_ran) == (own.reads, own.pairs), f"seed {seed}"
    return seen


def test_random_orders_score_as_counted_one_by_one(tmp_path: Path) -> None:
    seen = sc_campaign(tmp_path / "c")
    print(dict(seen))
    assert min(seen.values()) > 200


def test_random_orders_with_store_buffers_score_as_counted_one_by_one(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(400 * SOAK):
        traces = Run(seed).traces()
        ran, order = (
            [s for region in random_order(traces, draw) for s in region] for draw in (seed, seed + 5000)
        )
        if not (is_legal(traces, [ran]) and is_legal(traces, [order])):
            continue
        score = score_certificate(traces, by_region(traces, order, tmp_path / "c"), [slices_of(traces, ran)])
        assert score == naive_score(traces, ran, order), f"Run({seed})"
        seen.update(other=score.other, same=score.same, turned=score.turned, as_ran=score.as_ran)
    print(dict(seen))
    assert min(seen.values()) > 10


@pytest.mark.parametrize("change", ["last", "pairs"])
def test_a_planted_bug_is_caught(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that know only where a read begins; pairs that are counted at every byte."""
    if change == "last":
        right = sources_module.Sources.walk

        def wrong(self: Any, accesses: Any, order: Any, begin: Any) -> Any:
            source = right(self, accesses, order, begin)
            for i in range(len(begin) - 1):
                source[begin[i] : begin[i + 1]] = source[begin[i]]
            return source

        monkeypatch.setattr("solver.score.score.Sources.walk", wrong)
    else:
        from solver.score import standing

        right_pairs: Callable[..., tuple[int, int]] = standing.count_pairs
        monkeypatch.setattr(
            standing,
            "count_pairs",
            lambda starts, *rest: right_pairs(np.zeros_like(starts), *rest),
        )
    with pytest.raises(AssertionError):
        sc_campaign(tmp_path / "c")


def test_a_region_without_an_order_is_told_apart(tmp_path: Path) -> None:
    """What it wrote has no known source afterwards, until somebody writes there again."""
    cores = [[(0x100, 5, 6), (0x100, 7, 7), (0x100, 7, 8)], [(0x100, 6, 7), (0x100, 8, 8)]]
    traces = by_hand(cores, {0x100: 5}, {0x100: 8})
    traces.strata = np.array([[1, 1]], np.uint64)
    traces.rows[0]["stratum"][1:] = traces.rows[1]["stratum"][1:] = 1
    writer = CertificateWriter(tmp_path / "c", RECORDING, Head("hand", 2, 2))
    writer.unordered(0, 1, np.array([1, 1], np.int64))
    writer.ordered(1, np.array([0, 1], np.int64), np.array([2, 1], np.int64))
    writer.finish(np.array([3, 2], np.int64))
    score = score_certificate(
        traces, Certificate(tmp_path / "c", RECORDING), [slices_of(traces, [0, 1, 0, 0, 1])]
    )
    # Each of the writes is a read as well: two of region 0, and the two of region 1 that see what it left.
    assert score == Score(reads=5, same=1, other=0, none=4, changed=0, pairs=2, as_ran=1, turned=0, open=1)
    assert "4 none" in score.lines()[0]
    assert "1 in no order" in score.lines()[1]


def test_nothing_shared_gives_no_percentages(tmp_path: Path) -> None:
    traces = by_hand([[(0x100, 5, 6)], [(0x108, 1, 2)]], {0x100: 5, 0x108: 1}, {0x100: 6, 0x108: 2})
    score = score_certificate(
        traces, certificate(tmp_path / "c", traces, [1, 0]), [slices_of(traces, [0, 1])]
    )
    assert score.lines() == ["no shared reads", "no conflicting pairs"]
    assert MEMORY_BYTES


def test_verify_scores_the_order(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    assert record(path, "uts", "--strata", "cycles:100000").code == 0
    assert json.loads(run("verify", path, "--json").out)["score"] is None
    assert run("order", path).code == 0
    facts = json.loads(run("verify", path, "--json").out)["score"]
    opened = Recording.open(path)
    slices = [(r["stream"].astype(np.int64), r["end"].astype(np.uint64)) for r in iter_sealed_truth(opened)]
    certificate = Certificate(path / "order.cert", opened.manifest.id)
    score = score_certificate(traces_of(opened, certificate), certificate, slices)
    assert facts == score.facts()
    assert score.reads == score.same + score.other > 300
    assert score.pairs == score.as_ran + score.turned > 1000
    for line in score.lines():
        assert line in run("verify", path).out
