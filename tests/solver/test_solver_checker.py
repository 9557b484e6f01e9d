"""The checker accepts legal orders and names the first violation of any other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from engine_suite import RECORDING, SOAK, shape_of
from trace_factory import MEMORY_BYTES, Made, Shape, by_hand, copy, make

from corebraid.base.errors import FormatError, OrderError
from corebraid.base.rows.event import GLUED, UNCACHED
from solver.check import checker as checker_module
from solver.check.certificate import Certificate, CertificateWriter, Head
from solver.check.checker import check_certificate, check_slices
from solver.regions.traces import MemoryTraces


def certificate(path: Path, traces: MemoryTraces, order: list[int]) -> Certificate:
    """A certificate for an order given as the stream of each row."""
    path.unlink(missing_ok=True)
    writer = CertificateWriter(path, RECORDING, Head("hand", traces.n_streams, len(traces.strata) + 1))
    # All runs under region 0: whose region a row is, the checker must see for itself.
    writer.ordered(0, np.array(order, np.int64), np.ones(len(order), np.int64))
    for region in range(1, len(traces.strata) + 1):
        writer.ordered(region, np.empty(0, np.int64), np.empty(0, np.int64))
    writer.finish(np.bincount(np.array(order, np.int64), minlength=traces.n_streams))
    return Certificate(path, RECORDING)


def naive_check(traces: MemoryTraces, order: list[int]) -> bool:
    """The checker's rules on rows, one by one."""
    memory = traces.before.copy()
    at, glued, stratum, touched = [0] * traces.n_streams, -1, 0, set()
    for s in order:
        row = traces.rows[s][at[s]]
        at[s] += 1
        if glued not in (-1, s) or row["stratum"] < stratum:
            return False
        stratum = row["stratum"]
        glued = s if row["flags"] & GLUED else -1
        if row["flags"] & UNCACHED:
            continue
        a, size = int(row["addr"]), int(row["size"])
        if memory[a : a + size].tobytes() != int(row["old"]).to_bytes(8, "little")[:size]:
            return False
        memory[a : a + size] = np.frombuffer(int(row["new"]).to_bytes(8, "little")[:size], np.uint8)
        touched |= set(range(a, a + size))
    return glued == -1 and all(memory[a] == traces.after[a] for a in touched)


def accepts(path: Path, traces: MemoryTraces, order: list[int]) -> bool:
    try:
        check_certificate(traces, certificate(path, traces, order))
    except OrderError:
        return False
    return True


def swapped_orders(made: Made, rng: random.Random) -> Iterator[list[int]]:
    """Orders with two adjacent rows of different streams swapped."""
    order = made.order
    places = [i for i in range(len(order) - 1) if order[i] != order[i + 1]]
    for i in rng.sample(places, min(8, len(places))):
        yield [*order[:i], order[i + 1], order[i], *order[i + 2 :]]


def test_swapped_events_are_judged_as_the_naive_twin_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker_module, "_BUFFER_ROWS", 5)
    accepted = rejected = 0
    for seed in range(60 * SOAK):
        made = make(seed, shape_of(seed, (30,)))
        assert accepts(tmp_path / "c", made.traces, made.order), f"seed {seed}"
        for order in swapped_orders(made, random.Random(seed)):
            expected = naive_check(made.traces, order)
            assert accepts(tmp_path / "c", made.traces, order) == expected, f"seed {seed}"
            accepted += expected
            rejected += not expected
    print(f"orders with two events swapped: {accepted} still legal, {rejected} rejected")
    assert min(accepted, rejected) > 20


def test_two_conflicting_events_swapped_are_named(tmp_path: Path) -> None:
    traces = by_hand([[(0x100, 5, 6)], [(0x100, 6, 7)]], {0x100: 5}, {0x100: 7})
    assert accepts(tmp_path / "c", traces, [0, 1])
    with pytest.raises(OrderError) as caught:
        check_certificate(traces, certificate(tmp_path / "c", traces, [1, 0]))
    assert str(caught.value) == (
        "stream 1, event 0, instruction count 0, pc 0x1000, address 0x100, region 0: "
        "an event does not read what memory holds at 0x100: expected 0x05, found 0x06"
    )
    assert caught.value.exit_code == 1


