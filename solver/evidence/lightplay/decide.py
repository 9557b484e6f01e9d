"""The order of one slice: search, replay, fix, relax (LightPlay, Figure 2).

1. Search all correct orders of the accesses, each taken for atomic with its checkpoints (section 2.2), and
   replay them until one does (2.3).
2. None does: fix the first one (Figure 7).
3. There is no order, or it cannot be fixed: search an order of the checkpoints alone, and insert the accesses
   (Figure 8).
4. Beyond the paper: order accesses and checkpoints in one search. What has no order then contradicts its
   evidence, or is too large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from solver.evidence.lightplay.constraints import Minimal
from solver.evidence.lightplay.emulate import is_correct
from solver.evidence.lightplay.fixing import fix_ordering
from solver.evidence.lightplay.found import DEFAULT_TRIES, Found
from solver.evidence.lightplay.interleavings import PAPER_LIMIT, SHORTER, TooLong, count
from solver.evidence.lightplay.refine import alone, components, halves
from solver.evidence.lightplay.relaxed import search_apart, search_relaxed
from solver.evidence.lightplay.replay_one import replay
from solver.evidence.lightplay.search_cpu import search_cpu
from solver.evidence.lightplay.search_cut import DEFAULT_NODES, search_cut
from solver.evidence.lightplay.slice_problem import Instance, SliceProblem

BACKENDS = ("auto", "cpu", "cuda", "cut")
#: How an order was found.
NOTHING, FOUND, FIXED, RELAXED, APART = "nothing", "found", "fixed", "relaxed", "apart"
#: How none was: the search was too large; there is none, so evidence and events contradict each other.
UNDECIDED, CONTRADICTED = "undecided", "contradicted"
#: Interleavings up to which "auto" tries them all.
_AUTO_MOST = 1 << 12
#: Orders that a search over cuts lists to be replayed.
_CUT_LISTED = 64


@dataclass(frozen=True)
class Settings:
    """How slices are searched. backend: one of BACKENDS. limit: accesses that a permutation back end takes in
    one piece; more are split. skip: see `try_ranks`. tries, nodes: most work for one search."""

    backend: str = "auto"
    limit: int = PAPER_LIMIT
    skip: bool = True
    tries: int = DEFAULT_TRIES
    nodes: int = DEFAULT_NODES

    def check(self) -> None:
        """Raises UsageError for values that make no sense."""
        if self.backend not in BACKENDS:
            raise UsageError("unknown back end", expected=", ".join(BACKENDS), found=self.backend)
        if self.limit < 2 or self.tries < 1 or self.nodes < 1:
            raise UsageError("a limit that is too small", found=f"{self.limit}, {self.tries}, {self.nodes}")


@dataclass(frozen=True)
class Decided:
    """What became of a slice. how: FOUND, FIXED, RELAXED or APART; UNDECIDED or CONTRADICTED; NOTHING where
    no accesses race after refinement. order: int64 (n,), the operations in an order that replays, empty if
    there is none. found: of the first search, None if the slice was split. pieces: into how many. seconds:
    all of it; search_seconds: of the first search; fixing_seconds: of all that followed because no order of
    it replays (steps 2 to 4); the rest is replaying. why: why there is no order. minimal: its constraints, if
    they are known. ahead: whether it was decided while it was recorded."""

    problem: SliceProblem
    how: str
    order: NDArray[np.int64]
    found: Found | None = None
    pieces: int = 1
    seconds: float = 0.0
    search_seconds: float = 0.0
    fixing_seconds: float = 0.0
    why: str = ""
    minimal: Minimal | None = None
    ahead: bool = False


def search(instance: Instance, settings: Settings) -> Found:
    """All correct orders by the back end that the settings name. Raises TooLong, UsageError where there is no
    CUDA."""
    backend = settings.backend
    if backend == "auto":
        backend = "cpu" if count(instance.sizes) <= _AUTO_MOST else "cut"
    if backend == "cpu":
        return search_cpu(instance, skip=settings.skip, tries=settings.tries)
    if backend == "cuda":
        from solver.evidence.lightplay.search_cuda import check_fits, search_cuda

        check_fits(instance, settings.tries)
        return search_cuda([instance])[0]
    return search_cut(instance, nodes=settings.nodes, listed=_CUT_LISTED)


def search_together(problems: list[SliceProblem], settings: Settings) -> list[Found | None]:
    """The first search of many slices at once, where the back end gains from that; else None for each."""
    if settings.backend != "cuda":
        return [None] * len(problems)
    from solver.evidence.lightplay.search_cuda import fits, search_cuda

    chosen = [
        k
        for k, one in enumerate(problems)
        if 0 < one.n <= settings.limit and fits(one.paired(), settings.tries)
    ]
    found: list[Found | None] = [None] * len(problems)
    for k, one in zip(chosen, search_cuda([problems[k].paired() for k in chosen]), strict=True):
        found[k] = one
    return found


def decide(problem: SliceProblem, settings: Settings, found: Found | None = None) -> Decided:
    """Find an order of a slice. found: of its first search, if that is done. Raises TooLong if it is too
    long for the back end and cannot be split."""
    began = working_time()
    if problem.n == 0:
        return Decided(problem, NOTHING, np.empty(0, np.int64))
    if settings.backend in ("cpu", "cuda") and problem.n > settings.limit:
        decided = _split(problem, settings)
    else:
        decided = _whole(problem, settings, found)
    return replace(decided, seconds=working_time() - began)


def _whole(problem: SliceProblem, settings: Settings, found: Found | None) -> Decided:
    found = found or search(problem.paired(), settings)
    spent = found.seconds
    how, order = _replayed(problem, found, settings.nodes)
    if order is not None:
        return Decided(problem, how, order, found, search_seconds=spent)
    if how == CONTRADICTED:
        why = f"back end {found.backend} lists an order that is not correct: this is a defect of corebraid"
        return Decided(problem, how, np.empty(0, np.int64), found, search_seconds=spent, why=why)
    began = working_time()
    how, order, why = _fixed(problem, found, settings.nodes)
    fixing = working_time() - began
    return Decided(problem, how, order, found, search_seconds=spent, fixing_seconds=fixing, why=why)


def _replayed(problem: SliceProblem, found: Found, nodes: int) -> tuple[str, NDArray[np.int64] | None]:
    """Step 1; CONTRADICTED where the search is wrong."""
    if not problem.agrees:
        return UNDECIDED, None
    paired = problem.paired()
    for order in found.orders:
        if not is_correct(paired, order):
            return CONTRADICTED, None
        if replay(problem, order).fine:
            return FOUND, order
    if len(found.orders) < found.total:
        # The rest of them is not listed: look for those that have the real values besides.
        for order in search_cut(problem.both(), nodes=nodes, listed=_CUT_LISTED).orders:
            if replay(problem, order).fine:
                return FOUND, order
    return UNDECIDED, None


def _fixed(problem: SliceProblem, found: Found, nodes: int) -> tuple[str, NDArray[np.int64], str]:
    """Steps 2 to 4: (how, the order or an empty one, why there is none)."""
    if problem.agrees:
        fixed = fix_ordering(problem, found.orders[0]) if len(found.orders) else None
        if fixed is not None:
            return FIXED, fixed, ""
        relaxed = search_relaxed(problem, nodes)
        if relaxed is not None:
            return RELAXED, relaxed, ""
    order, complete = search_apart(problem, nodes)
    if order is not None and problem.agrees and replay(problem, order).fine:
        return APART, order, ""
    if complete:
        return CONTRADICTED, np.empty(0, np.int64), "no order of its accesses explains its checkpoints"
    return UNDECIDED, np.empty(0, np.int64), "budget"


def _split(problem: SliceProblem, settings: Settings) -> Decided:
    """Decide a slice piece by piece."""
    groups = components(problem)
    if len(groups) > 1:
        parts = [decide(alone(problem, ops), settings) for ops in groups]
        decided = _together(problem, parts, groups)
        if decided is not None:
            return decided
    else:
        for first, second, ops in halves(problem):
            one = decide(first, settings)
            if one.how in (UNDECIDED, CONTRADICTED):
                continue
            rest = np.setdiff1d(np.arange(problem.n), ops)
            decided = _together(problem, [one, decide(second, settings)], [ops, rest])
            if decided is not None:
                return decided
    raise TooLong(
        "a slice is longer than the back end takes, and cannot be split",
        expected=f"at most {settings.limit} accesses",
        found=problem.n,
        where=f"slice {problem.number}",
        remedy=Phrase(
            "use ", Option("backend", "cut"), " or a larger ", Option("limit"), ", or ", *SHORTER.parts
        ),
    )


def _together(problem: SliceProblem, parts: list[Decided], ops: list[NDArray[np.int64]]) -> Decided | None:
    """The pieces' orders one after the other, if all have one and the whole replays."""
    if any(part.how in (UNDECIDED, CONTRADICTED) for part in parts):
        return None
    order = np.concatenate([mine[part.order] for part, mine in zip(parts, ops, strict=True)])
    if not replay(problem, order).fine:
        return None
    ways = (APART, RELAXED, FIXED, FOUND, NOTHING)
    how = next(way for way in ways if any(part.how == way for part in parts))
    pieces, spent = sum(part.pieces for part in parts), sum(part.search_seconds for part in parts)
    fixing = sum(part.fixing_seconds for part in parts)
    return Decided(problem, how, order, None, pieces, search_seconds=spent, fixing_seconds=fixing)
