"""What the tenures of a region prove of its order, whatever the values of single accesses allow.

Rules, each sound by itself, to a fixed point over one set of clocks: nobody writes within another's tenure
(`foreign`), what a tenure found somebody must have left (`contents`), a miss was caused by somebody's write
(`misses`, where the recorder promises that), and what sync points say (`syncs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from solver.tenures.clocks import CHANGED, CYCLE, Clocks, close, make_clocks
from solver.tenures.contents import apply_contents, make_contents
from solver.tenures.foreign import apply_foreign
from solver.tenures.lines import Tenures, Writes
from solver.tenures.misses import apply_misses, earlier_tenures
from solver.tenures.syncs import learn_syncs

if TYPE_CHECKING:
    from solver.tenures.buffered_lines import Ties


@dataclass(frozen=True)
class Deduced:
    """What was deduced: the clocks of the nodes. tenures: how many there are on hot lines. rounds: to the
    fixed point. contradiction: whether the rules contradict the rows or one another: then the clocks say
    nothing. ties: of each core under TSO what is known of its two streams without the rules."""

    clocks: Clocks
    tenures: int
    rounds: int
    contradiction: bool
    ties: Sequence[Ties] = ()


def deduce(
    tenures: Tenures,
    writes: Writes,
    n_streams: int,
    n_lines: int,
    syncs: NDArray[np.int64],
    by_writes: bool = False,
) -> Deduced:
    """Apply the rules to a fixed point. n_streams: cores and, the last, agents. syncs: `Region.places`.
    by_writes: whether a miss proves a foreign write."""
    clocks, places = make_clocks(tenures, writes, n_streams, n_lines)
    contents = make_contents(tenures, places, n_lines)
    earlier = earlier_tenures(tenures) if by_writes else np.empty(0, np.int64)
    learn_syncs(syncs, n_streams - 1, clocks)
    close(clocks)
    rounds, wrong = 0, False
    while not wrong:
        rounds += 1
        clocks.state[CHANGED] = 0
        apply_foreign(tenures, places, clocks)
        close(clocks)
        wrong = apply_contents(tenures, places, clocks, contents) >= 0
        close(clocks)
        if by_writes and not wrong:
            wrong = apply_misses(tenures, places, clocks, earlier) >= 0
            close(clocks)
        wrong = wrong or bool(clocks.state[CYCLE])
        if not clocks.state[CHANGED]:
            break
    if wrong:
        clocks.clock[:] = 0
    return Deduced(clocks, len(tenures.line), rounds, wrong)
