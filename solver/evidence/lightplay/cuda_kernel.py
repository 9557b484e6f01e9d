"""The CUDA kernel: a thread tries one interleaving after the other. Imported only where there is
numba.cuda."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from solver.evidence.lightplay.cuda_batch import MOST_CORES, MOST_PLACES, Packed
from solver.evidence.lightplay.emulate import emulate_one


def make_kernel(constant: Packed | None) -> Any:
    """The kernel. constant: slices that are constants in it; None if they are handed over."""
    emulate = cuda.jit(device=True)(emulate_one)

    def each(ptr, ranks, core_ptr, part_ptr, place, how, before, after, initial, final, counts, listed):  # type: ignore[no-untyped-def]
        at = cuda.local.array(MOST_CORES, np.int64)
        memory = cuda.local.array(MOST_PLACES, np.uint64)
        n = ranks.size - 1
        step = np.uint64(cuda.gridsize(1))
        number = np.uint64(cuda.grid(1))
        while number < ranks[n]:
            low, high = 0, n
            while high - low > 1:
                middle = (low + high) // 2
                if ranks[middle] <= number:
                    low = middle
                else:
                    high = middle
            rank = number - ranks[low]
            correct, _ = emulate(
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

    if constant is None:
        return cuda.jit(each)
    inner = cuda.jit(device=True)(each)
    a, b, c, d, e, f, g, h, i, j = constant.arrays()

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
