"""What kernels are written with, of Numba, before Numba is imported.

Numba asks a global that it does not know for `_numba_type_`; that is where ours become what they stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any


class Deferred:
    """Something of Numba's, made when it is asked for. text: the same for two that are the same."""

    def __init__(self, text: str, make: Callable[[], Any]) -> None:
        self.text, self._make = text, make

    @cached_property
    def real(self) -> Any:
        """What it stands for."""
        return self._make()

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target

        context, value = cpu_target.typing_context, self.real
        try:
            return context.resolve_value_type(value)
        except ValueError:
            # Made since it looked last.
            context.refresh()
            return context.resolve_value_type(value)

    def __call__(self, *arguments: Any) -> Any:
        return self.real(*arguments)


class Type(Deferred):
    """A type of Numba's, or what makes one, by its name; with arguments, what that makes of them: of a type
    a signature."""

    def __init__(self, text: str, make: Callable[[], Any], args: tuple[Any, ...] = ()) -> None:
        super().__init__(text, make)
        self.args = args

    def __call__(self, *arguments: Any) -> Type:
        said = ", ".join(one.text if isinstance(one, Deferred) else repr(one) for one in arguments)
        return Type(f"{self.text}({said})", lambda: self.real(*map(real, arguments)), arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


class _Types:
    def __getattr__(self, name: str) -> Type:
        if name.startswith("_"):
            raise AttributeError(name)
        return Type(name, lambda: _numba_types(name))


class _Module:
    """A module, imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def _numba_types(name: str) -> Any:
    from numba import types as found

    return getattr(found, name)


def _numba(name: str) -> Any:
    import numba

    return getattr(numba, name)


def real(value: Any) -> Any:
    """What a value stands for, in Numba; itself, if it is nobody's."""
    return value.real if isinstance(value, Deferred) else value


def intrinsic(function: Callable[..., Any]) -> Deferred:
    """`numba.extending.intrinsic`. The signature that the function gives may be one of `types`."""

    def make() -> Any:
        from functools import wraps

        from numba.extending import intrinsic as made

        @wraps(function)
        def typed(*arguments: Any) -> Any:
            found = function(*arguments)
            return found and (real(found[0]), *found[1:])

        return made(typed)

    return Deferred(function.__qualname__, make)


#: `llvmlite.ir`.
ir: Any = _Module("llvmlite.ir")
#: `numba.types`: each of its names, to be called or not.
types: Any = _Types()
#: `numba.carray` and `numba.from_dtype`.
carray: Any = Deferred("carray", lambda: _numba("carray"))
from_dtype: Any = Deferred("from_dtype", lambda: _numba("from_dtype"))
