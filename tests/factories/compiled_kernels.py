"""Kernels of every kind of argument and result, for the tests of what is loaded without Numba.

`main` calls them and prints what they gave, and at last whether Numba was imported for that; given a
word, also in ways for which it is.
"""

from __future__ import annotations

import ctypes
import sys
from typing import NamedTuple

import numpy as np

from corebraid.base.compiled import CFunction, carray, njit, types
from corebraid.base.kernel_cache import use_kernel_cache

ROW = np.dtype([("a", "<u8"), ("b", "<u4")])


class Pair(NamedTuple):
    """Two numbers."""

    left: int
    right: float


@njit(cache=True)
def total(numbers):  # type: ignore[no-untyped-def]
    """The sum of an array."""
    found = numbers[0] - numbers[0]
    for number in numbers:
        found += number
    return found


@njit(cache=True)
def doubled(numbers, rows, row, pair, flag, nothing):  # type: ignore[no-untyped-def]
    """Results of several kinds: an array, a named tuple, a number, nothing."""
    rows[0].a += row.a
    rows[0].b = 7
    return numbers * 2, Pair(pair.left + 1, pair.right / 2), total(numbers), flag, nothing


@njit(cache=True, nogil=True)
def refused(number):  # type: ignore[no-untyped-def]
    """Raises ValueError of an odd number."""
    if number % 2:
        raise ValueError("odd", 3)
    return number


@njit(cache=True)
def halves(number):  # type: ignore[no-untyped-def]
    """Raises what a kernel raises that it calls."""
    return refused(number) // 2


@njit(cache=True)
def below(a, b=5):  # type: ignore[no-untyped-def]
    """Its second argument may be left out."""
    return a < b


def _add(address, n):  # type: ignore[no-untyped-def]
    return total(carray(address, n))


ADD = CFunction(types.int64(types.CPointer(types.int64), types.intp), _add)


def results(every_way: bool) -> list[str]:
    """What all of them gave."""
    rows = np.ones(2, ROW)
    found = [
        total(np.arange(5)),
        total(np.arange(10)[::2]),
        total(np.arange(4.0)),
        doubled(np.arange(3, dtype=np.uint8), rows, rows[1], Pair(3, 5.0), True, None),
        rows.tolist(),
        below(3, 2),
        refused(4),
        halves(4),
        total.like(np.zeros(2, np.uint16))(np.arange(40, 44, dtype=np.uint16)),
    ]
    numbers = np.arange(6)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(ADD.address)
    found.append(function(numbers.ctypes.data, 6))
    if every_way:
        found += [below(3), below(a=3, b=2)]
        try:
            refused(5)
        except ValueError as error:
            found.append(error.args)
        try:
            halves(3)
        except ValueError as error:
            found.append(error.args)
        like = refused.like(2)
        try:
            like(5)
        except ValueError as error:
            found.append((like is refused, error.args))
    return [repr(one) for one in found]


def main() -> None:
    """Print all that."""
    use_kernel_cache()
    print(*results(len(sys.argv) > 1), sep="\n")
    print("numba" in sys.modules)
