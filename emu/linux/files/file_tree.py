"""A tree of nodes, and how a path is opened in it."""

from __future__ import annotations

import errno
import stat as modes
from dataclasses import replace

from emu.linux.files import open_flags as of
from emu.linux.files.absent import AbsentPaths
from emu.linux.files.nodes import Directory, FileNode, Node, Special, Symlink
from emu.linux.files.open_file import MappedFile, OpenFile
from emu.linux.files.path_walk import EXECUTE, READ, WRITE, Found, Walk, require
from emu.linux.files.private_layer import PrivateLayer
from emu.linux.files.private_nodes import PrivateFile, fresh_status
from emu.linux.files.regular import MappedNode, OpenDirectory, OpenPath, OpenRegular
from emu.linux.ground.failure import Errno

_PIECE = 1 << 20


class FileTree:
    """root: the guest's. cwd: of its one process. layer: what the guest made itself. Nothing outside `root`
    has a name here."""

    def __init__(self, root: Directory, layer: PrivateLayer) -> None:
        self.root, self.layer = root, layer
        self.cwd: Directory = root
        self.absent = AbsentPaths()

    def walk(
        self, path: str, at: Directory | None = None, follow: bool = True, create: bool = False
    ) -> Found:
        """Where `path` leads, seen from `at` (None: the current directory). Raises Errno."""
        walk = Walk(self.root, at or self.cwd, path)
        try:
            return walk.run(follow, create=create)
        finally:
            if walk.missing and not create:
                self.absent.note(walk.missing)

    def walk_parent(self, path: str, at: Directory | None = None) -> Found:
        """Where `path` leads, its last name to be made, removed or renamed: no link is followed there."""
        return Walk(self.root, at or self.cwd, path).run(follow=False, change=True)

    def open(self, path: str, flags: int, mode: int = 0, at: Directory | None = None) -> OpenFile:
        """Open as open(2) does; mode: without the umask's bits. Raises Errno."""
        if of.is_unnamed(flags):
            return self._open_unnamed(path, flags, mode, at)
        if flags & of.O_PATH:
            flags &= of.O_PATH | of.O_DIRECTORY | of.O_NOFOLLOW
        create = bool(flags & of.O_CREAT)
        if create and flags & of.O_DIRECTORY:
            raise Errno(errno.EINVAL)
        exclusive = create and bool(flags & of.O_EXCL)
        found = self.walk(path, at, not (exclusive or flags & of.O_NOFOLLOW), create)
        if found.node is not None:
            if exclusive:
                raise Errno(errno.EEXIST)
            if create and isinstance(found.node, Directory):
                raise Errno(errno.EISDIR)
            return self.open_node(found.node, flags, found.path())
        if not create:
            raise Errno(errno.ENOENT)
        require(found.parent, WRITE)
        node = found.parent.add_file(found.name, mode & 0o7777)
        assert isinstance(node, FileNode)
        return OpenRegular(node, of.status_flags(flags), found.path())

    def open_node(self, node: Node, flags: int, path: str) -> OpenFile:
        """Open what exists, as open(2) does without O_CREAT. Raises Errno."""
        if flags & of.O_DIRECTORY and not isinstance(node, Directory):
            raise Errno(errno.ELOOP if isinstance(node, Symlink) and not flags & of.O_PATH else errno.ENOTDIR)
        status = of.status_flags(flags)
        if flags & of.O_PATH:
            return OpenPath(node, status, path)
        if isinstance(node, Symlink):
            raise Errno(errno.ELOOP)
        if isinstance(node, Directory):
            if of.may_write(flags) or flags & of.O_TRUNC:
                raise Errno(errno.EISDIR)
            require(node, READ)
            return OpenDirectory(node, status, path)
        if of.may_read(flags):
            require(node, READ)
        # O_TRUNC cuts the file even if it is opened for reading only.
        changes = of.may_write(flags) or bool(flags & of.O_TRUNC)
        if changes:
            require(node, WRITE)
        if not isinstance(node, FileNode):
            return node.open(status, path)
        node.check(changes)
        if flags & of.O_TRUNC:
            node.truncate(0)
        return OpenRegular(node, status, path)

    def _open_unnamed(self, path: str, flags: int, mode: int, at: Directory | None) -> OpenFile:
        if not flags & of.O_DIRECTORY or not of.may_write(flags):
            raise Errno(errno.EINVAL)
        directory = self.walk(path, at).directory()
        require(directory, WRITE)
        node = directory.unnamed_file(mode & 0o7777)
        assert isinstance(node, FileNode)
        node.linkable = not flags & of.O_EXCL
        name = f"{directory.path().rstrip('/')}/#{node.inode} (deleted)"
        return OpenRegular(node, of.status_flags(flags), name)

    def memory_file(self, name: str, mode: int, seals: int) -> OpenFile:
        """What memfd_create makes. seals: F_SEAL_* that it has from the start."""
        status = replace(fresh_status(self.layer, modes.S_IFREG | mode), links=0)
        node = PrivateFile(self.layer, status)
        node.seals = seals
        return OpenRegular(node, of.status_flags(of.O_RDWR), f"/memfd:{name} (deleted)")

    def create_special(self, path: str, kind: int, payload: object, at: Directory | None = None) -> Special:
        """A name for a socket: kind is S_IFSOCK with permission bits. Raises Errno(EADDRINUSE, ...)."""
        found = self._free(path, at)
        node = found.parent.add_special(found.name, kind, lambda status, _: Special(status, payload))
        assert isinstance(node, Special)
        return node

    def require_free(self, path: str) -> Directory:
        """The directory that a new name for a socket goes to. Raises Errno(EADDRINUSE, ...)."""
        return self._free(path, None).parent

    def _free(self, path: str, at: Directory | None) -> Found:
        found = self.walk(path, at, follow=False)
        if found.node is not None:
            raise Errno(errno.EADDRINUSE)
        require(found.parent, WRITE)
        return found

    def lookup(self, path: str, at: Directory | None = None) -> Node:
        """What a path leads to, links followed. Raises Errno."""
        return self.walk(path, at).existing()

    def read_program(self, path: str, cwd: Directory | None = None) -> tuple[str, bytes, MappedFile]:
        """A program or its interpreter: its resolved path, its bytes, and how to map it.

        Raises Errno(ENOENT, ENOTDIR, EISDIR, EACCES, ELOOP).
        """
        found = self.walk(path, cwd)
        node = found.existing()
        if isinstance(node, Directory):
            raise Errno(errno.EISDIR)
        if not isinstance(node, FileNode):
            raise Errno(errno.EACCES)
        require(node, EXECUTE)
        node.check(False)
        node.running = True
        pieces = []
        offset = 0
        while piece := node.read(_PIECE, offset):
            pieces.append(piece)
            offset += len(piece)
        return found.path(), b"".join(pieces), MappedNode(node, found.path())
