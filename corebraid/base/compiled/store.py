"""Where machine code is kept: in the user's cache, under a digest of all that it depends on.

That is every source file of ours, the versions of Python, Numba and LLVM, the processor, and what Numba is
told by the environment; not where any of it lies, so that all installations share what one has made. A wheel
may bring code for any processor (`release/wheel.py`), which is used where the user has none of his own.
Whatever cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import marshal
import os
import platform
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from corebraid.base.compiled.image import Image
from corebraid.base.compiled.sources import sources_digest
from corebraid.base.compiled.whole_file import write_whole
from corebraid.base.errors import unless_short
from corebraid.base.import_closure import import_closure_digest
from corebraid.base.kernel_cache import code_folder

_FORMAT = b"2"
_ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("isa", "emu", "recorder", "solver", "corebraid")
_FOLDER = "NUMBA_CACHE_DIR"
#: What says nothing of how code is made.
_ELSEWHERE = (_FOLDER, "NUMBA_CACHE_LOCATOR_CLASSES", "NUMBA_NUM_THREADS")
_PROCESSOR_BYTES = 4096
#: What is asked of Numba for code that any processor runs; its name; where a wheel has it.
ANY_PROCESSOR = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
_ANY = b"any"
BUILT = Path(__file__).resolve().parent / "built"
#: Folders of the user's that are kept, of other sources on the same processor.
_OTHERS_KEPT = 7
#: Files of a package that change when it does.
_VERSIONS = ("_version", "version", "__init__")


class Stored:
    """Machine code of a kernel for some arguments. entry: the symbol that is called. environments: of Numba's
    that it asks for, by symbol, their constants, pickled; b'' for none."""

    def __init__(self, entry: str, environments: list[tuple[str, bytes]], image: Image) -> None:
        self.entry, self.environments, self.image = entry, environments, image


class Store:
    """A folder of machine code, None where nothing can be kept. built: another one, which is only read."""

    def __init__(self, folder: Path | None, built: Path) -> None:
        self._folder, self._built = folder, built

    def name_of(self, function: Callable[..., Any]) -> str:
        """A kernel's name, by its function: with a digest, where the folder says nothing of its source."""
        name, file = f"{function.__module__}.{function.__qualname__}", function.__code__.co_filename
        if any(file.startswith(f"{_ROOT / package}{os.sep}") for package in _PACKAGES):
            return name
        return f"{name}-{import_closure_digest(Path(file))}"

    @staticmethod
    def _file(kernel: str, key: str) -> str:
        return hashlib.blake2b(f"{kernel}\n{key}".encode(), digest_size=10).hexdigest()

    def load(self, kernel: str, key: str) -> Stored | None:
        """What was saved for a kernel, by its name, and arguments; None if there is nothing."""
        file = self._file(kernel, key)
        mine = None if self._folder is None else _read(self._folder / file, kernel, key)
        return mine or _read(self._built / file, kernel, key)

    def save(self, kernel: str, key: str, stored: Stored) -> None:
        """Keep it. Says nothing where that cannot be."""
        if self._folder is None:
            return
        data = marshal.dumps(((kernel, key), stored.entry, stored.environments, stored.image.dumps()))
        with suppress(OSError):
            _make(self._folder)
            write_whole(self._folder / self._file(kernel, key), data)


def _make(folder: Path) -> None:
    """A folder, and no more than some of other sources beside it."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    same = folder.name.partition("-")[0]
    others = {path: _age(path) for path in folder.parent.glob(f"{same}-*") if path != folder}
    for path in sorted(others, key=others.__getitem__)[_OTHERS_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> float:
    """The greater the longer ago something was kept there."""
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0


def _read(path: Path, kernel: str, key: str) -> Stored | None:
    try:
        said, entry, environments, image = marshal.loads(path.read_bytes())
        if said != (kernel, key):
            return None
        return Stored(entry, environments, Image.loads(image))
    except (OSError, ValueError, EOFError, TypeError) as error:
        unless_short(error)
        return None


@cache
def store() -> Store | None:
    """That of this process, as it is when this is first asked; None where none can be kept."""
    folder = os.environ.get(_FOLDER)
    off = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" or Path(".numba_config.yaml").exists()
    if off or platform.machine() != "x86_64" or sys.platform != "linux":
        return None
    try:
        sources = sources_digest(_ROOT, _PACKAGES, Path(folder) if folder else None)
        mine, built = (f"{_surroundings(which)}-{sources}" for which in (_processor(), _ANY))
        return Store(code_folder(Path(folder)) / mine if folder else None, BUILT / built)
    except OSError as error:
        unless_short(error)
        return None


def built_name() -> str:
    """The folder in `BUILT` of code that this process, with these sources, may run on any processor."""
    return f"{_surroundings(_ANY)}-{sources_digest(_ROOT, _PACKAGES, None)}"


def _surroundings(processor: bytes) -> str:
    """Of what is not ours."""
    digest = hashlib.blake2b(_FORMAT, digest_size=8)
    python = f"{sys.implementation.cache_tag} {importlib.machinery.EXTENSION_SUFFIXES[0]}"
    digest.update(f"{python}\n".encode() + processor)
    for package in ("numba", "llvmlite", "numpy", "unicorn"):
        spec = importlib.machinery.PathFinder.find_spec(package)
        places = list(spec.submodule_search_locations or ()) if spec else []
        for path in (Path(place, f"{name}.py") for place in places for name in _VERSIONS):
            if path.is_file():
                digest.update(f"{package} {path.name}\n".encode() + path.read_bytes())
    for name in sorted(os.environ):
        asked = name.startswith("NUMBA_") and name not in _ELSEWHERE
        if asked and not (processor == _ANY and name in ANY_PROCESSOR):
            digest.update(f"{name}={os.environ[name]}\n".encode())
    return digest.hexdigest()


def _processor() -> bytes:
    """This one's name and what it has."""
    found = b""
    with open("/proc/cpuinfo", "rb") as file:
        lines = file.read(_PROCESSOR_BYTES).split(b"\n")
    for line in lines:
        if line.startswith((b"model name", b"flags")):
            found += line
        elif not line:
            break
    return found
