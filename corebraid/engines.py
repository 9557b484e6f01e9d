"""Engines that need evidence of their own, by the name of their stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recorder.reader import Recording
    from solver.answers import EvidenceEngine

#: Engines that order regions, and engines that replay the whole run. OPR does both.
ORDERING = ("linkage", "slices", "opr")
WHOLE = ("opr", "rpc")


@dataclass(frozen=True)
class WholeRun:
    """What an engine that replays found. text: for a reader. facts: for --json. wrong: what does not
    agree."""

    engine: str
    text: str
    facts: dict[str, object]
    wrong: list[str]


def evidence_engine(recording: Recording, name: str) -> EvidenceEngine | None:
    """The engine of this name for a recording; None for one that needs no evidence.

    Raises UsageError if the recording lacks the evidence, FormatError if it is damaged.
    """
    if name == "linkage":
        from solver.linkage.engine import LinkageEngine

        return LinkageEngine.of(recording)
    if name == "slices":
        from solver.lightplay.engine import SlicesEngine

        return SlicesEngine.of(recording)
    if name == "opr":
        from solver.opr.engine import OprEngine

        return OprEngine.of(recording)
    return None


def whole_runs(recording: Recording, names: list[str]) -> list[WholeRun]:
    """What the engines among `names` find that replay the whole run. Raises FormatError."""
    found = []
    if "opr" in names:
        found.append(_partial_replay(recording))
    if "rpc" in names:
        from corebraid.rpc_runs import rpc_run

        found.append(rpc_run(recording))
    return found


def _partial_replay(recording: Recording) -> WholeRun:
    """OPR: every member from its value log, held against its replay from miss records."""
    from isa.errors import Divergence
    from recorder.opr_log import read_opr
    from recorder.value_check import compare_replays
    from solver.opr.inference import OUTSIDE, replay_group

    log = read_opr(recording)
    wrong, compared = [], 0
    for core in log.members:
        try:
            compared += compare_replays(recording, log, core)
        except Divergence as error:
            wrong.append(error.line())
    values = within = 0
    if not wrong:
        found = replay_group(recording, log).communications
        values, within = len(found), int((found["writer"] != OUTSIDE).sum())
    members = ",".join(map(str, log.members))
    text = (
        f"cores {members}: {compared:,} accesses the same from value log and from miss records; {values:,} "
        f"new values, {within:,} of them from within the group"
    )
    facts: dict[str, object] = {
        "members": list(log.members),
        "accesses_compared": compared,
        "new_values": values,
        "from_within": within,
    }
    return WholeRun("opr", text, facts, wrong)
