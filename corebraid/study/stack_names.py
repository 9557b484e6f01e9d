"""Frames of a call stack with the names and lines that their program has for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corebraid.names.debug_entries.scopes import Scope, Scopes
from corebraid.names.demangling import demangled
from corebraid.names.lines import PlacedLines
from corebraid.names.program import GuestProgram
from corebraid.names.symbols import with_offset
from corebraid.names.unwinding.stack import Frame


@dataclass(frozen=True)
class Called:
    """A function that has not returned. number: from 0, the innermost. name: with the offset into it, or of
    one that was compiled into its caller without. line: where it is, '' where that is not known. signal: a
    signal has led there."""

    number: int
    pc: int
    name: str
    line: str
    inlined: bool = False
    signal: bool = False

    def text(self) -> str:
        """For people."""
        line = f" ({self.line})" if self.line else ""
        how = ", inlined" if self.inlined else ", by a signal" if self.signal else ""
        return f"#{self.number} {self.name or f'{self.pc:#x}'}{line}{how}"

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "number": self.number,
            "pc": f"{self.pc:#x}",
            "symbol": self.name or None,
            "line": self.line or None,
            "inlined": self.inlined,
            "signal": self.signal,
        }


class StackNames:
    """Names of frames of `program`."""

    def __init__(self, program: GuestProgram) -> None:
        self._program = program
        self._files: dict[int, Scopes] = {}
        self._found: dict[int, list[Scope]] = {}

    def count(self, frame: Frame) -> int:
        """How many functions a frame is of: with those that were compiled into it."""
        return max(1, len(self._scopes(frame.place)))

    def called(self, frame: Frame, number: int) -> list[Called]:
        """Those functions, from the innermost on. number: of the innermost."""
        name, line = self._name(frame), self._program.lines.at(frame.place)
        scopes, found = self._scopes(frame.place), list[Called]()
        file = self._program.files.at(frame.place)
        library = f"{file.name}!" if file is not None and name.startswith(f"{file.name}!") else ""
        for scope in scopes[:-1]:
            inner = f"{library}{demangled(scope.name)}" if scope.name else ""
            found.append(Called(number + len(found), frame.pc, inner, line, True))
            line = scope.called
        found.append(Called(number + len(found), frame.pc, name, line, signal=frame.signal))
        return found

    def _name(self, frame: Frame) -> str:
        symbols = self._program.symbols
        index, offset = symbols.find(np.array([frame.place], np.uint64))
        if index[0] < 0:
            return ""
        return with_offset(symbols.names[index[0]], int(offset[0]) + frame.pc - frame.place)

    def _scopes(self, place: int) -> list[Scope]:
        if place not in self._found:
            one = self._program.lines.of(place)
            self._found[place] = [] if one is None else self._of_file(one).at(place - one.bias)
        return self._found[place]

    def _of_file(self, one: PlacedLines) -> Scopes:
        if id(one.table) not in self._files:
            self._files[id(one.table)] = Scopes(one.table)
        return self._files[id(one.table)]
