"""Whether two racing accesses could have come the other way round with nothing else changed: whether there is
an order of the accesses around them, threads kept in program order and steps kept, in which the later one
comes first and every read reads the value that it read.

Threads are streams here, wherever they ran, so that of two that took turns on one core the accesses are not
in order because of that. What is looked at is a window of the accesses to shared words, with what memory
holds at its two ends: an order of the window is one of the recording. First the two are exchanged with as
little else as can be (`swapping.py`); then the solver looks for an order, among those in which memory goes
through the values that it went through, so that stores too find what they found."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT
from corebraid.study.races.accesses import NOBODY, WORD, Rows, Shared
from corebraid.study.races.clocks import ACCESS, ACQUIRE, RELEASE, WALL
from corebraid.study.races.histories import Braided
from corebraid.study.races.swapping import exchanged
from solver.freedom.choose import op_of_row
from solver.freedom.freedom import Limits, Survey
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Problem, Verdict
from solver.regions.traces import MemoryTraces

#: Accesses of a window before the first of the two and behind the second, one attempt after the other; and
#: between them, at most.
_MARGINS, _MOST_BETWEEN = (32, 1024), 4096
_MOST_STREAMS = 200
_WORD = np.uint64(WORD)


class Turn(enum.Enum):
    """SAME: neither access changes what is there. FREE: an order is known in which they come the other way
    round. HELD: in no order of the window in which every access, stores too, finds what it found. UNDECIDED:
    not settled within the budget, or not looked at."""

    SAME = "same value"
    FREE = "free"
    HELD = "held"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Turned:
    """window: accesses that were looked at, 0 where none were needed."""

    turn: Turn
    window: int = 0


class Turning:
    """Of one recording. words: of `Shared`, uint64[n]. buffered: whether stores were buffered: then values
    are not those of memory, and nothing is decided."""

    def __init__(
        self, shared: Shared, whole: Braided, words: NDArray[np.uint64], limits: Limits, *, buffered: bool
    ) -> None:
        self._shared, self._whole, self._words, self._limits = shared, whole, words, limits
        self._buffered = buffered
        self._unmoved = np.flatnonzero(shared.who == NOBODY)
        at = np.searchsorted(words, shared.rows["addr"] // _WORD)
        inside = shared.rows["addr"] % _WORD
        self._cells = at.astype(np.uint64) * _WORD + inside
        self._cut = inside + shared.rows["size"] > WORD

    def of(self, first: int, second: int) -> Turned:
        """Of two rows of `Shared`, the earlier first."""
        rows = self._shared.rows
        if all(rows["old"][row] == rows["new"][row] for row in (first, second)):
            return Turned(Turn.SAME)
        found = Turned(Turn.UNDECIDED)
        if self._buffered or second - first > _MOST_BETWEEN:
            return found
        for margin in _MARGINS:
            low, high = self._window(first, second, margin)
            if low > first or high <= second or (low, high - low) == (0, found.window):
                break
            found = self._in_window(low, high, first, second)
            if found.turn is Turn.FREE:
                break
        return found

    def _window(self, first: int, second: int, margin: int) -> tuple[int, int]:
        """What is at most so far from the two; a page that is made present ends it."""
        low, high = max(first - margin, 0), min(second + 1 + margin, len(self._shared.rows))
        at = int(np.searchsorted(self._unmoved, first))
        low = max(low, int(self._unmoved[at - 1]) + 1) if at else low
        end = int(self._unmoved[at]) if at < len(self._unmoved) else high
        return low, min(high, end)

    def _in_window(self, low: int, high: int, first: int, second: int) -> Turned:
        size, who = high - low, self._shared.who[low:high]
        edges = list(self._edges(low, high))
        here = [(source - low, target - low) for source, target in edges]
        if exchanged(self._shared.rows[low:high], who, here, (first - low, second - low)):
            return Turned(Turn.FREE, size)
        threads, stream = np.unique(who, return_inverse=True)
        if len(threads) > _MOST_STREAMS or self._cut[low:high].any():
            return Turned(Turn.UNDECIDED, size)
        place = np.zeros(size, np.int64)
        for one in range(len(threads)):
            mine = stream == one
            place[mine] = np.arange(int(mine.sum()))
        problem = self._problem(low, high, stream, len(threads))
        if problem is None:
            return Turned(Turn.UNDECIDED, size)
        problem = _with_edges(problem, edges, stream, place, low)
        ops = [op_of_row(problem, int(stream[row - low]), int(place[row - low])) for row in (first, second)]
        survey = Survey(problem, self._limits)
        if survey.verdict is not Verdict.LEGAL:
            return Turned(Turn.UNDECIDED, size)
        order, decided = survey.witness(ops[1], ops[0])
        if order is not None and _explains(problem, order, ops):
            return Turned(Turn.FREE, size)
        return Turned(Turn.HELD if decided and order is None else Turn.UNDECIDED, size)

    def _problem(self, low: int, high: int, stream: NDArray[np.intp], streams: int) -> Problem | None:
        """The window as a region of its own, words side by side in memory."""
        rows = self._shared.rows[low:high].copy()
        numbers, cells = np.unique(self._cells[low:high] // _WORD, return_inverse=True)
        rows["addr"] = cells.astype(np.uint64) * _WORD + self._cells[low:high] % _WORD
        rows["stratum"], rows["flags"], rows["core"] = 0, 0, stream
        before, after = _ends(rows, WORD * len(numbers))
        each = [rows[stream == one] for one in range(streams)]
        for mine in each:
            mine["seq"] = mine["count"] = np.arange(len(mine))
        traces = MemoryTraces(
            [*each, np.zeros(0, EVENT)], np.zeros((0, streams + 1), np.uint64), before, after
        )
        return next((problem for _, problem in iter_problems(traces)), None)

    def _edges(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """(row, row) of which steps and walls in the window put the first before the second."""
        history, row = self._whole.history, self._whole.row
        begin, end = (int(np.searchsorted(self._begins, at)) for at in (low, high))
        last: dict[int, int] = {}
        released: dict[int, dict[int, int]] = {}
        waiting: dict[int, set[int]] = {}
        for at in range(begin, end):
            what, who, thing = int(history.what[at]), int(history.who[at]), int(history.cell[at])
            if what == RELEASE and who in last:
                released.setdefault(thing, {})[who] = last[who]
            elif what == ACQUIRE:
                waiting.setdefault(who, set()).update(
                    source for other, source in released.get(thing, {}).items() if other != who
                )
            elif what == WALL:
                for one in range(history.threads):
                    waiting.setdefault(one, set()).update(n for other, n in last.items() if other != one)
            elif what == ACCESS:
                for source in waiting.pop(who, ()):
                    yield source, int(row[at])
                last[who] = int(row[at])

    @cached_property
    def _begins(self) -> NDArray[np.int64]:
        """Of each operation the row that it is of, or that follows."""
        row = self._whole.row
        following = np.where(row < 0, len(self._shared.rows), row)
        found: NDArray[np.int64] = np.minimum.accumulate(following[::-1])[::-1]
        return found


def _ends(rows: Rows, size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What memory of so many bytes holds before rows, EVENT (n,), and behind them."""
    before, after = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    for values, end, way in (("old", before, rows[::-1]), ("new", after, rows)):
        for address, length, value in zip(
            way["addr"].tolist(), way["size"].tolist(), way[values].tolist(), strict=True
        ):
            for byte in range(length):
                end[address + byte] = value >> 8 * byte & 0xFF
    return before, after


