"""The shared libraries that a program needs, found on the host as the dynamic linker will find them. Source:
ld.so(8)."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from corebraid.base.errors import ImageError
from emu.linux.program import Program, parse_program
from isa.table import Isa

_CONFIGURATION = "/etc/ld.so.conf"
_CACHE = "/etc/ld.so.cache"


@dataclass(frozen=True)
class Missing:
    """A library that is nowhere. looked: directories, in order."""

    name: str
    needed_by: str
    looked: tuple[str, ...]


def configured_directories(path: str = _CONFIGURATION, depth: int = 0) -> list[str]:
    """Directories that ld.so.conf names, files that it includes included."""
    found = []
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        words = line.split("#")[0].split()
        if len(words) == 2 and words[0] == "include" and depth < 4:
            for name in sorted(glob.glob(os.path.join(os.path.dirname(path), words[1]))):
                found += configured_directories(name, depth + 1)
        elif len(words) == 1 and words[0].startswith("/"):
            found.append(words[0])
    return found


def find_libraries(
    path: Path, isa: Isa, environment: Iterable[str], last: Iterable[str]
) -> tuple[list[Path], list[Missing]]:
    """(libraries in the order in which they are found, those that are missing).

    path: the program. environment: directories of LD_LIBRARY_PATH, on the host. last: where the dynamic
    linker looks at the end.
    """
    common = [*configured_directories(), *last]
    cached = _cached_names()
    found: dict[str, Path] = {}
    missing: list[Missing] = []
    todo = [path]
    while todo:
        user = todo.pop(0)
        program = _parsed(user, isa)
        if program is None:
            continue
        own = [_expanded(part, user) for part in program.library_path]
        for name in program.needed:
            if name in found:
                continue
            looked = tuple(dict.fromkeys([*own, *environment, *common]))
            place = _look(name, looked)
            if place is not None:
                found[name] = place
                todo.append(place)
            elif name.encode() not in cached:
                missing.append(Missing(name, str(user), looked))
    return list(found.values()), missing


def _parsed(path: Path, isa: Isa) -> Program | None:
    try:
        return parse_program(path.read_bytes(), str(path), isa)
    except (OSError, ImageError):
        return None


def _expanded(directory: str, user: Path) -> str:
    origin = str(user.resolve().parent)
    return directory.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)


def _look(name: str, directories: Iterable[str]) -> Path | None:
    if "/" in name:
        return Path(name) if Path(name).is_file() else None
    for directory in directories:
        place = Path(directory) / name
        if place.is_file():
            return place
    return None


def _cached_names() -> frozenset[bytes]:
    """Names in ld.so.cache: all strings of the file, which is enough to see whether one is there."""
    try:
        return frozenset(Path(_CACHE).read_bytes().split(b"\0"))
    except OSError:
        return frozenset()
