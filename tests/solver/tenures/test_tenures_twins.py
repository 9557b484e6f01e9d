"""Kernels of single rules held against plain Python that looks at everything: who may have left what a tenure
found, and which loss ended a span alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_suite import SOAK
from tenure_factory import Run
from test_tenures_buffered import false_edges
from test_tenures_rules import deduced

from bench.tiny_runs import Run as Buffered
from corebraid.base.rows.event import ALONE, EVENT, READ
from corebraid.base.rows.record import MISS, RECORD
from solver.tenures import buffered_deduce, deduce
from solver.tenures.contents import apply_contents, candidates
from solver.tenures.holds import KNOWN
from solver.tenures.scan import CONTINUED, Scanner
from solver.tenures.spans import make_losses


def first_after(c: Any, t: int, s: int, i: int) -> int:
    """The first node of stream t that is known to come after node i of stream s."""
    if t == s:
        return i + 1
    clocks = c.clock[c.ptr[t] : c.ptr[t + 1], s]
    return int(np.argmax(clocks > i)) if (clocks > i).any() else len(clocks)


def naive_candidates(k: int, t: Any, p: Any, c: Any, start: dict[int, int]) -> tuple[Any, bool]:
    """({stream: its candidates for tenure k, in order}, whether the region's begin is one): every write is
    looked at."""
    n_streams, line = c.clock.shape[1], int(t.line[k])
    b, first = p.begins[k], int(p.first[k])
    mine = c.clock[c.ptr[b] + first]
    writes = [
        (u, x)
        for u in range(n_streams)
        for x in range(*p.ptr[line * n_streams + u : line * n_streams + u + 2])
    ]
    before = [(u, x) for u, x in writes if p.node[x] < mine[u]]

    def overwritten(u: int, x: int) -> bool:
        return any(
            y > x if v == u else c.clock[c.ptr[v] + p.node[y], u] > p.node[x]
            for v, y in before
            if (v, y) != (u, x)
        )

    found: dict[int, list[int]] = {}
    for u, x in writes:
        own = p.owner[u] == p.owner[b]
        if p.after[x] != t.before[k] or p.tenure[x] == k or (t.writes[k] and not own and not p.final[x]):
            continue
        known = (u, x) in before
        if not known and (own or p.node[x] >= first_after(c, u, b, first)):
            continue
        if not (known and overwritten(u, x)):
            found.setdefault(u, []).append(x)
    return found, start.get(line, t.before[k]) == t.before[k] and not before


class Compared:
    """In place of `apply_contents`: compares candidates first."""

    def __init__(self) -> None:
        self.tenures = self.several = 0

    def __call__(self, t: Any, p: Any, c: Any, w: Any, a: Any) -> int:
        n_streams = c.clock.shape[1]
        start = {line: w.start[line] for line in range(len(w.start)) if w.started[line]}
        for k in range(len(t.line)):
            if not p.lead[k] or not w.sound[t.line[k]] or not t.known[k] or t.how[k] == CONTINUED:
                continue
            earliest, latest = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64)
            n, begins = candidates(k, t, p, c, w, earliest, latest)
            found, begins_too = naive_candidates(k, t, p, c, start)
            assert bool(begins) == begins_too
            assert min(n, 2) == min(sum(map(len, found.values())), 2)
            for u in range(n_streams):
                some = found.get(u, [-1])
                assert (earliest[u], latest[u]) == (some[0], some[-1])
            self.tenures += 1
            self.several += n > 1
        return int(apply_contents(t, p, c, w, a))


@pytest.mark.parametrize("model", ["sc", "tso"])
def test_candidates_are_those_that_looking_at_all_writes_finds(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Compared()
    monkeypatch.setattr(deduce if model == "sc" else buffered_deduce, "apply_contents", compared)
    for seed in range(80 * SOAK):
        print(f"{model} {seed}")
        if model == "sc":
            list(deduced(Run(seed)))
        else:
            false_edges(Buffered(seed, evicting=seed % 2 == 1))
    print(f"{compared.tenures} tenures, {compared.several} with several candidates")
    assert compared.tenures > 1000
    assert compared.several > 20


def naive_enders(losses: Any) -> list[int]:
    """The last loss between the same rows."""
    where = {}
    for lost, taken in ((losses.downgraded, False), (losses.taken, True)):
        for i in range(len(lost.line)):
            place = lost.line[i], lost.stream[i], lost.before[i], lost.after[i]
            where[taken, *place] = i + (len(losses.downgraded.line) if taken else 0)
    alone = losses.alone
    columns = alone.end != KNOWN, alone.line, alone.stream, alone.before, alone.after
    return [where.get(key, -1) for key in zip(*columns, strict=True)]


def test_the_loss_that_ended_a_span_is_the_one_between_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = ended = 0

    def compared(*given: Any) -> Any:
        nonlocal spans, ended
        losses = make_losses(*given)
        assert losses.ender.tolist() == naive_enders(losses)
        spans += len(losses.ender)
        ended += int((losses.ender >= 0).sum())
        return losses

    monkeypatch.setattr(deduce, "make_losses", compared)
    for seed in range(50 * SOAK):
        print(f"Run({seed})")
        list(deduced(Run(seed, stops=False), losses=True))
    print(f"{spans} spans, {ended} ended by a loss that is known")
    assert ended > 200


def test_any_number_of_lines_may_wait_for_their_access() -> None:
    """Records of many small pieces, and rows of one instruction on all of their lines."""
    n, line = 3_000, 64
    records = np.zeros(n, RECORD)
    records["kind"], records["addr"] = MISS, np.arange(n) * line
    pieces = [(records[at : at + 10], np.zeros(0, np.uint8)) for at in range(0, n, 10)]
    rows = np.zeros(n, EVENT)
    rows["count"], rows["kind"], rows["size"], rows["addr"] = 7, READ, 8, np.arange(n) * line
    found = Scanner(iter(pieces), n * line, line).scan(0, iter([rows]))
    assert found.line.tolist() == list(range(n))
    # All but the last: the instruction went on behind them.
    assert found.loose.tolist() == list(range(n - 1))
    rows["flags"] = ALONE
    found = Scanner(iter(pieces), n * line, line).scan(0, iter([rows]))
    assert found.line.tolist() == list(range(n))
    assert not len(found.loose)
