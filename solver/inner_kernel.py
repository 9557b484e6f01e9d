"""Kernels on short rows and masks that other kernels call in their loops (isa/inner_kernel.py)."""

from __future__ import annotations

from isa.inner_kernel import inlined, inner

__all__ = ["copy_row", "first_from", "inlined", "inner", "or_row"]


@inner
def copy_row(source, target):  # type: ignore[no-untyped-def]
    """target[:] = source, which would allocate."""
    for i in range(source.size):
        target[i] = source[i]


@inner
def or_row(source, target):  # type: ignore[no-untyped-def]
    """target |= source, which would allocate."""
    for i in range(source.size):
        target[i] |= source[i]


@inner
def first_from(ascending, low, high, least):  # type: ignore[no-untyped-def]
    """The first index from low to high at which `ascending` is at least `least`, else high."""
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low
