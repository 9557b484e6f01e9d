"""A trace as JSON lines: one object for each access, the same columns as the Parquet file.

Addresses and values are hexadecimal strings, since many JSON readers lose bits above 2**53.
"""

from __future__ import annotations

import json
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from corebraid.names.places import GLUED, KIND_NAMES, UNCACHED, Place, Places, Rows, has_flag, kind_codes
from corebraid.names.program import GuestProgram
from corebraid.names.threads import Threads

_BOOL = ("false", "true")


class JsonLinesExporter:
    """Writes one JSON object a row. threads: of a Linux guest."""

    def __init__(
        self, sink: BinaryIO, program: GuestProgram, n_cores: int, threads: Threads | None = None
    ) -> None:
        self._sink, self._symbols, self._threads = sink, program.symbols, threads
        self._places = Places(program, n_cores)
        self._where: list[str] = []
        self._names = [json.dumps(name) for name in program.symbols.names] + ["null"]

    def write(self, rows: Rows, has_order: bool) -> None:
        """Write EVENT[n]. has_order: whether their region has an order."""
        places = self._places.index(rows)
        self._where += [_where(place) for place in self._places.places[len(self._where) :]]
        where, ordered = self._where, _BOOL[has_order]
        lines = [
            f'{{"stratum":{stratum},"core":{core},{thread}"count":{count},{where[place]},"addr":"{addr:#x}",{data},'
            f'"size":{size},"kind":"{KIND_NAMES[kind]}","uncached":{_BOOL[uncached]},"glued":{_BOOL[glued]},'
            f'"old":"{old:#x}","new":"{new:#x}","ordered":{ordered}}}\n'
            for stratum, core, thread, count, place, addr, data, size, kind, uncached, glued, old, new in zip(
                rows["stratum"].tolist(),
                rows["core"].tolist(),
                self._ran(rows),
                rows["count"].tolist(),
                places.tolist(),
                rows["addr"].tolist(),
                self._data(rows["addr"]),
                rows["size"].tolist(),
                kind_codes(rows).tolist(),
                has_flag(rows, UNCACHED).tolist(),
                has_flag(rows, GLUED).tolist(),
                rows["old"].tolist(),
                rows["new"].tolist(),
                strict=True,
            )
        ]
        self._sink.write("".join(lines).encode())

    def close(self) -> None:
        """Nothing is held back."""

    def _ran(self, rows: Rows) -> list[str]:
        if self._threads is None:
            return [""] * len(rows)
        return [f'"thread":{thread or "null"},' for thread in self._threads.of(rows).tolist()]

    def _data(self, addresses: NDArray[np.uint64]) -> list[str]:
        index, offset = self._symbols.find(addresses)
        names = self._names
        return [
            f'"data":{names[symbol]},"data_offset":{inside}'
            for symbol, inside in zip(index.tolist(), offset.tolist(), strict=True)
        ]


def _where(place: Place) -> str:
    fields = {
        "agent": place.agent or None,
        "pc": None if place.agent else f"{place.pc:#x}",
        "symbol": place.symbol or None,
        "offset": place.offset,
        "line": place.line or None,
        "disassembly": place.disassembly or None,
    }
    return json.dumps(fields, separators=(",", ":"))[1:-1]
