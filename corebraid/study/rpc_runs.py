"""Engine `rpc` for the cross-check: the program executed again under its receipt histories, several ways."""

from __future__ import annotations

from corebraid.base.errors import CorebraidError, UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.study.whole_runs import WholeRun
from recorder.evidence.rpc.receipts import read_receipts
from recorder.files.reader import Recording
from recorder.replay.mail_trace import RecordedMail, recorded_mail
from solver.evidence.rpc.judge import judge
from solver.evidence.rpc.replay import Conditions

#: Schedules under which the program is executed again, each with a seed of its own.
SCHEDULES = ("random", "round-robin", "pct:3")


def input_of(recording: Recording, mail: RecordedMail) -> bytes:
    """What the program read as its standard input, from its cores' logs. Raises UsageError if several cores
    read some."""
    if len(mail.read) > 1:
        raise UsageError(
            "several cores read the standard input, and nothing says in which order",
            found=", ".join(f"core {core}" for core in mail.read),
            where=str(recording.path),
            remedy=Phrase("give it again with ", Option("input"), " FILE"),
        )
    return next(iter(mail.read.values()), b"")


def rpc_run(recording: Recording) -> WholeRun:
    """Execute a recording's program again under other conditions.

    Raises FormatError, UsageError, Divergence.
    """
    receipts = read_receipts(recording)
    facts: dict[str, object] = {"receipts": receipts.requests, "tests": receipts.results}
    if receipts.empty:
        return WholeRun("rpc", "uses no remote procedure calls", {**facts, "executions": 0}, [])
    mail = recorded_mail(recording)
    data = input_of(recording, mail)
    wrong: list[str | CorebraidError] = []
    for number, schedule in enumerate(SCHEDULES, 1):
        seed = (recording.manifest.seed + number) % (1 << 64)
        found = judge(recording, mail, receipts, Conditions(seed, schedule, input=data)).difference
        if found is not None:
            wrong.append(
                f"seed {seed}, {schedule}: {found.what}: expected {found.expected}, found {found.found}"
            )
    right = len(SCHEDULES) - len(wrong)
    text = (
        f"{right} of {len(SCHEDULES)} executions again equivalent, {receipts.requests:,} receipts, "
        f"{receipts.results:,} tests"
    )
    return WholeRun("rpc", text, {**facts, "executions": len(SCHEDULES), "equivalent": right}, wrong)
