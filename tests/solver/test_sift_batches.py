"""Operations of rows that come in many pieces, whatever batches the pieces are put into, against the naive
twin of each piece."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from engine_suite import SOAK, shape_of
from test_solver_kernels import naive_granules, naive_ops
from trace_factory import make, rows_of

from corebraid.base.errors import OrderError
from corebraid.base.rows.event import GLUED
from solver.regions.region import Region
from solver.regions.sync_order import Piece
from solver.regions.traces import Events
from solver.sifting.batches import batches
from solver.sifting.filters import Gathered, sift
from solver.sifting.granules import find_granules, find_granules_of
from solver.sifting.operations import DONE
from solver.sifting.strata import iter_regions


def in_pieces(region: Region, rng: random.Random) -> list[Piece]:
    """The rows of a region in pieces, some empty, none ending inside an indivisible access, the streams by
    turns."""
    left = []
    for stream in range(len(region.streams)):
        rows = rows_of(region, stream)
        whole = [k for k in range(1, len(rows)) if not rows["flags"][k - 1] & GLUED]
        cuts = sorted({0, len(rows), *rng.sample(whole, min(len(whole), rng.randrange(8)))})
        left.append([rows[a:b] for a, b in pairwise(cuts)] + [rows[:0]])
    out: list[Piece] = []
    while any(left):
        stream = rng.choice([stream for stream, pieces in enumerate(left) if pieces])
        goes_on = bool(out) and out[-1].stream == stream and rng.random() < 0.5
        out.append(Piece(stream, stream, left[stream].pop(0), goes_on))
    return out


def naive(pieces: list[Piece], n_streams: int, granules: list[tuple[int, int]]) -> list[list[object]]:
    """The operations of each stream, of which none is joined to one in a piece that does not go on."""
    out: list[list[object]] = [[] for _ in range(n_streams)]
    before = [0] * n_streams
    begins = [k for k, piece in enumerate(pieces) if not piece.goes_on]
    for a, b in pairwise([*begins, len(pieces)]):
        stream = pieces[a].stream
        rows = np.concatenate([piece.rows for piece in pieces[a:b]])
        ops, _ = naive_ops(rows, granules)
        out[stream] += [(parts, end + before[stream]) for parts, end in ops]
        before[stream] += len(rows)
    return out


def test_operations_of_pieces_are_those_of_the_naive_twin() -> None:
    several = 0
    for seed in range(60 * SOAK):
        rng = random.Random(seed)
        for region in iter_regions(make(seed, shape_of(seed, (10, 40, 120))).traces):
            pieces = in_pieces(region, rng)
            expected = naive(pieces, len(region.streams), naive_granules(region))
            for full in (1, 7, 1 << 14):
                g = find_granules_of(pieces)
                got = Gathered([np.empty(0, np.int64)] * len(region.streams), room=1)
                made = list(batches(pieces, full))
                assert sum(len(batch.rows) for batch in made) == region.events
                assert [got.sift(batch, g.table)[0] for batch in made] == [DONE] * len(made)
                for stream, (parts, ops) in enumerate(got.by_stream()):
                    found = []
                    for end_row, (a, b) in zip(
                        ops.end_row.tolist(), pairwise(ops.part_ptr.tolist()), strict=True
                    ):
                        where = parts.granule[a:b].tolist()
                        values = zip(where, parts.old[a:b].tolist(), parts.new[a:b].tolist(), strict=True)
                        found.append(
                            (
                                [(int(g.address[k]), int(g.size[k]), old, new) for k, old, new in values],
                                end_row,
                            )
                        )
                    assert found == expected[stream], f"seed {seed}, region {region.index}, stream {stream}"
                several += any(len(batch.pieces.end) > 2 for batch in made)
    assert several > 60


def test_a_row_that_does_not_follow_is_named_wherever_it_lies_in_a_batch() -> None:
    """By its stream and its number there."""
    named_in: Counter[int] = Counter()
    for seed in range(40 * SOAK):
        rng = random.Random(seed)
        for region in iter_regions(make(seed, shape_of(seed, (40, 120))).traces):
            stream = rng.randrange(len(region.streams))
            rows = rows_of(region, stream).copy()
            if not len(rows):
                continue
            at = rng.randrange(len(rows))
            rows["old"][at] ^= np.uint64(1)
            changed = [rows if s == stream else rows_of(region, s) for s in range(len(region.streams))]
            damaged = replace(region, streams=[_Held(rows) for rows in changed])
            said = refusal(damaged)
            if said is not None:
                of, number, address = said
                [bad] = changed[of][changed[of]["seq"] == number]
                for row in (bad, rows[at]):
                    assert row["addr"] <= address < row["addr"] + row["size"], f"seed {seed}"
                named_in[of] += 1
    assert len(named_in) > 2
    assert named_in.total() > 20


def refusal(region: Region) -> tuple[int, int, int] | None:
    """Which row's byte is said not to follow: stream, number of the row in it, address."""
    try:
        sift(region, find_granules(region))
    except OrderError as error:
        named = re.search(r"address (0x\w+), 1 bytes, stream (\d+), event (\d+),", str(error))
        if named is not None:
            return int(named[2]), int(named[3]), int(named[1], 0)
    return None


class _Held:
    """A stream's rows, as a region has them."""

    def __init__(self, rows: Events) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def pieces(self) -> Iterator[Events]:
        yield self._rows


@pytest.mark.parametrize("full", [1, 100])
def test_a_long_piece_is_not_copied(full: int) -> None:
    [region] = list(iter_regions(make(3, shape_of(0, (120,))).traces))[:1]
    pieces = [Piece(s, s, rows_of(region, s), False) for s in range(len(region.streams))]
    for batch in batches(pieces, full):
        if len(batch.rows) >= full and len(batch.pieces.end) == 1:
            assert batch.rows is pieces[int(batch.pieces.stream[0])].rows
