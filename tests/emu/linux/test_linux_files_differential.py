"""Random operations on files: the guest's file system answers as the host's kernel does, errors included."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import shutil
import stat as modes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from linux_files_factory import AT_FDCWD, Guest

from emu.linux.tree.root_spec import Bind

_LIBC = ctypes.CDLL(None, use_errno=True)
_NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/f", "l", "m", "d/up", "loop")
_SUFFIXES = ("", "", "", "", "/", "/.", "/..")
_TARGETS = ("a", "d", "d/", "../b", "e", "missing", "l", ".")
_FLAGS = (
    os.O_RDONLY,
    os.O_WRONLY,
    os.O_RDWR | os.O_CREAT,
    os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    os.O_RDWR | os.O_APPEND,
    os.O_RDONLY | os.O_DIRECTORY,
    os.O_RDONLY | os.O_NOFOLLOW,
    os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW,
    os.O_RDONLY | os.O_TRUNC,
    os.O_PATH,
    os.O_PATH | os.O_NOFOLLOW,
    os.O_PATH | os.O_DIRECTORY,
    os.O_RDWR | os.O_TMPFILE,
)


class Host:
    """Operations below a host directory, by the host's system calls."""

    def __init__(self, top: Path) -> None:
        self._base = os.open(top / "base", os.O_RDONLY | os.O_DIRECTORY)

    def call(self, name: str, *arguments: Any) -> int:
        """As `Guest.call`: a number, -errno for a failure. A null `dirfd` is the base."""
        words = [_word(argument) for argument in arguments]
        ctypes.set_errno(0)
        result = int(getattr(_LIBC, name)(*words))
        return -ctypes.get_errno() if result < 0 else result

    @property
    def base(self) -> int:
        return self._base

    def read(self, fd: int, n: int) -> bytes | int:
        return _result(os.read, fd, n)

    def pread(self, fd: int, n: int, offset: int) -> bytes | int:
        return _result(os.pread, fd, n, offset)

    def write(self, fd: int, data: bytes) -> int:
        return _result(os.write, fd, data)

    def open(self, path: str, flags: int, at: int) -> int:
        return self.call("openat", at, path, flags, 0o644)

    def stat(self, path: str, flags: int, at: int) -> Any:
        found = _result(lambda: os.stat(path, dir_fd=at, follow_symlinks=not flags))
        return found if isinstance(found, int) else (found.st_mode, found.st_size, found.st_nlink)

    def fstat(self, fd: int) -> Any:
        found = _result(os.fstat, fd)
        return found if isinstance(found, int) else (found.st_mode, found.st_size, found.st_nlink)

    def readlink(self, path: str, at: int) -> str | int:
        return _result(lambda: os.readlink(path, dir_fd=at))

    def names(self, fd: int) -> Any:
        return _result(lambda: sorted(os.listdir(fd)))


class Emulated:
    """The same operations on a guest."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self.base = guest.open("/top/base", os.O_DIRECTORY)

    def call(self, name: str, *arguments: Any) -> int:
        return self._guest.call(name, *arguments)

    def read(self, fd: int, n: int) -> bytes | int:
        return self._guest.read(fd, n)

    def pread(self, fd: int, n: int, offset: int) -> bytes | int:
        return self._guest.pread(fd, n, offset)

    def write(self, fd: int, data: bytes) -> int:
        return self._guest.write(fd, data)

    def open(self, path: str, flags: int, at: int) -> int:
        return self._guest.open(path, flags, at=at)

    def stat(self, path: str, flags: int, at: int) -> Any:
        return _essence(self._guest.stat(path, flags, at))

    def fstat(self, fd: int) -> Any:
        return _essence(self._guest.stat("", 0x1000, fd))

    def readlink(self, path: str, at: int) -> str | int:
        return self._guest.readlink(path, at)

    def names(self, fd: int) -> Any:
        return sorted(name for name, _, _ in self._guest.process.descriptors.get(fd).entries())[2:]


def _word(argument: Any) -> Any:
    if isinstance(argument, str):
        return argument.encode()
    return ctypes.c_long(argument)


def _result(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except OSError as failure:
        return -(failure.errno or 0)


def _essence(stat: dict[str, int] | int) -> Any:
    return stat if isinstance(stat, int) else (stat["mode"], stat["size"], stat["links"])


def _same(found: Any) -> Any:
    """Without what may differ: a directory's size and links."""
    if isinstance(found, tuple) and modes.S_ISDIR(found[0]):
        return found[0]
    return found


