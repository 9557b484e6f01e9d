"""Edges under TSO that are worth telling: those that program order between a core's chains does not imply."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solver.tenures.buffered_lines import Ties


def not_told(edges: NDArray[np.int64], ties: Sequence[Ties]) -> NDArray[np.int64]:
    """Those of the row edges (`edges.row_edges`) that are not `solver.regions.program_order` within a
    core."""
    n_cores = len(ties)
    kept = np.ones(len(edges), np.bool_)
    for core, tie in enumerate(ties):
        stores = n_cores + 1 + core
        for first, then, told in ((core, stores, tie.told_before), (stores, core, tie.told_need)):
            mine = np.flatnonzero((edges[:, 0] == first) & (edges[:, 2] == then))
            kept[mine] = told[edges[mine, 3]] < edges[mine, 1]
    return edges[kept]


def implied_by(
    told: NDArray[np.int64], edges: NDArray[np.int64], op_stream: NDArray[np.int64], n_streams: int
) -> NDArray[np.bool_]:
    """bool (n,): which of the edges between operations (int64 (n, 2)) one of `told` implies, with the order
    of the two streams."""
    implied = np.zeros(len(edges), np.bool_)
    n_ops = len(op_stream)
    pair = op_stream[edges[:, 0]] * n_streams + op_stream[edges[:, 1]]
    told_pair = op_stream[told[:, 0]] * n_streams + op_stream[told[:, 1]]
    for number in np.unique(pair):
        here, known = pair == number, told[told_pair == number]
        latest = np.full(n_ops, -1, np.int64)
        np.maximum.at(latest, known[:, 1], known[:, 0])
        # Operations of other streams come between only in number.
        implied[here] = np.maximum.accumulate(latest)[edges[here, 1]] >= edges[here, 0]
    return implied
