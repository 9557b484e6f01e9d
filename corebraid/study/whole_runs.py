"""What an engine finds that replays a whole run, and such a run of engine `opr`."""

from __future__ import annotations

from dataclasses import dataclass

from corebraid.base.errors import Contradiction, CorebraidError, Divergence
from corebraid.base.wording import Phrase, Wording
from recorder.evidence.opr.log import OprLog, read_opr
from recorder.files.reader import Recording
from recorder.replay.value_check import compare_replays
from solver.evidence.opr.inference import OUTSIDE, replay_group


@dataclass(frozen=True)
class WholeRun:
    """What an engine that replays found. text: for a reader. facts: as JSON. wrong: what does not agree."""

    engine: str
    text: str
    facts: dict[str, object]
    wrong: list[str | CorebraidError]

    def wrong_lines(self, wording: Wording | None = None) -> list[str]:
        """What does not agree. wording: how options are called."""
        return [one.line(wording) if isinstance(one, CorebraidError) else one for one in self.wrong]


def values_against(recording: Recording) -> list[str | CorebraidError]:
    """What contradicts the replay from miss records in OPR's value logs. Raises FormatError, UsageError."""
    return _compare_members(recording, read_opr(recording))[1]


def _compare_members(recording: Recording, log: OprLog) -> tuple[int, list[str | CorebraidError]]:
    """Accesses compared, and what differs."""
    wrong: list[str | CorebraidError] = []
    compared = 0
    for core in log.members:
        try:
            compared += compare_replays(recording, log, core)
        except Divergence as error:
            what = "the evidence contradicts the replay"
            wrong.append(Contradiction(what, found=Phrase(error.line), where=f"evidence opr, stream {core}"))
    return compared, wrong


def opr_run(recording: Recording) -> WholeRun:
    """OPR: every member from its value log, held against its replay from miss records.

    Raises FormatError, UsageError.
    """
    log = read_opr(recording)
    compared, wrong = _compare_members(recording, log)
    values = within = 0
    if not wrong:
        try:
            found = replay_group(recording, log).communications
        except Contradiction as error:
            wrong.append(error)
        else:
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