class Script:
    """Random operations, each run on both sides. fds: what is open, as (host's, guest's)."""

    def __init__(self, host: Host, guest: Emulated, source: random.Random, bound: bool) -> None:
        self.sides = (host, guest)
        self.random = source
        # In a writable bind no names are exchanged, no file is without one, and links have one alone.
        self._follow = (0x400,) if bound else (0, 0x400)
        self._renames = (0, 0, 0, 1) if bound else (0, 0, 0, 1, 2, 3)
        self._flags = _FLAGS[:-1] if bound else _FLAGS
        self.fds: list[tuple[int, int]] = []
        self.log: list[str] = []

    def both(self, what: str, call: Callable[[Any, int], Any]) -> Any:
        results = [call(side, index) for index, side in enumerate(self.sides)]
        first, second = map(_same, results)
        self.log.append(f"{what}: host {first!r}, guest {second!r}")
        assert first == second, "\n".join(self.log[-30:])
        return results

    def path(self) -> str:
        return self.random.choice(_NAMES) + self.random.choice(_SUFFIXES)

    def step(self) -> None:
        getattr(self, self.random.choice(_STEPS))()

    def do_open(self) -> None:
        path, flags = self.path(), self.random.choice(self._flags)
        results = [side.open(path, flags, side.base) for side in self.sides]
        self.log.append(f"open {path} {flags:o}: {results}")
        assert (results[0] >= 0) == (results[1] >= 0), "\n".join(self.log[-30:])
        if results[0] < 0:
            assert results[0] == results[1], "\n".join(self.log[-30:])
        else:
            self.fds.append((results[0], results[1]))
            modes_told = self.both("F_GETFL", lambda side, i: side.call("fcntl", results[i], 3, 0))
            assert modes_told[0] == modes_told[1]
        if len(self.fds) > 6:
            self.close_one()

    def close_one(self) -> None:
        pair = self.fds.pop(self.random.randrange(len(self.fds)))
        self.both("close", lambda side, i: side.call("close", pair[i]))

    def do_file(self) -> None:
        if not self.fds:
            return
        pair, source = self.random.choice(self.fds), self.random
        offset, n = source.randrange(200), source.randrange(100)
        data = bytes(source.randrange(256) for _ in range(n))
        whence = source.randrange(6)
        what: list[tuple[str, Callable[[Any, int], Any]]] = [
            ("read", lambda side, i: side.read(pair[i], n)),
            ("write", lambda side, i: side.write(pair[i], data)),
            ("pread", lambda side, i: side.pread(pair[i], n, offset)),
            ("ftruncate", lambda side, i: side.call("ftruncate", pair[i], offset)),
            ("fstat", lambda side, i: side.fstat(pair[i])),
            ("fchmod", lambda side, i: side.call("fchmod", pair[i], 0o700 | n & 0o77)),
            ("fsync", lambda side, i: side.call("fsync", pair[i])),
            ("fallocate", lambda side, i: side.call("fallocate", pair[i], n & 1, offset, n)),
        ]
        name, call = source.choice(what)
        if source.random() < 0.3 and not isinstance(self.sides[0].names(pair[0]), list):
            name, call = "lseek", lambda side, i: side.call("lseek", pair[i], offset - 50, whence)
            if whence > 2:
                return
        self.both(f"{name} {pair} {offset} {n}", call)

    def do_stat(self) -> None:
        path, flags = self.path(), self.random.choice((0, 0x100))
        self.both(f"stat {path} {flags}", lambda side, i: side.stat(path, flags, side.base))

    def do_readlink(self) -> None:
        path = self.path()
        self.both(f"readlink {path}", lambda side, i: side.readlink(path, side.base))

    def do_access(self) -> None:
        path = self.path()
        self.both(f"access {path}", lambda side, i: side.call("faccessat", side.base, path, 0, 0))

    def do_list(self) -> None:
        opened = [side.open(".", os.O_DIRECTORY, side.base) for side in self.sides]
        self.both("list", lambda side, i: side.names(opened[i]))
        self.both("close", lambda side, i: side.call("close", opened[i]))

    def _one(self, name: str, *more: int) -> None:
        path = self.path()
        self.both(f"{name} {path} {more}", lambda side, i: side.call(name, side.base, path, *more))

    def do_mkdir(self) -> None:
        self._one("mkdirat", 0o755)

    def do_unlink(self) -> None:
        self._one("unlinkat", 0)

    def do_rmdir(self) -> None:
        self._one("unlinkat", 0x200)

    def do_chmod(self) -> None:
        self._one("fchmodat", self.random.choice((0o755, 0o711, 0o700, 0o777)), 0)

    def do_symlink(self) -> None:
        path, target = self.path(), self.random.choice(_TARGETS)
        self.both(f"symlink {target} {path}", lambda side, i: side.call("symlinkat", target, side.base, path))

    def do_link(self) -> None:
        old, new, flags = self.path(), self.path(), self.random.choice(self._follow)
        self.both(
            f"link {old} {new} {flags}",
            lambda side, i: side.call("linkat", side.base, old, side.base, new, flags),
        )

    def do_rename(self) -> None:
        old, new, flags = self.path(), self.path(), self.random.choice(self._renames)
        self.both(
            f"rename {old} {new} {flags}",
            lambda side, i: side.call("renameat2", side.base, old, side.base, new, flags),
        )


