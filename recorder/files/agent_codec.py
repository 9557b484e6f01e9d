"""Accesses of agents as compact bytes, the payload of frames of the agent log (docs/format.md, section 5).

A payload begins with the number of its first access and the strata before it, so that frames decode
independently and no access needs to carry either.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from corebraid.base.rows.event import GLUED, OWNED, READ, RMW, UNCACHED
from corebraid.base.varint import CUT_SHORT, MAX_VARINT, OVERLONG, get_varint, put_varint, unzigzag, zigzag
from recorder.files.manifest import MAX_CORES

Rows = npt.NDArray[np.void]

#: Kinds of a row that is no access (the others are READ, WRITE and RMW of `corebraid/base/rows/event.py`): it
#: marks a stratum, or a sync point (emu/bus/sync_points.py).
MARK, SYNC = 0, 5
#: Why an agent made an access: a DMA transfer, a core's interrupt frame, another device; a Linux guest's
#: kernel for a system call, to fill a page, to deliver a signal, for a thread that ends; and a put of core K
#: is PUT + K, a get GET + K.
DMA, INTERRUPT, DEVICE, CALL, PAGE, SIGNAL, EXIT, PUT, GET = 1, 2, 3, 4, 5, 6, 7, 64, 128
_LAST_CAUSE = 191

#: A row of the agent log. `number` counts accesses from 0 (of a MARK or SYNC: the accesses before it);
#: `stratum` counts the strata before the row (of a MARK: its own number). `old`, `new`: the bytes before and
#: after, little-endian, in the low `size` (1 to 8) bytes; a READ has old == new. `flags`: as in an EVENT. Of
#: a SYNC `cause` is the core, `addr` its instruction count, `old` the thread, `flags` the way (ENTER, LEAVE
#: or both), and the rest 0.
AGENT_OP = np.dtype(
    [
        ("number", "<u8"),
        ("addr", "<u8"),
        ("old", "<u8"),
        ("new", "<u8"),
        ("stratum", "<u4"),
        ("size", "u1"),
        ("kind", "u1"),
        ("cause", "u1"),
        ("flags", "u1"),
    ]
)
assert AGENT_OP.itemsize == 40

#: Most bytes of a row (tag, address, cause, flags, two values) and of a payload's beginning.
ROW_MOST = 1 + MAX_VARINT + 2 + 16
HEAD_MOST = 2 * MAX_VARINT

#: Tag of an access: kind in bits 0 and 1, size - 1 in bits 2 to 4, and these bits (_TAKEN: OWNED).
#: Of a sync point: its way in bits 2 and 3, whether its core is that of the sync point before it, and whether
#: its thread is that of the core's one before it.
_NEXT, _SAME, _TAKEN = 32, 64, 128
_WAYS, _AGAIN, _GOES_ON = 12, 16, 32
_FLAGS, _OWNED = np.int64(UNCACHED | GLUED), np.int64(OWNED)

_BAD_TAG, _BAD_ADDRESS, _BAD_VALUE, _BAD_CAUSE, _BAD_NUMBER, _TOO_MANY, _NOT_SHORTEST = range(-9, -2)
_BAD_CORE, BACKWARDS = -10, -11
REASONS = {
    CUT_SHORT: "an access is cut short",
    OVERLONG: "an integer is not in its shortest form",
    _BAD_TAG: "no such kind or size of access",
    _BAD_ADDRESS: "an address lies outside the memory",
    _BAD_VALUE: "a value does not fit its size, or a read changes one",
    _BAD_CAUSE: "no such cause or flags",
    _BAD_NUMBER: "an access or a stratum is out of sequence",
    _TOO_MANY: "there are more rows than the frame declares",
    _NOT_SHORTEST: "an access is not in its shortest form",
    _BAD_CORE: "a sync point of no such core or thread",
    BACKWARDS: "a sync point lies before an earlier one of its core",
}

_U0, _U1, _U8 = np.uint64(0), np.uint64(1), np.uint64(8)
_MOST_STRATUM = np.uint64(0xFFFFFFFF)


@njit(cache=True)
def _put_value(out, pos, value, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        out[pos + k] = np.uint8((value >> (_U8 * np.uint64(k))) & np.uint64(0xFF))
    return pos + size


@njit(cache=True)
def _get_value(raw, pos, size):  # type: ignore[no-untyped-def]
    value = _U0
    if pos + size > raw.shape[0]:
        return value, CUT_SHORT
    for k in range(size):
        value |= np.uint64(raw[pos + k]) << (_U8 * np.uint64(k))
    return value, pos + size


@njit(cache=True)
def _is_cause(cause):  # type: ignore[no-untyped-def]
    return DMA <= cause <= EXIT or PUT <= cause <= _LAST_CAUSE


@njit(cache=True)
def _row_error(row, number, stratum, limit):  # type: ignore[no-untyped-def]
    """0 if the format can hold `row` with `number` accesses and `stratum` strata before it, else why not."""
    if row.number != number or np.uint64(row.stratum) != stratum:
        return _BAD_NUMBER
    size = np.int64(row.size)
    if row.kind == MARK:
        unused = row.addr | row.old | row.new | np.uint64(row.size | row.cause | row.flags)
        return _BAD_TAG if unused != _U0 else 0
    if row.kind == SYNC:
        if row.new | np.uint64(size) != _U0 or row.old > _MOST_STRATUM or row.flags < 1 or row.flags > 3:
            return _BAD_TAG
        return _BAD_CORE if row.cause >= MAX_CORES else 0
    if row.kind > RMW or size < 1 or size > 8:
        return _BAD_TAG
    if row.addr > limit or np.uint64(size) > limit - row.addr:
        return _BAD_ADDRESS
    if size < 8 and ((row.old | row.new) >> (_U8 * np.uint64(size))) != _U0:
        return _BAD_VALUE
    if row.kind == READ and row.old != row.new:
        return _BAD_VALUE
    if not _is_cause(row.cause) or (np.int64(row.flags) & ~(_FLAGS | _OWNED)) != 0:
        return _BAD_CAUSE
    return 0


@njit(cache=True)
def _nobody_met():  # type: ignore[no-untyped-def]
    """What `_put_sync` and `_read_sync` know at the beginning of a frame: of each core's last sync point the
    count and the thread; in the row after the cores', the core of the last one of all."""
    met = np.zeros((MAX_CORES + 1, 2), np.uint64)
    met[MAX_CORES, 0] = np.uint64(MAX_CORES)
    return met


