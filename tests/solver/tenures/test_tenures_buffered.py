"""Tenures under TSO: what they prove is true of every run, what plain Python finds of them, and engines that
obey them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_suite import ENGINES, RECORDING, SOAK
from tenure_factory import pairs_of

from bench.tiny_runs import LINE, Run
from corebraid.base.rows.event import READ, UNCACHED
from corebraid.base.rows.record import MISS, RECEIVED
from solver.check.certificate import Certificate
from solver.check.checker import check_certificate
from solver.passes.answers import Options, solve
from solver.passes.order import order_recording
from solver.passes.stages import sift_region
from solver.regions.problem import Verdict
from solver.regions.program_order import core_rows
from solver.regions.region import Region
from solver.regions.traces import MemoryTraces
from solver.sifting.boundary import Forward
from solver.sifting.strata import iter_regions
from solver.tenures import buffered_deduce
from solver.tenures.buffered_deduce import BufferedTenures
from solver.tenures.buffered_edges import implied_by, not_told
from solver.tenures.buffered_lines import ties_of
from solver.tenures.buffered_placed import LossMatcher, find_record, sorted_lines
from solver.tenures.clocks import learn
from solver.tenures.edges import row_edges
from solver.tenures.scan import CONTINUED


def runs(n: int) -> list[Run]:
    """Random runs under TSO, some with agents, some with evictions, some as a ring's."""
    return [
        Run(seed, agents=seed % 3 == 0, evicting=seed % 4 == 1, forgetting=seed % 4 == 2) for seed in range(n)
    ]


def false_edges(
    run: Run, traces: MemoryTraces | None = None, *, losses: bool = False
) -> tuple[int, int, int]:
    """(edges, those that do not hold in the run, regions that contradict themselves)."""
    ranks, n, false, wrong = run.ranks(), 0, 0, 0
    base = [0] * len(ranks)
    for region in iter_regions(traces or run.traces(tenures=True, losses=losses)):
        assert isinstance(region.tenures, BufferedTenures)
        found = region.tenures.deduced(region)
        wrong += found.contradiction
        for s, rows, t, row in row_edges(found.clocks).tolist():
            n += 1
            false += ranks[s][base[s] + rows - 1] > ranks[t][base[t] + row]
        base = [first + len(rows) for first, rows in zip(base, region.streams, strict=True)]
    return n, false, wrong


@pytest.mark.parametrize("losses", [False, True])
@pytest.mark.soak
def test_what_is_deduced_is_true_of_random_runs(losses: bool) -> None:
    edges = 0
    for seed, run in enumerate(runs(500 * SOAK)):
        n, false, wrong = false_edges(run, losses=losses)
        assert not false, f"Run({seed})"
        assert not wrong, f"Run({seed})"
        edges += n
    print(f"{edges} edges")
    assert edges > 2000


@pytest.mark.soak
def test_losses_prove_all_that_tenures_do_and_more() -> None:
    more = 0
    for seed, run in enumerate(runs(150 * SOAK)):
        n = len(run.ranks())
        for region, with_losses in zip(
            iter_regions(run.traces(tenures=True)),
            iter_regions(run.traces(tenures=True, losses=True)),
            strict=True,
        ):
            assert isinstance(region.tenures, BufferedTenures)
            assert isinstance(with_losses.tenures, BufferedTenures)
            before = pairs_of(region.tenures.deduced(region).clocks, n)
            known = pairs_of(with_losses.tenures.deduced(with_losses).clocks, n)
            assert before <= known, f"run {seed}"
            more += len(known - before)
    print(f"{more} more pairs")
    assert more > 100


def matched(run: Run, core: int, strata: int) -> list[int]:
    """What `LossMatcher` finds of a core, region by region."""
    traces = run.traces(tenures=True, losses=True)
    matcher = LossMatcher(traces.losses(core), traces.records(core), traces.memory_bytes, LINE)
    return [int(number) for region in range(strata + 1) for number in matcher.take(region)[3]]


