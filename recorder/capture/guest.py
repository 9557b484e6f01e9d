"""The guest that is asked for: its program by name; of a Linux one its environment, what it may see of the
host."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import ImageError, UsageError, unless_short
from corebraid.base.memory import ADDRESS_SPACE
from corebraid.base.wording import Option, Phrase, another
from isa.abi import PATH

if TYPE_CHECKING:
    from emu.linux.boot import GuestSpec
    from emu.linux.tree.root_spec import Bind
    from recorder.files.json_fields import Scalar

#: What a guest may use unless something else is asked for, bytes.
DEFAULT_MEMORY = 2 << 30
LEAST_MEMORY = 1 << 20
#: Directories that every guest sees, unless it is not to.
SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/")


@dataclass(frozen=True)
class LinuxOptions:
    """Options that only Linux guests have. given: files that arguments name are visible."""

    environment: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    keep_writes: Path | None = None
    clock: str = "virtual"
    strict: bool = False
    time_limit: float | None = None
    given: bool = True
    system: bool = True

    def facts(self) -> dict[str, Scalar]:
        """What of it decides the run, for the manifest."""
        return {"binds": " ".join(self.binds)} if self.binds else {}

    def used(self) -> list[Option]:
        """Those that were given."""
        given = {
            Option("env"): self.environment, Option("bind"): self.binds,
            Option("keep_writes"): self.keep_writes, Option("strict", True): self.strict,
            Option("time_limit"): self.time_limit, Option("given", False): not self.given,
            Option("system", False): not self.system,
        }  # fmt: skip
        return [option for option, value in given.items() if value]


def find_program(name: str) -> Path:
    """The host file that a program's name means: a path, or looked up in PATH.

    Raises ImageError, and UsageError where there is no current directory.
    """
    try:
        os.getcwd()
    except OSError as error:
        unless_short(error)
        raise UsageError(f"there is no current directory ({error.strerror})", remedy="go to one") from None
    if "/" not in name and not (name.endswith(".elf") and os.path.exists(name)):
        found = shutil.which(name) or shutil.which(name, path=PATH)
        if found:
            return Path(os.path.abspath(found))
        here = f"; there is ./{name}" if name and os.path.exists(name) else ""
        where = f"{name or repr(name)}, looked for in PATH{here}"
        raise ImageError("there is no such program", where=where, remedy="name its path")
    path = Path(os.path.abspath(name))
    try:
        mode = path.stat().st_mode
    except OSError as error:
        unless_short(error)
        what = f"the program cannot be read ({error.strerror})"
        raise ImageError(what, where=name, remedy="check the path") from None
    if stat.S_ISDIR(mode):
        what = "the program cannot be read (it is a directory)"
        raise ImageError(what, where=name, remedy="name a file in it")
    if not stat.S_ISREG(mode):
        raise ImageError("neither a program nor any other regular file", where=name, remedy="name a file")
    return path


def guest_spec(
    program: Path,
    name: str,
    arguments: Sequence[str],
    memory: int | None,
    given: bytes,
    options: LinuxOptions,
) -> GuestSpec:
    """What to run. name: argv[0]. Raises UsageError."""
    from emu.board.elf import isa_of
    from emu.linux.boot import GuestSpec
    from emu.linux.tree.root_spec import Bind, RootSpec

    memory = DEFAULT_MEMORY if memory is None else memory
    if not LEAST_MEMORY <= memory <= ADDRESS_SPACE:
        raise UsageError("a Linux guest has 1m to 64g of memory", found=str(memory), remedy=another("memory"))
    if not os.access(program, os.X_OK):
        raise ImageError(
            "not an executable file (no execute permission)", where=str(program), remedy=f"chmod +x {program}"
        )
    binds, links = [], []
    for path in (program, *_interpreters(program)):
        binds.append(Bind(path.resolve(), str(path.resolve())))
        if options.system:
            binds += [Bind(place, str(place)) for place in _own_libraries(path.resolve())]
        if path.resolve() != path:
            links.append((str(path), str(path.resolve())))
    if options.given:
        binds += [Bind(path, str(path)) for path in _given(arguments)]
    given_binds = [_bind(text) for text in options.binds]
    binds += [Bind(place, str(path)) for path, place in _libraries(program, options, given_binds)]
    binds += given_binds
    root = RootSpec(
        binds=tuple(binds),
        links=tuple(links),
        cwd=os.getcwd(),
        keep_writes=options.keep_writes,
        system=options.system,
    )
    return GuestSpec(
        program=str(program),
        arguments=tuple(os.fsencode(text) for text in (name, *arguments)),
        environment=tuple(_environment(options.environment)),
        root=root,
        memory=memory,
        clock=options.clock,
        strict=options.strict,
        input=given,
        isa=isa_of([program, *_interpreters(program)][-1]),
    )


def _own_libraries(program: Path) -> list[Path]:
    """PREFIX/lib of a program PREFIX/bin/NAME that lies in no system directory, as interpreters have it."""
    prefix, place = program.parent.parent, program.parent.parent / "lib"
    system = prefix in (Path("/"), Path("/usr"), Path("/usr/local"))
    return [place] if program.parent.name == "bin" and not system and place.is_dir() else []


def _interpreters(program: Path) -> list[Path]:
    """Of a script the interpreter, and if that is one too its own, as far as they exist."""
    from emu.linux.program import MOST_SCRIPTS, found_by_env, script_interpreter

    chain: list[Path] = []
    for _ in range(MOST_SCRIPTS):
        script = script_interpreter((chain[-1] if chain else program).read_bytes())
        if script is None:
            break
        name = found_by_env(*script)
        found = shutil.which(name, path=PATH) if name else script[0]
        if not found or not Path(found).is_file():
            break
        chain.append(Path(found))
    return chain


def _libraries(program: Path, options: LinuxOptions, binds: Sequence[Bind]) -> Iterator[tuple[Path, Path]]:
    """(path, what lies there) of the libraries that the guest needs and that are not in the system's
    directories, with the interpreter if those are not visible. Raises ImageError for one that is missing."""
    from emu.board.elf import isa_of
    from emu.linux.libraries import find_libraries
    from emu.linux.program import parse_program, script_interpreter
    from isa.registry import linux_abi_of

    program = [program, *_interpreters(program)][-1]
    raw, isa = program.read_bytes(), isa_of(program)
    if script_interpreter(raw) is not None:
        # What it asks for is not here. It may be in the guest; if not, that is where it is missed.
        return
    given = dict(text.partition("=")[::2] for text in options.environment)
    directories = [_on_host(part, binds) for part in given.get("LD_LIBRARY_PATH", "").split(":") if part]
    found, missing = find_libraries(program, isa, directories, linux_abi_of(isa).library_directories)
    if missing:
        first = missing[0]
        raise ImageError(
            f"a shared library is missing: {first.name}",
            where=f"needed by {first.needed_by}, looked for in {', '.join(first.looked)}",
            remedy=Phrase(
                "install it, or name its directory: ",
                Option("bind"),
                " DIR:DIR ",
                Option("env"),
                " LD_LIBRARY_PATH=DIR",
            ),
        )
    interpreter = parse_program(raw, str(program), isa).interpreter
    for path in [*([Path(interpreter)] if interpreter else []), *found]:
        if path.is_file() and (not options.system or not str(path).startswith(SYSTEM)):
            yield path, path.resolve()


def _on_host(directory: str, binds: Sequence[Bind]) -> str:
    """Where the guest's directory lies on the host."""
    for bind in binds:
        if directory == bind.guest or directory.startswith(bind.guest.rstrip("/") + "/"):
            return str(bind.host) + directory[len(bind.guest.rstrip("/")) :]
    return directory