def _with_edges(
    problem: Problem,
    edges: Sequence[tuple[int, int]],
    stream: NDArray[np.intp],
    place: NDArray[np.int64],
    low: int,
) -> Problem:
    found = set[tuple[int, int]]()
    for source, target in edges:
        s, t = int(stream[source - low]), int(stream[target - low])
        begin, end = int(problem.stream_ptr[s]), int(problem.stream_ptr[s + 1])
        done = np.searchsorted(problem.end_row[begin:end], place[source - low] + 1, side="right")
        waits = op_of_row(problem, t, int(place[target - low]))
        if done and waits < problem.stream_ptr[t + 1]:
            found.add((begin + int(done) - 1, waits))
    if not found:
        return problem
    return replace(problem, edges=np.array(sorted(found), np.int64), deduced=0)


def _explains(problem: Problem, order: NDArray[np.int64], ops: list[int]) -> bool:
    """Whether an order has the second of two operations before the first, keeps every stream's order and all
    edges, and has every operation find the values that it found. Shares nothing with the search."""
    rank = np.empty(problem.n_ops, np.int64)
    rank[order] = np.arange(problem.n_ops)
    if len(order) != problem.n_ops or rank[ops[1]] > rank[ops[0]]:
        return False
    for begin, end in zip(problem.stream_ptr[:-1], problem.stream_ptr[1:], strict=True):
        if (np.diff(rank[begin:end]) <= 0).any():
            return False
    if len(problem.edges) and (rank[problem.edges[:, 0]] >= rank[problem.edges[:, 1]]).any():
        return False
    holds = problem.initial.copy()
    for op in order.tolist():
        for part in range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1])):
            granule = problem.granule[part]
            if holds[granule] != problem.old[part]:
                return False
            holds[granule] = problem.new[part]
    return bool((holds == problem.final).all())