@njit(cache=True)
def _put_sync(out, pos, row, met):  # type: ignore[no-untyped-def]
    """Encode a sync point: the position after. met: see `_nobody_met`; updated."""
    core, tag_at = np.int64(row.cause), pos
    tag = np.int64(row.flags) << 2
    pos += 1
    if np.uint64(core) == met[MAX_CORES, 0]:
        tag |= _AGAIN
    else:
        out[pos] = row.cause
        pos += 1
    pos = put_varint(out, pos, row.addr - met[core, 0])
    if row.old == met[core, 1]:
        tag |= _GOES_ON
    else:
        pos = put_varint(out, pos, row.old)
    out[tag_at] = np.uint8(tag)
    met[core, 0], met[core, 1], met[MAX_CORES, 0] = row.addr, row.old, np.uint64(core)
    return pos


@njit(cache=True)
def _read_who(raw, pos, before):  # type: ignore[no-untyped-def]
    """The thread of a sync point, not that of the core's one before: (thread, position after or why not)."""
    who, pos = get_varint(raw, pos)
    if pos >= 0 and who == before:
        pos = np.int64(_NOT_SHORTEST)
    if pos >= 0 and who > _MOST_STRATUM:
        pos = np.int64(_BAD_CORE)
    return who, pos


@njit(cache=True)
def _read_sync(raw, at, n_cores, met, row):  # type: ignore[no-untyped-def]
    """The sync point at `at` into `row`: the position after, or why not. met: see `_nobody_met`; updated."""
    tag, pos = np.int64(raw[at]), at + 1
    if tag & ~(_WAYS | _AGAIN | _GOES_ON) or tag & _WAYS == 0:
        return np.int64(_BAD_TAG)
    core = np.int64(met[MAX_CORES, 0])
    if not tag & _AGAIN:
        if pos >= raw.shape[0]:
            return np.int64(CUT_SHORT)
        if np.int64(raw[pos]) == core:
            return np.int64(_NOT_SHORTEST)
        core = np.int64(raw[pos])
        pos += 1
    if core >= n_cores:
        return np.int64(_BAD_CORE)
    step, pos = get_varint(raw, pos)
    count, who = met[core, 0] + step, met[core, 1]
    if pos >= 0 and count < step:
        return np.int64(BACKWARDS)
    if pos >= 0 and not tag & _GOES_ON:
        who, pos = _read_who(raw, pos, who)
    met[core, 0], met[core, 1], met[MAX_CORES, 0] = count, who, np.uint64(core)
    row.addr, row.old, row.new = count, who, _U0
    row.size, row.kind, row.cause, row.flags = 0, SYNC, np.uint8(core), np.uint8((tag & _WAYS) >> 2)
    return pos


