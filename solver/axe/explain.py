"""Why a trace is illegal: a small part of it that is illegal by itself (delta debugging; Zeller, Hildebrandt,
"Simplifying and isolating failure-inducing input", 2002; the axe manual's shrinker, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from solver.axe.decide import decide
from solver.axe.trace import LOAD, RMW, STORE, Trace
from solver.regions.problem import Verdict

_Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Explanation:
    """Operations and final constraints that are illegal by themselves. ops, finals: int64, indices into the
    trace. minimal: whether none can be left out; else the time was up. Where a part is left out, a store goes
    only together with the reads of its value, so that what remains never lacks a store that the trace has."""

    ops: NDArray[np.int64]
    finals: NDArray[np.int64]
    minimal: bool

    def text(self, trace: Trace) -> list[str]:
        """One line each: its line number and what it says."""
        lines = [f"line {line}: {text}" for line, text in self._rows(trace)]
        return lines if self.minimal else [*lines, "(perhaps not the smallest such part: the time was up)"]

    def facts(self, trace: Trace) -> dict[str, object]:
        """The same for JSON."""
        rows = [{"line": line, "text": text} for line, text in self._rows(trace)]
        return {"minimal": self.minimal, "lines": rows}

    def _rows(self, trace: Trace) -> list[tuple[int, str]]:
        rows = [(int(trace.lines[op]), trace.op_text(int(op))) for op in self.ops]
        rows += [(int(trace.final_lines[f]), trace.final_text(int(f))) for f in self.finals]
        return sorted(rows)


def explain(trace: Trace, model: str, *, budget_s: float) -> Explanation:
    """A small illegal part of an illegal trace, found by leaving out ever smaller runs of lines."""
    deadline = working_time() + budget_s
    n = trace.n_ops
    kept = np.ones(n + len(trace.final_value), np.bool_)
    size = len(kept)
    while size >= 1:
        # From the end: what comes last depends most on the rest, and nothing on it.
        shrunk = False
        lines = np.flatnonzero(kept)
        for start in range(max(0, len(lines) - size), -size, -size):
            if working_time() > deadline:
                return _explanation(kept, n, minimal=False)
            without = kept.copy()
            without[lines[max(start, 0) : start + size]] = False
            if not without.any() or (without == kept).all():
                continue
            without = _with_sources(trace, without)
            if _is_illegal(trace, without, model, deadline):
                kept, shrunk = without, True
        if not (shrunk and size == 1):
            size //= 2
    return _explanation(kept, n, minimal=True)


def _explanation(kept: _Mask, n: int, *, minimal: bool) -> Explanation:
    return Explanation(np.flatnonzero(kept[:n]), np.flatnonzero(kept[n:]), minimal)


def _is_illegal(trace: Trace, kept: _Mask, model: str, deadline: float) -> bool:
    part = trace.part(kept[: trace.n_ops], kept[trace.n_ops :])
    left = max(0.01, min(5.0, deadline - working_time()))
    return decide(part, model, engine="search", timeout_s=left).verdict is Verdict.ILLEGAL


def _with_sources(trace: Trace, kept: _Mask) -> _Mask:
    """Leave out also what reads or demands a value of which the trace has stores but `kept` none."""
    kept, n = kept.copy(), trace.n_ops
    writes = (trace.kind == STORE) | (trace.kind == RMW)
    reads = (trace.kind == LOAD) | (trace.kind == RMW)
    address = np.concatenate([trace.address, trace.final_address])
    wanted = np.concatenate([trace.read, trace.final_value])
    wants = np.concatenate([reads, np.ones(len(trace.final_value), np.bool_)]) & (wanted != 0)
    keys = np.zeros(2 * len(kept), [("address", np.int32), ("value", np.uint64)])
    keys["address"] = np.concatenate([address, address])
    keys["value"] = np.concatenate([wanted, np.concatenate([trace.written, trace.final_value])])
    _, pair = np.unique(keys, return_inverse=True)
    wanted_pair, written_pair = pair[: len(kept)], pair[len(kept) :][:n]
    had = np.isin(wanted_pair, written_pair[writes])
    while True:
        has = np.isin(wanted_pair, written_pair[writes & kept[:n]])
        lost = kept & wants & had & ~has
        if not lost.any():
            return kept
        kept[lost] = False
