"""How a kernel is compiled that other kernels call in their loops, and that allocates nothing: `inner`.

Numba counts references to every array that such a function is handed, several times a call and atomically,
which costs more than most of them do. They only borrow their arrays, so they need none of it. One that
allocates does not compile so.

`inlined` is put into its callers besides. That is for small ones that are handed tuples of many arrays: each
array of a tuple is seven words, which a call copies.
"""

from __future__ import annotations

from corebraid.base.compiled import njit

inner = njit(cache=True, _nrt=False)
inlined = njit(cache=True, _nrt=False, forceinline=True)


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
