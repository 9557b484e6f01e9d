"""What every format shows of an event, computed for many events at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import FENCE, FETCH, GLUED, READ, RMW, UNCACHED, WRITE
from corebraid.names.program import GuestProgram
from corebraid.names.symbols import with_offset
from recorder.files.agent_codec import CALL, DEVICE, DMA, EXIT, GET, INTERRUPT, PAGE, PUT, SIGNAL

Rows = NDArray[np.void]

AGENTS = {
    DMA: "dma",
    INTERRUPT: "interrupt",
    DEVICE: "device",
    CALL: "call",
    PAGE: "page",
    SIGNAL: "signal",
    EXIT: "exit",
    **{PUT + core: f"put of core {core}" for core in range(64)},
    **{GET + core: f"get of core {core}" for core in range(64)},
}
_FETCHED = 5
_NAMES = {READ: "R", WRITE: "W", RMW: "RMW", FENCE: "fence", _FETCHED: "F"}
#: Names of kinds, by the code that `kind_codes` gives.
KIND_NAMES = tuple(_NAMES.get(code, "?") for code in range(_FETCHED + 1))
_AGENT_KEY = np.uint64(1 << 63)


@dataclass(frozen=True)
class Place:
    """A place in the program. symbol, line: '' where there is none. agent: '' for a core's instruction."""

    pc: int
    symbol: str
    offset: int
    line: str
    disassembly: str
    agent: str

    @property
    def name(self) -> str:
        """symbol+offset."""
        return with_offset(self.symbol, self.offset) if self.symbol else ""


class Places:
    """Every pc seen so far, with its texts; a program has few, so they are kept."""

    def __init__(self, program: GuestProgram, n_cores: int) -> None:
        self.program, self._n_cores = program, n_cores
        self._keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._numbers: NDArray[np.int64] = np.empty(0, np.int64)
        self.places: list[Place] = []

    def index(self, rows: Rows) -> NDArray[np.int64]:
        """int64[n]: where in `places` the pc of each row is. An agent's rows have a cause for a pc."""
        keys = np.where(rows["core"] == self._n_cores, rows["pc"] | _AGENT_KEY, rows["pc"])
        if not self._all_known(keys):
            self._learn(np.setdiff1d(keys, self._keys))
        found: NDArray[np.int64] = self._numbers[np.searchsorted(self._keys, keys)]
        return found

    def _all_known(self, keys: NDArray[np.uint64]) -> bool:
        if not len(self._keys):
            return not len(keys)
        near = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return bool((self._keys[near] == keys).all())

    def _learn(self, keys: NDArray[np.uint64]) -> None:
        symbol, offset = self.program.symbols.find(keys)
        numbers = np.arange(len(self.places), len(self.places) + len(keys), dtype=np.int64)
        for key, at, inside in zip(keys.tolist(), symbol.tolist(), offset.tolist(), strict=True):
            self.places.append(self._place(key, at, inside))
        every = np.concatenate([self._keys, keys])
        order = np.argsort(every, kind="stable")
        self._keys, self._numbers = every[order], np.concatenate([self._numbers, numbers])[order]

    def _place(self, key: int, symbol: int, offset: int) -> Place:
        if key >= int(_AGENT_KEY):
            return Place(0, "", 0, "", "", AGENTS.get(key - int(_AGENT_KEY), "agent"))
        program = self.program
        name = program.symbols.names[symbol] if symbol >= 0 else ""
        return Place(key, name, offset, program.lines.at(key), program.instruction(key), "")


def kind_codes(rows: Rows) -> NDArray[np.uint8]:
    """uint8[n]: index into KIND_NAMES; a fetched line is F, whatever its kind."""
    codes: NDArray[np.uint8] = np.where(has_flag(rows, FETCH), np.uint8(_FETCHED), rows["kind"])
    return codes


def has_flag(rows: Rows, flag: int) -> NDArray[np.bool_]:
    """bool[n]: whether each row carries UNCACHED, GLUED or FETCH."""
    answer: NDArray[np.bool_] = (rows["flags"] & np.uint8(flag)) != 0
    return answer


__all__ = ["AGENTS", "GLUED", "KIND_NAMES", "UNCACHED", "Place", "Places", "Rows", "has_flag", "kind_codes"]
