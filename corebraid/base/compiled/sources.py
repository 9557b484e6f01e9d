"""A digest of all our sources, on which machine code depends.

Reading 800 files takes a tenth of the time to begin. So the digest is kept, with what the system says of the
files: sizes, times, places. A file that is changed in any way has another time of change (st_ctime, stat(3)),
which nobody can set.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from corebraid.base.compiled.whole_file import write_whole

_NAME, _DIGEST_BYTES = "sources", 12
_KNOWN_BYTES = 2 * 2 * _DIGEST_BYTES + 1


def sources_digest(root: Path, packages: Iterable[str], kept: Path | None) -> str:
    """Hexadecimal. Of the modules in these folders below `root`. kept: a folder where it may be kept, which
    need not be there. Raises OSError."""
    found = sorted(_modules(root, packages))
    seen = hashlib.blake2b(repr(found).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    known = _known(kept / _NAME) if kept is not None else ()
    if len(known) == 2 and known[0] == seen:
        return known[1]
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for path, *_ in found:
        with open(path, "rb") as file:
            source = file.read()
        digest.update(f"{path[len(str(root)) :]} {len(source)}\n".encode() + source)
    # Sources that were edited meanwhile are told apart the next time.
    if kept is not None:
        _keep(kept, f"{seen} {digest.hexdigest()}")
    return digest.hexdigest()


def _known(path: Path) -> tuple[str, ...]:
    try:
        with open(path, "rb") as file:
            return tuple(file.read(_KNOWN_BYTES).decode("ascii").split())
    except (OSError, ValueError):
        return ()


def _keep(folder: Path, text: str) -> None:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _NAME, text.encode())


def _modules(root: Path, packages: Iterable[str]) -> Iterator[tuple[str, int, int, int, int, int]]:
    """Path, bytes, times of both kinds of change, and where each file lies."""
    folders = [str(root / package) for package in packages]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    of = entry.stat()
                    yield entry.path, of.st_size, of.st_mtime_ns, of.st_ctime_ns, of.st_ino, of.st_dev
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
