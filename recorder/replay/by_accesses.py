"""Replay of a core that knows of memory only what it accesses.

Accesses are compared with digests, registers at every stratum, and of memory there is no digest to compare.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import END, STRATUM
from corebraid.base.wording import Call, Option, Phrase, Text
from emu.core.isolated import IsolatedCore
from emu.core.standing import Diverged
from recorder.files.access_digest import AccessDigest
from recorder.files.digest import Digest
from recorder.files.reader import Recording
from recorder.replay.driver import ReplayDriver


class ReplayByAccesses(ReplayDriver):
    """number: the core's. checks, registers: digests of accesses, and of registers, that were compared."""

    def __init__(self, recording: Recording, number: int, core: IsolatedCore) -> None:
        super().__init__(recording, number, recording.manifest.instruction_set, core)
        self._accesses = AccessDigest()
        self.checks = self.registers = 0

    @property
    def count(self) -> int:
        """Instructions replayed."""
        return self._core.count

    @property
    def accesses(self) -> int:
        """Accesses replayed, each like the recorded one as far as the last digest."""
        return self._accesses.accesses

    def _taken(self) -> Iterator[NDArray[np.void]]:
        """The accesses since the last call, which are compared."""
        raise NotImplementedError

    def _before(self, kind: int) -> Iterator[NDArray[np.void]]:
        # Digests of accesses are of strata: what was accessed up to here must be known.
        if kind in (STRATUM, END):
            yield from self._taken()

    def _compare_digest(self, expected: int, before: int) -> None:
        """Of the accesses behind the first `before`, up to here. Raises Divergence."""
        if expected != self._accesses.value:
            what = f"accesses {before + 1} to {self._accesses.accesses} are not those recorded"
            found = f"{self._accesses.value:#018x}"
            raise self._diverged(Diverged(what, f"digest {expected:#018x}", found))
        self.checks += 1

    def _compare_end(self, expected: int) -> None:
        """How many accesses there were. Raises Divergence."""
        if expected != self._accesses.accesses:
            found = str(self._accesses.accesses)
            raise self._diverged(Diverged("the core ended", f"{expected} accesses", found))

    def _stratum(self, row: np.void) -> None:
        self._core.set_stratum(int(row["value"]) + 1, 0, 0)

    def _digest(self, expected: Digest) -> None:
        self.registers += 1
        self._compare(expected, expected.fingerprint)

    def _remedy(self, count: int) -> Text:
        options = (Option("core", self._number),)
        return Phrase("compare with: ", Call("replay", str(self._recording.path), options))
