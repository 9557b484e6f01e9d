"""Frames of a call stack with the names and lines that their program has for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corebraid.names.debug_entries.arguments import Arguments
from corebraid.names.debug_entries.scopes import Scope, Scopes
from corebraid.names.demangling import demangled
from corebraid.names.lines import LineTable
from corebraid.names.placed_files import PlacedPart
from corebraid.names.program import GuestProgram
from corebraid.names.symbols import Symbols, with_offset
from corebraid.names.unwinding.machine import Memory
from corebraid.names.unwinding.stack import Frame


@dataclass(frozen=True)
class Called:
    """A function that has not returned. number: from 0, the innermost. name: with the offset into it, or of
    one that was compiled into its caller without. line: where it is, '' where that is not known. signal: a
    signal has led there. arguments: (name, value) of those that are known."""

    number: int
    pc: int
    name: str
    line: str
    inlined: bool = False
    signal: bool = False
    arguments: tuple[tuple[str, str], ...] = ()

    def text(self) -> str:
        """For people."""
        how = ", inlined" if self.inlined else ", by a signal" if self.signal else ""
        known = ", ".join(f"{name}={value}" for name, value in self.arguments)
        known = f": {known}" if known else ""
        return f"#{self.number} {self.where}{how}{known}"

    @property
    def where(self) -> str:
        """Its name, or its address, and its line."""
        line = f" ({self.line})" if self.line else ""
        return f"{self.name or f'{self.pc:#x}'}{line}"

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "number": self.number,
            "pc": f"{self.pc:#x}",
            "symbol": self.name or None,
            "line": self.line or None,
            "inlined": self.inlined,
            "signal": self.signal,
            "arguments": dict(self.arguments),
        }


class _File:
    """Names in a file. part: of its code. table: its lines. symbols: those that its debug file has besides.
    arguments: of its functions."""

    def __init__(
        self, part: PlacedPart, table: LineTable | None, debug: bytes | None, memory: Memory
    ) -> None:
        self.part = part
        if debug is not None and (table is None or not table.known):
            table = LineTable(debug, part.name)
        self.table = table or LineTable(part.raw, part.name)
        self.symbols = None if debug is None else Symbols.of_elf(debug)
        self.scopes = Scopes(self.table)
        self.arguments = Arguments(self.table, self.scopes.entries, memory, part.bias)
        self._found: dict[int, list[Scope]] = {}

    def functions(self, place: int) -> list[Scope]:
        """Those whose code is at an address of the guest, from the innermost on."""
        if place not in self._found:
            self._found[place] = self.scopes.at(place - self.part.bias)
        return self._found[place]

    def known(self, scope: Scope, frame: Frame) -> tuple[tuple[str, str], ...]:
        """The arguments of one of the functions in a frame."""
        return tuple(self.arguments.of(scope, self.functions(frame.place)[-1], frame))


class StackNames:
    """Names of frames of `program`. memory: that their arguments lie in."""

    def __init__(self, program: GuestProgram, memory: Memory) -> None:
        self._program, self._memory = program, memory
        self._files: dict[tuple[int, int], _File] = {}

    def count(self, frame: Frame) -> int:
        """How many functions a frame is of: with those that were compiled into it."""
        file = self._file(frame.place)
        return 1 if file is None else max(1, len(file.functions(frame.place)))

    def called(self, frame: Frame, number: int) -> list[Called]:
        """Those functions, from the innermost on. number: of the innermost."""
        file, found = self._file(frame.place), list[Called]()
        name = self._name(frame, file)
        if file is None:
            return [Called(number, frame.pc, name, "", signal=frame.signal)]
        line, scopes = file.table.at(frame.place - file.part.bias), file.functions(frame.place)
        known = [file.known(scope, frame) for scope in scopes] or [()]
        for scope, arguments in zip(scopes[:-1], known[:-1], strict=True):
            inner = f"{file.part.prefix}{demangled(scope.name)}" if scope.name else ""
            found.append(Called(number + len(found), frame.pc, inner, line, True, arguments=arguments))
            line = scope.called
        last = number + len(found)
        return [*found, Called(last, frame.pc, name, line, signal=frame.signal, arguments=known[-1])]

    def _name(self, frame: Frame, file: _File | None) -> str:
        symbols = self._program.symbols
        name, inside = _found(symbols, frame.place)
        if file is not None and file.symbols is not None and name in ("", file.part.name):
            # No symbol that the file has itself.
            other, at = _found(file.symbols, frame.place - file.part.bias)
            name, inside = (f"{file.part.prefix}{other}", at) if other else (name, inside)
        return with_offset(name, inside + frame.pc - frame.place) if name else ""

    def _file(self, place: int) -> _File | None:
        part = self._program.files.at(place)
        if part is None:
            return None
        key = id(part.raw), part.bias
        if key not in self._files:
            lines = self._program.lines.of(place)
            table = None if lines is None else lines.table
            self._files[key] = _File(part, table, self._program.debug_files.of(part), self._memory)
        return self._files[key]


def _found(symbols: Symbols, address: int) -> tuple[str, int]:
    """(name, offset) of the symbol at an address; '' where there is none."""
    index, offset = symbols.find(np.array([address], np.uint64))
    return ("", 0) if index[0] < 0 else (symbols.names[index[0]], int(offset[0]))
