"""What is known of the words that several tasks use, and of what a run does with them."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from corebraid.base.host_memory import host_memory

#: Bytes of a word that is watched or not, and words in a byte of the bitmap.
WORD, _WORDS = 8, 8
_ONE, _THREE, _SEVEN = np.uint64(1), np.uint64(3), np.uint64(7)

#: A shared event that a task is going to make: its number among the task's, from 1, and its site, which is
#: its place in the program and that of the task's event before it.
SHARED_EVENT = np.dtype([("who", "<i8"), ("number", "<i8"), ("site", "<i8")])


class SharedWords:
    """Which words of memory are watched, and what a run does with them. words: their addresses divided by 8,
    ascending. events: the shared events of one run, accesses and system calls, SHARED_EVENT[n]."""

    def __init__(self, words: NDArray[np.uint64], events: NDArray[np.void]) -> None:
        self.words, self.events = words, events
        self._by_site = np.argsort(events["site"], kind="stable")
        self._sites = np.unique(events["site"][self._by_site], return_index=True)[1].tolist()

    def draw(self, draw: random.Random, spread: float | None = None) -> tuple[int, int]:
        """A task and the number of one of its events. spread: 0 to 1, in place of a random number.

        Half of them evenly among all events, the others among sites: a loop that runs often, and what comes
        once behind it, are both worth trying.
        """
        n, by_site = len(self.events), draw.getrandbits(1)
        share = draw.random() if spread is None else spread
        if not by_site:
            k = int(share * n)
        else:
            site = int(share * len(self._sites))
            ends = [*self._sites[1:], n]
            k = int(self._by_site[draw.randrange(self._sites[site], ends[site])])
        return int(self.events["who"][k]), int(self.events["number"][k])

    def bitmap(self, memory_bytes: int) -> NDArray[np.uint8]:
        """uint8[]: a bit for each word of memory. Host memory is used for pages of it that have one only."""
        bits = host_memory(memory_bytes // (WORD * _WORDS) + 1)
        inside = self.words[self.words < memory_bytes // WORD]
        np.bitwise_or.at(bits, inside >> _THREE, (_ONE << (inside & _SEVEN)).astype(np.uint8))
        return bits

    def lines(self, memory_bytes: int, line_bytes: int) -> NDArray[np.uint64]:
        """The lines that hold them."""
        inside = self.words[self.words < memory_bytes // WORD]
        return np.unique(inside * np.uint64(WORD) // np.uint64(line_bytes))