_STEPS = [name for name in dir(Script) if name.startswith("do_")] + ["do_file"] * 4 + ["do_open"] * 3


def _seed_tree(top: Path) -> None:
    base = top / "base"
    (base / "d" / "e").mkdir(parents=True)
    (base / "a").write_bytes(bytes(range(200)))
    (base / "d" / "a").write_bytes(b"in d")
    (base / "l").symlink_to("d")
    (base / "d" / "up").symlink_to("../a")
    (base / "loop").symlink_to("loop")
    os.link(base / "a", base / "m")


@pytest.fixture(params=["private", "copy-on-write", "writable"])
def sides(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Host, Emulated, Path]]:
    """A host directory and a guest's of the same contents."""
    old_mask = os.umask(0o022)
    _seed_tree(tmp_path / "host")
    given = tmp_path / "given"
    if request.param == "private":
        guest = Guest()
        guest.filesystem.walk("/").directory()
        _build_inside(guest, tmp_path / "host")
    else:
        _seed_tree(given)
        guest = Guest(Bind(given, "/top", request.param == "writable"))
    host = Host(tmp_path / "host")
    yield host, Emulated(guest), given
    guest.close()
    os.close(host.base)
    os.umask(old_mask)


def _build_inside(guest: Guest, top: Path) -> None:
    assert guest.call("mkdirat", AT_FDCWD, "/top", 0o755) == 0
    for path in sorted(top.rglob("*")):
        name = "/top/" + str(path.relative_to(top))
        if path.is_symlink():
            assert guest.call("symlink", str(path.readlink()), name) == 0
        elif path.is_dir():
            assert guest.call("mkdir", name, 0o755) == 0
        elif path.name != "m":
            assert guest.store(name, path.read_bytes()) == 0
    assert guest.call("link", "/top/base/a", "/top/base/m") == 0


@pytest.mark.parametrize("seed", range(6))
def test_random_operations_answer_as_the_host(sides: tuple[Host, Emulated, Path], seed: int) -> None:
    host, guest, given = sides
    before = _snapshot(given)
    bound = given.exists() and guest._guest.filesystem.walk("/top").directory().fixed
    script = Script(host, guest, random.Random(seed), bound)
    try:
        for _ in range(250):
            script.step()
    finally:
        for pair in script.fds:
            os.close(pair[0])
    if not bound:
        assert _snapshot(given) == before, "a copy-on-write bind changed on the host"


def _snapshot(top: Path) -> list[tuple[str, int, bytes]]:
    if not top.exists():
        return []
    paths = sorted(top.rglob("*"))
    return [
        (
            str(path),
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in paths
    ]


def test_the_script_notices_a_difference(tmp_path: Path) -> None:
    """The comparison itself can fail."""
    _seed_tree(tmp_path)
    guest = Guest(Bind(tmp_path, "/top"))
    other = tmp_path.parent / "other"
    shutil.copytree(tmp_path, other, symlinks=True)
    (other / "base" / "a").write_bytes(b"different")
    script = Script(Host(other), Emulated(guest), random.Random(0), False)
    with pytest.raises(AssertionError):
        script.both("stat a", lambda side, i: side.stat("a", 0, side.base))
    assert errno.ENOENT
