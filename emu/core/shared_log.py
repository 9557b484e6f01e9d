"""What a machine's tasks do with the words that it watches, access by access (`emu.hooks.shared_access`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emu.hooks.shared_access import NOTED_WORDS
from emu.native.state import address_of


class SharedLog:
    """Takes down the first `most` accesses of a machine from now on. machine: MACHINE[1]."""

    def __init__(self, machine: NDArray[np.void], most: int) -> None:
        self._state = machine[0]
        # Pages of it that nothing is written to cost nothing.
        self._rows = np.zeros((most, NOTED_WORDS), np.uint64)
        self._state["noted_n"], self._state["noted_limit"] = 0, most
        self._state["noted"] = address_of(self._rows)

    def rows(self) -> NDArray[np.uint64]:
        """uint64[n, 4], see `emu.hooks.shared_access`."""
        return self._rows[: int(self._state["noted_n"])]
