"""The collector of the evidence stream `slices`: LightPlay's time slices with optimistic checkpoints.

Source: Feng, Khorasani, Gupta, Bhuyan, "LightPlay: Efficient Replay with GPUs" (2015), section 2.1 and
Figure 4. docs/lightplay.md says what is recorded and where this differs from the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.host_memory import host_memory
from corebraid.base.varint import MAX_VARINT
from corebraid.base.wording import another
from recorder.evidence.slices.codec import DEFAULT_ACCESSES, MOST_ACCESSES, MOST_GLUED
from recorder.evidence.slices.handover import room_for, take_batch
from recorder.evidence.slices.kernels import (
    ALL_ENTRIES,
    ALL_KEPT,
    ALL_SLICES,
    AT,
    ENTRIES,
    ENTRY,
    OUT,
    SLICES_WAIT,
    STRATUM,
    SliceState,
    end_slice,
    end_turn,
    put_run,
    take_pending,
    take_rows,
)
from recorder.files.collectors import EvidenceWriter, Follower, Guest

_FRAME_BYTES = 1 << 16


class SliceCollector:
    """Takes time slices down while the machine runs.

    streams: cores and agents. memory_bytes: of the guest. seed: of the coin that says where a core stands
    between an access and its checkpoints when others run. accesses: shared accesses in a slice, the paper's
    T. Raises UsageError for accesses outside 2 to MOST_ACCESSES.
    """

    def __init__(
        self,
        streams: int,
        memory_bytes: int,
        seed: int,
        writer: EvidenceWriter,
        accesses: int = DEFAULT_ACCESSES,
    ) -> None:
        if not 2 <= accesses <= MOST_ACCESSES:
            raise UsageError(
                "shared accesses in a slice", expected=f"2 to {MOST_ACCESSES}", found=accesses,
                remedy=another("slice_accesses"),
            )  # fmt: skip
        self._writer, self._most = writer, accesses
        self._follower: Follower | None = None
        longest = (accesses + MOST_GLUED) * (1 + 4 * MAX_VARINT) + (3 + 2 * streams) * MAX_VARINT
        self._state = SliceState(
            owner=host_memory(memory_bytes // 8 + 1),
            reached=np.zeros(streams, np.uint64),
            cut=np.zeros(streams, np.uint64),
            shared=np.zeros(streams, np.uint64),
            entries=np.zeros(accesses + MOST_GLUED, ENTRY),
            left=np.zeros(streams, np.int64),
            pending=np.full(streams, -1, np.int64),
            way=np.zeros(streams, np.uint8),
            draw=np.array([(seed * 2 + 1) * int(GOLDEN) % (1 << 64) or 1], np.uint64),
            at=np.zeros(AT, np.int64),
            out=np.zeros(_FRAME_BYTES + 4 * longest, np.uint8),
            handed=room_for(0),
        )
        self._strata = 0
        self._head = self._new_head()

    @property
    def slices(self) -> int:
        """Slices so far."""
        return int(self._state.at[ALL_SLICES])

    @property
    def kept(self) -> int:
        """Slices so far that had a data race."""
        return int(self._state.at[ALL_KEPT])

    def follow(self, follower: Follower) -> None:
        """From now on hand kept slices to `follower` as they end (`recorder.evidence.slices.handover`). What
        is written stays the same."""
        self._follower = follower
        self._state = self._state._replace(handed=room_for(self._most + MOST_GLUED))

    def take(self, stream: int, rows: NDArray[Any]) -> None:
        """What a stream did since its last turn: EVENT[n]."""
        take_pending(self._state, stream)
        done = 0
        while done < len(rows):
            done = take_rows(self._state, rows, done, stream, self._most)
            if done < len(rows) or self._state.at[OUT] > _FRAME_BYTES:
                self.flush()
        end_turn(self._state, stream)
        self._hand_over()

    def _hand_over(self) -> None:
        if self._follower is not None and self._state.handed.at[SLICES_WAIT]:
            self._follower.take(take_batch(self._state.handed))

    def stratum(self) -> None:
        """A stratum: the slice ends here, for every stream."""
        end_slice(self._state, STRATUM, True)
        self._hand_over()
        self._strata += 1
        if self._state.at[OUT] > _FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the slices that have ended."""
        put_run(self._state)
        at, n = self._state.at, int(self._state.at[ENTRIES])
        if n == 0:
            return
        first = int(at[ALL_ENTRIES]) - n
        raw = self._head + self._state.out[: at[OUT]].tobytes()
        self._writer.append(raw, n, first, first + n - 1)
        at[OUT] = at[ENTRIES] = 0
        self._head = self._new_head()

    def finish(self) -> None:
        """The run is over: the last slice ends here."""
        end_slice(self._state, 0, True)
        self._hand_over()
        self.flush()

    def _new_head(self) -> bytes:
        """How a payload begins: the strata before it and where every stream stands."""
        return b"".join(_varint(n) for n in (self._strata, *self._state.cut.tolist()))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def make_slices(guest: Guest, writer: EvidenceWriter, options: Mapping[str, object]) -> SliceCollector:
    """The collector for a machine. options: "slice_accesses", DEFAULT_ACCESSES unless given."""
    accesses = int(str(options.get("slice_accesses", DEFAULT_ACCESSES)))
    return SliceCollector(guest.n_cores + 1, len(guest.memory), guest.seed, writer, accesses)
