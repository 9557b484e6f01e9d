"""Where machine code is kept: beside Numba's cache, under a digest of all that it depends on.

That is every source file of ours, the versions of Python, Numba and LLVM, the processor, and what Numba is
told by the environment. Whatever cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from corebraid.base.compiled.image import Image
from corebraid.base.import_closure import import_closure_digest

_FORMAT = b"1"
_ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("isa", "emu", "recorder", "solver", "corebraid")
_FOLDER = "NUMBA_CACHE_DIR"
#: What says nothing of how code is made.
_ELSEWHERE = (_FOLDER, "NUMBA_CACHE_LOCATOR_CLASSES", "NUMBA_NUM_THREADS")
_PROCESSOR_BYTES = 4096
#: Files of a package that change when it does.
_VERSIONS = ("_version", "version", "__init__")


class Stored:
    """Machine code of a kernel for some arguments. entry: the symbol that is called. environments: of Numba's
    that it asks for, by symbol, their constants, pickled; b'' for none."""

    def __init__(self, entry: str, environments: list[tuple[str, bytes]], image: Image) -> None:
        self.entry, self.environments, self.image = entry, environments, image


class Store:
    """A folder of machine code."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def name_of(self, function: Callable[..., Any]) -> str:
        """A kernel's name, by its function: with a digest, where the folder says nothing of its source."""
        name, file = f"{function.__module__}.{function.__qualname__}", function.__code__.co_filename
        if any(file.startswith(f"{_ROOT / package}{os.sep}") for package in _PACKAGES):
            return name
        return f"{name}-{import_closure_digest(Path(file))}"

    def _path(self, kernel: str, key: str) -> Path:
        digest = hashlib.blake2b(f"{kernel}\n{key}".encode(), digest_size=10).hexdigest()
        return self._folder / digest

    def load(self, kernel: str, key: str) -> Stored | None:
        """What was saved for a kernel, by its name, and arguments; None if there is nothing."""
        try:
            data = self._path(kernel, key).read_bytes()
            said, entry, environments, image = marshal.loads(data)
            if said != (kernel, key):
                return None
            return Stored(entry, environments, Image.loads(image))
        except (OSError, ValueError, EOFError, TypeError):
            return None

    def save(self, kernel: str, key: str, stored: Stored) -> None:
        """Keep it. Says nothing where that cannot be."""
        data = marshal.dumps(((kernel, key), stored.entry, stored.environments, stored.image.dumps()))
        with suppress(OSError):
            self._make_folder()
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                file.write(data)
            os.replace(file.name, self._path(kernel, key))

    def _make_folder(self) -> None:
        if self._folder.is_dir():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        same = self._folder.name.partition("-")[0]
        for other in self._folder.parent.glob(f"{same}-*"):
            if other != self._folder:
                shutil.rmtree(other, ignore_errors=True)


@cache
def store() -> Store | None:
    """That of this process, as it is when this is first asked; None where none can be kept."""
    folder = os.environ.get(_FOLDER)
    off = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" or Path(".numba_config.yaml").exists()
    if not folder or off or platform.machine() != "x86_64" or sys.platform != "linux":
        return None
    try:
        return Store(Path(folder) / "loaded" / f"{_surroundings()}-{_sources()}")
    except OSError:
        return None


def _surroundings() -> str:
    """Of what is not ours."""
    digest = hashlib.blake2b(_FORMAT, digest_size=8)
    digest.update(sys.version.encode())
    for package in ("numba", "llvmlite", "numpy", "unicorn"):
        spec = PathFinder.find_spec(package)
        places = list(spec.submodule_search_locations or ()) if spec else []
        for path in (Path(place, f"{name}.py") for place in places for name in _VERSIONS):
            if path.is_file():
                stat = path.stat()
                digest.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    for name in sorted(os.environ):
        if name.startswith("NUMBA_") and name not in _ELSEWHERE:
            digest.update(f"{name}={os.environ[name]}\n".encode())
    with open("/proc/cpuinfo", "rb") as file:
        lines = file.read(_PROCESSOR_BYTES).split(b"\n")
    for line in lines:
        if line.startswith((b"model name", b"flags")):
            digest.update(line)
        elif not line:
            break
    return digest.hexdigest()


def _sources() -> str:
    digest = hashlib.blake2b(digest_size=12)
    for package in _PACKAGES:
        for path in sorted(_modules(_ROOT / package)):
            with open(path, "rb") as file:
                source = file.read()
            digest.update(f"{path[len(str(_ROOT)) :]} {len(source)}\n".encode() + source)
    return digest.hexdigest()


def _modules(folder: os.PathLike[str] | str) -> list[str]:
    found: list[str] = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            found.append(entry.path)
        elif entry.is_dir() and entry.name != "__pycache__":
            found += _modules(entry)
    return found
