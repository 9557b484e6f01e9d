"""Which machine code takes some arguments: what Numba's types of them depend on, without Numba.

Two lists of arguments with one key have the same types to Numba (`numba.typeof`); two keys may have one type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: What Numba takes for one type each.
_SCALARS = frozenset((int, float, bool, type(None), np.bool_, np.float32, np.float64)) | {
    getattr(np, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)
}


_LIMIT = 1 << 63
#: Of an array's flags, contiguous in C's or Fortran's order, aligned, writeable (NumPy, `ndarray.flags`).
_FLAGS = 0x1 | 0x2 | 0x100 | 0x400


class UnknownArgument(TypeError):
    """An argument of a kind that has no key."""


class ArgumentKeys:
    """Keys of arguments. A dtype is told by what it is, once, and by its identity from then on."""

    def __init__(self) -> None:
        self._dtypes: dict[int, tuple[Any, str]] = {}

    def of(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """A key within this process. Raises UnknownArgument."""
        key: list[Any] = []
        known, array = self._dtypes, np.ndarray
        for one in arguments:
            kind = type(one)
            if kind is array:
                dtype = one.dtype
                # Not by a call: kernels that take little time have many arrays.
                found = known.get(id(dtype))
                text = self._text(dtype) if found is None else found[1]
                key.append((text, one.ndim, one.flags.num & _FLAGS))
            elif kind in _SCALARS:
                # Larger ones are of another type to Numba.
                if kind is int and not -_LIMIT <= one < _LIMIT:
                    raise UnknownArgument("int")
                key.append(kind)
            elif isinstance(one, tuple):
                key.append((kind, self.of(one)))
            elif kind is np.void or kind is np.record:
                key.append((kind, self._text(one.dtype)))
            else:
                raise UnknownArgument(kind.__qualname__)
        return tuple(key)

    def _text(self, dtype: np.dtype[Any]) -> str:
        found = self._dtypes.get(id(dtype))
        if found is None:
            found = self._dtypes[id(dtype)] = (dtype, _dtype_text(dtype))
        return found[1]


def _dtype_text(dtype: np.dtype[Any]) -> str:
    if dtype.subdtype is not None:
        return f"{dtype.shape} of {_dtype_text(dtype.base)}"
    if dtype.fields is None:
        return dtype.str
    fields = ", ".join(f"{name} {place} {_dtype_text(of)}" for name, (of, place, *_) in dtype.fields.items())
    return f"[{fields}; {dtype.itemsize} {dtype.isalignedstruct} {dtype.type.__name__}]"


def key_text(key: tuple[Any, ...]) -> str:
    """The same key for all processes."""
    said = (
        key_text(one)
        if isinstance(one, tuple)
        else f"{one.__module__}.{one.__qualname__}"
        if isinstance(one, type)
        else repr(one)
        for one in key
    )
    return f"({', '.join(said)})"