@pytest.mark.parametrize("forgetting", [False, True])
def test_losses_are_matched_with_the_records_by_which_lines_were_held(forgetting: bool) -> None:
    told = untold = 0
    for seed in range(300 * SOAK):
        run = Run(seed, agents=seed % 3 == 0, forgetting=forgetting)
        for core, expected in enumerate(run.lost_by()):
            found = matched(run, core, len(run.strata))
            assert all(a in (b, -1) for a, b in zip(found, expected, strict=True)), (
                f"Run({seed}), core {core}"
            )
            told, untold = told + sum(a >= 0 for a in found), untold + found.count(-1)
    print(f"{told} told, {untold} not")
    assert told > 20 * untold


def test_a_line_that_was_forgotten_is_had_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> int:
        drawn = [Run(seed, forgetting=True) for seed in range(100)]
        return sum(
            number >= 0
            for run in drawn
            for core in range(len(run.lost_by()))
            for number in matched(run, core, len(run.strata))
        )

    found = told()
    monkeypatch.setattr(LossMatcher, "_note_forgotten", lambda *_: None)
    assert told() < 0.9 * found


def test_many_records_of_one_count_are_looked_up_as_few_are() -> None:
    rng, nothing = np.random.default_rng(5), np.zeros(0, np.int64)
    kinds = set()
    for n in (*range(1, 40), 500):
        lines = rng.integers(0, n, n)
        first, end = sorted(int(at) for at in rng.integers(0, n + 1, 2))
        order = sorted_lines(lines, first, end)
        assert (len(order) > 0) == (end - first > 16)
        for line in range(-1, n + 1):
            found = find_record(lines, line, first, end, order)
            places = first + np.flatnonzero(lines[first:end] == line)
            assert found == (places[-1] if len(places) else -1, min(len(places), 2))
            assert found == find_record(lines, line, first, end, nothing)
            kinds.add((len(order) > 0, found[1]))
    assert len(kinds) == 6


def unsound_alone(a: Any, h: Any, owners: int, c: Any) -> int:
    """Takes every other hold for one that begins after a span alone has ended."""
    for x in range(len(a.line)):
        for y in np.flatnonzero((h.line == a.line[x]) & (h.owner != a.owner[x])):
            if a.end[x][1] >= 0 and h.begin[y][1] >= 0:
                learn(c, *a.end[x], *h.begin[y])
    return -1


def unsound_takers(taken: Any, a: Any, owners: int, c: Any) -> int:
    """Takes the last of another's spans alone for the one that a line was lost to."""
    for x in range(len(taken.line)):
        mine = np.flatnonzero((a.line == taken.line[x]) & (a.owner != taken.owner[x]) & (a.begin[:, 1] >= 0))
        for y in mine[-1:]:
            learn(c, taken.stream[x], taken.node[x], *a.begin[y])
    return -1


@pytest.mark.parametrize(
    ("name", "rule"), [("apply_alone_times", unsound_alone), ("apply_takers", unsound_takers)]
)
def test_an_unsound_rule_about_losses_is_caught(
    name: str, rule: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffered_deduce, name, rule)
    found = [false_edges(run, losses=True) for run in runs(100)]
    assert sum(false > 0 or wrong > 0 for _, false, wrong in found) > 3


