"""Whose code a place in a program is: its own, a library's, or what loads it and begins its threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.names.program import GuestProgram
from corebraid.study.causes.novelty import GROUND, LIBRARY, OWN

#: What the C library's symbols begin with, and those of what is beneath it.
_LIBRARIES = ("libc.so", "libpthread", "libstdc++", "libgcc_s", "libm.so")
_LOADER = ("ld-linux", "ld.so")
#: Functions of the program's file that are none of its own: stubs of calls are behind `_init`.
_BENEATH = ("_init", "_fini", "register_tm_clones", "deregister_tm_clones", "frame_dummy")
#: What begins threads.
_BEGINS = "pthread_create"


class CodeNames:
    """Of a recorded program. Code without lines, in a program that has them, is a library's that was linked
    to it."""

    def __init__(self, program: GuestProgram) -> None:
        self._program = program
        self._kinds: dict[int, str] = {}

    def kind(self, pc: int) -> str:
        """What the code at a pc is: `OWN`, `LIBRARY` or `GROUND`."""
        if pc not in self._kinds:
            self._kinds[pc] = self._kind(pc)
        return self._kinds[pc]

    def own(self, pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each pc is in the program's own code: bool[n]."""
        every, back = np.unique(pcs, return_inverse=True)
        kinds = np.array([self.kind(pc) == OWN for pc in every.tolist()], np.bool_)
        found: NDArray[np.bool_] = kinds[back]
        return found

    def told(self, pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each pc is in code that is worth telling of, the program's own or a library's: bool[n]."""
        every, back = np.unique(pcs, return_inverse=True)
        kinds = np.array([self.kind(pc) != GROUND for pc in every.tolist()], np.bool_)
        found: NDArray[np.bool_] = kinds[back]
        return found

    def _kind(self, pc: int) -> str:
        name = self._program.symbols.name(pc)
        function = name.partition("+")[0]
        if name.startswith(_LOADER) or function in _BENEATH or function.endswith("@plt"):
            return GROUND
        if function.rpartition("!")[2].startswith(_BEGINS):
            return GROUND
        if name.startswith(_LIBRARIES):
            return LIBRARY
        linked = self._program.linux and "!" not in function and self._program.lines.known
        return LIBRARY if linked and not self._program.lines.at(pc) else OWN
