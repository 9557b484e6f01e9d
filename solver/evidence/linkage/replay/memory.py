"""Shared memory with versions: what was in each word when its variable had had so many writes.

A read may have seen an older version than its bound, so all are kept. Those of a word are a list from the
newest to the oldest with leaps in it (Myers, "An applicative random-access stack", 1983), so that one as of a
version is found in logarithmic time, however far others have run ahead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import ExcessError
from corebraid.base.host_memory import host_memory
from corebraid.base.kernels import inner
from solver.evidence.linkage.log import LinkageLog

#: A word after a write: what it holds then, the version of its variable, the entry before, one further back,
#: and how many there are up to here. Entry 0 stands for what the word held at the beginning.
ENTRY = np.dtype([("value", "<u8"), ("version", "<i8"), ("before", "<i4"), ("leap", "<i4"), ("depth", "<i8")])

#: Each makes up to two entries, which are numbered with 31 bits.
MOST_WRITES = (1 << 30) - 8

_ONE, _THREE, _EIGHT, _SEVEN = np.uint64(1), np.uint64(3), np.uint64(8), np.uint64(7)


class SharedMemory(NamedTuple):
    """made: int64[slots], the newest version of each shared variable. newest: int32[words], the newest entry
    of each word of memory. entries: ENTRY[n]. used: int64[1], entries so far. initial: uint8[bytes], memory
    before the run."""

    made: NDArray[np.int64]
    newest: NDArray[np.int32]
    entries: NDArray[np.void]
    used: NDArray[np.int64]
    initial: NDArray[np.uint8]


def new_memory(log: LinkageLog, initial: NDArray[np.uint8]) -> SharedMemory:
    """Nothing has been written. initial: uint8[bytes], which stays as it is. Raises ExcessError."""
    counts = log.shares.writes, log.runs.n, log.guards.skipped[1:]
    writes = int(sum(count.astype(np.float64).sum() for count in counts))
    if writes > MOST_WRITES:
        raise ExcessError(
            "more writes than can be held", expected=f"at most {MOST_WRITES:,}", found=f"{writes:,}"
        )
    most = 4 + 2 * writes
    newest = host_memory(4 * (len(initial) // 8 + 1)).view(np.int32)
    entries = host_memory(most * ENTRY.itemsize).view(ENTRY)
    made = np.zeros(len(log.shares.owner), np.int64)
    return SharedMemory(made, newest, entries, np.ones(1, np.int64), initial)


@inner
def entry_as_of(memory, word, version):  # type: ignore[no-untyped-def]
    """The newest entry of a word (its number) whose version is at most `version`."""
    entries = memory.entries
    at = np.int64(memory.newest[word])
    while entries[at].version > version:
        leap = np.int64(entries[at].leap)
        at = leap if entries[leap].version > version else np.int64(entries[at].before)
    return at


@inner
def word_of(memory, word, entry):  # type: ignore[no-untyped-def]
    """What the word held after an entry of its own."""
    if entry:
        return memory.entries[entry].value
    value = np.uint64(0)
    for k in range(8):
        value |= np.uint64(memory.initial[np.int64(word) * 8 + k]) << (_EIGHT * np.uint64(k))
    return value


@inner
def bytes_mask(n):  # type: ignore[no-untyped-def]
    """The lowest n (1 to 8) bytes."""
    return ~np.uint64(0) if n >= 8 else (_ONE << np.uint64(8 * n)) - _ONE


@inner
def part_in(address, size, half):  # type: ignore[no-untyped-def]
    """Of an access: its part in the word where it begins (half 0), or in the next one (1). Returns (the
    word's number, which of the access's bytes come first there, how many, which byte of the word is the
    first); no bytes if it has none there."""
    begin = np.int64(address & _SEVEN)
    there = min(np.int64(size), 8 - begin)
    word = address >> _THREE
    if half == 0:
        return word, 0, there, begin
    return word + _ONE, there, np.int64(size) - there, 0


@inner
def add_entry(memory, word, version, value):  # type: ignore[no-untyped-def]
    """The word holds `value` from this version of its variable on."""
    entries, n = memory.entries, memory.used[0]
    before = np.int64(memory.newest[word])
    leap = np.int64(entries[before].leap)
    further = np.int64(entries[leap].leap)
    row = entries[n]
    row.value, row.version, row.before = value, version, before
    row.depth = entries[before].depth + 1
    even = entries[before].depth - entries[leap].depth == entries[leap].depth - entries[further].depth
    row.leap = entries[leap].leap if even else before
    memory.newest[word] = n
    memory.used[0] = n + 1


@inner
def write_part(memory, address, size, value, half, version):  # type: ignore[no-untyped-def]
    """A write's part in one word is made, as `version` of the word's variable."""
    word, first, n, begin = part_in(address, size, half)
    if n <= 0:
        return
    shift = _EIGHT * np.uint64(begin)
    mask = bytes_mask(n) << shift
    new = (value >> (_EIGHT * np.uint64(first))) << shift
    old = word_of(memory, word, np.int64(memory.newest[word]))
    add_entry(memory, word, version, (old & ~mask) | (new & mask))


@inner
def read_part(memory, address, size, half, entry):  # type: ignore[no-untyped-def]
    """What an access would find, of its part in one word, after an entry of that word: those bytes, where
    they are in its value."""
    word, first, n, begin = part_in(address, size, half)
    held = word_of(memory, word, entry) >> (_EIGHT * np.uint64(begin))
    return (held & bytes_mask(n)) << (_EIGHT * np.uint64(first))


@inner
def mask_part(address, size, half):  # type: ignore[no-untyped-def]
    """Which bytes of an access's value are of its part in one word."""
    _, first, n, _ = part_in(address, size, half)
    return bytes_mask(n) << (_EIGHT * np.uint64(first)) if n > 0 else np.uint64(0)
