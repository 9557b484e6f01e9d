"""Which rows of a region are nodes, and how many of a stream lie before a row: a bit for every row, and for
every 64 of them how many nodes came before. So it takes time in proportion to rows, and little memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner

_ROWS = 64


class Numbers(NamedTuple):
    """Nodes among the rows of several streams. n_rows: int64 (n_streams,). words: int64 (n_streams + 1,):
    where those of each stream begin. bits: uint64 (n_words,), bit i of a word is row 64 * word + i of the
    stream. below: int64 (n_words,), how many nodes the stream has in earlier words, once they are counted."""

    n_rows: NDArray[np.int64]
    words: NDArray[np.int64]
    bits: NDArray[np.uint64]
    below: NDArray[np.int64]


def no_nodes(n_rows: list[int]) -> Numbers:
    """No nodes so far. n_rows: of each stream."""
    rows = np.array(n_rows, np.int64)
    words = np.zeros(len(rows) + 1, np.int64)
    # A row past the end can be asked for.
    np.cumsum(rows // _ROWS + 1, out=words[1:])
    return Numbers(rows, words, np.zeros(words[-1], np.uint64), np.zeros(words[-1], np.int64))


@njit(cache=True, nogil=True)
def mark_nodes(numbers, stream, row):  # type: ignore[no-untyped-def]
    """Rows of these streams (int32 and int64 (n,)) are nodes, if they lie in the region."""
    for i in range(row.size):
        s = stream[i]
        if row[i] >= 0 and row[i] < numbers.n_rows[s]:
            numbers.bits[numbers.words[s] + (row[i] >> 6)] |= np.uint64(1) << np.uint64(row[i] & 63)


@inner
def _ones(word):  # type: ignore[no-untyped-def]
    """How many bits of a uint64 are set."""
    pairs = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + (
        (pairs >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    bytes_ = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bytes_ * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def count_nodes(numbers, ptr):  # type: ignore[no-untyped-def]
    """Fill `below`, and ptr (int64 (n_streams + 1,)): how many nodes all streams before each one have."""
    ptr[0] = 0
    for s in range(ptr.size - 1):
        n = 0
        for word in range(numbers.words[s], numbers.words[s + 1]):
            numbers.below[word] = n
            n += _ones(numbers.bits[word])
        ptr[s + 1] = ptr[s] + n


@njit(cache=True, nogil=True)
def list_nodes(numbers, row):  # type: ignore[no-untyped-def]
    """Fill `row` (int64, of as many as there are nodes) with the nodes' rows, stream after stream."""
    n = 0
    for s in range(numbers.n_rows.size):
        for word in range(numbers.words[s], numbers.words[s + 1]):
            if numbers.bits[word] == 0:
                continue
            for bit in range(_ROWS):
                if (numbers.bits[word] >> np.uint64(bit)) & np.uint64(1):
                    row[n] = (word - numbers.words[s]) * _ROWS + bit
                    n += 1


@inner
def nodes_before(numbers, s, row):  # type: ignore[no-untyped-def]
    """How many nodes of stream s lie before a row: the number of the node that the row is, if it is one."""
    word, bit = numbers.words[s] + (row >> 6), np.uint64(row & 63)
    return numbers.below[word] + _ones(numbers.bits[word] & ((np.uint64(1) << bit) - np.uint64(1)))


@njit(cache=True, nogil=True)
def number_nodes(numbers, stream, row, node):  # type: ignore[no-untyped-def]
    """Fill node (int64 (n,)) with the numbers of these nodes in their streams."""
    for i in range(row.size):
        node[i] = nodes_before(numbers, stream[i], row[i])
