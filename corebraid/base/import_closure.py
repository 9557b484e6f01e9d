"""What a module is made from: its own file, and those of our packages that it imports, directly or not."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from corebraid.base.errors import unless_short

_PACKAGES = ("isa", "emu", "recorder", "solver", "corebraid", "bench", "tests")
_MODULE = rf"(?:{'|'.join(_PACKAGES)})(?:\.\w+)*"
#: `from a.b import c, d as e`, in parentheses or not, and `import a.b as c`.
_FROM = re.compile(rf"^[ \t]*from[ \t]+({_MODULE})[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)", re.MULTILINE)
_IMPORT = re.compile(rf"^[ \t]*import[ \t]+({_MODULE})", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def _source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        # Kernels of other sources would be taken for its kernels.
        unless_short(error)
        return b""


@functools.cache
def _imported(path: Path) -> tuple[Path, ...]:
    source = _source(path).decode("utf-8", "replace")
    found = {file for module in _IMPORT.findall(source) for file in _files(module, ())}
    for module, names in _FROM.findall(source):
        said = _COMMENT.sub("", names).strip("()").split(",")
        found.update(_files(module, [name.split()[0] for name in said if name.strip()]))
    return tuple(sorted(found))


def _files(module: str, names: Iterable[str]) -> list[Path]:
    """The files that `from module import names` runs: a name may be a module of a package."""
    folder = _ROOT / module.replace(".", "/")
    file = folder.with_suffix(".py")
    if file.is_file():
        return [file]
    found = [folder / "__init__.py", *(folder / f"{name}.py" for name in names)]
    return [file for file in found if file.is_file()]


@functools.cache
def import_closure_digest(path: Path) -> str:
    """Digest of a source file and of all files of our packages that it imports, directly or not."""
    found, todo = {path}, [path]
    while todo:
        fresh = [other for other in _imported(todo.pop()) if other not in found]
        found.update(fresh)
        todo.extend(fresh)
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(found):
        source = _source(file)
        digest.update(f"{file.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()
