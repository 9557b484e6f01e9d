"""Driving one isolated core: rows from a source, barriers held against the core, stops at instruction counts.

What is checked, and what becomes of the trace, is a subclass's: a core from its miss records
(`replay/core.py`), a member of a replay set from its value log (`replay/member.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import Divergence, FormatError
from corebraid.base.rows.record import (
    CONTEXT,
    CONTEXT_FORGOTTEN,
    DIGEST,
    END,
    MISS,
    RECEIVED,
    RECORD,
    STORED,
    STRATUM,
)
from corebraid.base.wording import Text
from emu.core.isolated import IsolatedCore
from emu.core.standing import AtBarrier, Diverged, NeedRows, TraceFull
from isa.decoder import decoder_of
from isa.table import Isa
from recorder.files.digest import Digest
from recorder.files.reader import Recording, iter_core_records

#: Kind of the rows that stand for stops; the log has none of it.
STOP = 8
#: Bytes of code that a place is shown with.
CODE_WINDOW = 16
#: Of a register that only `CONTEXT_FORGOTTEN` has.
_UNLISTED_BYTES = 8

#: A frame of a core's log: RECORD[n] and the bytes that its rows carry.
Piece = tuple[NDArray[np.void], NDArray[np.uint8]]


def with_stops(pieces: Iterable[Piece], stops: Sequence[int]) -> Iterator[Piece]:
    """Frames with a row of kind STOP before the first row of each count. stops: ascending. Those past the
    last row are left out."""
    left = list(stops)
    for rows, blob in pieces:
        here = [count for count in left if count <= int(rows["count"][-1])]
        if here:
            left = left[len(here) :]
            marks = np.zeros(len(here), RECORD)
            marks["count"], marks["kind"] = here, STOP
            rows = np.insert(rows, np.searchsorted(rows["count"], marks["count"], side="left"), marks)
        yield rows, blob


class ReplayDriver:
    """Replays one core; `run` yields control whenever a trace buffer is full.

    stops: instruction counts, ascending, at which `_stop` is called before the next instruction runs.
    """

    #: What a divergence is called.
    _title = "replay diverged"

    def __init__(
        self, recording: Recording, number: int, isa: Isa, core: IsolatedCore, stops: Sequence[int] = ()
    ) -> None:
        self._recording, self._number, self._isa, self._core = recording, number, isa, core
        self._stops = stops
        self._contexts = 0
        self._complete = False
        #: Whether the core may be told to forget what it has received.
        self._forgets = False

    def run(self, progress: Callable[[int], None] | None = None) -> Iterator[NDArray[np.void]]:
        """Replay to the log's end; yields the trace in bounded pieces, EVENT[n].

        A recording whose recorder was killed ends at its last complete frame. Raises Divergence naming the
        first difference, FormatError when the log is damaged.
        """
        pieces = with_stops(self._pieces(), self._stops)
        while not self._complete and not self._over():
            step = self._core.step()
            if isinstance(step, NeedRows):
                piece = next(pieces, None)
                if piece is None:
                    break
                self._core.feed(*piece)
                if progress is not None:
                    progress(self._core.count)
            elif isinstance(step, AtBarrier):
                yield from self._before(int(step.row["kind"]))
                self._pass(step.row)
            elif isinstance(step, TraceFull):
                yield from self._taken()
            else:
                raise self._diverged(step)
        if not (self._complete or self._over() or self._recording.killed):
            raise self._log_ended()
        yield from self._rest()

    # -- what a subclass says ------------------------------------------------------------------------

    def _pieces(self) -> Iterator[Piece]:
        """Where the core's rows come from."""
        return iter_core_records(self._recording, self._number)

    def _over(self) -> bool:
        """Whether the replay ends before the log does."""
        return False

    def _before(self, kind: int) -> Iterator[NDArray[np.void]]:
        """What of the trace must be taken before a row of this kind is passed."""
        yield from ()

    def _taken(self) -> Iterator[NDArray[np.void]]:
        """The trace since the last call."""
        yield self._core.take_trace()

    def _rest(self) -> Iterator[NDArray[np.void]]:
        """The trace's end."""
        yield from self._taken()

    def _stratum(self, row: np.void) -> None:
        """A STRATUM row has been reached."""
        raise NotImplementedError

    def _stood_still(self, strata: int) -> None:
        """So many STRATUM rows were passed at once, at the count of the one before them and of the one that
        comes next."""

    def _digest(self, expected: Digest) -> None:
        """A DIGEST row has been reached."""
        raise NotImplementedError

    def _interrupted(self) -> None:
        """New registers are about to come, not the first ones."""

    def _received(self) -> NDArray[np.uint64]:
        """The pages of which the core has received anything, uint64[n], if it may forget them."""
        raise NotImplementedError

    def _forgotten(self) -> None:
        """The core has given back all that it had received."""

    def _stop(self, count: int) -> None:
        """One of `stops` has been reached."""

    def _remedy(self, count: int) -> Text:
        """How to look closer at a divergence at this count."""
        raise NotImplementedError

    # -- barriers ------------------------------------------------------------------------------------

    def _pass(self, row: np.void) -> None:
        kind, core = int(row["kind"]), self._core
        if int(row["count"]) != core.count:
            what = f"the core passed a record of kind {kind}"
            expected = f"instruction {int(row['count'])}"
            raise self._diverged(Diverged(what, expected, f"instruction {core.count}"))
        if kind == STRATUM:
            self._stratum(row)
        elif kind == DIGEST:
            expected_digest = Digest.unpack(core.blob_of(row), self._isa)
            if expected_digest is None:
                raise self._foreign("a digest")
            self._digest(expected_digest)
        elif kind == CONTEXT:
            self._restore(core.blob_of(row), forgotten=int(row["flags"]) == CONTEXT_FORGOTTEN)
        elif kind == END:
            if core.unused_inputs:
                found = f"{core.unused_inputs} at the end of the log"
                raise self._diverged(Diverged("inputs are left over", "none", found))
            self._complete = True
        elif kind == STOP:
            self._stop(int(row["count"]))
        elif kind == STORED:
            core.store(row)
        elif kind not in (MISS, RECEIVED):
            raise self._foreign(f"a record of kind {kind}")
        core.pass_barrier()
        if kind == STRATUM and (alike := core.pass_strata()):
            self._stood_still(alike)

    def _restore(self, context: bytes, *, forgotten: bool = False) -> None:
        self._contexts += 1
        registers, core = self._isa.context_bytes, self._core
        more = len(core.core.native.unlisted) if forgotten else 0
        if len(context) != registers + more * _UNLISTED_BYTES or (forgotten and not self._forgets):
            raise self._foreign("a context header")
        if self._contexts > 1:
            self._interrupted()
        core.restore(context[:registers])
        if forgotten:
            core.forget(self._received(), struct.unpack(f"<{more}Q", context[registers:]))
            self._forgotten()

    def _compare(self, expected: Digest, fingerprint: int) -> None:
        """Raises Divergence if the core's registers or this fingerprint of its memory are not `expected`."""
        found = Digest(self._core.core.context(), fingerprint)
        differences = expected.differences(found, self._isa)
        if differences:
            what, wanted, got = differences[0]
            more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
            raise self._diverged(Diverged(f"{what} differs{more}", wanted, got))

    # -- errors --------------------------------------------------------------------------------------

    def _diverged(self, step: Diverged) -> Divergence:
        pc, count = self._core.core.pc, self._core.count
        memory = self._core.core.memory
        text = (
            decoder_of(self._isa).disassemble(memory[pc : pc + CODE_WINDOW].tobytes(), pc)
            if pc < len(memory)
            else "?"
        )
        return Divergence(
            f"{self._title}: {step.what}",
            expected=step.expected,
            found=step.found,
            where=f"core {self._number}, instruction {count}, pc {pc:#x} ({text})",
            remedy=self._remedy(count),
        )

    def _foreign(self, what: str) -> FormatError:
        return FormatError(
            f"{what} is not of {self._isa.name}",
            where=str(self._recording.core_log_path(self._number)),
            remedy="record again",
        )

    def _log_ended(self) -> FormatError:
        return FormatError(
            "the log stops before its end record",
            where=str(self._recording.core_log_path(self._number)),
            remedy="record again; the file has lost its tail",
        )
