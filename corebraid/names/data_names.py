"""Names of data: 'accounts[3].balance', or as far as that is known 'accounts+0x1a8'."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from corebraid.names.debug_entries.variables import Variables
from corebraid.names.debug_files import DebugFiles
from corebraid.names.placed_files import PlacedFiles, PlacedPart
from corebraid.names.symbols import Symbols, with_offset

#: A part of a variable: its name, then members and elements.
_STEP = re.compile(r"\.[^.\[\]+]+|\[(?:0x[0-9a-fA-F]+|[0-9]+)\]")
_PARTS = re.compile(rf"(?P<name>.+?)(?P<path>(?:{_STEP.pattern})+)")
#: Names that are kept.
_MOST_NAMES = 1 << 16


class DataNames:
    """symbols: of everything. files: whose data is where. debug_files: where types may be, too."""

    def __init__(self, symbols: Symbols, files: PlacedFiles, debug_files: DebugFiles) -> None:
        self._symbols, self._files, self._debug_files = symbols, files, debug_files
        self._variables: dict[int, Variables] = {}
        self._names: dict[int, str] = {}

    def name(self, address: int) -> str:
        """Of the byte at an address: the variable, and the part of it, or '' where there is none. A part that
        the variable's type does not tell is the distance from its beginning."""
        if address not in self._names:
            if len(self._names) == _MOST_NAMES:
                self._names.clear()
            self._names[address] = self._name(address)
        return self._names[address]

    def place(self, text: str) -> tuple[int, int] | None:
        """(address, bytes) of a part of a variable, as `name` calls it: 'accounts[3].balance'; None where
        there is no such variable, or its type tells of no such part. Raises UsageError if several are called
        so."""
        found = _PARTS.fullmatch(text)
        symbol = self._symbols.named(found["name"]) if found else None
        file = None if symbol is None else self._files.at(symbol.address)
        if found is None or symbol is None or file is None:
            return None
        path = [int(s[1:-1], 0) if s[0] == "[" else s[1:] for s in _STEP.findall(found["path"])]
        part = self._variables_of(file).place(symbol.address - file.bias, path)
        return None if part is None else (symbol.address + part[0], part[1])

    def _name(self, address: int) -> str:
        index, offset = self._symbols.find(np.array([address], np.uint64))
        if index[0] < 0:
            return ""
        name, inside = self._symbols.names[index[0]], int(offset[0])
        part = self._part(int(self._symbols.address[index[0]]), inside)
        return with_offset(name, inside) if part is None else name + part

    def atomic(self, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each byte is of something that its program declares as atomic: bool[n]. Where nothing tells
        types, nothing is."""
        index, offset = self._symbols.find(addresses)
        found = np.zeros(len(addresses), np.bool_)
        for at in np.flatnonzero(index >= 0).tolist():
            start = int(self._symbols.address[index[at]])
            file = self._files.at(start)
            if file is not None:
                variables = self._variables_of(file)
                found[at] = variables.atomic(start - file.bias, int(offset[at]))
        return found

    def _part(self, start: int, inside: int) -> str | None:
        file = self._files.at(start)
        return None if file is None else self._variables_of(file).part(start - file.bias, inside)

    def _variables_of(self, file: PlacedPart) -> Variables:
        if id(file.raw) not in self._variables:
            own = Variables(file.raw, file.name)
            debug = None if own.known else self._debug_files.of(file)
            self._variables[id(file.raw)] = own if debug is None else Variables(debug, file.name)
        return self._variables[id(file.raw)]
