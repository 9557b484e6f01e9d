"""Cut search: legality of a region decided exactly by a walk over its cuts.

Depth first, with undo (`solver.cuts.walk`). What may as well run at once runs at once; from the other cuts
only the moves of a stubborn set are tried (`solver.cuts.stubborn` has the proof); a cut from which no move
led to the end is dead for good, whatever the way to it, and is not explored again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from corebraid.base.kernels import copy_row, inner, or_row
from solver.cuts.dead import DeadCuts
from solver.cuts.move_order import SHAKEN, arrange
from solver.cuts.state import Ops, Walk, start
from solver.cuts.stubborn import moves_to_try
from solver.cuts.table import cut_slot
from solver.cuts.walk import LENGTH, WORK, begins_well, run, run_forced, take_back_why, wake, wake_all
from solver.regions.problem import Problem, Solution, Verdict, no_order

DEFAULT_NODES = 20_000_000

_LEGAL, _ILLEGAL, _BUDGET, _GROW = 0, 1, 2, 3
#: Operations run between two looks at the clock.
_SLICE = 2_000_000
_FIRST_FRAMES = 1 << 8
#: Cuts opened without getting further before a search begins again: at first, and how that grows.
_FIRST_PATIENCE, _MORE_PATIENCE = 2000, 1.5
#: Most memory for the dead cuts.
_MEMO_BYTES = 2 << 30
#: Indexes of `at` in `search`: open cuts, dead cuts, whether the cut reached may be alive, cuts
#: opened that had a choice, manner (`solver.cuts.move_order`), the longest path of this try, and cuts opened
#: then.
_OPEN, _DEAD, _ALIVE, _OPENED, _MANNER, _BEST, _SINCE = 0, 1, 2, 3, 4, 5, 6


class Frames(NamedTuple):
    """The open cuts of a search. length: int32, of the path to the cut. moves: int32 (n, n_streams), the
    streams to try. n, tried: int32, how many there are and how many were tried. why: uint64 (n, 2), the
    reason why those tried, and all that need no try, lead nowhere."""

    length: NDArray[np.int32]
    moves: NDArray[np.int32]
    n: NDArray[np.int32]
    tried: NDArray[np.int32]
    why: NDArray[np.uint64]


@inner
def enter(ops, w, dead, frames, at, state, scratch):  # type: ignore[no-untyped-def]
    """Open the cut that the walk has reached, once all that is forced has run. False if it is dead."""
    if not run_forced(ops, w):
        return False
    length = w.at[LENGTH]
    if length == ops.op_stream.size:
        return True
    f = at[_OPEN]
    n = moves_to_try(ops, w, frames.moves[f], *scratch)
    if n > 1:
        slot, known = cut_slot(w.position, dead.keys, dead.filled, 1)
        if known:
            copy_row(dead.why[slot], w.reason)
            return False
        last = ops.op_stream[w.path[length - 1]] if length > 0 else np.int32(0)
        arrange(frames.moves[f], n, last, at[_MANNER], state, ops, w)
        at[_OPENED] += 1
    frames.length[f], frames.n[f], frames.tried[f] = length, n, 0
    copy_row(w.reason, frames.why[f])
    at[_OPEN] += 1
    if length > at[_BEST]:
        at[_BEST], at[_SINCE] = length, at[_OPENED]
    return n > 0


@inner
def leave(ops, w, dead, frames, at):  # type: ignore[no-untyped-def]
    """Go back from a dead cut to the innermost open one that has a move left which could make a difference.
    Returns False if there is none."""
    while at[_OPEN] > 0:
        f = at[_OPEN] - 1
        deeper = w.at[LENGTH] > frames.length[f]
        if deeper and not take_back_why(frames.length[f], ops, w):
            # The cut is dead for a reason that none of its moves has to do with.
            frames.tried[f] = frames.n[f]
            copy_row(w.reason, frames.why[f])
        elif deeper:
            or_row(w.reason, frames.why[f])
        if frames.tried[f] < frames.n[f]:
            return True
        copy_row(frames.why[f], w.reason)
        if frames.n[f] > 1:
            slot, known = cut_slot(w.position, dead.keys, dead.filled, 1)
            if not known:
                dead.filled[slot] = 1
                copy_row(w.position, dead.keys[slot])
                copy_row(w.reason, dead.why[slot])
                at[_DEAD] += 1
        at[_OPEN] -= 1
    return False


@njit(cache=True, nogil=True)
def search(ops, w, dead, frames, at, state, nodes, work):  # type: ignore[no-untyped-def]
    """Go on with a walk until `nodes` cuts have been opened or `work` operations have been run in all.

    dead: `Dead`. at: int64, see _OPEN. state: uint64 (1,), of `move_order.draw`.
    Returns _LEGAL (the path is an order), _ILLEGAL, _BUDGET or _GROW (of the dead cuts or the frames).
    """
    n_streams = w.position.size
    scratch = (
        np.empty(n_streams, np.uint8), np.empty(n_streams, np.uint8), np.empty(n_streams, np.uint8),
        np.empty(n_streams, np.int32),
    )  # fmt: skip
    while True:
        if at[_OPENED] >= nodes or w.at[WORK] >= work:
            return _BUDGET
        if 2 * (at[_DEAD] + at[_OPEN] + 2) > dead.filled.size or at[_OPEN] + 1 >= frames.n.size:
            return _GROW
        alive = at[_ALIVE] != 0 and enter(ops, w, dead, frames, at, state, scratch)
        if w.at[LENGTH] == ops.op_stream.size and alive:
            return _LEGAL
        first = alive
        if not alive and not leave(ops, w, dead, frames, at):
            return _ILLEGAL
        f = at[_OPEN] - 1
        s = frames.moves[f, frames.tried[f]]
        frames.tried[f] += 1
        if first:
            wake(s, w)
        else:
            wake_all(ops, w)
        at[_ALIVE] = run(w.position[s], s, ops, w)


def _frames(n: int, n_streams: int) -> Frames:
    return Frames(
        np.zeros(n, np.int32), np.zeros((n, n_streams), np.int32), np.zeros(n, np.int32),
        np.zeros(n, np.int32), np.zeros((n, 2), np.uint64),
    )  # fmt: skip


class CutSearch:
    """A search that can be given more time, and that keeps what it has learnt.

    before: what is known of the order, counted: see `solver.cuts.state.start`.
    """

    def __init__(
        self, problem: Problem, before: NDArray[np.int32] | None = None, *, counted: bool = False
    ) -> None:
        self._problem, self._before, self._counted = problem, before, counted
        self._seed = np.array([0x2545F4914F6CDD1D], np.uint64)
        self._at = np.zeros(7, np.int64)
        self._tries = 0
        self._begin()
        self._dead = DeadCuts(len(self._walk.position))
        self._frames = _frames(_FIRST_FRAMES, len(self._walk.position))
        self._status = _BUDGET if begins_well(self._ops, self._walk) else _ILLEGAL

    def _begin(self) -> None:
        """Go back to the first cut. What is known to be dead stays so."""
        self._ops: Ops
        self._walk: Walk
        self._ops, self._walk = start(self._problem, self._before, counted=self._counted)
        self._at[[_OPEN, _ALIVE, _MANNER]] = 0, 1, min(self._tries, SHAKEN)
        self._at[[_BEST, _SINCE]] = 0, self.opened
        self._tries += 1
        wake_all(self._ops, self._walk)

    @property
    def opened(self) -> int:
        """Cuts at which there was a choice, so far."""
        return int(self._at[_OPENED])

    def _grow(self) -> bool:
        if 2 * (int(self._at[_DEAD]) + int(self._at[_OPEN]) + 2) > len(self._dead.table.filled):
            if 4 * self._dead.bytes > _MEMO_BYTES:
                return False
            self._dead.grow()
        else:
            more = _frames(3 * len(self._frames.n), len(self._walk.position))
            pairs = zip(self._frames, more, strict=True)
            self._frames = Frames(*(np.concatenate([old, new]) for old, new in pairs))
        return True

    def go_on(self, until: float, nodes: int) -> str:
        """Search until the clock (working_time) says `until` or `nodes` cuts have been opened in all.

        Returns why it stopped: "" if the region is decided, else "timeout" or "budget".
        """
        while self._status not in (_LEGAL, _ILLEGAL):
            patience = int(_FIRST_PATIENCE * _MORE_PATIENCE ** (self._tries - 1))
            stop = int(self._at[_SINCE]) + patience
            work = int(self._walk.at[WORK]) + _SLICE
            self._status = search(
                self._ops, self._walk, self._dead.table, self._frames, self._at, self._seed,
                min(nodes, stop), work,
            )  # fmt: skip
            out_of_memory = self._status == _GROW and not self._grow()
            if out_of_memory or (self._status == _BUDGET and self.opened >= nodes):
                return "budget"
            if self._status in (_BUDGET, _GROW) and working_time() > until:
                return "timeout"
            if self._status == _BUDGET and self.opened >= int(self._at[_SINCE]) + patience:
                self._begin()
        return ""

    def answer(self, engine: str, seconds: float, reason: str) -> Solution:
        """The solution as it stands; `reason`: what `go_on` returned last."""
        verdict = {_LEGAL: Verdict.LEGAL, _ILLEGAL: Verdict.ILLEGAL}.get(self._status, Verdict.UNDECIDED)
        order: NDArray[np.int64] = no_order()
        if verdict is Verdict.LEGAL:
            order = self._walk.path.astype(np.int64)
        return Solution(verdict, engine, seconds, order, reason)


def solve_cut(problem: Problem, *, timeout_s: float, nodes: int = DEFAULT_NODES) -> Solution:
    """Decide a region by cut search. Undecided after `timeout_s` seconds or `nodes` cuts with a choice."""
    began = working_time()
    search_ = CutSearch(problem)
    reason = search_.go_on(began + timeout_s, nodes)
    return search_.answer("cut", working_time() - began, reason)