def _given(arguments: Sequence[str]) -> list[Path]:
    """Existing files and directories that arguments name, also as in --file=PATH and if=PATH."""
    found: dict[Path, None] = {}
    for argument in arguments:
        for text in (argument, argument.partition("=")[2]):
            if not text or "\0" in text or len(text) > 4095:
                continue
            path = Path(os.path.abspath(text))
            try:
                if path.is_dir() or path.is_file():
                    found[path] = None
            except OSError:
                continue
    return [path for path in found if path != Path("/")]


def _bind(text: str) -> Bind:
    """HOST:GUEST[:rw], or HOST alone. Raises UsageError."""
    from emu.linux.tree.root_spec import Bind

    more = " HOST:GUEST, with :rw behind it if the guest may change the host's files"
    remedy = Phrase("write ", Option("bind"), more)
    parts = text.split(":")
    writable = len(parts) > 1 and parts[-1] in ("rw", "ro")
    mode = parts.pop() if writable else "ro"
    if len(parts) == 1:
        parts.append(os.path.abspath(parts[0]))
    if len(parts) != 2 or not parts[0] or not parts[1].startswith("/"):
        raise UsageError("not a bind", expected="HOST:GUEST[:rw]", found=repr(text), remedy=remedy)
    host = Path(os.path.abspath(parts[0]))
    if not os.path.exists(host):
        raise UsageError(
            "a bind of something that does not exist",
            where=str(host),
            remedy=Phrase("check ", Option("bind")),
        )
    return Bind(host, os.path.normpath(parts[1]), mode == "rw")


def _environment(given: Sequence[str]) -> list[bytes]:
    """NAME=VALUE as it is; NAME alone: as it is here. Raises UsageError."""
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name:
            raise UsageError(
                "not a variable",
                expected="NAME=VALUE or NAME",
                found=repr(text),
                remedy=Phrase("check ", Option("env")),
            )
        if not equals:
            if name not in os.environ:
                raise UsageError(
                    "no such variable here", found=name, remedy=Phrase("write ", Option("env"), " NAME=VALUE")
                )
            value = os.environ[name]
        values[name] = value
    return [os.fsencode(f"{name}={value}") for name, value in values.items()]


def recording_name(program: Path) -> Path:
    """Where a recording goes if nobody says: PROGRAM.rec here, or PROGRAM.2.rec and so on."""
    stem = program.name.removesuffix(".elf")
    path, number = Path(f"{stem}.rec"), 2
    while path.exists():
        path, number = Path(f"{stem}.{number}.rec"), number + 1
    return path
