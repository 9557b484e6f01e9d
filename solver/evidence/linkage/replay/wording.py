"""Why a replay cannot go on, in words: which stream at which event, and for what it waits."""

from __future__ import annotations

import numpy as np

from corebraid.base.errors import Contradiction
from corebraid.base.wording import Option, Phrase
from recorder.evidence.linkage.codec import SHARE, Head, iter_linkage
from recorder.files.evidence_names import LINKAGE
from recorder.files.reader import Recording
from solver.evidence.linkage.log import LinkageLog
from solver.evidence.linkage.replay.stream import Replay
from solver.evidence.linkage.replay.turns import (
    ADDRESS,
    EVENT_NUMBER,
    NO_BOUND,
    NO_MATCH,
    NO_WRITE,
    OTHER_VALUE,
    STREAM,
    TOO_MANY,
    WHY,
)
from solver.evidence.linkage.replay.turns import SLOT as OF_SLOT
from solver.evidence.linkage.replay.turns import VERSION as OF_VERSION

_WHAT = {
    NO_BOUND: "the evidence has no further bound for this read",
    NO_WRITE: "the evidence has no further write of this stream to this variable",
    NO_MATCH: "the value of this read is of no write up to its bound",
    OTHER_VALUE: "memory holds another value than was read here",
    TOO_MANY: "there are more writes than the evidence has",
}


def contradiction(recording: Recording, replay: Replay, left: str = "") -> Contradiction:
    """What to raise where the evidence is not of one run. left: what no stream has come to, if all ended."""
    return Contradiction(
        "the evidence contradicts the replay",
        found=left or _why(recording, replay),
        where=f"{recording.path}, evidence {LINKAGE}",
        remedy=Phrase("the evidence is damaged: record again with ", Option("evidence", LINKAGE)),
    )


def _why(recording: Recording, replay: Replay) -> str:
    state = replay.turns.state
    number = int(state[EVENT_NUMBER])
    where = _stream(replay.log, int(state[STREAM]))
    if number >= 0:
        where += f", event {number}, address {int(np.uint64(state[ADDRESS])):#x}"
    if int(state[WHY]) in _WHAT:
        return f"{where}: {_WHAT[int(state[WHY])]}"
    return f"{where}: nobody makes the version for which it waits: {_waits(recording, replay)}"


def _stream(log: LinkageLog, stream: int) -> str:
    return "the agents" if stream == log.streams - 1 else f"core {stream}"


def _waits(recording: Recording, replay: Replay) -> str:
    """Who waits for what, and who is to make that."""
    told, shared = [], _shared(recording)
    for stream, row in enumerate(replay.turns.streams.tolist()):
        slot, version = row[OF_SLOT], row[OF_VERSION]
        if version and replay.memory.made[slot] < version:
            made = int(replay.memory.made[slot])
            name, writer = _variable(replay.log, shared[slot]), _writer(replay.log, slot, made + 1)
            by = "nobody" if writer < 0 else _stream(replay.log, writer)
            if _is_guarded(replay.log, slot, made + 1):
                by = "who holds its lock"
            told.append(f"{_stream(replay.log, stream)} for version {version} of {name}, which has {made}")
            told[-1] += f" and gets its next from {by}"
    return "; ".join(told) or "nobody waits"


def _shared(recording: Recording) -> list[int]:
    """The variable of each slot: they are numbered as they stand in the evidence."""
    pieces = [item for item in iter_linkage(recording) if not isinstance(item, Head)]
    return [int(row[0]) for piece in pieces if piece.kind == SHARE for row in piece.table]


def _variable(log: LinkageLog, variable: int) -> str:
    symbols = int(log.names.symbols)
    if variable < symbols:
        return f"symbol {variable}"
    return f"{(variable - symbols) << int(log.names.shift):#x}"


def _writer(log: LinkageLog, slot: int, version: int) -> int:
    """Which stream makes a version, -1 if none does."""
    if version <= int(log.shares.writes[slot]):
        return int(log.shares.owner[slot])
    for stream in range(log.streams):
        key = slot * log.streams + stream
        at = slice(int(log.runs.first[key]), int(log.runs.first[key + 1]))
        first, n = log.runs.version[at], log.runs.n[at]
        if ((first <= version) & (version < first + n)).any():
            return stream
    return -1


def _is_guarded(log: LinkageLog, slot: int, version: int) -> bool:
    """Whether a version is made under a lock, and not logged."""
    since, until = int(log.shares.writes[slot]), int(log.guards.written[slot])
    return bool(log.guards.lock[slot]) and since < version <= until


def left_over(log: LinkageLog, only: int | None = None) -> str:
    """What of the evidence no stream has come to, "" for none. only: of this core's read log alone."""
    values = log.values
    for stream in range(log.streams) if only is None else (only,):
        if values.at[stream] != values.first[stream + 1]:
            return f"{_stream(log, stream)}: values of the read log are left over"
        if only is None and log.bounds.at[stream] != log.bounds.first[stream + 1]:
            return f"{_stream(log, stream)}: bounds are left over"
    left = np.flatnonzero(log.runs.at != log.runs.first[1:])
    if only is None and len(left):
        return f"{_stream(log, int(left[0]) % log.streams)}: writes are left over"
    return ""
