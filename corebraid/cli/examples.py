"""The guest programs that are installed with corebraid: what each is, and copies of them.

A firmware image has its name (`uts`), a Linux program one that begins with `linux/` (`linux/mutexes`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from corebraid.base.errors import UsageError, unless_short
from corebraid.cli.newfile import new_file
from isa.registry import isa_of_machine

_LINUX = "linux/"
#: The instruction set that they are built for, the first that there is.
_ISA = isa_of_machine(None).name
#: Linux programs that load this library from their own folder.
_WITH_LIBRARY = frozenset({"linux/dlopen_tls", "linux/runpath"})
_LIBRARY = "tls_module.so"
#: The twins without a bug, whose source is that of the bug: those that are not called as it is.
_TWIN_OF = {"good_counter": "bug_lost_update"}
_PROGRAM_MODE = 0o755


@dataclass(frozen=True)
class Example:
    """One guest program.

    cores: on how many it runs ('2-64': on one there is nothing to see). does: what it is. shows: what it is
    an example of; may be empty. prints: its last line, N cores; may be empty.
    """

    name: str
    cores: str
    does: str
    shows: str
    prints: str

    @property
    def is_linux(self) -> bool:
        """A Linux program, not a firmware image."""
        return self.name.startswith(_LINUX)

    @property
    def image(self) -> str:
        """Its path below the folder of guest programs."""
        short = self.name.removeprefix(_LINUX)
        return f"{_LINUX}{_ISA}/{short}" if self.is_linux else f"{_ISA}/{short}.elf"

    @property
    def source(self) -> str:
        """The path of its C source there; of a twin without the bug that of the bug."""
        short = self.name.removeprefix(_LINUX)
        short = _TWIN_OF.get(short, short.replace("good_", "bug_"))
        return f"linux/{short}.c" if self.is_linux else f"src/{short}.c"

    @property
    def files(self) -> list[str]:
        """All that is copied: paths there."""
        library = [f"{_LINUX}{_ISA}/{_LIBRARY}"] if self.name in _WITH_LIBRARY else []
        return [self.image, self.source, *library]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {**asdict(self), "files": [PurePosixPath(path).name for path in self.files]}


def folder() -> Traversable:
    """Where the guest programs are installed."""
    return files("firmware")


@cache
def examples() -> tuple[Example, ...]:
    """All of them, firmware first."""
    rows = json.loads((folder() / "examples.json").read_text(encoding="utf-8"))
    return tuple(Example(**row) for row in rows)


def find_example(name: str) -> Example:
    """The example of that name. Raises UsageError, which names those that are called nearly so."""
    by_name = {one.name: one for one in examples()}
    if name in by_name:
        return by_name[name]
    short = {one.name.removeprefix(_LINUX): one.name for one in reversed(examples())}
    plain = name.removesuffix(".elf").rsplit("/", 1)[-1]
    near = [short[one] for one in get_close_matches(plain, short, 3, 0.6)]
    hint = f"did you mean {' or '.join(near)}?" if near else "'corebraid example' lists them"
    raise UsageError("there is no such example", found=repr(name), remedy=hint)


def copy_examples(chosen: Sequence[Example], directory: Path) -> list[Path]:
    """Copy images and sources into `directory`, which is made; returns the copies, in that order.

    Nothing is written over, and nothing copied if anything would be. Raises UsageError.
    """
    wanted = list(dict.fromkeys(path for one in chosen for path in one.files))
    targets = [directory / PurePosixPath(path).name for path in wanted]
    for at, target in enumerate(targets):
        if target.exists() or target.is_symlink() or target in targets[:at]:
            raise UsageError(
                "there is already a file here"
                if target not in targets[:at]
                else "two examples have this file",
                where=str(target),
                remedy="choose another directory with -o; nothing was copied",
            )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        unless_short(error)
        raise UsageError(
            f"the directory cannot be made ({error.strerror})",
            where=str(directory),
            remedy="choose another -o",
        ) from None
    programs = {one.image for one in chosen}
    for path, target in zip(wanted, targets, strict=True):
        with new_file(target, "-o") as file:
            file.write(folder().joinpath(*path.split("/")).read_bytes())
        if path in programs:
            target.chmod(_PROGRAM_MODE)
    return targets
