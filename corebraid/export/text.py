"""A trace as a table for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from corebraid.export.columns import GLUED, KIND_NAMES, UNCACHED, Place, Places, Rows, has_flag, kind_codes
from corebraid.program import GuestProgram
from corebraid.symbols import with_offset

_HEAD = (
    f"{'stratum':>7} {'core':<4} {'count':>10} {'pc':<10} {'symbol':<24} {'disassembly':<36} "
    f"{'address':<10} {'data':<22} {'size':>4} {'kind':<6} old new\n"
)
#: kind * 4 + GLUED + 2 * UNCACHED -> text: '+' is indivisible with the next row, '/io' a device register.
_KINDS = tuple(
    f"{name}{'/io' if io and name != 'fence' else ''}{'+' if glued else ''}".ljust(6)
    for name in KIND_NAMES
    for io in (0, 1)
    for glued in (0, 1)
)


class TextExporter:
    """Writes rows as aligned text; a row of a region that has no order begins with '?'."""

    def __init__(self, sink: BinaryIO, program: GuestProgram, n_cores: int) -> None:
        self._sink, self._symbols = sink, program.symbols
        self._places = Places(program, n_cores)
        self._where: list[str] = []
        self._cores = [f"c{core}" for core in range(n_cores)] + ["dev"]
        sink.write(_HEAD.encode())

    def write(self, rows: Rows, has_order: bool) -> None:
        """Write EVENT[n]. has_order: False marks them."""
        places = self._places.index(rows)
        self._where += [_where(place) for place in self._places.places[len(self._where) :]]
        codes = kind_codes(rows).astype(np.int64) * 4
        codes += has_flag(rows, GLUED).astype(np.int64) + 2 * has_flag(rows, UNCACHED)
        mark = " " if has_order else "?"
        where, cores = self._where, self._cores
        lines = [
            f"{mark}{stratum:>6} {cores[core]:<4} {count:>10} {where[place]} {address} {size:>4} "
            f"{_KINDS[kind]} {old:#x} {new:#x}\n"
            for stratum, core, count, place, address, size, kind, old, new in zip(
                rows["stratum"].tolist(),
                rows["core"].tolist(),
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
        """Nothing is held back."""

    def _addresses(self, addresses: NDArray[np.uint64]) -> Iterable[str]:
        """The address and data columns of each row; a text is made once for each address."""
        unique, inverse = np.unique(addresses, return_inverse=True)
        index, offset = self._symbols.find(unique)
        names = self._symbols.names
        texts = [
            f"{address:#010x} {with_offset(names[symbol], inside) if symbol >= 0 else '-':<22}"
            for address, symbol, inside in zip(unique.tolist(), index.tolist(), offset.tolist(), strict=True)
        ]
        return [texts[number] for number in inverse.tolist()]


def _where(place: Place) -> str:
    if place.agent:
        return f"{'-':<10} {'-':<24} {'(' + place.agent + ')':<36}"
    return f"{place.pc:#010x} {place.name or '-':<24} {place.disassembly:<36}"
