"""Tables of integers as compact bytes: rows of a fixed number of columns, the first as a difference from the
row before, in varints (corebraid/base/varint.py). Evidence streams are made of them (docs/format.md, section
11).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from corebraid.base.varint import CUT_SHORT, MAX_VARINT, OVERLONG, get_varint, put_varint, unzigzag, zigzag
from recorder.files.frame import MAX_RAW

Table = npt.NDArray[np.uint64]

_LEFT_OVER = -3
_REASONS = {
    CUT_SHORT: "a row is cut short",
    OVERLONG: "an integer is not in its shortest form",
    _LEFT_OVER: "there are bytes after the last row",
}
_HEAD = 64


@njit(cache=True)
def put_table(table, out):  # type: ignore[no-untyped-def]
    """Encode table (uint64[n, k]) into `out` (uint8[], n * k * MAX_VARINT or more). Returns bytes written."""
    pos, before = 0, np.uint64(0)
    for i in range(table.shape[0]):
        pos = put_varint(out, pos, zigzag(table[i, 0], before))
        before = table[i, 0]
        for k in range(1, table.shape[1]):
            pos = put_varint(out, pos, table[i, k])
    return pos


@njit(cache=True)
def get_table(raw, table):  # type: ignore[no-untyped-def]
    """Decode `raw` (uint8[]; nothing in it is trusted) into `table` (uint64[n, k]). Returns 0 or why not."""
    pos, before = np.int64(0), np.uint64(0)
    for i in range(table.shape[0]):
        for k in range(table.shape[1]):
            value, pos = get_varint(raw, pos)
            if pos < 0:
                return pos
            table[i, k] = unzigzag(value, before) if k == 0 else value
        before = table[i, 0]
    return 0 if pos == raw.shape[0] else _LEFT_OVER


def rows_a_frame(columns: int) -> int:
    """How many rows of so many columns certainly fit into a frame, with some bytes before them."""
    return (MAX_RAW - _HEAD) // (MAX_VARINT * columns)


def encode_table(table: Table) -> bytes:
    """The bytes of a table (uint64[n, k])."""
    out = np.empty(max(1, table.size) * MAX_VARINT, np.uint8)
    return out[: put_table(np.ascontiguousarray(table), out)].tobytes()


def decode_table(raw: bytes, rows: int, columns: int, where: str = "") -> Table:
    """The table of so many rows and columns: uint64[rows, columns]. Raises FormatError."""
    if rows < 1 or rows * columns > len(raw):
        expected = f"1 to {len(raw) // columns}"
        raise FormatError("rows of a table", expected=expected, found=rows, where=where)
    table = np.empty((rows, columns), np.uint64)
    error = int(get_table(np.frombuffer(raw, np.uint8), table))
    if error:
        raise FormatError(_REASONS[error], where=where)
    return table
