"""Isolated replay up to one instruction count, to look at the core there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emu.fingerprint import Fingerprint
from emu.isolated import IsolatedCore
from emu.record import RECORD
from isa.errors import UsageError
from recorder.reader import Recording
from recorder.replay import CoreReplay

_HERE = 0
_CODE_WINDOW = 16


@dataclass(frozen=True)
class CoreState:
    """A core at an instruction count. registers: name and value, in the ISA table's order. code: the
    bytes at `pc`, as the core sees them."""

    core: int
    count: int
    pc: int
    registers: dict[str, int]
    code: bytes


class _MarkedCore(IsolatedCore):
    """An isolated core whose log gets one more row: a barrier at the count `until`."""

    def mark(self, until: int) -> None:
        self._until: int | None = until

    def feed(self, rows: NDArray[np.void], blob: NDArray[np.uint8]) -> None:
        """Give the next rows, with the mark among them when it is due."""
        at = int(np.searchsorted(rows["count"], np.uint64(self._until or 0), side="left"))
        if self._until is not None and at < len(rows):
            mark = np.zeros(1, RECORD)
            mark["count"], mark["kind"] = self._until, _HERE
            rows = np.concatenate([rows[:at], mark, rows[at:]])
            self._until = None
        super().feed(rows, blob)


class PausedReplay(CoreReplay):
    """A replay that ends before the instruction `until` (instructions retired: `until`). Stores that are in
    the store buffer there have the bytes as old ones that they would overwrite if they committed there.

    Raises UsageError from `state` when the core never gets there.
    """

    def __init__(self, recording: Recording, core: int, until: int, *, traced: bool = False) -> None:
        super().__init__(recording, core, traced=traced)
        manifest = recording.manifest
        marked = _MarkedCore(
            self._isa,
            core,
            manifest.memory,
            manifest.line,
            traced=traced,
            store_buffer=manifest.store_buffer,
            linux=manifest.linux,
        )
        marked.mark(until)
        self._core, self._fingerprint = marked, Fingerprint(marked.core, manifest.line)
        self._state: CoreState | None = None
        self._until = until

    @property
    def state(self) -> CoreState:
        """The core where it paused."""
        if self._state is None:
            raise UsageError(
                "the core never comes so far",
                expected=f"--until at most {self.result.count}",
                found=str(self._until),
                where=f"core {self.result.core}",
                remedy="give an earlier count",
            )
        return self._state

    def _pass(self, row: np.void) -> None:
        if int(row["kind"]) != _HERE:
            super()._pass(row)
            return
        core = self._core.core
        context, isa = core.context(), self._isa
        pc = isa.read(context, isa.program_counter)
        registers = {register.name: isa.read(context, register.name) for register in isa.registers}
        code = core.memory[pc : pc + _CODE_WINDOW].tobytes() if pc < len(core.memory) else b""
        self._state = CoreState(int(self.result.core), int(row["count"]), pc, registers, code)
        self._core.pass_barrier()
        self._complete = True
