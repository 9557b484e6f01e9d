"""A group of cores replayed together, and who wrote what they read."""

from __future__ import annotations

from dataclasses import dataclass

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.study.evidence.against import held_against_the_recording
from corebraid.study.evidence.opr_threads import ThreadGroup, thread_group
from corebraid.study.opr_score import Score, score
from recorder.evidence.opr.log import OprLog, read_opr
from recorder.files.evidence_names import OPR, is_core_number
from recorder.files.reader import Recording
from solver.evidence.opr.inference import GroupResult, replay_group, select


@dataclass(frozen=True)
class Group:
    """A replayed group. score: its inference against the sealed truth, if that was asked for. threads: the
    same by thread, if that was."""

    recording: Recording
    result: GroupResult
    score: Score | None
    threads: ThreadGroup | None = None

    def facts(self, *, listing: bool = False) -> dict[str, object]:
        """As JSON. listing: with every new value and where it came from."""
        result, found = self.result, self.score
        facts: dict[str, object] = {
            "recording": str(self.recording.path),
            "clocks": "relaxed" if result.relaxed else "exact",
            "bit_exact": True,
            "members": [vars(member) for member in result.members],
            "communications": [
                {"writer": writer if writer >= 0 else None, "reader": reader, "values": n}
                for (writer, reader), n in sorted(result.matrix().items())
            ],
        }
        if self.threads is not None:
            facts["by_thread"] = self.threads.facts(listing=listing)
        if found is not None:
            facts["score"] = {**vars(found), "precision": found.precision, "recall": found.recall}
        if listing:
            facts["values"] = [
                {
                    "reader": int(row["reader"]),
                    "access": int(row["sn"]),
                    "address": f"{int(row['addr']):#x}",
                    "size": int(row["size"]),
                    "value": f"{int(row['value']):#x}",
                    "writer": int(row["writer"]) if row["writer"] >= 0 else None,
                    "writer_access": int(row["writer_sn"]) if row["writer"] >= 0 else None,
                    "rivals": int(row["rivals"]),
                }
                for row in result.communications
            ]
        return facts


def group_of(
    recording: Recording, rset: str | None, threads: str | None = None, *, exact: bool, scored: bool
) -> Group:
    """See `corebraid.opr`. Raises Contradiction."""
    log = _chosen(read_opr(recording), rset, recording)
    with held_against_the_recording(OPR):
        by_thread = None if threads is None else thread_group(recording, log, threads, relaxed=not exact)
        result = replay_group(recording, log, relaxed=not exact)
    return Group(recording, result, score(recording, result) if scored else None, by_thread)


def _chosen(log: OprLog, rset: str | None, recording: Recording) -> OprLog:
    if rset is None:
        return log
    parts = [part.strip() for part in rset.split(",")]
    known = all(is_core_number(part) for part in parts)
    cores = tuple(sorted(int(part) for part in parts)) if known else ()
    if not cores or len(set(cores)) < len(cores) or not set(cores) <= set(log.members):
        raise UsageError(
            "no such part of the recorded replay set",
            expected=f"different cores of {','.join(map(str, log.members))}",
            found=rset or "nothing",
            where=str(recording.path),
            remedy=Phrase("choose another ", Option("rset"), ", or record with those cores in it"),
        )
    return select(log, cores)