@njit(cache=True)
def encode_ops(rows, start, limit, out):  # type: ignore[no-untyped-def]
    """Encode rows[start:] (AGENT_OP[n], at least one) into `out` (uint8[]) until the next might not fit.

    limit: accesses lie below this address (uint64). Returns (first row not encoded, bytes written, 0 or
    why that row cannot be encoded).
    """
    number, stratum = rows[start].number, np.uint64(rows[start].stratum)
    pos = put_varint(out, put_varint(out, 0, number), stratum)
    next_addr = _U0
    cause, flags = np.uint8(0), np.uint8(0)
    met = _nobody_met()
    for i in range(start, rows.shape[0]):
        row = rows[i]
        error = _row_error(row, number, stratum, limit)
        if error != 0 or pos + ROW_MOST > out.shape[0]:
            return i, pos, error
        if row.kind == MARK:
            out[pos] = MARK
            pos += 1
            stratum += _U1
            continue
        if row.kind == SYNC:
            if row.addr < met[np.int64(row.cause), 0]:
                return i, pos, BACKWARDS
            pos = _put_sync(out, pos, row, met)
            continue
        size, tag_at = np.int64(row.size), pos
        tag = np.int64(row.kind) | ((size - 1) << 2) | (_TAKEN if row.flags & OWNED else 0)
        pos += 1
        if row.addr == next_addr:
            tag |= _NEXT
        else:
            pos = put_varint(out, pos, zigzag(row.addr, next_addr))
        told = np.uint8(np.int64(row.flags) & _FLAGS)
        if row.cause == cause and told == flags:
            tag |= _SAME
        else:
            cause, flags = row.cause, told
            out[pos], out[pos + 1] = cause, flags
            pos += 2
        out[tag_at] = np.uint8(tag)
        pos = _put_value(out, pos, row.old, size)
        if row.kind != READ:
            pos = _put_value(out, pos, row.new, size)
        next_addr = row.addr + np.uint64(size)
        number += _U1
    return rows.shape[0], pos, 0


@njit(cache=True)
def _read_address(raw, pos, tag, next_addr, size, limit):  # type: ignore[no-untyped-def]
    """Address of an access: (address, position after or why not)."""
    addr = next_addr
    if not tag & _NEXT:
        folded, pos = get_varint(raw, pos)
        addr = unzigzag(folded, next_addr)
        if pos >= 0 and addr == next_addr:
            pos = np.int64(_NOT_SHORTEST)
    if pos >= 0 and (addr > limit or np.uint64(size) > limit - addr):
        pos = np.int64(_BAD_ADDRESS)
    return addr, pos


@njit(cache=True)
def _read_cause(raw, pos, tag, cause, flags):  # type: ignore[no-untyped-def]
    """Cause and flags of an access: (cause, flags, position after or why not)."""
    if tag & _SAME:
        return cause, flags, (pos if cause >= DMA else np.int64(_BAD_CAUSE))
    if pos + 2 > raw.shape[0]:
        return cause, flags, np.int64(CUT_SHORT)
    new_cause, new_flags = np.int64(raw[pos]), np.int64(raw[pos + 1])
    if not _is_cause(new_cause) or (new_flags & ~_FLAGS) != 0:
        return cause, flags, np.int64(_BAD_CAUSE)
    if new_cause == cause and new_flags == flags:
        return cause, flags, np.int64(_NOT_SHORTEST)
    return new_cause, new_flags, pos + 2


