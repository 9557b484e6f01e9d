"""What it means that two runs fail the same way."""

from __future__ import annotations

from typing import NamedTuple

from corebraid.study.attempts import Run
from corebraid.study.conditions import how_it_ended

#: Ends at which it matters where the guest stood.
_DEATHS = ("signal", "fault")


class Way(NamedTuple):
    """How a run failed: the condition that held, why the run ended, the exit code (of a signal 128 and its
    number), the instruction at which a signal or a fault ended it, and of a deadlock what is waited for
    (kind and address), whoever waits."""

    condition: str
    reason: str
    exit_code: int | None
    pc: int | None
    waits: frozenset[tuple[str, int | None]]

    @classmethod
    def of(cls, run: Run) -> Way | None:
        """Of a run whose course was noted; None: it did not fail."""
        end = run.manifest.end
        if not run.held or end is None:
            return None
        pc = run.course.pc if run.course is not None and end.reason in _DEATHS else None
        waits = frozenset((one.what.name, one.address) for one in end.waits)
        return cls(run.held, end.reason, end.exit_code, pc, waits)


def ended_how(run: Run) -> str:
    """How a run ended, in a few words."""
    assert run.manifest.end is not None
    if run.refused:
        return f"it cannot be emulated: {run.refused}"
    told = how_it_ended(run.manifest.end).partition(";")[0]
    return told if run.held else f"{told}, which is no failure"
