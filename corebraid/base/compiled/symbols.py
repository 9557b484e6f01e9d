"""Where that is which machine code of Numba's calls: the interpreter, the C library, libraries that kernels
name, and Numba's own helpers, whose extension modules are loaded without Numba.
"""

from __future__ import annotations

import ctypes
import importlib
import pickle
import sys
from functools import cached_property
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def extension(name: str) -> ModuleType:
    """An extension module of Numba. Its package is not imported for it; where it is imported later, it finds
    this one. Raises ImportError."""
    if name in sys.modules or "numba" in sys.modules:
        return importlib.import_module(name)
    package, *folders, stem = name.split(".")
    spec = PathFinder.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    for suffix in EXTENSION_SUFFIXES:
        for place in places:
            path = Path(place, *folders, stem + suffix)
            if path.is_file():
                found = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
                assert found is not None
                assert found.loader is not None
                module = module_from_spec(found)
                found.loader.exec_module(module)
                sys.modules[name] = module
                return module
    raise ImportError(name)


#: numba_unpickle(data, bytes, digest), of Numba's _helperlib.c, which imports Numba.
_UNPICKLE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class Symbols:
    """Addresses by name. Kernels call functions of the libraries that are added."""

    def __init__(self) -> None:
        self._unpickled: dict[int, object] = {}
        self._unpickle = _UNPICKLE(self._object_at)
        self._libraries: list[ctypes.CDLL] = []
        self._found: dict[str, int] = {}

    def add(self, library: ctypes.CDLL) -> None:
        """Look there too."""
        self._libraries.append(library)

    @property
    def libraries(self) -> list[str]:
        """Paths of those that were added."""
        return [library._name for library in self._libraries]

    @cached_property
    def _helpers(self) -> dict[str, int]:
        runtime = extension("numba.core.runtime._nrt_python").c_helpers
        found = {name if name[0] == "_" else f"NRT_{name}": address for name, address in runtime.items()}
        for module in ("numba._helperlib", "numba._dynfunc"):
            helpers = extension(module).c_helpers
            found |= {f"numba_{name}": address for name, address in helpers.items()}
        unpickle = ctypes.cast(self._unpickle, ctypes.c_void_p).value
        assert unpickle is not None
        return {**found, "numba_unpickle": unpickle}

    def _object_at(self, data: int, size: int, _: int) -> object:
        """What is pickled there, in code that stays: classes of results, and exceptions."""
        if data not in self._unpickled:
            self._unpickled[data] = pickle.loads(ctypes.string_at(data, size))
        return self._unpickled[data]

    def __call__(self, name: str) -> int:
        """Raises KeyError, ImportError."""
        found = self._found.get(name)
        if found is None:
            self._found[name] = found = self._look(name)
        return found

    def _look(self, name: str) -> int:
        if name in self._helpers:
            return self._helpers[name]
        for library in (ctypes.pythonapi, *self._libraries):
            try:
                return ctypes.addressof(ctypes.c_char.in_dll(library, name))
            except ValueError:
                continue
        raise KeyError(name)
