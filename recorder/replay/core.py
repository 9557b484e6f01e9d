"""Isolated replay: one core, from its own log alone, checked against every digest (MICRO 2009, 3.1-3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.wording import Call, Option, Phrase, Text, another
from emu.core.fingerprint import Fingerprint
from emu.core.isolated import IsolatedCore
from emu.core.surroundings import DEVICES, KERNEL
from recorder.files.digest import Digest
from recorder.files.reader import Recording
from recorder.replay.driver import ReplayDriver


@dataclass(frozen=True)
class ReplayResult:
    """A replay that matched. count: instructions. complete: the log's end was reached."""

    core: int
    count: int
    strata: int
    digests: int
    contexts: int
    complete: bool

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "core": self.core,
            "bit_exact": True,
            "complete": self.complete,
            "instructions": self.count,
            "strata": self.strata,
            "digests": self.digests,
            "contexts": self.contexts,
            "error": None,
        }


class CoreReplay(ReplayDriver):
    """Replays one core of a recording from its own log.

    Reads the manifest and `core-K.log`, no other file. Raises UsageError if there is no such core.
    """

    def __init__(
        self, recording: Recording, core: int, *, traced: bool = False, stops: Sequence[int] = ()
    ) -> None:
        manifest = recording.manifest
        if not 0 <= core < manifest.n_cores:
            raise UsageError(
                "no such core in this recording",
                expected=f"0 to {manifest.n_cores - 1}",
                found=str(core),
                where=str(recording.path),
                remedy=another("core"),
            )
        isa = manifest.instruction_set
        isolated = IsolatedCore(
            isa,
            core,
            manifest.memory,
            manifest.line,
            traced=traced,
            store_buffer=manifest.store_buffer,
            surroundings=KERNEL if manifest.linux else DEVICES,
        )
        super().__init__(recording, core, isa, isolated, stops)
        self._fingerprint = Fingerprint(isolated.core, manifest.line)
        self._strata = self._digests = 0

    @property
    def result(self) -> ReplayResult:
        """How far the replay has come."""
        return ReplayResult(
            self._number, self._core.count, self._strata, self._digests, self._contexts, self._complete
        )

    def _rest(self) -> Iterator[NDArray[np.void]]:
        self._core.empty_store_buffer()
        yield from self._taken()

    def _stratum(self, row: np.void) -> None:
        self._strata += 1
        wrong = self._core.set_stratum(self._strata, int(row["addr"]), int(row["size"]))
        if wrong is not None:
            raise self._diverged(wrong)

    def _digest(self, expected: Digest) -> None:
        self._digests += 1
        self._compare(expected, self._fingerprint.update())

    def _interrupted(self) -> None:
        self._core.empty_store_buffer()

    def _remedy(self, count: int) -> Text:
        first, until = Option("first", max(0, count - 20)), Option("until", count + 1)
        options = (Option("core", self._number), first, until)
        return Phrase("look closer with: ", Call("trace", str(self._recording.path), options))


def replay_core(
    recording: Recording, core: int, progress: Callable[[int], None] | None = None
) -> ReplayResult:
    """Replay one core to its end without a trace. Raises Divergence, FormatError."""
    replay = CoreReplay(recording, core)
    for _ in replay.run(progress):
        pass
    return replay.result
