"""The regions of a recording as problems, one after the other, and which rows their operations are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import ALONE, EVENT, UNCACHED
from solver.passes.quiet import quiet_problems
from solver.passes.stages import sift_region
from solver.regions.problem import Problem
from solver.regions.program_order import core_rows
from solver.regions.quiet import Quiet
from solver.regions.region import Region, RowSource
from solver.regions.traces import Events, Traces
from solver.sifting.boundary import Forward
from solver.sifting.strata import iter_stretches


def iter_problems(traces: Traces) -> Iterator[tuple[Region, Problem]]:
    """Every region with its unfiltered operations, the values at both ends filled in.

    Raises OrderError where the events do not follow from memory, FormatError for a row that no trace may
    hold.
    """
    forward = Forward(traces.initial())
    for region in iter_stretches(traces):
        if isinstance(region, Quiet):
            yield from quiet_problems(region)
            continue
        sifted = sift_region(region)
        bounded, _delta = forward.compose(region, sifted.problem, sifted.chains, sifted.net)
        yield region, bounded


def is_unfiltered(rows: Events, problem: Problem) -> NDArray[np.bool_]:
    """Which rows (EVENT (n,)) of the problem's region touch a granule that is not filtered: bool (n,)."""
    if not len(problem.address):
        return np.zeros(len(rows), bool)
    by = np.argsort(problem.address)
    start = problem.address[by]
    end = start + problem.size[by].astype(np.uint64)
    last = np.searchsorted(start, rows["addr"] + rows["size"].astype(np.uint64)) - 1
    touches = (last >= 0) & (end[np.maximum(last, 0)] > rows["addr"])
    answer: NDArray[np.bool_] = touches & ((rows["flags"] & np.uint8(UNCACHED)) == 0)
    return answer


def numbered_pieces(rows: RowSource) -> Iterator[tuple[int, Events, NDArray[np.int64]]]:
    """A stream's rows in a region piece by piece: (index of the first, EVENT (n,), int64 (n,) how many
    accesses of the same instruction count precede each)."""
    at, count, run = 0, -1, 0
    for piece in rows.pieces():
        counts, access = piece["count"], (piece["flags"] & np.uint8(ALONE)) == 0
        starts = np.flatnonzero(np.concatenate([[True], counts[1:] != counts[:-1]]))
        before = np.cumsum(access) - access
        nth = before - np.repeat(before[starts], np.diff(np.append(starts, len(piece))))
        if int(counts[0]) == count:
            same = starts[1] if len(starts) > 1 else len(piece)
            nth[:same] += run
        yield at, piece, nth.astype(np.int64)
        at, count, run = at + len(piece), int(counts[-1]), int(nth[-1]) + int(access[-1])


def accesses_at(rows: RowSource, counts: NDArray[np.uint64]) -> tuple[Events, NDArray[np.intp]]:
    """A stream's accesses in a region by instructions of these counts: EVENT (n,), and their indices."""
    found, where, at = [np.zeros(0, EVENT)], [np.zeros(0, np.intp)], 0
    for piece in rows.pieces():
        access = (piece["flags"] & np.uint8(ALONE)) == 0
        here = np.flatnonzero(np.isin(piece["count"], counts) & access)
        found.append(piece[here])
        where.append(at + here)
        at += len(piece)
    return np.concatenate(found), np.concatenate(where)


def rows_of_ops(region: Region, problem: Problem) -> tuple[Events, NDArray[np.int64]]:
    """The first row of each operation, EVENT (n_ops,), and how many accesses of its stream with the same
    instruction count precede it, int64 (n_ops,)."""
    found, numbers = np.zeros(problem.n_ops, EVENT), np.zeros(problem.n_ops, np.int64)
    if region.tails:
        return _rows_of_buffered_ops(region, problem)
    for stream, rows in enumerate(region.streams):
        first, end = int(problem.stream_ptr[stream]), int(problem.stream_ptr[stream + 1])
        taken = first
        for at, piece, nth in numbered_pieces(rows):
            kept = np.flatnonzero(is_unfiltered(piece, problem))
            ops = first + np.searchsorted(problem.end_row[first:end], at + kept, side="right")
            new, where = np.unique(ops, return_index=True)
            where, new = where[new >= taken], new[new >= taken]
            found[new], numbers[new] = piece[kept[where]], nth[kept[where]]
            taken = max(taken, int(new[-1]) + 1) if len(new) else taken
    return found, numbers


def _rows_of_buffered_ops(region: Region, problem: Problem) -> tuple[Events, NDArray[np.int64]]:
    """`rows_of_ops` under TSO, where an instruction's accesses may be of both streams of its core."""
    found, numbers = np.zeros(problem.n_ops, EVENT), np.zeros(problem.n_ops, np.int64)
    for stream, core in enumerate(problem.stream_core.tolist()):
        first, end = int(problem.stream_ptr[stream]), int(problem.stream_ptr[stream + 1])
        rows = program_rows(region, stream)
        if first == end:
            continue
        kept = np.flatnonzero(is_unfiltered(rows, problem))
        ops = first + np.searchsorted(problem.end_row[first:end], kept, side="right")
        new, where = np.unique(ops, return_index=True)
        found[new] = rows[kept[where]]
        every = core_rows(region, core).rows if core < problem.buffered else rows
        numbers[new] = number_in_instruction(every, found[new])
    return found, numbers


def program_rows(region: Region, stream: int) -> Events:
    """All rows of one stream of a region, EVENT (n,)."""
    pieces = list(region.streams[stream].pieces())
    return np.concatenate([np.zeros(0, EVENT), *pieces])


def number_in_instruction(every: Events, rows: Events) -> NDArray[np.int64]:
    """How many rows of the same instruction precede each of `rows`, among a core's rows in program order."""
    first = np.searchsorted(every["count"], rows["count"])
    number: NDArray[np.int64] = np.searchsorted(every["seq"], rows["seq"]) - first
    return number