@pytest.mark.soak
def test_a_load_that_the_buffer_may_have_answered_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it taken for an access to the line, not all that is deduced would be true."""

    def careless(region: Region, core: int) -> Any:
        rows = core_rows(region, core)
        rows.loads["flags"] &= np.uint8(255 - UNCACHED)
        return replace(rows, source=np.full_like(rows.source, -1))

    monkeypatch.setattr(buffered_deduce, "core_rows", careless)
    found = [false_edges(run) for run in runs(200)]
    assert sum(false > 0 or wrong > 0 for _, false, wrong in found) > 5


def test_a_miss_is_no_proof_where_lines_are_evicted() -> None:
    noticed = 0
    for seed in range(200):
        run = Run(seed, evicting=True)
        traces = run.traces(tenures=True)
        traces.misses_prove_writes = True
        _, false, wrong = false_edges(run, traces)
        noticed += false > 0 or wrong > 0
    assert noticed > 5


# -- the same in plain Python ----------------------------------------------------------------------------


class _Chains:
    """One core's pieces of tenures, region by region, from its rows and log, record by record."""

    def __init__(self, traces: MemoryTraces, core: int) -> None:
        self.loads = traces.rows[core]
        self.stores = traces.rows[traces.n_streams - traces.buffered + core]
        rows, blob = traces.logs[core]
        self.misses: list[tuple[int, int, int, bytes]] = []
        for row in rows:
            bytes_of = bytes(blob[int(row["offset"]) : int(row["offset"]) + LINE])
            if row["kind"] == MISS:
                self.misses.append((int(row["count"]), int(row["value"]), int(row["addr"]) // LINE, bytes_of))
            elif row["kind"] == RECEIVED:
                self.misses[-1] = (*self.misses[-1][:3], bytes_of)

    def record_of(self, load: bool, number: int, line: int) -> int:
        """The last record of a line that a row stands behind, -1 for none."""
        found = -1
        for k, (count, committed, of, _) in enumerate(self.misses):
            behind = count <= self.loads["count"][number] if load else committed <= number
            if of == line and behind:
                found = k
        return found

    def accesses(self) -> dict[int, list[tuple[int, bool, int]]]:
        """For each record the rows behind it that touch its line: (seq, of the loads, number)."""
        found: dict[int, list[tuple[int, bool, int]]] = {}
        for load, rows in ((True, self.loads), (False, self.stores)):
            for number, row in enumerate(rows):
                if not row["flags"] & UNCACHED:
                    last = int(row["addr"]) + int(row["size"]) - 1
                    for line in range(int(row["addr"]) // LINE, last // LINE + 1):
                        k = self.record_of(load, number, line)
                        if k >= 0:
                            found.setdefault(k, []).append((int(row["seq"]), load, number))
        return found

    def image(self, record: int, below: int) -> bytes:
        """The line of a record with the core's writes behind it, those in regions below one."""
        line, content = self.misses[record][2], bytearray(self.misses[record][3])
        for _, load, number in sorted(self.accesses()[record]):
            row = (self.loads if load else self.stores)[number]
            if row["kind"] != READ and row["stratum"] < below:
                for b, value in enumerate(int(row["new"]).to_bytes(8, "little")[: row["size"]]):
                    if (int(row["addr"]) + b) // LINE == line:
                        content[(int(row["addr"]) + b) % LINE] = value
        return bytes(content)


def test_plain_python_finds_the_same_pieces_of_tenures() -> None:
    seen: Counter[str] = Counter()
    for seed, run in enumerate(runs(60 * SOAK)):
        traces = run.traces(tenures=True)
        chains = [_Chains(traces, core) for core in range(traces.buffered)]
        first = [[0, 0] for _ in chains]
        for region in iter_regions(traces):
            assert isinstance(region.tenures, BufferedTenures)
            for core, begins in enumerate(region.tenures.begins):
                naive, base = chains[core], first[core]
                ends = (
                    base[0] + len(region.streams[core]),
                    base[1] + len(region.streams[traces.buffered + 1 + core]),
                )
                expected = []
                for record, rows in sorted(naive.accesses().items()):
                    mine = [[n for _, load, n in rows if load is side] for side in (True, False)]
                    here = [
                        [n - base[k] for n in side if base[k] <= n < ends[k]] for k, side in enumerate(mine)
                    ]
                    if here[0] or here[1]:
                        count, committed, line, _ = naive.misses[record]
                        loads = int((naive.loads["count"] < count).sum())
                        before = loads < base[0] or committed < base[1]
                        went_on = before or any(n < base[k] for k in (0, 1) for n in mine[k])
                        expected.append(
                            (
                                min(here[0], default=-1), min(here[1], default=-1), line, went_on,
                                naive.image(record, region.index if went_on else 0),
                            )
                        )  # fmt: skip
                found = [
                    (int(load), int(store), int(line), bool(how == CONTINUED), bytes(image))
                    for load, store, line, how, _, _, image in zip(*begins[:7], strict=True)
                    if line >= 0
                ]
                assert found == expected, f"run {seed}, region {region.index}, core {core}"
                seen["pieces"] += len(found)
                seen["went on"] += sum(piece[3] for piece in found)
                seen["both"] += sum(piece[0] >= 0 and piece[1] >= 0 for piece in found)
                first[core] = list(ends)
    print(dict(seen))
    assert min(seen.values()) > 20


def test_ties_are_what_each_record_says() -> None:
    for run in runs(60):
        for region in iter_regions(run.traces(tenures=True)):
            assert isinstance(region.tenures, BufferedTenures)
            for core, begins in enumerate(region.tenures.begins):
                rows = core_rows(region, core)
                ties, places = ties_of(rows, begins), list(zip(begins[4], begins[5], strict=True))
                for i, told in enumerate(rows.need):
                    assert ties.need[i] == max([told, *(s for n, s in places if n <= i)])
                for j, told in enumerate(rows.loads_before):
                    assert ties.loads_before[j] == max([told, *(n for n, s in places if s <= j)])


# -- engines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.soak
def test_random_runs_are_legal_by_tenures(engine: str, tmp_path: Path) -> None:
    for seed, run in enumerate(runs(60 * SOAK)):
        traces = run.traces(tenures=True)
        result = order_recording(traces, tmp_path / "c", RECORDING, ENGINES[engine])
        assert result.verdict is Verdict.LEGAL, f"run {seed}"
        certificate = Certificate(tmp_path / "c", RECORDING)
        assert certificate.head.constraints == "tenures"
        assert not check_certificate(traces, certificate).unchecked


@pytest.mark.soak
def test_every_edge_holds_in_the_run_and_in_the_order_found() -> None:
    seen: Counter[str] = Counter()
    for seed, run in enumerate(runs(200 * SOAK)):
        traces, ranks = run.traces(tenures=True), run.ranks()
        forward, base = Forward(traces.initial()), [0] * traces.n_streams
        for region in iter_regions(traces):
            sifted = sift_region(region)
            problem, _ = forward.compose(region, sifted.problem, sifted.chains, sifted.net)
            order = solve(problem, Options("auto")).order if problem.n_ops else np.empty(0, np.int64)
            place = np.empty(problem.n_ops, np.int64)
            place[order] = np.arange(problem.n_ops)
            streams = problem.op_stream
            for a, b in problem.edges.tolist():
                first, then = (int(base[streams[op]] + problem.end_row[op] - 1) for op in (a, b))
                assert ranks[streams[a]][first] < ranks[streams[b]][then], f"run {seed}, {a} before {b}"
                assert place[a] < place[b], f"run {seed}, {a} before {b}"
            seen["deduced"] += problem.deduced
            base = [done + len(rows) for done, rows in zip(base, region.streams, strict=True)]
    print(dict(seen))
    assert seen["deduced"] > 300


def test_what_program_order_says_is_not_told_again() -> None:
    """Edges that are left out are implied by those that stay, and by what holds within a core."""
    left_out = 0
    for run in runs(60):
        for region in iter_regions(run.traces(tenures=True)):
            assert isinstance(region.tenures, BufferedTenures)
            found = region.tenures.deduced(region)
            every = row_edges(found.clocks)
            kept = {tuple(edge) for edge in not_told(every, found.ties).tolist()}
            n = len(region.tenures.begins)
            for s, rows, t, row in every.tolist():
                told = -1
                if abs(s - t) == n + 1:
                    tie = found.ties[min(s, t)]
                    told = int((tie.told_before if t > n else tie.told_need)[row])
                assert ((s, rows, t, row) in kept) == (told < rows)
                left_out += told >= rows
    assert left_out > 50


def test_which_edges_imply_another() -> None:
    """Three streams of four operations, edges at random, against a search over all pairs."""
    rng = np.random.default_rng(1)
    stream = np.repeat(np.arange(3), 4)
    for _ in range(100):
        told, asked = (
            np.array([pair for pair in rng.integers(0, 12, (k, 2)) if stream[pair[0]] != stream[pair[1]]])
            for k in (8, 20)
        )
        found = implied_by(told.reshape(-1, 2), asked.reshape(-1, 2), stream, 3)
        for (a, b), implied in zip(asked.tolist(), found.tolist(), strict=True):
            same = [(c, d) for c, d in told.tolist() if (stream[c], stream[d]) == (stream[a], stream[b])]
            assert implied == any(c >= a and d <= b for c, d in same)