def test_an_event_that_is_left_out_or_is_not_there_is_named(tmp_path: Path) -> None:
    traces = by_hand([[(0x100, 5, 6)], [(0x100, 6, 7)]], {0x100: 5}, {0x100: 7})
    with pytest.raises(OrderError, match=r"stream 1, event 0.*leaves out"):
        check_certificate(traces, certificate(tmp_path / "c", traces, [0]))
    cert = certificate(tmp_path / "c", traces, [0, 1])
    traces.rows[1] = traces.rows[1][:0]
    with pytest.raises(OrderError, match=r"stream 1: the order has more events"):
        check_certificate(traces, cert)


def test_a_wrong_final_image_is_named(tmp_path: Path) -> None:
    traces = by_hand([[(0x100, 5, 6)], []], {0x100: 5}, {0x100: 6, 0x800: 1})
    assert accepts(tmp_path / "c", traces, [0])
    traces.after[0x103] = 9
    with pytest.raises(OrderError, match=r"address 0x103.*final image: expected 0x09, found 0x00"):
        check_certificate(traces, certificate(tmp_path / "c", traces, [0]))


def test_events_of_a_later_region_may_not_come_first(tmp_path: Path) -> None:
    traces = by_hand([[(0x100, 5, 6)], [(0x108, 6, 7)]], {0x100: 5, 0x108: 6}, {0x100: 6, 0x108: 7})
    traces.strata = np.array([[0, 5]], np.uint64)
    traces.rows[0]["stratum"] = 1
    with pytest.raises(OrderError, match=r"stream 1.*after one of a later region"):
        check_slices(traces, [(np.array([0, 1]), np.array([9, 9], np.uint64))])
    traces.rows[0]["stratum"] = 0
    with pytest.raises(OrderError, match=r"stream 0.*stratum is not what its instruction count says"):
        check_certificate(traces, certificate(tmp_path / "c", traces, [0, 1]))


def test_an_indivisible_access_may_not_be_split(tmp_path: Path) -> None:
    cores = [[(0x100, 5, 6), (0x108, 0, 1)], [(0x110, 1, 2)]]
    traces = by_hand(cores, {0x100: 5, 0x110: 1}, {0x100: 6, 0x108: 1, 0x110: 2})
    traces.rows[0]["flags"][0] = GLUED
    assert accepts(tmp_path / "c", traces, [0, 0, 1])
    with pytest.raises(OrderError, match=r"stream 1.*inside an indivisible access"):
        check_certificate(traces, certificate(tmp_path / "c", traces, [0, 1, 0]))
    traces.rows[0]["flags"][1] = GLUED
    with pytest.raises(OrderError, match="ends inside an indivisible access"):
        check_certificate(traces, certificate(tmp_path / "c", traces, [1, 0, 0]))


@pytest.mark.parametrize(("name", "value"), [("addr", MEMORY_BYTES), ("addr", (1 << 64) - 1), ("size", 200)])
def test_an_event_outside_memory_is_named(tmp_path: Path, name: str, value: int) -> None:
    traces = by_hand([[(0x100, 5, 6)], []], {0x100: 5}, {0x100: 6})
    cert = certificate(tmp_path / "c", traces, [0])
    traces.rows[0][name] = value
    with pytest.raises(OrderError, match="outside memory"):
        check_certificate(traces, cert)


def test_a_certificate_of_other_numbers_is_refused(tmp_path: Path) -> None:
    traces = by_hand([[(0x100, 5, 6)], []], {0x100: 5}, {0x100: 6})
    cert = certificate(tmp_path / "c", traces, [0])
    three = by_hand([[(0x100, 5, 6)], [], []], {0x100: 5}, {0x100: 6})
    with pytest.raises(FormatError, match="another number of streams"):
        check_certificate(three, cert)
    traces.strata = np.zeros((1, 2), np.uint64)
    with pytest.raises(FormatError, match="another number of regions"):
        check_certificate(traces, cert)