@njit(cache=True)
def _read_op(raw, at, next_addr, cause, flags, limit, told, row):  # type: ignore[no-untyped-def]
    """One access at `at` into `row`: the position after, or why not. told: whether it may say OWNED."""
    tag = np.int64(raw[at])
    kind, size = tag & 3, ((tag >> 2) & 7) + 1
    if kind == MARK or (tag & _TAKEN and not told):
        return np.int64(_BAD_TAG)
    old = new = _U0
    addr, pos = _read_address(raw, at + 1, tag, next_addr, size, limit)
    if pos >= 0:
        cause, flags, pos = _read_cause(raw, pos, tag, cause, flags)
    if pos >= 0:
        old, pos = _get_value(raw, pos, size)
        new = old
    if pos >= 0 and kind != READ:
        new, pos = _get_value(raw, pos, size)
    row.addr, row.old, row.new = addr, old, new
    row.size, row.kind, row.cause = size, kind, cause
    row.flags = flags | (_OWNED if tag & _TAKEN else 0)
    return pos


@njit(cache=True)
def decode_ops(raw, limit, n_cores, rows):  # type: ignore[no-untyped-def]
    """Decode `raw` (uint8[]; nothing in it is trusted) into `rows` (AGENT_OP[]).

    limit: accesses lie below this address (uint64). n_cores: of the recording; 0 where the format has no sync
    points, and no OWNED. Returns (rows, 0 or why not, position in raw).
    """
    n = 0
    number, pos = get_varint(raw, 0)
    stratum = _U0
    if pos >= 0:
        stratum, pos = get_varint(raw, pos)
    if pos < 0:
        return n, pos, 0
    next_addr = _U0
    cause, flags = np.int64(0), np.int64(0)
    met = _nobody_met()
    while pos < raw.shape[0]:
        at = pos
        if n == rows.shape[0]:
            return n, _TOO_MANY, at
        if stratum >= _MOST_STRATUM or number + _U1 == _U0:
            return n, _BAD_NUMBER, at
        row = rows[n]
        row.number, row.stratum = number, stratum
        n += 1
        if raw[at] == MARK:
            row.addr, row.old, row.new = _U0, _U0, _U0
            row.size, row.kind, row.cause, row.flags = 0, MARK, 0, 0
            stratum += _U1
            pos = at + 1
            continue
        if raw[at] & 3 == MARK and n_cores > 0:
            pos = _read_sync(raw, at, n_cores, met, row)
            if pos < 0:
                return n, pos, at
            continue
        pos = _read_op(raw, at, next_addr, cause, flags, limit, n_cores > 0, row)
        if pos < 0:
            return n, pos, at
        cause, flags = np.int64(row.cause), np.int64(row.flags) & _FLAGS
        next_addr = row.addr + np.uint64(row.size)
        number += _U1
    return n, 0, pos


class Encoder:
    """Encodes rows of the agent log into payloads of at most `capacity` bytes.

    memory: bytes of guest memory, inside which accesses must lie.
    """

    def __init__(self, capacity: int, memory: int) -> None:
        self._limit = np.uint64(memory)
        self._out = np.empty(max(capacity, HEAD_MOST + ROW_MOST), dtype=np.uint8)

    def encode_some(self, rows: Rows, start: int) -> tuple[int, memoryview]:
        """Encode rows[start:] (AGENT_OP[n]) until the payload is full: (first row not encoded, payload).

        The payload is valid until the next call. Raises FormatError if the format cannot hold a row.
        """
        end, used, error = encode_ops(rows, start, self._limit, self._out)
        if error:
            what = f"the agent log cannot hold an access: {REASONS[error]}"
            raise FormatError(what, where=f"row {end}")
        return int(end), self._out.data[:used]
