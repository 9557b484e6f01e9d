"""Writes what the guest changed privately into a host directory, at the end of a run."""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections.abc import Iterable, Iterator
from pathlib import Path

from corebraid.base.errors import UsageError, unless_short
from corebraid.base.wording import another
from emu.linux.files.host_tree import encode
from emu.linux.files.nodes import Directory, FileNode, Node, Symlink
from emu.linux.files.private_nodes import PrivateDirectory

_PIECE = 1 << 20
_DELETED = ".deleted"


def check_target(target: Path | None) -> None:
    """The directory must not exist yet, or be empty. Raises UsageError."""
    if target is None:
        return
    try:
        wrong = target.is_symlink() or (target.exists() and not target.is_dir())
        full = not wrong and target.is_dir() and any(target.iterdir())
    except (OSError, ValueError) as error:
        unless_short(error)
        reason = getattr(error, "strerror", None) or str(error)
        what = f"what the guest writes cannot be kept there: {reason}"
        raise UsageError(what, where=str(target), remedy=another("keep_writes")) from None
    if wrong:
        raise UsageError("what the guest writes is to be kept in a directory", where=str(target))
    if full:
        raise UsageError("what the guest writes is to be kept in an empty directory", where=str(target))


def keep(root: Directory, target: Path) -> None:
    """Write new and changed files below `target` at their guest paths, and the removed ones' to `.deleted`.

    Links are written as links and never followed. Raises UsageError.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        check_target(target)
        keeper = _Keeper()
        base = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            keeper.directory(root, base)
            if keeper.deleted:
                lines = b"".join(encode(path) + b"\n" for path in sorted(keeper.deleted))
                keeper.write(base, [_free_name(base)], 0o644, [(0, lines)])
        finally:
            keeper.close()
            os.close(base)
    except OSError as error:
        unless_short(error)
        raise UsageError(
            f"what the guest wrote cannot be kept: {error.strerror}", where=str(target)
        ) from None


def _free_name(base: int) -> str:
    """`.deleted`, unless the guest has made a file of that name."""
    name, taken = _DELETED, set(os.listdir(base))
    while name in taken:
        name += "~"
    return name


class _Keeper:
    def __init__(self) -> None:
        self.deleted: list[str] = []
        #: The directory that was last used, and a descriptor of it: the next one is often right below.
        self._last: tuple[list[str], int] | None = None

    def close(self) -> None:
        """Let go of the directory that was last used."""
        if self._last is not None:
            os.close(self._last[1])
        self._last = None

    def directory(self, root: Directory, base: int) -> None:
        """A whole tree, however deep."""
        todo: list[tuple[PrivateDirectory, list[str], bool]] = []
        if isinstance(root, PrivateDirectory):
            todo.append((root, [], False))
        while todo:
            todo += reversed(self._one(*todo.pop(), base))

    def _one(
        self, node: PrivateDirectory, names: list[str], whole: bool, base: int
    ) -> list[tuple[PrivateDirectory, list[str], bool]]:
        """One directory, without those in it, which are returned. whole: everything in it is new at this
        place."""
        whole = whole or node.fresh
        if whole or node.touched:
            os.close(self._below(base, names))
        below: list[tuple[PrivateDirectory, list[str], bool]] = []
        for name in node.names() if whole else sorted(node.children):
            child = node.lookup(name) if whole else node.children[name]
            path = [*names, name]
            if child is None:
                self.deleted.append("/" + "/".join(path))
            elif isinstance(child, Directory):
                if isinstance(child, PrivateDirectory) and not (child.fixed and not names):
                    below.append((child, path, whole))
            elif whole or child.touched:
                self._leaf(child, path, base)
        return below

    def _leaf(self, node: Node, names: list[str], base: int) -> None:
        if isinstance(node, FileNode):
            self.write(base, names, node.stat().mode & 0o777, _pieces(node))
        elif isinstance(node, Symlink):
            parent = self._below(base, names[:-1])
            try:
                os.symlink(encode(node.target()), encode(names[-1]), dir_fd=parent)
            finally:
                os.close(parent)
        elif modes.S_ISFIFO(node.kind):
            parent = self._below(base, names[:-1])
            try:
                os.mkfifo(encode(names[-1]), 0o600, dir_fd=parent)
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
                pipe = os.open(encode(names[-1]), flags, dir_fd=parent)
            finally:
                os.close(parent)
            os.fchmod(pipe, node.stat().mode & 0o777)
            os.close(pipe)

    def write(self, base: int, names: list[str], mode: int, pieces: Iterable[tuple[int, bytes]]) -> None:
        """A new file of (offset, bytes); never one that is there, never through a link."""
        parent = self._below(base, names[:-1])
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(encode(names[-1]), flags, 0o600, dir_fd=parent)
        finally:
            os.close(parent)
        with os.fdopen(file, "wb") as out:
            for offset, piece in pieces:
                out.seek(offset)
                if piece:
                    out.write(piece)
                else:
                    out.truncate()
            os.fchmod(out.fileno(), mode)

    def _below(self, base: int, names: list[str]) -> int:
        """A descriptor of the directory below `base`, made where it is missing."""
        done = 0
        if self._last is not None and names[: len(self._last[0])] == self._last[0]:
            done = len(self._last[0])
        here = os.dup(self._last[1] if self._last is not None and done else base)
        for name in names[done:]:
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(encode(name), 0o755, dir_fd=here)
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                below = os.open(encode(name), flags, dir_fd=here)
            finally:
                os.close(here)
            here = below
        self.close()
        self._last = names, os.dup(here)
        return here


def _pieces(node: FileNode) -> Iterator[tuple[int, bytes]]:
    """What is not a hole; at the end nothing at the file's size."""
    size, offset = node.size(), 0
    while offset < size:
        offset = node.next_data(offset, data=True)
        stop = node.next_data(offset, data=False) if offset < size else size
        while offset < stop:
            piece = node.read(min(_PIECE, stop - offset), offset)
            yield offset, piece
            offset += len(piece)
    yield size, b""
