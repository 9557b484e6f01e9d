"""Objects of Python, as they were at one moment: whatever can be reached from some of them.

Containers, attributes, cells of closures, arrays and random numbers are kept with what they held, not what
that held in turn: the others are kept by themselves. What no rule here knows is an error, so that nothing is
forgotten in silence.
"""

from __future__ import annotations

import collections
import enum
import functools
import mmap
import pathlib
import random
import re
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from emu.snapshot.failure import UnsavableError

#: What never changes, or is no state of the guest's: code, and what is computed once from nothing but its
#: arguments.
_FIXED_TYPES: tuple[type, ...] = (
    int, float, complex, str, bytes, bool, range, slice, type, enum.Enum, np.dtype, np.generic,
    types.NoneType, types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.EllipsisType,
    types.GenericAlias, types.WrapperDescriptorType, types.MethodWrapperType, types.MethodDescriptorType,
    types.MappingProxyType, types.GetSetDescriptorType, types.MemberDescriptorType, property, re.Pattern,
    pathlib.PurePath, functools._lru_cache_wrapper,
)  # fmt: skip
#: Bytes of an array that is copied; larger ones must be of `corebraid.base.host_memory`.
_MOST_BYTES = 1 << 24
_MISSING = object()

#: Puts one object back.
_Restore = Callable[[], None]


class SavedObjects:
    """What can be reached from `roots` as it is now. apart: types of objects that are kept elsewhere, or are
    no part of it. Raises UnsavableError."""

    def __init__(self, roots: Iterable[object], apart: tuple[type, ...]) -> None:
        self._apart = apart
        #: Mappings that were met: they are kept elsewhere (`emu.snapshot.arenas`).
        self.mappings: list[mmap.mmap] = []
        self._restores: list[_Restore] = []
        #: Most of it, and the same for attributes.
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        #: Also keeps them: an id is one object's as long as that lives.
        self._met: dict[int, object] = {}
        waiting: list[object] = list(roots)
        while waiting:
            one = waiting.pop()
            if id(one) not in self._met and not isinstance(one, (*_FIXED_TYPES, *apart)):
                self._met[id(one)] = one
                waiting += self._save(one)

    def restore(self) -> None:
        """Every object holds what it held."""
        for inside, kept in self._dicts:
            inside.clear()
            inside.update(kept)
        for restore in self._restores:
            restore()

    def _save(self, one: Any) -> Iterable[object]:
        """Keep an object. Returns what it holds."""
        if isinstance(one, np.ndarray):
            return self._save_array(one)
        if isinstance(one, mmap.mmap):
            self.mappings.append(one)
            return ()
        if isinstance(one, dict):
            self._dicts.append((one, dict(one)))
            saved: _Saved | None = [], [*one.keys(), *one.values()]
        else:
            save = next((save for kind, save in _SAVES.items() if isinstance(one, kind)), None)
            saved = None if save is None else save(one)
        attributes = self._save_attributes(one)
        if saved is None and attributes is None:
            raise UnsavableError(f"an object of type {type(one).__module__}.{type(one).__qualname__}")
        restores, held = saved or ([], ())
        self._restores += restores
        return [*held, *(attributes or ())]

    def _save_attributes(self, one: Any) -> list[object] | None:
        """What an object has in attributes; None if it has no place for any."""
        if isinstance(one, types.FunctionType):
            # State is in its cells.
            return []
        inside, slots = getattr(one, "__dict__", None), list(_slots(type(one)))
        if not slots and not isinstance(inside, dict):
            return None
        parameters = getattr(type(one), "__dataclass_params__", None)
        changes = parameters is None or not parameters.frozen
        held = list[object]()
        if isinstance(inside, dict):
            held += inside.values()
            if changes:
                self._dicts.append((inside, dict(inside)))
        for name in slots:
            value = getattr(one, name, _MISSING)
            if value is not _MISSING:
                held.append(value)
            if changes:
                self._restores.append(_of_slot(one, name, value))
        return held

    def _save_array(self, one: np.ndarray) -> Iterable[object]:
        if one.base is not None:
            return (one.base,)
        if one.dtype.hasobject or one.nbytes > _MOST_BYTES:
            raise UnsavableError(f"an array of {one.nbytes:,} bytes")
        kept = one.copy()

        def restore() -> None:
            one[...] = kept

        self._restores.append(restore)
        return ()


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else tuple(names):
            if name not in ("__dict__", "__weakref__"):
                private = name.startswith("__") and not name.endswith("__")
                yield f"_{base.__name__.lstrip('_')}{name}" if private else name


def _of_slot(one: object, name: str, value: object) -> _Restore:
    def restore() -> None:
        if getattr(one, name, _MISSING) is value:
            return
        if value is _MISSING:
            object.__delattr__(one, name)
        else:
            object.__setattr__(one, name, value)

    return restore


_Saved = tuple[list[_Restore], Iterable[object]]


def _save_list(one: list[Any] | bytearray) -> _Saved:
    kept = one[:]

    def restore() -> None:
        one[:] = kept

    return [restore], kept if isinstance(one, list) else ()


def _save_set(one: set[Any]) -> _Saved:
    kept = one.copy()

    def restore() -> None:
        one.clear()
        one.update(kept)

    return [restore], kept


def _save_deque(one: collections.deque[Any]) -> _Saved:
    kept = tuple(one)

    def restore() -> None:
        one.clear()
        one.extend(kept)

    return [restore], kept


def _save_cell(one: types.CellType) -> _Saved:
    try:
        kept = one.cell_contents
    except ValueError:
        # Nothing yet.
        return [lambda: _empty(one)], ()

    def restore() -> None:
        one.cell_contents = kept

    return [restore], (kept,)


def _empty(one: types.CellType) -> None:
    try:
        del one.cell_contents
    except ValueError:
        return


def _save_random(one: random.Random) -> _Saved:
    state = one.getstate()
    return [lambda: one.setstate(state)], ()


def _save_function(one: types.FunctionType) -> _Saved:
    return [], [*(one.__closure__ or ()), *(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values()]


def _save_partial(one: functools.partial[Any]) -> _Saved:
    return [], [one.func, one.args, one.keywords]


#: By kind: what keeps an object, apart from its attributes.
_SAVES: dict[type, Callable[[Any], _Saved]] = {
    list: _save_list,
    bytearray: _save_list,
    set: _save_set,
    collections.deque: _save_deque,
    tuple: lambda one: ([], one),
    frozenset: lambda one: ([], one),
    types.CellType: _save_cell,
    random.Random: _save_random,
    types.FunctionType: _save_function,
    types.MethodType: lambda one: ([], [one.__self__, one.__func__]),
    functools.partial: _save_partial,
    memoryview: lambda one: ([], [one.obj]),
}
