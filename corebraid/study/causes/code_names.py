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
        self._returns: dict[int, bool] = {}
        #: Of functions, by the number of the symbol; and which of them need lines to be the program's own.
        self._of_functions: dict[int, tuple[str, bool]] = {}

    def kind(self, pc: int) -> str:
        """What the code at a pc is: `OWN`, `LIBRARY` or `GROUND`."""
        return self._all([pc])[0]

    def own(self, pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each pc is in the program's own code: bool[n]."""
        return self._among(pcs, (OWN,))

    def told(self, pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each pc is in code that is worth telling of, the program's own or a library's: bool[n]."""
        return self._among(pcs, (OWN, LIBRARY))

    def returns(self, pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether the instruction at each pc is a return, as far as the files say: bool[n]."""
        every, back = np.unique(pcs, return_inverse=True)
        for pc in every.tolist():
            if pc not in self._returns:
                self._returns[pc] = self._program.returns_at(pc)
        found: NDArray[np.bool_] = np.array([self._returns[pc] for pc in every.tolist()], np.bool_)[back]
        return found

    def _among(self, pcs: NDArray[np.uint64], kinds: tuple[str, ...]) -> NDArray[np.bool_]:
        every, back = np.unique(pcs, return_inverse=True)
        found: NDArray[np.bool_] = np.array([kind in kinds for kind in self._all(every.tolist())], np.bool_)[
            back
        ]
        return found

    def _all(self, pcs: list[int]) -> list[str]:
        new = [pc for pc in pcs if pc not in self._kinds]
        if new:
            functions, _ = self._program.symbols.find(np.array(new, np.uint64))
            for pc, function in zip(new, functions.tolist(), strict=True):
                self._kinds[pc] = self._kind(pc, function)
        return [self._kinds[pc] for pc in pcs]

    def _kind(self, pc: int, function: int) -> str:
        if function not in self._of_functions:
            name = self._program.symbols.names[function] if function >= 0 else ""
            linked = self._program.linux and "!" not in name and self._program.lines.known
            self._of_functions[function] = _kind_of(name), linked
        kind, linked = self._of_functions[function]
        return LIBRARY if kind == OWN and linked and not self._program.lines.at(pc) else kind


def _kind_of(name: str) -> str:
    """By what a function is called."""
    if name.startswith(_LOADER) or name in _BENEATH or name.endswith("@plt"):
        return GROUND
    if name.rpartition("!")[2].startswith(_BEGINS):
        return GROUND
    return LIBRARY if name.startswith(_LIBRARIES) else OWN
