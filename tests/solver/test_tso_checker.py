"""The checkers' store buffers against a walk in plain Python, over random orders, legal and not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from engine_suite import SOAK

from bench.tiny_orders import take_row
from bench.tiny_runs import Run
from corebraid.base.errors import OrderError
from solver.check.buffered_seams import BufferedWalker
from solver.check.certificate import Certificate, CertificateWriter, Head
from solver.check.checker import check_certificate
from solver.check.seams import Seams
from solver.regions.traces import MemoryTraces
from solver.sifting.strata import iter_regions

RECORDING = bytes(16)


def random_order(traces: MemoryTraces, seed: int) -> list[list[int]]:
    """Of each region the streams of its rows one by one: mostly as rows may come, sometimes not."""
    rng = random.Random(seed)
    streams = [rows.tolist() for rows in traces.rows]
    at, memory = (0,) * len(streams), traces.before.tobytes()
    regions: list[list[int]] = [[] for _ in range(len(traces.strata) + 1)]
    careless = rng.random() < 0.5
    while any(i < len(rows) for i, rows in zip(at, streams, strict=True)):
        now = min(rows[i][6] for i, rows in zip(at, streams, strict=True) if i < len(rows))
        here = [s for s, rows in enumerate(streams) if at[s] < len(rows) and rows[at[s]][6] == now]
        able = [s for s in here if take_row(streams, at, s, traces.buffered, memory) is not None]
        wild = careless and rng.random() < 0.1
        s = rng.choice(here if wild or not able else able)
        memory = take_row(streams, at, s, traces.buffered, memory) or memory
        regions[now].append(s)
        at = (*at[:s], at[s] + 1, *at[s + 1 :])
    return regions


def is_legal(traces: MemoryTraces, regions: list[list[int]]) -> bool:
    """The same walk, strictly."""
    streams = [rows.tolist() for rows in traces.rows]
    at, memory = (0,) * len(streams), traces.before.tobytes()
    for s in [s for region in regions for s in region]:
        after = take_row(streams, at, s, traces.buffered, memory)
        if after is None:
            return False
        memory, at = after, (*at[:s], at[s] + 1, *at[s + 1 :])
    return memory == traces.after.tobytes()


def by_certificate(traces: MemoryTraces, regions: list[list[int]], path: Path) -> bool:
    writer = CertificateWriter(path, RECORDING, Head("cut", traces.n_streams, len(regions)))
    for number, order in enumerate(regions):
        writer.ordered(number, np.array(order, np.int64), np.ones(len(order), np.int64))
    writer.finish(np.array([len(rows) for rows in traces.rows]))
    try:
        check_certificate(traces, Certificate(path, RECORDING))
    except OrderError:
        return False
    return True


def by_regions(traces: MemoryTraces, regions: list[list[int]]) -> bool:
    walker = BufferedWalker(traces.memory_bytes, traces.strata, traces.n_streams)
    seams = Seams(traces.initial())
    try:
        for region, order in zip(iter_regions(traces), regions, strict=True):
            ones = np.ones(len(order), np.int64)
            seams.cross(walker.walk(region, np.array(order, np.int64), ones))
        seams.finish(traces.final())
    except OrderError:
        return False
    return True


def test_both_checkers_accept_what_the_plain_walk_accepts(tmp_path: Path) -> None:
    tally = {True: 0, False: 0}
    for seed in range(600 * SOAK):
        traces = Run(seed).traces()
        regions = random_order(traces, seed)
        legal = is_legal(traces, regions)
        tally[legal] += 1
        assert by_certificate(traces, regions, tmp_path / "order.cert") == legal, f"Run({seed})"
        assert by_regions(traces, regions) == legal, f"Run({seed})"
        (tmp_path / "order.cert").unlink()
    print(tally)
    assert min(tally.values()) > 80
