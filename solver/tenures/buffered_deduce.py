"""What the tenures of a region prove under TSO (`solver.tenures.deduce`): there a commit is the write that
takes a line from others, and a core's own commits belong to its tenure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from solver.problem import NOTHING, TENURES
from solver.program_order import core_rows
from solver.tenures.buffered_clocks import make_buffered_clocks, of_rows
from solver.tenures.buffered_lines import BufferedLines, Followed, ties_of
from solver.tenures.buffered_misses import parts_before
from solver.tenures.buffered_scan import BufferedBegins
from solver.tenures.clocks import CHANGED, CYCLE, Clocks, Places, close
from solver.tenures.contents import apply_contents, make_contents
from solver.tenures.deduce import Deduced
from solver.tenures.foreign import apply_foreign
from solver.tenures.misses import apply_misses
from solver.tenures.syncs import learn_syncs

if TYPE_CHECKING:
    from solver.regions import Region


@dataclass(frozen=True)
class BufferedTenures:
    """Where the tenures of a region begin under TSO, core by core, and what finds the lines that matter.
    by_writes: whether a miss proves a foreign write."""

    begins: Sequence[BufferedBegins]
    lines: BufferedLines
    by_writes: bool

    def deduced(self, region: Region) -> Deduced:
        """What the tenures prove of the region's rows. Raises OrderError as `program_order.core_rows`."""
        n_cores = len(self.begins)
        cores = [core_rows(region, core) for core in range(n_cores)]
        ties = [ties_of(rows, begins) for rows, begins in zip(cores, self.begins, strict=True)]
        lines, found = self.lines.follow(region, self.begins, cores, ties)
        clocks, places = make_buffered_clocks(found, self.begins, ties, len(lines))
        before = parts_before(found, n_cores) if self.by_writes else None
        rounds, wrong = _apply_rules(found, clocks, places, len(lines), region.places, before)
        if wrong:
            clocks.clock[:] = 0
        known = of_rows(clocks, 2 * n_cores + 1)
        dropped = TENURES if wrong else NOTHING
        return Deduced(known, len(found.parts.last_write), rounds, dropped, ties)


def _apply_rules(
    found: Followed,
    clocks: Clocks,
    places: Places,
    n_lines: int,
    syncs: NDArray[np.int64],
    before: NDArray[np.int64] | None,
) -> tuple[int, bool]:
    """The rules to a fixed point. Returns (rounds, whether they contradict each other or the rows)."""
    contents = make_contents(found.tenures, places, n_lines)
    learn_syncs(syncs, (clocks.clock.shape[1] - 1) // 3, clocks, buffered=True)
    close(clocks)
    rounds, wrong = 0, False
    while not wrong:
        rounds += 1
        clocks.state[CHANGED] = 0
        apply_foreign(found.tenures, places, clocks)
        close(clocks)
        wrong = apply_contents(found.tenures, places, clocks, contents) >= 0
        close(clocks)
        if before is not None and not wrong:
            wrong = apply_misses(found.tenures, places, clocks, before) >= 0
            close(clocks)
        wrong = wrong or bool(clocks.state[CYCLE])
        if not clocks.state[CHANGED]:
            break
    return rounds, wrong
