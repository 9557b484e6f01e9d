"""The CUDA kernels, one for each layout (`cuda_batch.py`): a thread tries one interleaving after the other.
Imported only where there is numba.cuda."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, types

from solver.evidence.lightplay.cuda_batch import REGISTERS, Packed, PackedNumbers, columns
from solver.evidence.lightplay.cuda_registers import emulate_numbered
from solver.evidence.lightplay.emulate import emulate_one

_emulate_numbered = cuda.jit(device=True)(emulate_numbered)
_emulate_one = cuda.jit(device=True)(emulate_one)
_columns = cuda.jit(device=True)(columns)


def _slice_of(number, ranks):  # type: ignore[no-untyped-def]
    """Which slice of a batch an interleaving belongs to."""
    low, high = 0, ranks.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if ranks[middle] <= number:
            low = middle
        else:
            high = middle
    return low


_find_slice = cuda.jit(device=True)(_slice_of)


def _in_registers(ranks, op_ptr, head, part_ptr, parts, counts, listed):  # type: ignore[no-untyped-def]
    step, number = np.uint64(cuda.gridsize(1)), np.uint64(cuda.grid(1))
    while number < ranks[ranks.size - 1]:
        low = _find_slice(number, ranks)
        rank = number - ranks[low]
        ways = ranks[low + 1] - ranks[low]
        if _emulate_numbered(rank, ways, low, op_ptr, head, part_ptr, parts):
            k = np.int64(cuda.atomic.add(counts, low, np.uint64(1)))
            if k < listed.shape[1]:
                listed[low, k] = rank
        number += step


def _in_shared(ptr, ranks, core_ptr, part_ptr, place, how, before, after, initial, final, counts, listed):  # type: ignore[no-untyped-def]
    # Both begin at byte 0 of what the launch asks for.
    positions, words = cuda.shared.array(0, types.int16), cuda.shared.array(0, types.uint64)
    at, memory = _columns(positions, words, cuda.threadIdx.x)
    step, number = np.uint64(cuda.gridsize(1)), np.uint64(cuda.grid(1))
    while number < ranks[ranks.size - 1]:
        low = _find_slice(number, ranks)
        rank = number - ranks[low]
        correct, _ = _emulate_one(
            rank,
            ranks[low + 1] - ranks[low],
            core_ptr[ptr[0, low] : ptr[0, low + 1]],
            part_ptr[ptr[1, low] : ptr[1, low + 1]],
            place[ptr[2, low] : ptr[2, low + 1]],
            how[ptr[2, low] : ptr[2, low + 1]],
            before[ptr[2, low] : ptr[2, low + 1]],
            after[ptr[2, low] : ptr[2, low + 1]],
            initial[ptr[3, low] : ptr[3, low + 1]],
            final[ptr[3, low] : ptr[3, low + 1]],
            at,
            memory,
        )
        if correct:
            k = np.int64(cuda.atomic.add(counts, low, np.uint64(1)))
            if k < listed.shape[1]:
                listed[low, k] = rank
        number += step


REGISTERS_KERNEL = cuda.jit(_in_registers)
SHARED_KERNEL = cuda.jit(_in_shared)


def kernel_of(layout: str) -> Any:
    """The kernel for a layout, which takes a batch's arrays, counts and listed ranks."""
    return REGISTERS_KERNEL if layout == REGISTERS else SHARED_KERNEL


def kernel_with(batch: Packed | PackedNumbers) -> Any:
    """A kernel in which a batch is constant: it takes counts and listed ranks."""
    if isinstance(batch, PackedNumbers):
        return _registers_with(batch)
    return _shared_with(batch)


def _registers_with(batch: PackedNumbers) -> Any:
    inner = cuda.jit(device=True)(_in_registers)
    a, b, c, d, e = batch.arrays()

    def with_constants(counts, listed):  # type: ignore[no-untyped-def]
        like = cuda.const.array_like
        inner(like(a), like(b), like(c), like(d), like(e), counts, listed)

    return cuda.jit(with_constants)


def _shared_with(batch: Packed) -> Any:
    inner = cuda.jit(device=True)(_in_shared)
    a, b, c, d, e, f, g, h, i, j = batch.arrays()

    def with_constants(counts, listed):  # type: ignore[no-untyped-def]
        like = cuda.const.array_like
        inner(
            like(a),
            like(b),
            like(c),
            like(d),
            like(e),
            like(f),
            like(g),
            like(h),
            like(i),
            like(j),
            counts,
            listed,
        )

    return cuda.jit(with_constants)
