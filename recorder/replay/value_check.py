"""Whether a core's replay from its miss records and that from its value log are the same, access by
access."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corebraid.base.errors import Divergence
from corebraid.base.rows.event import EVENT, FETCH, READ, WRITE
from recorder.evidence.opr.log import OprLog
from recorder.evidence.opr.rows import Rows
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay
from recorder.replay.member import MemberReplay

_FIELDS = ("count", "pc", "addr", "size", "kind", "flags", "stratum", "new")


class _Pieces:
    """A stream of rows, of which as many are taken as are wanted."""

    def __init__(self, pieces: Iterator[Rows]) -> None:
        self._pieces = pieces
        self.rows = np.zeros(0, EVENT)

    def fill(self) -> bool:
        """Have some rows, unless the stream is over."""
        while not len(self.rows):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self.rows = piece[(piece["flags"] & FETCH) == 0]
        return True

    def take(self, n: int) -> Rows:
        """The next n rows, which are there."""
        taken, self.rows = self.rows[:n], self.rows[n:]
        return taken


def compare_replays(recording: Recording, log: OprLog, core: int) -> int:
    """Replay a member from its value log and from its miss records, side by side. Returns the accesses
    compared.

    As far as both logs reach, if the recorder was killed. Rows of fetched code are left out, and what a plain
    store overwrote. Raises Divergence naming the first access that differs, FormatError.
    """
    ours = _Pieces(MemberReplay(recording, log, core).run())
    theirs = _Pieces(CoreReplay(recording, core, traced=True).run())
    compared = 0
    while True:
        both = ours.fill(), theirs.fill()
        n = min(len(ours.rows), len(theirs.rows))
        a, b = ours.take(n), theirs.take(n)
        same = np.ones(n, bool)
        for name in _FIELDS:
            same &= a[name] == b[name]
        same &= (a["old"] == b["old"]) | (a["kind"] == WRITE)
        if not same.all():
            k = int(np.argmin(same))
            raise _differs(core, compared + k, _text(b[k]), _text(a[k]))
        compared += n
        # Logs of a recorder that was killed may end one before the other.
        if both == (False, False) or (recording.killed and not all(both)):
            return compared
        if not all(both):
            kinds = "an access" if both[1] else "the end", "an access" if both[0] else "the end"
            raise _differs(core, compared, *kinds)


def _text(row: np.void) -> str:
    kind = {READ: "read", WRITE: "write"}.get(int(row["kind"]), "read-modify-write")
    value = int(row["new"] if row["kind"] == WRITE else row["old"])
    return f"{kind} of {value:#x} at {int(row['addr']):#x}, instruction {int(row['count'])}"


def _differs(core: int, number: int, expected: str, found: str) -> Divergence:
    return Divergence(
        "the value log and the miss records replay differently",
        expected=f"{expected} (miss records)",
        found=f"{found} (value log)",
        where=f"core {core}, access {number + 1}",
    )
