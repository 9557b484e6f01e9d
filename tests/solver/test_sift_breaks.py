"""Rows that begin an operation of their own, against a stream that is cut there before it is sifted."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from engine_suite import SOAK
from trace_factory import Shape, make

from corebraid.base.rows.event import EVENT, GLUED
from solver.regions.batches import Batch, Pieces
from solver.regions.region import Region
from solver.regions.traces import Events
from solver.sifting.filters import Gathered
from solver.sifting.granules import find_granules
from solver.sifting.strata import iter_regions


@dataclass(frozen=True)
class Operations:
    """What `Gathered` gathers of a stream."""

    end_row: list[int]
    part_ptr: list[int]
    granule: list[int]

    @classmethod
    def of(cls, got: Gathered) -> Operations:
        [(parts, operations)] = got.by_stream()
        return cls(*(column.tolist() for column in (*operations[::-1], parts.granule)))


def after_glued(rows: Events, numbers: list[int]) -> list[int]:
    """Numbers of rows, those inside an indivisible access as that of the row after it."""
    out = set()
    for row in numbers:
        while 0 < row < len(rows) and rows["flags"][row - 1] & GLUED:
            row += 1
        out.add(row)
    return sorted(out)


def sifted(region: Region, stream: int, breaks: list[int], cuts: list[int], naive: bool) -> Operations:
    """A stream's operations. cuts: where its rows come in another piece. naive: break by cutting."""
    rows = np.concatenate([np.zeros(0, EVENT), *region.streams[stream].pieces()])
    got = Gathered([np.array([] if naive else breaks, np.int64)])
    table = find_granules(region).table
    at = sorted({0, *after_glued(rows, breaks if naive else cuts), len(rows)})
    for first, end in pairwise(at):
        where = np.zeros(1, np.int64), np.array([end - first])
        goes_on = np.array([first > 0 and not naive])
        alone = Pieces(*where, np.zeros(1, np.int64), np.zeros(1, np.int64), goes_on)
        got.sift(Batch(rows[first:end], alone), table)
    return Operations.of(got)


def test_breaks_are_obeyed_wherever_the_pieces_of_a_stream_end() -> None:
    differ = 0
    for seed in range(60 * SOAK):
        rng = random.Random(seed)
        for region in iter_regions(make(seed, Shape(steps=80, domain=2, spin=0.4)).traces):
            region = replace(region, tenures=None)
            for stream, rows in enumerate(region.streams):
                some = [min(len(rows), rng.randrange(5)) for _ in range(2)]
                breaks, cuts = (sorted(rng.sample(range(len(rows) + 1), n)) for n in some)
                expected = sifted(region, stream, breaks, cuts, naive=True)
                assert sifted(region, stream, breaks, cuts, naive=False) == expected, f"seed {seed}"
                differ += expected != sifted(region, stream, [], cuts, naive=True)
    assert differ > 10
