"""When a cached kernel is still good: while no file that it could have been compiled from has changed.

A kernel is compiled from its own module and from those that it imports, directly or not. Numba asks a
locator (NUMBA_CACHE_LOCATOR_CLASSES) where a kernel's files are; ours names them by a digest of all of those.
"""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator

from corebraid.base.errors import unless_short
from corebraid.base.import_closure import import_closure_digest


@functools.cache
def _digest_of(py_file: str) -> str:
    return import_closure_digest(Path(os.path.abspath(py_file)))


@functools.cache
def _kernels_in(folder: Path) -> dict[str, list[str]]:
    """Names of the files of kernels that lie in a folder, by module."""
    found: dict[str, list[str]] = {}
    for name in os.listdir(folder):
        if name.endswith((".nbi", ".nbc")):
            found.setdefault(name.partition(".")[0], []).append(name)
    return found


@functools.cache
def _forget_others(folder: Path, module: str, digest: str) -> None:
    """Remove what is cached of a module under another digest: nobody will ask for it again."""
    for name in _kernels_in(folder).get(module, []):
        if digest not in name:
            (folder / name).unlink(missing_ok=True)


@functools.cache
def _make_folder(folder: Path) -> None:
    """Make a folder for kernels, once for all. Raises OSError where nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        # Of any OSError Numba says that there is no such folder.
        unless_short(error)
        raise


class ImportClosureLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Kernels in NUMBA_CACHE_DIR, under names with the digest of everything they are compiled from.

    A stamp inside the files would not do: Numba reads it together with types, whose classes may have moved.
    """

    @property
    def _digest(self) -> str:
        return _digest_of(self._py_file)

    def get_source_stamp(self) -> str:
        """The stamp that a cached kernel must bear to be used."""
        return self._digest

    def get_disambiguator(self) -> str:
        """What tells kernels of the same name apart, and of other sources."""
        return f"{super().get_disambiguator()}-{self._digest}"

    def ensure_cache_path(self) -> None:
        """Make the folder, and room in it."""
        folder = Path(self.get_cache_path())
        _make_folder(folder)
        _forget_others(folder, Path(self._py_file).stem, self._digest)
