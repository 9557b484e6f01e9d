"""Losses of one frame as compact bytes, in four columns (docs/format.md, section 11).

What a core loses while it stands between two instructions has one count, and is often what it lost a short
while ago: counts are written once for each such group, lines by how recently they were lost. Each frame
decodes by itself, and there is one encoding for a list of losses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from corebraid.base.varint import CUT_SHORT, MAX_VARINT, OVERLONG, get_varint, put_varint, unzigzag, zigzag
from emu.bus.losses import DOWNGRADED, LOSS_NOTE, LOST

Rows = npt.NDArray[np.void]

#: Losses in a frame at most.
FRAME_ROWS = 1 << 14
#: Lines of a core that are told by how many others it lost since.
WINDOW = 64

_BAD_CORE, _COUNT_BACK, _TOO_MANY, _BAD_PLACE, _BAD_LINE, _NOT_NEW, _SPLIT, _EMPTY, _TRAILING = range(-11, -2)
_REASONS = {
    CUT_SHORT: "a loss is cut short",
    OVERLONG: "an integer is not in its shortest form",
    _BAD_CORE: "there is no such core",
    _COUNT_BACK: "the instruction count does not go on",
    _TOO_MANY: "there are more losses than the frame declares",
    _BAD_PLACE: "a core has not lost so many lines",
    _BAD_LINE: "a line lies outside the memory",
    _NOT_NEW: "a line is written though it was lost a short while ago",
    _SPLIT: "a line lost in two steps is written as two losses",
    _EMPTY: "a core without losses",
    _TRAILING: "bytes follow the last loss",
}
_U0, _U1, _U2, _U3, _U6 = (np.uint64(k) for k in (0, 1, 2, 3, 6))


@njit(cache=True)
def _find(table, used, line):  # type: ignore[no-untyped-def]
    """Place of a line among the last that were lost, from 0 on; `used` if it is not there."""
    for k in range(used):
        if table[k] == line:
            return k
    return used


@njit(cache=True)
def _to_front(table, used, place, line):  # type: ignore[no-untyped-def]
    """Put a line first, which was at `place`; at `used` if it is new. Returns how many lines there are."""
    last = min(place, WINDOW - 1)
    for k in range(last, 0, -1):
        table[k] = table[k - 1]
    table[0] = line
    return max(used, last + 1)


@njit(cache=True)
def _same(rows, i, count, core):  # type: ignore[no-untyped-def]
    return i < rows.shape[0] and rows[i].count == count and rows[i].core == core


@njit(cache=True)
def encode_losses(rows, line, heads, counts, codes, fresh):  # type: ignore[no-untyped-def]
    """Encode rows (LOSS_NOTE[n], ascending by core) into four columns (uint8[], n * MAX_VARINT or more each;
    heads twice that).

    line: bytes (uint64). Returns (cores, bytes in each column).
    """
    table = np.empty(WINDOW, np.uint64)
    i, cores, next_core = 0, 0, _U0
    in_heads, in_counts, in_codes, in_fresh = 0, 0, 0, 0
    while i < rows.shape[0]:
        core, groups, before, used, last_fresh = rows[i].core, 0, _U0, 0, _U0
        while i < rows.shape[0] and rows[i].core == core:
            count, more, groups = rows[i].count, True, groups + 1
            in_counts = put_varint(counts, in_counts, count - before)
            before = count
            while more:
                address, what = rows[i].line, (_U1 if rows[i].way == LOST else _U0)
                i += 1
                twice = what == _U0 and _same(rows, i, count, core) and rows[i].line == address
                if twice and rows[i].way == LOST:
                    what = _U2
                    i += 1
                more = _same(rows, i, count, core)
                number = address // line
                place = _find(table, used, number)
                code = _U0 if place == used else np.uint64(place + 1)
                if place == used:
                    in_fresh = put_varint(fresh, in_fresh, zigzag(number, last_fresh))
                    last_fresh = number
                used = _to_front(table, used, place, number)
                in_codes = put_varint(codes, in_codes, code * _U6 + what * _U2 + np.uint64(more))
        in_heads = put_varint(heads, in_heads, np.uint64(core) - next_core)
        in_heads = put_varint(heads, in_heads, np.uint64(groups))
        next_core = np.uint64(core) + _U1
        cores += 1
    return cores, in_heads, in_counts, in_codes, in_fresh


@njit(cache=True)
def _get_heads(raw, cores, room, heads):  # type: ignore[no-untyped-def]
    """Which cores have losses, and how many groups of them, into heads (int64[cores, 2]): (how many cores,
    groups over all, position after or why not)."""
    n, pos = get_varint(raw, 0)
    if pos < 0:
        return 0, 0, pos
    if n > np.uint64(cores):
        return 0, 0, _BAD_CORE
    next_core, total = _U0, _U0
    for k in range(np.int64(n)):
        step, pos = get_varint(raw, pos)
        if pos < 0:
            return 0, 0, pos
        if step >= np.uint64(cores) or next_core + step >= np.uint64(cores):
            return 0, 0, _BAD_CORE
        groups, pos = get_varint(raw, pos)
        if pos < 0:
            return 0, 0, pos
        if groups == _U0:
            return 0, 0, _EMPTY
        if groups > np.uint64(room) - total:
            return 0, 0, _TOO_MANY
        total += groups
        heads[k, 0], heads[k, 1] = next_core + step, groups
        next_core += step + _U1
    return np.int64(n), np.int64(total), pos


@njit(cache=True)
def _get_counts(raw, pos, heads, n_cores, counts):  # type: ignore[no-untyped-def]
    """The count of each group. Returns the position after, or why not."""
    at = 0
    for k in range(n_cores):
        before = _U0
        for g in range(heads[k, 1]):
            step, pos = get_varint(raw, pos)
            if pos < 0:
                return pos
            if (g > 0 and step == _U0) or before + step < before:
                return np.int64(_COUNT_BACK)
            before += step
            counts[at] = before
            at += 1
    return pos


@njit(cache=True)
def _skip_codes(raw, pos, groups):  # type: ignore[no-untyped-def]
    """The position after the codes of so many groups, or why not."""
    while groups > 0:
        code, pos = get_varint(raw, pos)
        if pos < 0:
            return pos
        if code & _U1 == _U0:
            groups -= 1
    return pos


@njit(cache=True)
def _put(rows, n, count, address, core, way):  # type: ignore[no-untyped-def]
    row = rows[n]
    row.count, row.line, row.core, row.way = count, address, np.uint32(core), np.uint32(way)
    return n + 1


@njit(cache=True)
def _get_line(raw, pos, place, table, used, last_fresh, lines):  # type: ignore[no-untyped-def]
    """The line number that a code's place means: (number, position in the column of new lines after or why
    not)."""
    if place > np.uint64(used):
        return _U0, np.int64(_BAD_PLACE)
    if place != _U0:
        return table[np.int64(place) - 1], pos
    folded, pos = get_varint(raw, pos)
    number = unzigzag(folded, last_fresh)
    if pos >= 0 and number >= lines:
        pos = np.int64(_BAD_LINE)
    elif pos >= 0 and _find(table, used, number) != used:
        pos = np.int64(_NOT_NEW)
    return number, pos


@njit(cache=True)
def decode_losses(raw, cores, line, lines, rows):  # type: ignore[no-untyped-def]
    """Decode one payload (uint8[]; nothing in it is trusted) into rows (LOSS_NOTE[]).

    cores: how many there are; line: bytes (uint64); lines: line numbers lie below this (uint64). Returns
    (rows, 0 or why not, about where in raw).
    """
    heads = np.empty((cores, 2), np.int64)
    n_cores, groups, pos = _get_heads(raw, cores, rows.shape[0], heads)
    if pos < 0:
        return 0, pos, 0
    counts = np.empty(groups, np.uint64)
    at = pos
    pos = _get_counts(raw, pos, heads, n_cores, counts)
    if pos < 0:
        return 0, pos, at
    at, pos = pos, _skip_codes(raw, pos, groups)
    if pos < 0:
        return 0, pos, at
    table, group, n, fresh = np.empty(WINDOW, np.uint64), 0, 0, pos
    for k in range(n_cores):
        used, last_fresh = 0, _U0
        for _ in range(heads[k, 1]):
            more, before = True, ~_U0
            while more:
                here = at
                code, at = get_varint(raw, at)
                place, what, more = code // _U6, code % _U6 >> _U1, (code & _U1) != _U0
                number, fresh = _get_line(raw, fresh, place, table, used, last_fresh, lines)
                if fresh < 0:
                    return n, fresh, here
                if what == _U1 and number == before:
                    return n, _SPLIT, here
                if n + (2 if what == _U2 else 1) > rows.shape[0]:
                    return n, _TOO_MANY, here
                if place == _U0:
                    last_fresh = number
                used = _to_front(table, used, used if place == _U0 else np.int64(place) - 1, number)
                before = number if what == _U0 else ~_U0
                if what != _U1:
                    n = _put(rows, n, counts[group], number * line, heads[k, 0], DOWNGRADED)
                if what != _U0:
                    n = _put(rows, n, counts[group], number * line, heads[k, 0], LOST)
            group += 1
    if fresh != raw.shape[0]:
        return n, _TRAILING, fresh
    return n, 0, fresh


def encode(rows: Rows, line: int) -> bytes:
    """One frame's payload. rows: LOSS_NOTE[n], ascending by core, of each core in the order in which it lost
    them; line: bytes."""
    fixed = np.ascontiguousarray(rows)
    columns = [np.empty((len(rows) + 1) * MAX_VARINT * wide, np.uint8) for wide in (2, 1, 1, 1)]
    cores, *used = encode_losses(fixed, np.uint64(line), *columns)
    first = np.empty(MAX_VARINT, np.uint8)
    parts = [first[: put_varint(first, 0, np.uint64(cores))]]
    parts += [column[:n] for column, n in zip(columns, used, strict=True)]
    return np.concatenate(parts).tobytes()


def decode(raw: bytes, records: int, line: int, cores: int, memory: int) -> Rows:
    """The losses of one payload, of which nothing is trusted: LOSS_NOTE[records], as `encode` takes them.

    cores: how many there are; memory: bytes, inside which lines must lie. Raises FormatError.
    """
    if records > FRAME_ROWS:
        raise FormatError("losses in a frame", expected=f"at most {FRAME_ROWS}", found=records)
    # Two losses are a byte at least.
    rows = np.zeros(min(records, 2 * len(raw)), LOSS_NOTE)
    lines = np.uint64(memory // line)
    n, error, at = decode_losses(np.frombuffer(raw, np.uint8), cores, np.uint64(line), lines, rows)
    if error:
        raise FormatError(f"{_REASONS[error]} (byte {at} of the frame's payload)")
    if n != records:
        raise FormatError("losses in the frame", expected=records, found=int(n))
    return rows
