"""What deduction looks up: of a region and of its mirror image, in which streams run backwards and old and
new values are exchanged, so that what holds of what came before holds of what comes after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.regions.numbering import number_values
from solver.regions.problem import Problem


class Facts(NamedTuple):
    """What the rules look up. stream_ptr, part_ptr: int64. op_stream, granule, part_op, value_in, value_out,
    value: numbers of the pairs (granule, old) and (granule, new) per part (int32). makers_ptr (int64),
    makers (int32): changing parts that leave each pair. changes_ptr (int64, n_granules * n_streams + 1),
    changes (int32): the changing parts of each granule, by stream and program order. at_start: uint8 per
    pair, whether it is an initial value. any_start: uint8 per granule, whether every value may be. wild_ptr,
    wild: changing parts of each granule that may leave any value. asked: uint8 per part, whether what it
    reads is used. order: int32 (n_ops,), all streams evenly forward: what must precede an operation is then
    likely to be known when its turn comes. rank: int32 (n_ops,), where each operation stands in it."""

    stream_ptr: NDArray[np.int64]
    part_ptr: NDArray[np.int64]
    op_stream: NDArray[np.int32]
    granule: NDArray[np.int32]
    part_op: NDArray[np.int32]
    value_in: NDArray[np.int32]
    makers_ptr: NDArray[np.int64]
    makers: NDArray[np.int32]
    changes_ptr: NDArray[np.int64]
    changes: NDArray[np.int32]
    at_start: NDArray[np.uint8]
    any_start: NDArray[np.uint8]
    wild_ptr: NDArray[np.int64]
    wild: NDArray[np.int32]
    asked: NDArray[np.uint8]
    order: NDArray[np.int32]
    rank: NDArray[np.int32]


@dataclass(frozen=True)
class Doubt:
    """What is not to be used. operations: bool (n_ops,). finals: bool (n_granules,)."""

    operations: NDArray[np.bool_]
    finals: NDArray[np.bool_]


def _grouped(
    items: NDArray[np.int32], group: NDArray[Any], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(where each of n groups begins, the items by group)."""
    begin = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n))]).astype(np.int64)
    return begin, items[np.argsort(group, kind="stable")]


def _facts(
    problem: Problem,
    stream_ptr: NDArray[np.int64],
    asked: NDArray[np.bool_],
    wild: NDArray[np.bool_],
    any_start: NDArray[np.bool_],
) -> Facts:
    """asked, wild: per part, see `Facts`. any_start: per granule."""
    n_streams, m, n_granules = len(stream_ptr) - 1, len(problem.granule), len(problem.address)
    keys = np.full(1 << (4 * m).bit_length(), -1, np.int32)
    values = np.empty((m, 2), np.int32)
    scratch = np.zeros(2 * m, np.int32)
    n = number_values(
        problem.granule, problem.old, problem.new, keys, np.empty_like(keys), values, scratch, scratch
    )
    op_stream = np.repeat(np.arange(n_streams, dtype=np.int32), np.diff(stream_ptr))
    lengths = np.diff(stream_ptr)
    share = (np.arange(problem.n_ops) - np.repeat(stream_ptr[:-1], lengths)) / np.repeat(lengths, lengths)
    part_op = problem.part_op.astype(np.int32)
    changing = problem.old != problem.new
    known = np.flatnonzero(changing & ~wild).astype(np.int32)
    makers_ptr, makers = _grouped(known, values[known, 1], n)
    changers = np.flatnonzero(changing).astype(np.int32)
    where = problem.granule[changers].astype(np.int64) * n_streams + op_stream[part_op[changers]]
    changes_ptr, changes = _grouped(changers, where, n_granules * n_streams)
    wilds = np.flatnonzero(changing & wild).astype(np.int32)
    wild_ptr, wild_parts = _grouped(wilds, problem.granule[wilds], n_granules)
    at_start = np.zeros(n, np.uint8)
    at_start[values[problem.old == problem.initial[problem.granule], 0]] = 1
    order = np.argsort(share, kind="stable").astype(np.int32)
    rank = np.empty_like(order)
    rank[order] = np.arange(problem.n_ops, dtype=np.int32)
    return Facts(
        stream_ptr=stream_ptr,
        part_ptr=problem.part_ptr,
        op_stream=op_stream,
        granule=problem.granule,
        part_op=part_op,
        value_in=np.ascontiguousarray(values[:, 0]),
        makers_ptr=makers_ptr,
        makers=makers,
        changes_ptr=changes_ptr,
        changes=changes,
        at_start=at_start,
        any_start=any_start.astype(np.uint8),
        wild_ptr=wild_ptr,
        wild=wild_parts,
        asked=asked.astype(np.uint8),
        order=order,
        rank=rank,
    )


def _mirror(problem: Problem, stream_ptr: NDArray[np.int64]) -> tuple[Problem, NDArray[np.int64]]:
    """The streams backwards, old and new values exchanged; and which operation each one there is here."""
    n = problem.n_ops
    op_stream = np.repeat(np.arange(len(stream_ptr) - 1), np.diff(stream_ptr))
    order = stream_ptr[op_stream] + stream_ptr[op_stream + 1] - 1 - np.arange(n)
    sizes = np.diff(problem.part_ptr)
    part_ptr = np.concatenate([[0], np.cumsum(sizes[order])]).astype(np.int64)
    inside = np.arange(len(problem.granule)) - np.repeat(part_ptr[:-1], sizes[order])
    parts = np.repeat(problem.part_ptr[order], sizes[order]) + inside
    mirror = Problem(
        problem.region, problem.rows, problem.stream_ptr, problem.end_row, part_ptr, problem.granule[parts],
        problem.new[parts], problem.old[parts], problem.address, problem.size, problem.final, problem.initial,
        source=problem.source[order] if len(problem.source) else problem.source, links=problem.links,
    )  # fmt: skip
    return mirror, order


def both_sides(problem: Problem, stream_ptr: NDArray[np.int64], doubt: Doubt | None) -> list[Facts]:
    """The facts of the problem and of its mirror image."""
    mirror, order = _mirror(problem, stream_ptr)
    believed = np.ones(problem.n_ops, np.bool_)
    final_known = np.ones(len(problem.address), np.bool_)
    if doubt is not None:
        believed, final_known = ~doubt.operations, ~doubt.finals
    sides = []
    for side, trusted in ((problem, believed), (mirror, believed[order])):
        changing = side.old != side.new
        trusted_part = np.repeat(trusted, np.diff(side.part_ptr))
        # Here, a doubted operation asks nothing; in the mirror, where it stands for what comes next, it may
        # take any value, but what it leaves is still asked about.
        here = side is problem
        asked = trusted_part if here else trusted_part | changing
        # What a store buffer may have answered says nothing of memory.
        if len(source := side.part_source):
            asked = asked & (source < 0)
        wild = np.zeros(len(changing), np.bool_) if here else ~trusted_part
        open_start = np.zeros(len(final_known), np.bool_) if here else ~final_known
        sides.append(_facts(side, stream_ptr, asked, wild, open_start))
    return sides