def unordered(path: Path, traces: MemoryTraces, counts: list[int]) -> Certificate:
    writer = CertificateWriter(path, RECORDING, Head("hand", traces.n_streams, 2))
    writer.unordered(0, 1, np.array(counts, np.int64))
    rest = [len(rows) - n for rows, n in zip(traces.rows, counts, strict=True)]
    streams = [s for s, n in enumerate(rest) if n]
    writer.ordered(1, np.array(streams, np.int64), np.array([rest[s] for s in streams], np.int64))
    writer.finish(np.array([len(rows) for rows in traces.rows], np.int64))
    return Certificate(path, RECORDING)


def two_regions() -> MemoryTraces:
    cores = [[(0x100, 5, 6), (0x100, 7, 8)], [(0x100, 6, 7)]]
    traces = by_hand(cores, {0x100: 5}, {0x100: 8})
    traces.strata = np.array([[1, 1]], np.uint64)
    traces.rows[0]["stratum"][1] = 1
    return traces


def test_a_region_without_an_order_is_reported_and_the_rest_checked(tmp_path: Path) -> None:
    traces = two_regions()
    after = {0: (np.arange(0x100, 0x108, dtype=np.uint64), np.array([7] + [0] * 7, np.uint8))}
    for rebase in (None, after):
        cert = unordered(tmp_path / f"c{rebase is None}", traces, [1, 1])
        report = check_certificate(traces, cert, rebase)
        assert (report.events, report.unchecked_events, report.unchecked) == (1, 2, [(0, "timeout")])
    wrong = copy(traces)
    wrong.rows[0]["old"][1] = 9
    # Without the values after region 0 the first event that follows it is believed.
    assert check_certificate(wrong, unordered(tmp_path / "d", wrong, [1, 1])).events == 1
    with pytest.raises(OrderError, match=r"expected 0x07, found 0x09"):
        check_certificate(wrong, unordered(tmp_path / "e", wrong, [1, 1]), after)


def test_a_region_without_an_order_cannot_hide_events_of_another(tmp_path: Path) -> None:
    traces = two_regions()
    with pytest.raises(OrderError, match=r"stream 0, event 1"):
        check_certificate(traces, unordered(tmp_path / "c", traces, [2, 1]))


def test_slices_out_of_order_or_of_no_stream_are_refused() -> None:
    made = make(3, Shape(steps=80, strata=0))
    streams, ends = made.slices
    check_slices(made.traces, [(streams[:30], ends[:30]), (streams[30:], ends[30:])])
    with pytest.raises(OrderError):
        check_slices(made.traces, [(streams[::-1].copy(), ends[::-1].copy())])
    with pytest.raises(OrderError, match="leaves out"):
        check_slices(made.traces, [(streams[:-1], ends[:-1])])
    with pytest.raises(OrderError, match="a slice of no stream"):
        check_slices(made.traces, [(np.array([9]), np.array([1], np.uint64))])


def test_a_planted_bug_in_an_engine_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that returns its order with the first two conflicting operations swapped."""
    from solver.passes import answers
    from solver.passes.order import order_recording
    from solver.regions.problem import Problem, Solution, Verdict

    traces = by_hand(
        [[(0x100, 5, 6)], [(0x100, 6, 5), (0x108, 1, 2)], [(0x108, 2, 1)]],
        {0x100: 5, 0x108: 1},
        {0x100: 5, 0x108: 1},
    )

    def wrong(problem: Problem, options: answers.Options) -> Solution:
        return Solution(Verdict.LEGAL, "wrong", 0.0, np.array([0, 1, 3, 2]))

    monkeypatch.setattr(answers, "solve", wrong)
    monkeypatch.setattr(answers, "_compare_initial", lambda *_: None)
    with pytest.raises(OrderError, match="does not read what memory holds"):
        order_recording(traces, tmp_path / "c", RECORDING)
    assert not list(tmp_path.iterdir())
