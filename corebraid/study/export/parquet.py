"""A trace as a Parquet file, written one row group at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.names.places import GLUED, KIND_NAMES, UNCACHED, Place, Places, Rows, has_flag, kind_codes
from corebraid.names.program import GuestProgram
from corebraid.names.threads import Threads

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise UsageError(
        f"Parquet files need pyarrow, which is not here ({error})", remedy="pip install 'corebraid[parquet]'"
    ) from None

_ROWS_IN_GROUP = 1 << 18
_TEXT = pa.dictionary(pa.int32(), pa.string())
_SCHEMA = pa.schema(
    [
        ("stratum", pa.uint32()),
        ("core", pa.uint8()),
        ("count", pa.uint64()),
        ("agent", _TEXT),
        ("pc", pa.uint64()),
        ("symbol", _TEXT),
        ("offset", pa.uint64()),
        ("line", _TEXT),
        ("disassembly", _TEXT),
        ("addr", pa.uint64()),
        ("data", _TEXT),
        ("data_offset", pa.uint64()),
        ("size", pa.uint8()),
        ("kind", _TEXT),
        ("uncached", pa.bool_()),
        ("glued", pa.bool_()),
        ("old", pa.uint64()),
        ("new", pa.uint64()),
        ("ordered", pa.bool_()),
    ]
)
#: Columns of few distinct values; Parquet's own dictionaries only cost time on the others.
_FEW = ["agent", "pc", "symbol", "offset", "line", "disassembly", "data", "kind"]
#: The column after the core's, of Linux guests.
_THREAD, _THREAD_AT = pa.field("thread", pa.uint32()), 2


class ParquetExporter:
    """Writes typed columns; a row group holds some 262,144 rows. threads: of a Linux guest."""

    def __init__(
        self, sink: BinaryIO, program: GuestProgram, n_cores: int, threads: Threads | None = None
    ) -> None:
        self._symbols, self._threads = program.symbols, threads
        self._names = list(program.symbols.names)
        self._schema = _SCHEMA if threads is None else _SCHEMA.insert(_THREAD_AT, _THREAD)
        self._places = Places(program, n_cores)
        self._writer = pq.ParquetWriter(sink, self._schema, compression="lz4", use_dictionary=_FEW)
        self._held: list[pa.RecordBatch] = []
        self._n = 0

    def write(self, rows: Rows, has_order: bool) -> None:
        """Write EVENT[n]. has_order: whether their region has an order."""
        self._held.append(self._batch(rows, has_order))
        self._n += len(rows)
        if self._n >= _ROWS_IN_GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is held and the file's end."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held, self._schema).unify_dictionaries()
            self._writer.write_table(table, row_group_size=max(self._n, 1))
            self._held, self._n = [], 0

    def _batch(self, rows: Rows, has_order: bool) -> pa.RecordBatch:
        number = self._places.index(rows)
        places = self._places.places
        data, data_offset = self._symbols.find(rows["addr"])
        columns = [
            _plain(rows["stratum"]),
            _plain(rows["core"]),
            _plain(rows["count"]),
            _chosen(number, places, lambda place: place.agent or None),
            pa.array([None if p.agent else p.pc for p in places], pa.uint64()).take(pa.array(number)),
            _chosen(number, places, lambda place: place.symbol or None),
            pa.array([p.offset for p in places], pa.uint64()).take(pa.array(number)),
            _chosen(number, places, lambda place: place.line or None),
            _chosen(number, places, lambda place: place.disassembly or None),
            _plain(rows["addr"]),
            _texts(data, self._names),
            _plain(data_offset),
            _plain(rows["size"]),
            _texts(kind_codes(rows).astype(np.int64), list(KIND_NAMES)),
            _plain(has_flag(rows, UNCACHED)),
            _plain(has_flag(rows, GLUED)),
            _plain(rows["old"]),
            _plain(rows["new"]),
            _plain(np.full(len(rows), has_order)),
        ]
        if self._threads is not None:
            ran = self._threads.of(rows)
            columns.insert(_THREAD_AT, pa.array(ran.astype(np.uint32), mask=ran == 0))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _plain(values: NDArray[Any]) -> pa.Array:
    return pa.array(np.ascontiguousarray(values))


def _texts(index: NDArray[np.int64], texts: list[str]) -> pa.Array:
    """Dictionary column of texts[index]; null where the index is -1."""
    codes = pa.array(index.astype(np.int32), mask=index < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string()))


def _chosen(number: NDArray[np.int64], places: list[Place], text: Callable[[Place], str | None]) -> pa.Array:
    """Dictionary column of a text of each row's place, every text once in the dictionary."""
    codes: dict[str, int] = {}
    of_place = [-1 if (t := text(place)) is None else codes.setdefault(t, len(codes)) for place in places]
    return _texts(np.array(of_place, np.int64)[number], list(codes))
