"""Path resolution (path_resolution(7)), name by name and in the guest's tree alone."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from emu.linux.files.host_tree import encode
from emu.linux.files.nodes import Directory, Node, Symlink
from emu.linux.ground.failure import Errno

NAME_MAX, PATH_MAX, MOST_LINKS = 255, 4096, 40
#: Permission bits, of whichever class: the guest counts as the owner of what it sees.
READ, WRITE, EXECUTE = 0o444, 0o222, 0o111


@dataclass(frozen=True)
class Found:
    """Where a path leads. node: None if only the last name is missing. name: of the node in `parent`; "." or
    ".." or "/" if the path ends so. slash: the path ends in one. Through a link of /proc, name and
    parent say nothing of the node.
    """

    parent: Directory
    name: str
    node: Node | None
    slash: bool = False

    def existing(self) -> Node:
        """The node. Raises Errno(ENOENT)."""
        if self.node is None:
            raise Errno(errno.ENOENT)
        return self.node

    def directory(self) -> Directory:
        """The node, which must be a directory. Raises Errno(ENOENT, ENOTDIR)."""
        node = self.existing()
        if not isinstance(node, Directory):
            raise Errno(errno.ENOTDIR)
        return node

    def path(self) -> str:
        """As an absolute path in the guest."""
        if isinstance(self.node, Directory):
            return self.node.path()
        return self.parent.path().rstrip("/") + "/" + self.name


def require(node: Node, bits: int) -> None:
    """One of the permission bits must be set. Raises Errno(EACCES)."""
    if not node.stat().mode & bits:
        raise Errno(errno.EACCES)


class Walk:
    """One resolution: the names still to come, and where it stands. missing: where it led, if that is
    nowhere."""

    def __init__(self, root: Directory, start: Directory, path: str) -> None:
        if not path or "\0" in path:
            raise Errno(errno.ENOENT)
        if len(encode(path)) >= PATH_MAX:
            raise Errno(errno.ENAMETOOLONG)
        self._root = root
        self._here = start
        self._links = 0
        self._rest: list[str] = []
        self._slash = False
        self.missing = ""
        self._push(path)

    def run(self, follow: bool, change: bool = False, create: bool = False) -> Found:
        """Resolve. follow: a link at the end too. change: the last name itself is meant, to be made or
        removed, so a link there is not followed even before a slash. create: for O_CREAT, which allows no
        slash behind the last name.

        Raises Errno(ENOENT, ENOTDIR, ELOOP, EACCES, EISDIR, ...).
        """
        name, parent = "/", self._here
        while self._rest:
            name, parent = self._rest.pop(), self._here
            require(parent, EXECUTE)
            if name in (".", ".."):
                self._here = parent.parent if name == ".." else parent
                continue
            if len(encode(name)) > NAME_MAX:
                raise Errno(errno.ENAMETOOLONG)
            node = parent.lookup(name)
            last = not self._rest
            if last and create and self._slash:
                raise Errno(errno.EISDIR)
            if node is None:
                self.missing = "/".join((parent.path(), name, *reversed(self._rest)))
                if not last or parent.removed:
                    raise Errno(errno.ENOENT)
                return Found(parent, name, None, self._slash)
            if isinstance(node, Symlink) and (not last or follow or (self._slash and not change)):
                target = self._follow(node)
                if target is None:
                    continue
                node = target
                if last:
                    return self._end(Found(parent, name, node, self._slash), change)
            if isinstance(node, Directory):
                self._here = node
            elif not last:
                raise Errno(errno.ENOTDIR)
            else:
                return self._end(Found(parent, name, node, self._slash), change)
        return Found(parent, name, self._here, self._slash)

    def _push(self, path: str) -> None:
        names = [name for name in path.split("/") if name]
        if not self._rest:
            self._slash = self._slash or path.endswith("/")
        self._rest.extend(reversed(names))
        if path.startswith("/"):
            self._here = self._root

    def _follow(self, link: Symlink) -> Node | None:
        """Where a link of /proc leads; None: the names of the target are now to be resolved."""
        self._links += 1
        if self._links > MOST_LINKS:
            raise Errno(errno.ELOOP)
        node = link.jump()
        if node is not None:
            return node
        target = link.target()
        if not target:
            raise Errno(errno.ENOENT)
        if len(encode(target)) >= PATH_MAX:
            raise Errno(errno.ENAMETOOLONG)
        self._push(target)
        return None

    @staticmethod
    def _end(found: Found, change: bool) -> Found:
        if found.slash and not change and not isinstance(found.node, Directory):
            raise Errno(errno.ENOTDIR)
        return found
