"""A recorded execution, executed again under its evidence, and what the two have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emu.devices.mail_state import RECEIVED
from recorder.evidence.rpc.receipts import Receipts
from recorder.files.reader import Recording
from recorder.replay.mail_trace import RecordedMail
from solver.evidence.rpc.equivalence import (
    FIRST,
    Comparison,
    Difference,
    Execution,
    compare,
    evidence_difference,
    execution_of,
)
from solver.evidence.rpc.replay import Conditions, Reexecution, reexecute, script_of
from solver.evidence.rpc.theorem import Theorem, theorem_of


@dataclass(frozen=True)
class Judgement:
    """A re-execution and how it compares. difference: the first one, None: they are equivalent, and the
    evidence says what the isolated replays say. identical: whether it printed the same, None where that
    cannot be told. requests, processes: of the recording. theorem: what the paper's Theorem 8 has to do with
    it."""

    run: Reexecution
    comparison: Comparison
    difference: Difference | None
    identical: bool | None
    requests: int
    processes: int
    theorem: Theorem

    @property
    def unserved(self) -> tuple[str, ...]:
        """Entry points that nobody serves, with who waits there; in the recording too if both are
        equivalent."""
        waiting = self.run.waiting
        if waiting is None or not waiting.unserved:
            return ()
        return tuple(line for line in waiting.lines if "is not served" in line)


def judge(
    recording: Recording,
    mail: RecordedMail,
    receipts: Receipts | None,
    conditions: Conditions,
    progress: Callable[[int], None] | None = None,
) -> Judgement:
    """Execute the program again and compare.

    mail: of the recording (`recorder.replay.mail_trace.recorded_mail`). receipts: the evidence, None to let
    it run freely. Raises UsageError, FormatError.
    """
    end = recording.manifest.end
    script = None if receipts is None else script_of(receipts)
    run = reexecute(recording, conditions, script, progress)
    recorded = execution_of(mail.events, end.exit_code if end else None)
    comparison = compare(recorded, run.events, run.exit_code)
    difference = comparison.first or _other_end(recording, run)
    if difference is None and receipts is not None:
        difference = evidence_difference(receipts, recorded, recording.manifest.complete)
    return Judgement(
        run,
        comparison,
        difference,
        _identical(recording, mail, run),
        recorded.requests,
        _processes(recorded),
        _theorem(mail, end.exit_code if end else None, run, comparison),
    )


def _theorem(mail: RecordedMail, exit_code: int | None, run: Reexecution, comparison: Comparison) -> Theorem:
    """Equivalent executions have mapped every request alike."""
    if comparison.first is None:
        return Theorem(int((run.events["what"] == RECEIVED).sum()))
    return theorem_of(mail.events, exit_code, run.events, run.exit_code)


def _processes(recorded: Execution) -> int:
    """Processes that ran: those that received a request, and the first."""
    return len(recorded.emissions.keys() | set(recorded.served.values()) | {FIRST})


def _other_end(recording: Recording, run: Reexecution) -> Difference | None:
    """A program that failed, or went on for ever, only when it was executed again."""
    end = recording.manifest.end
    if end is None or end.reason in ("limit", run.reason) or run.reason not in ("fault", "limit"):
        return None
    found = run.fault.what if run.fault else "it goes on and on"
    return Difference("end", FIRST, None, "the end of the execution", end.reason, found)


def _identical(recording: Recording, mail: RecordedMail, run: Reexecution) -> bool | None:
    """Whether both printed the same. Nothing says how the output of several cores was interleaved."""
    end = recording.manifest.end
    if len(mail.printed) > 1 or end is None or not end.reason == run.reason == "power-off":
        return None
    return run.printed == next(iter(mail.printed.values()), b"")
