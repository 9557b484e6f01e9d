"""A kernel to its callers, and a C function over kernels: machine code from the store, or Numba's own."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from functools import cache, cached_property
from types import BuiltinFunctionType
from typing import Any

from corebraid.base.compiled.arguments import ArgumentKeys, UnknownArgument, key_text
from corebraid.base.compiled.begin import begin, symbols
from corebraid.base.compiled.deferred import real
from corebraid.base.compiled.image import Loaded
from corebraid.base.compiled.store import Stored, store
from corebraid.base.compiled.symbols import extension
from corebraid.base.errors import unless_short

_ENVIRONMENT = "_ZN08NumbaEnv"
_VARARGS_KEYWORDS = 3
#: What is raised where Numba keeps nothing, or something else than is known here.
_NOT_KEPT = (pickle.PicklingError, TypeError, AttributeError, ValueError, OSError)


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef (Python/C API, "Common Object Structures")."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Code:
    """Machine code in memory, and what it refers to. Raises KeyError, ImportError, OSError; what unpickling
    raises."""

    def __init__(self, stored: Stored) -> None:
        self._image = Loaded(stored.image, symbols())
        self._kept: list[Any] = []
        make = extension("numba._dynfunc").Environment
        for symbol, constants in stored.environments:
            environment = make({})
            if constants:
                environment.consts.extend(pickle.loads(constants))
            self._kept.append(environment)
            ctypes.c_void_p.from_address(self._image[symbol]).value = id(environment)
        self.address = self._image[stored.entry]

    def callable(self, name: str) -> Callable[..., Any]:
        """As a function of Python's: the entry is one that the interpreter calls."""
        definition = _MethodDefinition(name.encode(), self.address, _VARARGS_KEYWORDS, None)
        self._kept.append(definition)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        found: Callable[..., Any] = make(ctypes.addressof(definition), None, None)
        return found


def _load(function: Callable[..., Any], key: str) -> _Code | None:
    kept = store()
    found = kept and kept.load(kept.name_of(function), key)
    if not found:
        return None
    try:
        return _Code(found)
    except Exception as error:
        # Whatever is wrong with it, Numba makes it again, which takes more files and more memory.
        unless_short(error)
        return None


def _save(
    made: Any, function: Callable[..., Any], key: str, signature: Any, context: Any, entry: str
) -> None:
    """Keep what Numba has made of a function, and has in its own cache for a signature and a target context.
    made: what has that cache."""
    kept = store()
    if kept is None:
        return
    from numba.core.environment import lookup_environment

    from corebraid.base.compiled.object_file import image_of

    try:
        index = made._cache._index_key(signature, context.codegen())
        _, kind, (code, _) = made._cache._cache_file.load(index)[0]
        if kind != "object":
            return
        image = image_of(code, lambda symbol: symbol == entry or symbol.startswith(_ENVIRONMENT))
        found = {name: lookup_environment(name) for name in image.symbols if name != entry}
        environments = [
            (name, pickle.dumps(list(one.consts)) if one.consts else b"")
            for name, one in sorted(found.items())
            if one is not None
        ]
    except _NOT_KEPT:
        return
    kept.save(kept.name_of(function), key, Stored(entry, environments, image))


@cache
def _keys() -> ArgumentKeys:
    return ArgumentKeys()


class Kernel:
    """`numba.njit(**options)` of a function. What is asked of it beside calls is asked of Numba."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func, self._options = function, options
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__, self.__wrapped__ = function.__module__, function.__doc__, function
        self._calls: dict[tuple[Any, ...], Callable[..., Any]] = {}

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's, for calls from Python."""
        begin()
        from corebraid.base.compiled.linked import CalledDispatcher

        return CalledDispatcher.of(self.py_func, self._options)

    @cached_property
    def linked(self) -> Any:
        """Numba's, for calls from other kernels."""
        begin()
        from corebraid.base.compiled.linked import LinkedDispatcher

        return LinkedDispatcher.of(self.py_func, self._options)

    @property
    def _numba_type_(self) -> Any:
        return self.linked._numba_type_

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("dispatcher", "linked"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if named:
            return self.dispatcher(*arguments, **named)
        try:
            key = _keys().of(arguments)
        except UnknownArgument:
            return self.dispatcher(*arguments)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._find(key, arguments)
        return call(*arguments)

    def like(self, *arguments: Any) -> Callable[..., Any]:
        """What to call for arguments of the same types as these. Nobody looks at them again, which is most of
        a call where a kernel takes little time: with others it does anything. Raises UnknownArgument."""
        key = _keys().of(arguments)
        if key not in self._calls:
            self._calls[key] = self._find(key, arguments)
        call = self._calls[key]
        return call if isinstance(call, BuiltinFunctionType) else self

    def _find(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """What to call for arguments with this key."""
        found = self._loaded(key)
        if found is None:
            self._save(key, arguments)
            found = self.dispatcher
        return found

    def _can_be_kept(self, arguments: tuple[Any, ...]) -> bool:
        code = self.py_func.__code__
        return (
            bool(self._options.get("cache")) and len(arguments) == code.co_argcount and not code.co_freevars
        )

    def _loaded(self, key: tuple[Any, ...]) -> Callable[..., Any] | None:
        if len(key) != self.py_func.__code__.co_argcount:
            return None
        code = _load(self.py_func, key_text(key))
        if code is None:
            return None
        self.__dict__.setdefault("_kept", []).append(code)
        return code.callable(self.__name__)

    def _save(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        if not self._can_be_kept(arguments):
            return
        ours, types = self.dispatcher, tuple(map(self.dispatcher.typeof_pyval, arguments))
        ours.compile(types)
        if types in ours.overloads:
            entry = ours.overloads[types].fndesc.llvm_cpython_wrapper_name
            _save(ours, self.py_func, key_text(key), types, ours.targetctx, entry)


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit`, of a function, or a decorator."""
    if function is not None:
        return Kernel(function, {})
    return lambda function: Kernel(function, options)


class CFunction:
    """`numba.cfunc(signature, cache=True)` of a function, compiled, or loaded, when its address is asked for.
    signature: of `types`."""

    def __init__(self, signature: Any, function: Callable[..., Any]) -> None:
        self._signature, self._function = signature, function

    @cached_property
    def _made(self) -> Any:
        key = repr(self._signature)
        code = _load(self._function, key)
        if code is not None:
            return code
        begin()
        from numba import cfunc

        from corebraid.base.compiled.linked import set_environments

        made = cfunc(real(self._signature), cache=True)(self._function)
        set_environments(made._library)
        context = made._targetdescr.target_context
        _save(made, self._function, key, made._sig, context, made.native_name)
        return made

    @property
    def address(self) -> int:
        """Where C calls it."""
        return int(self._made.address)
