"""Orders judged region by region, and the same counted in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from engine_suite import RECORDING, SOAK, shape_of
from score_factory import Row, any_order, by_region, naive_sources, slices_of
from trace_factory import MEMORY_BYTES, by_hand, make

from bench.tiny_runs import Run
from corebraid.base.rows.event import FETCH, READ, RMW, UNCACHED, WRITE
from solver.check.certificate import Certificate, CertificateWriter, Head
from solver.regions.traces import MemoryTraces
from solver.score import NOBODY, Fault, Judged, Within, score_certificate, within


def _bytes(row: np.void) -> dict[int, bool]:
    """Addresses of a row's bytes, and whether it changes each."""
    if row["flags"] & UNCACHED:
        return {}
    old, new = (int(row[name]).to_bytes(8, "little") for name in ("old", "new"))
    return {int(row["addr"]) + b: old[b] != new[b] for b in range(int(row["size"]))}


#: Of a region, addresses and sizes of what something is to be ordered of.
Ranges = Callable[[int], tuple[np.ndarray, np.ndarray]]


def naive_within(
    traces: MemoryTraces,
    ran: list[int],
    order: list[int],
    apart: int = NOBODY,
    to_order: Ranges | None = None,
) -> Within:
    """Every byte of every row, one by one."""
    true, walked = naive_sources(traces, ran, True, afresh=True, apart=apart)
    said, _ = naive_sources(traces, order, True, afresh=True, apart=apart)
    first_store = traces.n_streams - traces.buffered

    def processor(s: int) -> int:
        return s - first_store if s >= first_store else s

    changers: dict[tuple[int, int], set[int]] = {}
    fetched: set[tuple[int, int]] = set()
    for s, i in walked:
        row = traces.rows[s][i]
        for a, changes in _bytes(row).items():
            place = int(row["stratum"]), a
            if changes:
                changers.setdefault(place, set()).add(processor(s))
            if row["flags"] & FETCH:
                fetched.add(place)
    tally, wrong = Counter[tuple[str, str]](), dict[Row, int]()
    for s, i in sorted(walked):
        row, me = traces.rows[s][i], processor(s)
        reads = row["kind"] in (READ, RMW)
        asked = [a for a, changes in _bytes(row).items() if reads or changes]
        others = {a: changers.get((int(row["stratum"]), a), set()) - {me} for a in asked}
        kind, unclocked = (
            "reads" if reads else "writes",
            me == apart or bool(apart >= 0 and row["flags"] & FETCH),
        )
        told = [a for a in asked if others[a] - {apart} and not unclocked]
        if apart >= 0 and row["kind"] == READ:
            told = [a for a in told if (int(row["stratum"]), a) not in fetched]
        if to_order is not None:
            ranges = zip(*(part.tolist() for part in to_order(int(row["stratum"]))), strict=True)
            hot = {first + b for first, size in ranges for b in range(size)}
            # What is wrong counts everywhere.
            hot |= {a for a in told if true[(s, i), a] != said[(s, i), a]}
            others, told = {a: others[a] for a in asked if a in hot}, [a for a in told if a in hot]
        if not any(others.values()):
            continue
        tally[kind, "contended"] += 1
        tally[kind, "unclocked"] += unclocked
        tally[kind, "judged"] += bool(told)
        bad = [a for a in told if true[(s, i), a] != said[(s, i), a]]
        if bad:
            tally[kind, "wrong"] += 1
            wrong[s, i] = bad[0]

    def named(at: Row | None) -> tuple[int, int] | None:
        return None if at is None else (processor(at[0]), int(traces.rows[at[0]]["seq"][at[1]]))

    faults = []
    for region in sorted({int(traces.rows[s]["stratum"][i]) for s, i in wrong}):
        here = [(s, i) for s, i in wrong if traces.rows[s]["stratum"][i] == region]
        n_reads = sum(traces.rows[s]["kind"][i] in (READ, RMW) for s, i in here)
        first, address = here[0], wrong[here[0]]
        before = named(true[first, address]), named(said[first, address])
        faults.append(Fault(region, n_reads, len(here) - n_reads, *named(first), address, *before))  # type: ignore[misc]
    sums = [
        Judged(*(tally[kind, what] for what in ("contended", "judged", "wrong", "open", "unclocked")))
        for kind in ("reads", "writes")
    ]
    return Within(*sums, tuple(faults))


def judged(
    traces: MemoryTraces,
    path: Path,
    ran: list[int],
    order: list[int],
    apart: int,
    to_order: Ranges | None = None,
) -> Within:
    """By the kernels."""
    slices, certificate = [slices_of(traces, ran)], by_region(traces, order, path)
    score = score_certificate(traces, certificate, slices, within=True, to_order=to_order, apart=apart)
    assert score.within is not None
    if apart == NOBODY and not traces.buffered:
        # As strict as the walk over the whole run, and more: an order without a fault has every change right.
        assert score.within.faults or not score.changed
    return score.within


