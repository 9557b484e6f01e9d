"""Arguments with one key have one type to Numba."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from compiled_kernels import Pair
from numba import typeof

from corebraid.base.compiled.arguments import ArgumentKeys, UnknownArgument, key_text


class Couple(NamedTuple):
    """As `Pair`, and not it."""

    left: int
    right: float


_DTYPES: list[Any] = [
    np.int8, np.uint8, np.uint64, np.int64, np.float32, np.float64, np.bool_,
    [("a", "<u8"), ("b", "<u4")], [("a", "<u4"), ("b", "<u8")], [("a", "<u8"), ("c", "<u4")],
    np.dtype([("a", "<u8"), ("b", "<u4")], align=True),
    {"names": ["a", "b"], "formats": ["<u4", "<u4"], "offsets": [0, 4]},
    {"names": ["a", "b"], "formats": ["<u4", "<u4"], "offsets": [0, 6]},
    [("a", "<u8", (2,)), ("b", "<u4")],
]  # fmt: skip


def arrays() -> Iterator[np.ndarray[Any, Any]]:
    """Arrays that differ in what Numba sees, and in what it does not."""
    for dtype, shape in product(_DTYPES, [(4,), (2, 3), (3, 2), (1, 1), (0, 2)]):
        for order in ("C", "F"):
            array = np.zeros(shape, dtype, order=order)  # type: ignore[call-overload]
            yield array
            yield array[..., ::2]
            yield array[:1]
            fixed = array.copy(order=order)
            fixed.flags.writeable = False
            yield fixed
    odd = np.zeros(33, np.uint8)[1:].view(np.uint64)
    yield odd
    yield np.zeros(3, np.dtype(_DTYPES[7])).view(np.recarray).view(np.ndarray)


def values() -> list[Any]:
    """Arguments of every kind that has a key."""
    found: list[Any] = [1, 2, -1, 2**63 - 1, -(2**63), True, False, 1.5, None, np.bool_(True)]
    found += [getattr(np, f"{kind}{bits}")(1) for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    found += [np.float32(1), np.float64(1), Pair(1, 2.0), Couple(1, 2.0), Pair(True, 2), (1, 2.0), (1, 2), ()]
    many = list(arrays())
    found += many
    found += [(array, 1) for array in many[::7]] + [Pair(array, 1) for array in many[::11]]  # type: ignore[arg-type]
    found += [array[0] for array in many if array.dtype.names and array.shape == (4,)]
    return found


def test_one_key_one_type() -> None:
    keys, types = ArgumentKeys(), dict[str, Any]()
    for value in values():
        text = key_text(keys.of((value,)))
        assert types.setdefault(text, typeof(value)) == typeof(value), text
    assert len(types) > 150


def test_keys_tell_types_apart_that_numba_does() -> None:
    """There are not many more keys than types: a kernel is loaded again for each."""
    keys = ArgumentKeys()
    texts = {key_text(keys.of((value,))) for value in values()}
    assert len(texts) < 1.5 * len({typeof(value) for value in values()})


_WITHOUT = [2**63, (2**64 - 1,), [1], "text", {1: 2}, np.datetime64(1, "s"), object(), (1, [2])]


@pytest.mark.parametrize("value", _WITHOUT)
def test_others_have_none(value: object) -> None:
    with pytest.raises(UnknownArgument):
        ArgumentKeys().of((value,))
