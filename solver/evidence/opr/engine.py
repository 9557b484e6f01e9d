"""The engine `opr` as one that orders: where all that conflicts in a region was done by members, the event
orders of exact clocks (Algorithm 2) put every two conflicting accesses in the order in which they ran. The
kernel of a Linux program may be in conflict, too (`beside_kernel.py`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from corebraid.base.rows.event import EVENT, FETCH, GLUED
from recorder.evidence.opr.log import read_opr
from recorder.files.evidence_names import OPR
from recorder.files.reader import Recording
from solver.engines.reorder import keep_edges
from solver.evidence.opr.beside_kernel import place_kernel
from solver.evidence.opr.order_log import OrderLog
from solver.evidence.opr.repeats import cut_repeats, list_cuts
from solver.regions.contradiction import contradicts
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.regions.region import Region

NAME = OPR
#: Why a region is left: somebody else is in it, or, of firmware, code was fetched that was written.
_NOTHING = "no evidence"
#: What is said of a region with the kernel, or fetches, in it.
_BY_VALUES = "the kernel's accesses, and fetches, by values"
_ONE = np.uint64(1)
#: The place of an operation that no clock tells of: it fetched code.
FETCHED = -2


@njit(cache=True)
def merge_members(sn, until, bounds, waits, wait_bounds, at, done, position):  # type: ignore[no-untyped-def]
    """Put the members' rows in an order that their waits allow.

    sn: int64 (rows,), of each row its access, or that before it. until: int64 (rows,), the access whose waits
    it must have had: the last of those that are GLUED with it. Rows of member k are bounds[k] to bounds[k
    + 1]. waits: WAIT[], those of member k from wait_bounds[k] on; at: int64 (r,), the next ones; done:
    int64 (r,), each member's last access; both updated. position: int64 (rows,), filled in. Whether there
    is such an order.
    """
    r, number = bounds.size - 1, 0
    next_row = bounds[:-1].copy()
    while number < sn.size:
        before = number
        for k in range(r):
            while next_row[k] < bounds[k + 1]:
                row = next_row[k]
                while at[k] < wait_bounds[k + 1] and np.int64(waits[at[k]].sn) <= until[row]:
                    wait = waits[at[k]]
                    if done[wait.peer] < np.int64(wait.place):
                        break
                    at[k] += 1
                if at[k] < wait_bounds[k + 1] and np.int64(waits[at[k]].sn) <= until[row]:
                    break
                position[row] = number
                number += 1
                done[k] = sn[row]
                next_row[k] += 1
        if number == before:
            return False
    return True


@njit(cache=True)
def first_rows(rows, first_op, last_op, problem, found):  # type: ignore[no-untyped-def]
    """For each operation of a stream the first of its rows (EVENT[n]) that touches its granules: found, int64
    (ops,), of the problem's (`ProblemView`) operations first_op to last_op; `FETCHED` if one of these rows
    fetched code. Whether none did."""
    end_row, part_ptr, granule = problem.end_row, problem.part_ptr, problem.granule
    address, size = problem.address, problem.size
    begin, clean = 0, True
    for op in range(first_op, last_op):
        found[op], fetched = -1, False
        for i in range(begin, end_row[op]):
            row = rows[i]
            for p in range(part_ptr[op], part_ptr[op + 1]):
                low, n = address[granule[p]], np.uint64(size[granule[p]])
                if found[op] < 0 and row.addr < low + n and low < row.addr + np.uint64(row.size):
                    found[op] = i
                    fetched = fetched or (row.flags & FETCH) != 0
        if fetched:
            found[op], clean = FETCHED, False
        begin = end_row[op]
    return clean


class OprEngine:
    """Orders the regions of one recording, each once and in their order."""

    name = NAME

    def __init__(
        self, members: tuple[int, ...], orders: OrderLog, killed: bool = False, kernel: int | None = None
    ) -> None:
        """kernel: the stream of a Linux program's kernel."""
        self._members, self._killed, self._kernel = members, killed, kernel
        self._waits = np.concatenate(orders.waits)
        self._wait_bounds = np.cumsum([0, *(len(waits) for waits in orders.waits)]).astype(np.int64)
        self._at = self._wait_bounds[:-1].copy()
        self._done = np.zeros(len(members), np.int64)
        # Where the region began of which an order is made.
        self._begun, self._from = self._done.copy(), self._at.copy()

    @classmethod
    def of(cls, recording: Recording) -> OprEngine:
        """The engine for a recording. Raises UsageError if it has no such evidence, FormatError."""
        log = read_opr(recording)
        manifest = recording.manifest
        kernel = manifest.n_cores if manifest.linux else None
        return cls(log.members, OrderLog.of(log, False), recording.killed, kernel)

    def solve(self, region: Region, problem: Problem) -> Solution:
        """An order of the region; UNDECIDED where others than members, or fetches of code, are in
        conflict. Raises Contradiction where members wait for each other for ever."""
        began = working_time()
        rows = [
            np.concatenate([np.zeros(0, EVENT), *region.streams[core].pieces()]) for core in self._members
        ]
        position = self._merged(rows)
        if position is None:
            if self._killed:
                return self._answer(began, Verdict.UNDECIDED, _NOTHING)
            raise contradicts(NAME, region.index, self._stuck(rows))
        cut = cut_repeats(problem, self._cuts(rows, problem))
        return cut.joined(self._ordered(began, cut.problem, rows, position))

    def _ordered(
        self, began: float, problem: Problem, rows: list[NDArray[np.void]], position: NDArray[np.int64]
    ) -> Solution:
        """The operations in an order. rows: the members'; position: int64 (rows of all,), where they are."""
        placed = np.full(problem.n_ops, -1, np.int64)
        ops, offset = 0, 0
        for core, mine in zip(self._members, rows, strict=True):
            first, last = int(problem.stream_ptr[core]), int(problem.stream_ptr[core + 1])
            clean = first_rows(mine, first, last, problem.view, placed)
            here = placed[first:last]
            if (not clean and self._kernel is None) or (here == -1).any():
                return self._answer(began, Verdict.UNDECIDED, _NOTHING)
            told = here >= 0
            here[told] = position[offset + here[told]]
            ops, offset = ops + int(told.sum()), offset + len(mine)
        if ops < problem.n_ops:
            return self._with_kernel(began, problem, placed)
        order = keep_edges(problem, np.argsort(placed, kind="stable").astype(np.int64))
        if order is None:
            return self._answer(began, Verdict.UNDECIDED, "gave up")
        return Solution(Verdict.LEGAL, NAME, working_time() - began, order, "")

    def _with_kernel(self, began: float, problem: Problem, placed: NDArray[np.int64]) -> Solution:
        """A region in which others are in conflict, too, or code was fetched that was written. placed: int64
        (n_ops,), the members' places; `FETCHED`; -1 for others."""
        others = np.unique(problem.op_stream[placed == -1]).tolist()
        if others not in ([], [self._kernel]):
            return self._answer(began, Verdict.UNDECIDED, _NOTHING)
        members = np.argsort(placed, kind="stable").astype(np.int64)[(placed < 0).sum() :]
        solution = place_kernel(problem, members)
        if solution.verdict is Verdict.ILLEGAL:
            if self._killed:
                return self._answer(began, Verdict.UNDECIDED, _NOTHING)
            raise contradicts(
                NAME, problem.region, "the event orders leave no place for the kernel's accesses"
            )
        if solution.verdict is Verdict.UNDECIDED:
            return self._answer(began, Verdict.UNDECIDED, solution.reason)
        return Solution(Verdict.LEGAL, NAME, working_time() - began, solution.order, _BY_VALUES)

    def _cuts(self, rows: list[NDArray[np.void]], problem: Problem) -> NDArray[np.int64]:
        """Where repeated reads are to be cut, after `_merged`."""
        found = [np.empty((0, 2), np.int64)]
        for k, (core, mine) in enumerate(zip(self._members, rows, strict=True)):
            first, last = int(problem.stream_ptr[core]), int(problem.stream_ptr[core + 1])
            told, cuts = np.zeros(len(mine), np.bool_), np.empty((len(mine), 2), np.int64)
            waits = self._waits[self._from[k] : self._at[k]]["sn"].astype(np.int64)
            sn = self._begun[k] + np.cumsum((mine["flags"] & FETCH) == 0, dtype=np.int64)
            told[np.searchsorted(sn, waits)] = True
            found.append(cuts[: list_cuts(mine, told, first, last, problem.view, cuts)])
        return np.concatenate(found)

    def _merged(self, rows: list[NDArray[np.void]]) -> NDArray[np.int64] | None:
        sns, untils = [], []
        self._begun, self._from = self._done.copy(), self._at.copy()
        for k, mine in enumerate(rows):
            sn = self._done[k] + np.cumsum((mine["flags"] & FETCH) == 0, dtype=np.int64)
            until = sn.copy()
            for i in np.flatnonzero(mine["flags"] & GLUED)[::-1].tolist():
                until[i] = until[i + 1]
            sns.append(sn)
            untils.append(until)
        bounds = np.cumsum([0, *(len(mine) for mine in rows)]).astype(np.int64)
        position = np.zeros(int(bounds[-1]), np.int64)
        merged = merge_members(
            np.concatenate(sns), np.concatenate(untils), bounds, self._waits, self._wait_bounds, self._at,
            self._done, position,
        )  # fmt: skip
        return position if merged else None

    def _stuck(self, rows: list[NDArray[np.void]]) -> str:
        """Which event waits for ever, after `merge_members` has given up."""
        for k, mine in enumerate(rows):
            at = int(self._at[k])
            if at == self._wait_bounds[k + 1]:
                continue
            wait = self._waits[at]
            peer = self._members[int(wait["peer"])]
            sn = self._begun[k] + np.cumsum((mine["flags"] & FETCH) == 0, dtype=np.int64)
            row = int(np.searchsorted(sn, int(wait["sn"])))
            if row < len(mine) and self._done[int(wait["peer"])] < int(wait["place"]):
                event = f"stream {self._members[k]}, event {int(mine['seq'][row])}"
                return f"{event}: waits for access {int(wait['place'])} of core {peer}, which never comes"
        return "the event orders have a cycle"

    def _answer(self, began: float, verdict: Verdict, why: str) -> Solution:
        return Solution(verdict, NAME, working_time() - began, no_order(), why)
