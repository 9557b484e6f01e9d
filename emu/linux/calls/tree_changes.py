"""Changes of the tree: making, removing, linking and renaming, with the checks that Linux makes."""

from __future__ import annotations

import errno

from emu.linux.files.nodes import Directory, FileNode, Node
from emu.linux.files.path_walk import WRITE, Found, require
from emu.linux.ground.failure import Errno
from emu.linux.waiting.named_pipe import make_named_pipe

NOREPLACE, EXCHANGE = 1, 2


def _new_name(found: Found, directory: bool = False) -> None:
    """The name may be made. Raises Errno(EEXIST, ENOENT, EACCES)."""
    if found.node is not None:
        raise Errno(errno.EEXIST)
    if found.slash and not directory:
        raise Errno(errno.ENOENT)
    require(found.parent, WRITE)


def make_directory(found: Found, mode: int) -> None:
    """mkdir(2). Raises Errno."""
    _new_name(found, directory=True)
    found.parent.add_directory(found.name, mode & 0o1777)


def make_symlink(found: Found, target: str) -> None:
    """symlink(2). Raises Errno."""
    if not target:
        raise Errno(errno.ENOENT)
    _new_name(found)
    found.parent.add_symlink(found.name, target)


def make_file(found: Found, mode: int) -> None:
    """mknod(2) of a regular file. Raises Errno."""
    _new_name(found)
    found.parent.add_file(found.name, mode & 0o7777)


def make_pipe(found: Found, mode: int) -> None:
    """mknod(2) of a named pipe. Raises Errno."""
    _new_name(found)
    make_named_pipe(found, mode & 0o7777)


def make_link(node: Node, source: Directory, found: Found) -> None:
    """link(2). source: the directory that `node` was found in. Raises Errno."""
    _new_name(found)
    volume = node.volume if isinstance(node, FileNode) else source.volume
    if volume is not found.parent.volume:
        raise Errno(errno.EXDEV)
    if isinstance(node, Directory):
        raise Errno(errno.EPERM)
    if node.stat().links == 0 and not (isinstance(node, FileNode) and node.linkable):
        raise Errno(errno.ENOENT)
    found.parent.add_node(found.name, node)


def unlink(found: Found) -> None:
    """unlink(2). Raises Errno."""
    node = found.existing()
    if found.slash:
        raise Errno(errno.EISDIR if isinstance(node, Directory) else errno.ENOTDIR)
    require(found.parent, WRITE)
    if isinstance(node, Directory):
        raise Errno(errno.EISDIR)
    found.parent.remove(found.name)


def remove_directory(found: Found) -> None:
    """rmdir(2). Raises Errno."""
    special = {".": errno.EINVAL, "..": errno.ENOTEMPTY, "/": errno.EBUSY}
    if found.name in special:
        raise Errno(special[found.name])
    found.existing()
    require(found.parent, WRITE)
    node = found.directory()
    if node.fixed:
        raise Errno(errno.EBUSY)
    _require_empty(node)
    found.parent.remove(found.name)


def check_rename_flags(flags: int) -> None:
    """NOREPLACE or EXCHANGE. Raises Errno(EINVAL)."""
    if flags not in (0, NOREPLACE, EXCHANGE):
        raise Errno(errno.EINVAL)


def rename(old: Found, new: Found, flags: int) -> None:
    """rename(2), renameat2(2). Raises Errno."""
    if old.parent.volume is not new.parent.volume:
        raise Errno(errno.EXDEV)
    if old.name in (".", "..", "/"):
        raise Errno(errno.EBUSY)
    if new.name in (".", "..", "/"):
        raise Errno(errno.EEXIST if flags == NOREPLACE else errno.EBUSY)
    node = old.existing()
    if flags == NOREPLACE and new.node is not None:
        raise Errno(errno.EEXIST)
    if flags == EXCHANGE and new.slash and not isinstance(new.existing(), Directory):
        raise Errno(errno.ENOTDIR)
    if flags == EXCHANGE:
        new.existing()
    _check_slashes(old, new, flags)
    _check_nesting(node, old, new, flags)
    if new.node is node:
        return
    for found in (old, new):
        require(found.parent, WRITE)
        if isinstance(found.node, Directory) and found.node.fixed:
            raise Errno(errno.EBUSY)
    if flags != EXCHANGE and new.node is not None:
        _check_kinds(node, new.node)
    if old.parent is not new.parent:
        _check_moved(node)
        if flags == EXCHANGE:
            _check_moved(new.existing())
    if flags == EXCHANGE:
        old.parent.swap(old.name, new.parent, new.name)
        return
    if isinstance(new.node, Directory):
        _require_empty(new.node)
    old.parent.move(old.name, new.parent, new.name)


def _check_slashes(old: Found, new: Found, flags: int) -> None:
    if isinstance(old.node, Directory):
        return
    if old.slash or (new.slash and flags != EXCHANGE):
        raise Errno(errno.ENOTDIR)


def _check_nesting(node: Node, old: Found, new: Found, flags: int) -> None:
    """No directory into itself, and none over one that it is in."""
    if isinstance(node, Directory) and _is_within(new.parent, node):
        raise Errno(errno.EINVAL)
    if isinstance(new.node, Directory) and _is_within(old.parent, new.node):
        raise Errno(errno.EINVAL if flags == EXCHANGE else errno.ENOTEMPTY)


def _check_kinds(node: Node, covered: Node) -> None:
    if isinstance(node, Directory) != isinstance(covered, Directory):
        raise Errno(errno.EISDIR if isinstance(covered, Directory) else errno.ENOTDIR)


def _check_moved(node: Node) -> None:
    """A directory that gets another parent is written to: its name ".." leads elsewhere. Errno(EACCES)."""
    if isinstance(node, Directory):
        require(node, WRITE)


def _is_within(directory: Directory, above: Directory) -> bool:
    while directory is not above:
        if directory.parent is directory:
            return False
        directory = directory.parent
    return True


def _require_empty(directory: Directory) -> None:
    if directory.names():
        raise Errno(errno.ENOTEMPTY)
