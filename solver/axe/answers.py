"""A file of axe traces answered one after the other, as `check` says it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from solver.axe.decide import Answer, decide
from solver.axe.explain import Explanation, explain
from solver.axe.same import Memory
from solver.axe.text import read_traces
from solver.axe.trace import Trace
from solver.regions.problem import Verdict

_WORDS = {Verdict.LEGAL: "OK", Verdict.ILLEGAL: "NO", Verdict.UNDECIDED: "UNDECIDED"}


class CheckProgress:
    """How far a check is. Shows nothing."""

    def read(self, size: int) -> None:
        """So many bytes of the file have been read."""

    def begin(self, trace: Trace) -> None:
        """A trace is being decided."""

    def step(self, stage: str, done: int, total: int) -> None:
        """A stage of it has come so far; total is 0 where nobody knows."""

    def pause(self) -> None:
        """It is decided, and something is about to be printed."""


@dataclass(frozen=True)
class Checked:
    """A trace and what was found. reason: why it is illegal, if that was asked for."""

    trace: Trace
    answer: Answer
    reason: Explanation | None = None

    @property
    def word(self) -> str:
        """OK, NO or UNDECIDED."""
        return _WORDS[self.answer.verdict]

    def facts(self, *, witness: bool = False) -> dict[str, object]:
        """As JSON. witness: with the order that was found."""
        trace, answer = self.trace, self.answer
        fields: dict[str, object] = {
            "name": trace.name or None,
            "line": trace.line,
            "verdict": self.word,
            "operations": trace.n_ops,
            "engine": answer.engine or None,
            "seconds": round(answer.seconds, 6),
        }
        if answer.reason:
            fields["reason"] = answer.reason
        if answer.hints:
            fields["hints"] = answer.hints
        if witness and answer.verdict is Verdict.LEGAL:
            fields["order"] = trace.lines[answer.order].tolist()
        if self.reason:
            fields["explanation"] = self.reason.facts(trace)
        return fields


def iter_answers(
    file: Path | BinaryIO,
    model: str,
    *,
    timeout_s: float,
    engine: str,
    hints: bool,
    explained: bool,
    show: CheckProgress,
) -> Iterator[Checked]:
    """Every trace of a file, answered. See `read_traces`, `decide`. explained: with a reason for each NO."""
    found = Memory[tuple[Answer, Explanation | None]]()
    for trace in read_traces(file, show.read, hints=hints):
        show.begin(trace)
        before = found.get(trace.said)
        if before is not None:
            answer, reason = replace(before[0], seconds=0.0), before[1]
        else:
            answer = decide(trace, model, engine=engine, timeout_s=timeout_s, show=show.step)
            reason = None
            if explained and answer.verdict is Verdict.ILLEGAL:
                show.step("explanation", 0, 0)
                reason = explain(trace, model, budget_s=timeout_s)
            # What ran out of time may be found the next time.
            if answer.verdict is not Verdict.UNDECIDED and (reason is None or reason.minimal):
                found.keep(trace.said, (answer, reason))
        show.pause()
        yield Checked(trace, answer, reason)
