"""A trace as a table for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from corebraid.names.places import GLUED, KIND_NAMES, UNCACHED, Place, Places, Rows, has_flag, kind_codes
from corebraid.names.program import GuestProgram
from corebraid.names.threads import Threads

#: kind * 4 + GLUED + 2 * UNCACHED -> text: '+' is indivisible with the next row, '/io' a device register.
_KINDS = tuple(
    f"{name}{'/io' if io and name != 'fence' else ''}{'+' if glued else ''}".ljust(6)
    for name in KIND_NAMES
    for io in (0, 1)
    for glued in (0, 1)
)


@dataclass(frozen=True)
class _Layout:
    """Widths of columns in characters; 0: there is no such column."""

    core: int
    thread: int
    address: int
    symbol: int
    line: int
    data: int

    @classmethod
    def of(cls, program: GuestProgram, threads: Threads | None) -> _Layout:
        """Names of libraries and addresses of Linux guests are longer."""
        line = 20 if program.lines.known else 0
        if program.linux:
            return cls(6, 6 if threads else 0, 12, 36, line, 32)
        return cls(4, 0, 10, 24, line, 22)

    @property
    def head(self) -> str:
        """The names of the columns."""
        return (
            f"{'stratum':>7} {'core':<{self.core}} {self.optional('thread', self.thread)}{'count':>10} "
            f"{'pc':<{self.address}} {'symbol':<{self.symbol}} {self.optional('line', self.line)}"
            f"{'disassembly':<36} {'address':<{self.address}} {'data':<{self.data}} {'size':>4} {'kind':<6} "
            "old new\n"
        )

    def optional(self, text: str, width: int) -> str:
        """A column that is not always there, and the space behind it."""
        return f"{text or '-':<{width}} " if width else ""

    def where(self, place: Place) -> str:
        """The columns of a place."""
        if place.agent:
            pc, name, text = "-", "-", f"({place.agent})"
        else:
            pc, name, text = f"{place.pc:#0{self.address}x}", place.name or "-", place.disassembly
        line = self.optional(place.line, self.line)
        return f"{pc:<{self.address}} {name:<{self.symbol}} {line}{text:<36}"


class TextExporter:
    """Writes rows as aligned text; a row of a region that has no order begins with '?'. threads: of a Linux
    guest."""

    def __init__(
        self, sink: BinaryIO, program: GuestProgram, n_cores: int, threads: Threads | None = None
    ) -> None:
        self._sink, self._data_names, self._threads = sink, program.data_names, threads
        self._places = Places(program, n_cores)
        self._layout = _Layout.of(program, threads)
        self._where: list[str] = []
        names = [f"c{core}" for core in range(n_cores)] + [program.agents]
        self._cores = [f"{name:<{self._layout.core}}" for name in names]
        self._begun = False

    def write(self, rows: Rows, has_order: bool) -> None:
        """Write EVENT[n]. has_order: False marks them."""
        self._begin()
        places = self._places.index(rows)
        self._where += [self._layout.where(place) for place in self._places.places[len(self._where) :]]
        codes = kind_codes(rows).astype(np.int64) * 4
        codes += has_flag(rows, GLUED).astype(np.int64) + 2 * has_flag(rows, UNCACHED)
        mark = " " if has_order else "?"
        where, cores = self._where, self._cores
        lines = [
            f"{mark}{stratum:>6} {cores[core]} {thread}{count:>10} {where[place]} {address} {size:>4} "
            f"{_KINDS[kind]} {old:#x} {new:#x}\n"
            for stratum, core, thread, count, place, address, size, kind, old, new in zip(
                rows["stratum"].tolist(),
                rows["core"].tolist(),
                self._ran(rows),
                rows["count"].tolist(),
                places.tolist(),
                self._addresses(rows["addr"]),
                rows["size"].tolist(),
                codes.tolist(),
                rows["old"].tolist(),
                rows["new"].tolist(),
                strict=True,
            )
        ]
        self._sink.write("".join(lines).encode())

    def close(self) -> None:
        """Nothing is held back but the head, where there are no rows."""
        self._begin()

    def _begin(self) -> None:
        """Write the head before the first row: until then it may turn out that there is nothing to show."""
        if not self._begun:
            self._sink.write(self._layout.head.encode())
            self._begun = True

    def _ran(self, rows: Rows) -> Iterable[str]:
        if self._threads is None:
            return [""] * len(rows)
        width = self._layout.thread
        return [self._layout.optional(f"{n or '-'}", width) for n in self._threads.of(rows).tolist()]

    def _addresses(self, addresses: NDArray[np.uint64]) -> Iterable[str]:
        """The address and data columns of each row; a text is made once for each address."""
        unique, inverse = np.unique(addresses, return_inverse=True)
        names, width, data = self._data_names, self._layout.address, self._layout.data
        texts = [f"{address:#0{width}x} {names.name(address) or '-':<{data}}" for address in unique.tolist()]
        return [texts[number] for number in inverse.tolist()]
