"""Everything that a replay keeps, as a table of addresses: a native hook is handed one number, `CORE.fed`,
and finds it all there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import carray, njit
from emu.native.unicorn import pointer
from recorder.evidence.linkage.kernels import Names
from solver.evidence.linkage.log import Bounds, Guards, LinkageLog, Runs, Shares
from solver.evidence.linkage.place import FIELDS
from solver.evidence.linkage.replay.memory import ENTRY, SharedMemory
from solver.evidence.linkage.replay.stream import OWN_FIELDS, Replay
from solver.evidence.linkage.replay.turns import STREAM_FIELDS, Turns
from solver.evidence.linkage.values import Values

#: Where `table_of` has, in bytes, what `Names` and `Shares.slot_of` are, and `Turns.state`, which begins with
#: FAILED.
BITS, FIRST, SYMBOLS, NAMED = np.uint64(16), np.uint64(32), np.uint64(48), np.uint64(56)
SLOTS, STATE = np.uint64(64), np.uint64(16 * 50)
_MOST_WORDS = 128


def _leaves(what: Any) -> Iterator[Any]:
    if isinstance(what, tuple):
        for part in what:
            yield from _leaves(part)
    else:
        yield what


def table_of(replay: Replay) -> NDArray[np.uint64]:
    """Where everything is: uint64[], for each array its address and size, for each number that and 0. The
    arrays must be kept."""
    words = []
    for leaf in _leaves(replay):
        if isinstance(leaf, np.ndarray):
            assert leaf.flags.c_contiguous
            words += [leaf.ctypes.data, leaf.size]
        else:
            words += [int(leaf), 0]
    table = np.zeros(_MOST_WORDS, np.uint64)
    table[: len(words)] = words
    return table


@njit(cache=True)
def _ints(words, k):  # type: ignore[no-untyped-def]
    return carray(pointer(words[2 * k]), np.int64(words[2 * k + 1]), np.int64)


@njit(cache=True)
def _numbers(words, k):  # type: ignore[no-untyped-def]
    return carray(pointer(words[2 * k]), np.int64(words[2 * k + 1]), np.uint64)


@njit(cache=True)
def _int(words, k):  # type: ignore[no-untyped-def]
    return np.int64(words[2 * k])


@njit(cache=True)
def _names_at(words):  # type: ignore[no-untyped-def]
    symbols = carray(pointer(words[6]), np.int64(words[7]), np.uint32)
    return Names(words[2], words[4], symbols)


@njit(cache=True)
def _shares_at(words):  # type: ignore[no-untyped-def]
    slots = carray(pointer(words[8]), np.int64(words[9]), np.int32)
    return Shares(slots, _ints(words, 5), _ints(words, 6), _ints(words, 7), _ints(words, 8))


@njit(cache=True)
def _runs_at(words):  # type: ignore[no-untyped-def]
    return Runs(_ints(words, 9), _ints(words, 10), _ints(words, 11), _ints(words, 12), _ints(words, 13))


@njit(cache=True)
def _bounds_at(words):  # type: ignore[no-untyped-def]
    streams, bits = _int(words, 0), _int(words, 16)
    seen = carray(pointer(words[2 * 22]), (streams, np.int64(1) << bits, 2), np.uint64)
    return Bounds(
        _int(words, 14), words[2 * 15] != 0, bits, _ints(words, 17), _ints(words, 18), _ints(words, 19),
        _ints(words, 20), _ints(words, 21), seen,
    )  # fmt: skip


@njit(cache=True)
def _values_at(words):  # type: ignore[no-untyped-def]
    streams, bits = _int(words, 0), _int(words, 24)
    last = carray(pointer(words[2 * 30]), (streams, np.int64(1) << bits), np.uint64)
    return Values(
        _int(words, 23), bits, _ints(words, 25), _numbers(words, 26), _ints(words, 27), _ints(words, 28),
        _ints(words, 29), last, _ints(words, 31),
    )  # fmt: skip


@njit(cache=True)
def _guards_at(words):  # type: ignore[no-untyped-def]
    is_lock = carray(pointer(words[2 * 41]), np.int64(words[2 * 41 + 1]), np.uint8)
    return Guards(
        _ints(words, 32), _ints(words, 33), _ints(words, 34), _ints(words, 35), _ints(words, 36),
        _ints(words, 37), _ints(words, 38), _ints(words, 39), _ints(words, 40), is_lock, _ints(words, 42),
    )  # fmt: skip


@njit(cache=True)
def _memory_at(words):  # type: ignore[no-untyped-def]
    newest = carray(pointer(words[2 * 44]), np.int64(words[2 * 44 + 1]), np.int32)
    entries = carray(pointer(words[2 * 45]), np.int64(words[2 * 45 + 1]), ENTRY)
    initial = carray(pointer(words[2 * 47]), np.int64(words[2 * 47 + 1]), np.uint8)
    return SharedMemory(_ints(words, 43), newest, entries, _ints(words, 46), initial)


@njit(cache=True)
def replay_at(address):  # type: ignore[no-untyped-def]
    """The `Replay` of which `table_of` is at this address (uint64)."""
    words = carray(pointer(address), _MOST_WORDS, np.uint64)
    streams = _int(words, 0)
    log = LinkageLog(
        streams, _names_at(words), _shares_at(words), _runs_at(words), _bounds_at(words), _values_at(words),
        _guards_at(words),
    )  # fmt: skip
    told = carray(pointer(words[2 * 49]), (streams, STREAM_FIELDS), np.int64)
    turns = Turns(words[2 * 48], told, _ints(words, 50))
    own = carray(pointer(words[2 * 51]), (streams, OWN_FIELDS), np.int64)
    met = carray(pointer(words[2 * 52]), (streams, 2, FIELDS), np.int64)
    return Replay(log, _memory_at(words), turns, own, met)
