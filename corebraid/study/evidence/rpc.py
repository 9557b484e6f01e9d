"""A recorded program executed again under its receipt histories, and whether that is the same execution."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from corebraid.base.errors import UsageError
from corebraid.base.whole_input import read_input_file
from corebraid.base.wording import Call, Phrase
from corebraid.study.rpc_runs import input_of
from emu.bus.cache import CacheGeometry
from emu.devices.post import DEFAULT_MAIL_LATENCY
from emu.schedule.scheduler import DEFAULT_SLICE
from recorder.evidence.rpc.receipts import Receipts, describe_request, read_receipts
from recorder.files.evidence_names import RPC, evidence_log
from recorder.files.reader import Recording
from recorder.replay.mail_trace import RecordedMail, recorded_mail
from solver.evidence.rpc.equivalence import Difference
from solver.evidence.rpc.judge import Judgement, judge
from solver.evidence.rpc.replay import Conditions
from solver.evidence.rpc.theorem import Theorem

#: Shows what is at work, and of how much; gives what is called with how much is done.
Show = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Asked:
    """Under what conditions to execute again; None: as the recording was, or another seed than its."""

    seed: int | None = None
    schedule: str = "random"
    slice: int | None = None
    cache: str | None = None
    latency: int | None = None
    free: bool = False
    input: Path | None = None


@dataclass(frozen=True)
class Again:
    """A second execution. free: it was not controlled."""

    recording: Recording
    receipts: Receipts
    conditions: Conditions
    judgement: Judgement
    free: bool

    @property
    def equivalent(self) -> bool:
        """Whether it is the same."""
        return self.judgement.difference is None

    @property
    def evidence_bytes(self) -> int:
        """Of the receipts."""
        facts = self.recording.manifest.files.get(evidence_log(RPC))
        return facts.bytes if facts else 0

    def check_served(self) -> None:
        """Raises UsageError if both executions stood still, since nobody serves an entry point."""
        if self.judgement.unserved:
            raise UsageError(
                "; ".join(self.judgement.unserved),
                where=str(self.recording.path),
                remedy="the recorded execution stood still there too: serve that entry point, or do not call "
                "it",
            )

    def facts(self) -> dict[str, object]:
        """As JSON."""
        receipts, conditions, judgement = self.receipts, self.conditions, self.judgement
        run, difference = judgement.run, judgement.difference
        return {
            "recording": str(self.recording.path),
            "evidence": {
                "receipts": receipts.requests,
                "entry_points": len(receipts.histories),
                "tests": receipts.results,
                "bytes": self.evidence_bytes,
            },
            "controlled": not self.free,
            "seed": conditions.seed,
            "schedule": conditions.schedule,
            "latency": conditions.latency,
            "instructions": run.instructions,
            "end": run.reason,
            "exit_code": run.exit_code,
            "equivalent": difference is None,
            "processes": judgement.processes,
            "requests": judgement.requests,
            "cut": judgement.comparison.cut,
            "other_histories": judgement.comparison.other_histories,
            "console_identical": judgement.identical,
            "theorem": _theorem_facts(judgement.theorem),
            "difference": _difference_facts(difference) if difference else None,
            "waiting": list(run.waiting.lines) if run.waiting else [],
        }


def executed_again(recording: Recording, asked: Asked, show: Show) -> Again:
    """See `corebraid.rpc`."""
    receipts = read_receipts(recording)
    if receipts.empty:
        raise UsageError(
            "the program received no request and tested none: it uses no remote procedure calls",
            where=str(recording.path),
            remedy=Phrase("nothing to execute again; ", Call("replay"), " repeats its cores"),
        )
    total = sum(recording.manifest.instructions) or None
    with show("replaying cores", total) as advance:
        mail = recorded_mail(recording, lambda _, done: advance(done))
    conditions = _conditions(recording, mail, asked)
    with show("executing again", total) as advance:
        judgement = judge(recording, mail, None if asked.free else receipts, conditions, advance)
    return Again(recording, receipts, conditions, judgement, asked.free)


def _conditions(recording: Recording, mail: RecordedMail, asked: Asked) -> Conditions:
    return Conditions(
        seed=(recording.manifest.seed + 1) % (1 << 64) if asked.seed is None else asked.seed,
        schedule=asked.schedule,
        longest_slice=asked.slice or DEFAULT_SLICE,
        cache=CacheGeometry.parse(asked.cache) if asked.cache else None,
        latency=asked.latency or DEFAULT_MAIL_LATENCY,
        input=_input(recording, mail, asked.input),
    )


def _input(recording: Recording, mail: RecordedMail, source: Path | None) -> bytes:
    """What the program is to read: from its cores' logs, where only one core read any."""
    if source is not None:
        data = read_input_file(source)
        if hashlib.sha256(data).hexdigest() != recording.manifest.options.get("input"):
            raise UsageError("not the input that the recording was made with", where=str(source))
        return data
    return input_of(recording, mail)


def _theorem_facts(theorem: Theorem) -> dict[str, object]:
    facts = {name: value for name, value in asdict(theorem).items() if name != "smallest"}
    return {
        **facts,
        "applies": theorem.applies,
        "holds": theorem.holds,
        "smallest": [asdict(one) for one in theorem.smallest],
    }


def _difference_facts(difference: Difference) -> dict[str, object]:
    """Identifiers as the paper writes them: numbers above 2**53 are not safe in JSON."""
    request = difference.request
    return {**asdict(difference), "request": None if request is None else describe_request(request)}