def every_other(seed: int) -> Ranges:
    """Of some words nothing is to be ordered, of each region others."""

    def ranges(region: int) -> tuple[np.ndarray, np.ndarray]:
        words = np.random.default_rng((seed, region)).permutation(MEMORY_BYTES // 8)[: MEMORY_BYTES // 16]
        return (8 * words).astype(np.uint64), np.full(len(words), 8, np.uint8)

    return ranges


def sc_campaign(path: Path) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(80 * SOAK):
        made, rng = make(seed, shape_of(seed, (10, 40, 80))), random.Random(seed)
        for rows in made.traces.rows:
            fetches = (rows["kind"] == READ) & (rows["flags"] == 0)
            rows["flags"][fetches & (np.array([rng.random() for _ in rows]) < 0.1)] |= FETCH
        apart = rng.choice([NOBODY, made.traces.n_streams - 1])
        order = any_order(made.traces, rng)
        to_order = rng.choice([None, every_other(seed)])
        found = judged(made.traces, path, made.order, order, apart, to_order)
        assert found == naive_within(made.traces, made.order, order, apart, to_order), f"seed {seed}"
        own = judged(made.traces, path, made.order, made.order, apart, to_order)
        assert own.faults == (), f"seed {seed}"
        assert to_order is not None or own.reads.judged == found.reads.judged, f"seed {seed}"
        for kind in (found.reads, found.writes):
            seen.update(judged=kind.judged, wrong=kind.wrong, left_out=kind.left_out, own=kind.unclocked)
    return seen


def test_random_orders_are_judged_as_counted_one_by_one(tmp_path: Path) -> None:
    seen = sc_campaign(tmp_path / "c")
    print(dict(seen))
    assert min(seen.values()) > 50


def test_store_buffers_are_judged_as_counted_one_by_one(tmp_path: Path) -> None:
    """Stores that wait at a stratum are of the region in which they commit."""
    seen: Counter[str] = Counter()
    for seed in range(300 * SOAK):
        traces = Run(seed).traces()
        ran, order = (any_order(traces, random.Random(draw)) for draw in (seed, seed + 5000))
        apart = random.Random(seed).choice([NOBODY, 0])
        found = judged(traces, tmp_path / "c", ran, order, apart)
        assert found == naive_within(traces, ran, order, apart), f"Run({seed})"
        seen.update(judged=found.reads.judged + found.writes.judged, wrong=found.reads.wrong)
    print(dict(seen))
    assert min(seen.values()) > 50


@pytest.mark.parametrize("change", ["carried", "apart", "fetched", "left"])
def test_a_planted_bug_is_caught(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that are carried into the next region; a processor's changes that count though it is apart;
    fetches that are judged; marks that stay for the next region."""
    if change == "carried":
        monkeypatch.setattr(within, "forget_writes", lambda *_: None)
    elif change == "apart":
        walk = within.Walk
        monkeypatch.setattr(
            within, "Walk", lambda first, buffered, changed, _: walk(first, buffered, changed)
        )
    elif change == "left":
        add = within.mark_ranges
        monkeypatch.setattr(within, "mark_ranges", lambda *told: add(*told) if told[2] else None)
    else:
        mark = within.mark_changes

        def wrong(a: within.Accesses, *rest: object) -> None:
            a.fetched[:] = 0
            mark(a, *rest)

        monkeypatch.setattr(within, "mark_changes", wrong)
    with pytest.raises(AssertionError):
        sc_campaign(tmp_path / "c")


#: Of one word, 5 where each region begins. In the first core 0 and the kernel, stream 2, both make 6 of it
#: and then 5 again; in the second core 0 reads it twice, and core 1 makes 7 of it and 5 again in between.
_RAN = [0, 0, 2, 2, 0, 1, 1, 0]
_KERNEL = 2


def _two_regions() -> MemoryTraces:
    there_and_back = [(0x100, 5, 6), (0x100, 6, 5)]
    cores = [[*there_and_back, (0x100, 5, 5), (0x100, 5, 5)], [(0x100, 5, 7), (0x100, 7, 5)], there_and_back]
    traces = by_hand(cores, {0x100: 5}, {0x100: 5})
    traces.strata = np.array([[2, 0, 2]], np.uint64)
    traces.rows[0]["stratum"][2:] = traces.rows[1]["stratum"][:] = 1
    return traces


def test_what_the_kernel_left_is_not_carried_on(tmp_path: Path) -> None:
    """Where it stands elsewhere than it ran, later reads of the whole run have another source."""
    traces, order = _two_regions(), [2, 2, 0, 0, 0, 1, 1, 0]
    certificate = by_region(traces, order, tmp_path / "c")
    score = score_certificate(
        traces, certificate, [slices_of(traces, _RAN)], within=True, apart=_KERNEL
    )  # fmt: skip
    assert score.changed == 4
    # Of the first region two reads are the kernel's, and nobody else changes what core 0 reads there.
    assert score.within == Within(Judged(contended=6, judged=2, unclocked=2))
    without = judged(traces, tmp_path / "c", _RAN, order, NOBODY)
    assert [(fault.region, fault.reads) for fault in without.faults] == [(0, 2)]


def test_what_is_wrong_behind_the_kernel_is_told(tmp_path: Path) -> None:
    found = judged(_two_regions(), tmp_path / "c", _RAN, [2, 2, 0, 0, 1, 1, 0, 0], _KERNEL)
    assert found.faults == (Fault(1, 1, 0, 0, 2, 0x100, None, (1, 1)),)
    assert found.faults[0].line() == (
        "1 read after another change than in the sealed truth; stream 0 event 2 at 0x100 after stream 1 "
        "event 1, in truth after what the region began with"
    )


def test_members_are_judged_though_the_kernel_changes_the_same_byte(tmp_path: Path) -> None:
    """Core 0 reads, core 1 changes: which came first is told, wherever the kernel stands."""
    traces = by_hand([[(0x100, 5, 5)], [(0x100, 5, 6)], [(0x100, 6, 5)]], {0x100: 5}, {0x100: 5})
    assert judged(traces, tmp_path / "c", [0, 1, 2], [0, 1, 2], _KERNEL).faults == ()
    found = judged(traces, tmp_path / "c", [0, 1, 2], [1, 2, 0], _KERNEL)
    assert [(fault.reads, fault.processor, fault.found) for fault in found.faults] == [(1, 0, (1, 0))]


def test_writes_that_nobody_reads_are_judged(tmp_path: Path) -> None:
    """The last of two writes of the same value is another: no read of this region tells, nor need a later
    one be judged."""
    traces = by_hand([[(0x100, 5, 6)], [(0x100, 6, 5), (0x100, 5, 6)]], {0x100: 5}, {0x100: 6})
    for rows in traces.rows:
        rows["kind"] = WRITE
    assert judged(traces, tmp_path / "c", [0, 1, 1], [0, 1, 1], NOBODY).faults == ()
    traces = by_hand(
        [[(0x100, 5, 6), (0x100, 6, 5)], [(0x100, 5, 6), (0x100, 6, 5)]], {0x100: 5}, {0x100: 5}
    )  # fmt: skip
    for rows in traces.rows:
        rows["kind"] = WRITE
    found = judged(traces, tmp_path / "c", [0, 0, 1, 1], [1, 1, 0, 0], NOBODY)
    assert found == Within(Judged(), Judged(contended=4, judged=4, wrong=2), found.faults)


def test_a_region_without_an_order_is_not_judged(tmp_path: Path) -> None:
    """And the next one is, whoever wrote last before it."""
    traces = _two_regions()
    writer = CertificateWriter(tmp_path / "c", RECORDING, Head("hand", 3, 2))
    writer.unordered(0, 1, np.array([2, 0, 2], np.int64))
    writer.ordered(1, np.array([1, 0], np.int64), np.array([2, 2], np.int64))
    writer.finish(np.array([4, 2, 2], np.int64))
    slices = [slices_of(traces, _RAN)]
    score = score_certificate(
        traces, Certificate(tmp_path / "c", RECORDING), slices, within=True, apart=_KERNEL
    )
    assert score.changed == 0
    assert score.within is not None
    assert score.within.reads == Judged(contended=6, judged=2, wrong=1, open=4)
    assert [fault.region for fault in score.within.faults] == [1]


def test_of_nothing_there_is_no_share() -> None:
    assert Judged().share is None
    assert Judged().line("") == "0 contended in their region: 0 judged (-), 0 wrong, 0 undetermined"
    told = Judged(contended=8, judged=2, wrong=1, open=1, unclocked=3)
    assert told.facts() == {
        "contended": 8, "judged": 2, "share_judged": 25.0, "left_out": 5, "left_out_unclocked": 3,
        "undetermined": 1, "wrong": 1,
    }  # fmt: skip
    assert told.line("not") == (
        "8 contended in their region: 2 judged (25.0%), 1 wrong, 5 not (3 its own or fetched), 1 undetermined"
    )
