"""Kernels on rows of masks that other kernels call in their loops (isa/inner_kernel.py)."""

from __future__ import annotations

from isa.inner_kernel import inlined, inner

__all__ = ["copy_row", "inlined", "inner", "or_row"]


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
