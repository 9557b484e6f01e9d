"""Regions that a second thread extracts, and buffers of rows that serve again."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock
from trace_factory import Shape, make, rows_of

from corebraid.base import clock
from corebraid.base.clock import working_time
from corebraid.base.errors import FormatError
from corebraid.base.rows.event import EVENT
from emu.core.trace_buffers import TraceBuffers
from solver.passes import ahead
from solver.passes.ahead import regions_ahead
from solver.regions.quiet import Quiet, Stretch
from solver.regions.traces import Events, MemoryTraces
from solver.sifting.strata import iter_stretches

SHAPE = Shape(steps=200, strata=0.2)


class Counted(MemoryTraces):
    """Traces that count the chunks that were asked for."""

    taken = 0

    def chunks(self, stream: int) -> Iterator[Events]:
        for chunk in super().chunks(stream):
            self.taken += 1
            yield chunk


def counted(seed: int) -> Counted:
    made = make(seed, SHAPE).traces
    return Counted(made.rows, made.strata, made.before, made.after, 7)


def content(stretches: Iterator[Stretch]) -> list[Quiet | list[bytes]]:
    return [
        one if isinstance(one, Quiet) else [rows_of(one, s).tobytes() for s in range(len(one.streams))]
        for one in stretches
    ]


def error_of(regions: Iterator[Stretch]) -> tuple[int, str]:
    """How many regions there are, and the error that ends them."""
    for seen in range(10_000):
        try:
            next(regions)
        except FormatError as error:
            return seen, error.line()
    raise AssertionError("no error")


def test_regions_are_those_of_one_thread() -> None:
    for seed in range(20):
        traces = counted(seed)
        with regions_ahead(traces) as regions:
            assert content(regions) == content(iter_stretches(traces)), f"seed {seed}"


def test_an_error_comes_where_one_thread_meets_it() -> None:
    met = []
    for seed in range(20):
        traces = counted(seed)
        rng = random.Random(seed)
        traces.rows[1]["size"][rng.randrange(len(traces.rows[1]))] = 9
        both = []
        with regions_ahead(traces) as regions:
            for source in (iter_stretches(traces), regions):
                both.append(error_of(source))
        assert both[0] == both[1], f"seed {seed}"
        met.append(both[0][0])
    assert max(met) > 3


def interrupted(traces: MemoryTraces) -> None:
    with regions_ahead(traces) as regions:
        next(regions)
        raise KeyboardInterrupt


def test_the_thread_is_not_far_ahead_and_ends_with_the_block() -> None:
    before = threading.active_count()
    traces = counted(3)
    total = sum(len(list(traces.chunks(s))) for s in range(traces.n_streams))
    traces.taken = 0
    with pytest.raises(KeyboardInterrupt):
        interrupted(traces)
    assert threading.active_count() == before
    assert traces.taken < total / 2


def test_the_thread_ends_inside_a_region() -> None:
    traces = counted(4)
    traces.strata = traces.strata[:0]
    for rows in traces.rows:
        rows["stratum"] = 0
    began, go_on = threading.Event(), threading.Event()
    chunks = traces.chunks

    def slow(stream: int) -> Iterator[Events]:
        for chunk in chunks(stream):
            began.set()
            go_on.wait(10)
            yield chunk

    traces.chunks = slow  # type: ignore[method-assign]
    before = threading.active_count()
    with regions_ahead(traces):
        assert began.wait(10)
        threading.Timer(0.05, go_on.set).start()
    assert threading.active_count() <= before + 1
    assert traces.taken < 4


def test_waiting_for_the_threads_kernels_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    hands, waiting = [0.0], threading.Event()

    def compiled_first(traces: MemoryTraces) -> Iterator[Stretch]:
        assert waiting.wait(10)
        with global_compiler_lock:
            hands[0] += 500
        hands[0] += 3
        yield from iter_stretches(counted(5))

    def begin_to_wait() -> float:
        now = hands[0]
        waiting.set()
        return now

    monkeypatch.setattr(clock, "monotonic", lambda: hands[0])
    monkeypatch.setattr(ahead, "working_time", begin_to_wait)
    monkeypatch.setattr(ahead, "iter_stretches", compiled_first)
    before = working_time()
    with regions_ahead(counted(5)) as regions:
        assert len(list(regions)) > 3
    assert working_time() == before + 3


def test_rows_that_were_handed_over_stay_and_their_room_serves_again() -> None:
    buffers = TraceBuffers(64)
    rng = np.random.default_rng(1)
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    rooms = set()
    for turn in range(200):
        n = int(rng.integers(0, 65))
        buffers.current["seq"][:n] = turn
        rooms.add(buffers.current.ctypes.data)
        kept.append((buffers.hand_over(n), np.full(n, turn, np.uint64)))
        while len(kept) > 3:
            rows, expected = kept.pop(int(rng.integers(len(kept))))
            assert rows.dtype == EVENT
            assert np.array_equal(rows["seq"], expected), f"turn {turn}"
            del rows
    assert 1 < len(rooms) <= 5
