"""Calls that change the tree. Sources: mkdir(2), unlink(2), rename(2), link(2), chmod(2), chdir(2)."""

from __future__ import annotations

import errno
import stat as modes

from emu.linux.calls.arguments import file_of, node_at, node_of, path_of, start_of
from emu.linux.calls.tree_changes import (
    check_rename_flags,
    make_directory,
    make_file,
    make_link,
    make_pipe,
    make_symlink,
    remove_directory,
    rename,
    unlink,
)
from emu.linux.files import open_flags as of
from emu.linux.files.nodes import Directory, FileNode, Node, Symlink
from emu.linux.files.path_walk import EXECUTE, WRITE, Found, require
from emu.linux.files.regular import OpenPath
from emu.linux.ground.call import Call, FileBytes, Subject, in_part, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int, as_long
from emu.linux.tasks.task import Task

_CWD = of.AT_FDCWD


def _parent(task: Task, dirfd: int, address: int) -> Found:
    """Where a name is to be made or removed."""
    path = path_of(task, address)
    return task.process.filesystem.walk_parent(path, start_of(task, dirfd, path))


def sys_mkdirat(task: Task, dirfd: int, path: int, mode: int) -> int:
    """mkdirat(2)."""
    make_directory(_parent(task, dirfd, path), mode & ~task.process.umask)
    return 0


def sys_mkdir(task: Task, path: int, mode: int) -> int:
    """mkdir(2)."""
    return sys_mkdirat(task, _CWD, path, mode)


def sys_unlinkat(task: Task, dirfd: int, path: int, flags: int) -> int:
    """unlinkat(2)."""
    if as_int(flags) & ~of.AT_REMOVEDIR:
        raise Errno(errno.EINVAL)
    found = _parent(task, dirfd, path)
    if flags & of.AT_REMOVEDIR:
        remove_directory(found)
    else:
        unlink(found)
    return 0


def sys_unlink(task: Task, path: int) -> int:
    """unlink(2)."""
    return sys_unlinkat(task, _CWD, path, 0)


def sys_rmdir(task: Task, path: int) -> int:
    """rmdir(2)."""
    return sys_unlinkat(task, _CWD, path, of.AT_REMOVEDIR)


def sys_renameat2(task: Task, old_dirfd: int, old: int, new_dirfd: int, new: int, flags: int) -> int:
    """renameat2(2). RENAME_WHITEOUT is refused with EINVAL."""
    check_rename_flags(as_int(flags))
    rename(_parent(task, old_dirfd, old), _parent(task, new_dirfd, new), as_int(flags))
    return 0


def sys_renameat(task: Task, old_dirfd: int, old: int, new_dirfd: int, new: int) -> int:
    """renameat(2)."""
    return sys_renameat2(task, old_dirfd, old, new_dirfd, new, 0)


def sys_rename(task: Task, old: int, new: int) -> int:
    """rename(2)."""
    return sys_renameat2(task, _CWD, old, _CWD, new, 0)


def sys_linkat(task: Task, old_dirfd: int, old: int, new_dirfd: int, new: int, flags: int) -> int:
    """linkat(2)."""
    flags = as_int(flags)
    if flags & ~(of.AT_SYMLINK_FOLLOW | of.AT_EMPTY_PATH):
        raise Errno(errno.EINVAL)
    path = path_of(task, old)
    filesystem = task.process.filesystem
    if not path and flags & of.AT_EMPTY_PATH:
        node, source = node_at(task, old_dirfd, old, flags), filesystem.root
    else:
        found = filesystem.walk(path, start_of(task, old_dirfd, path), bool(flags & of.AT_SYMLINK_FOLLOW))
        node, source = found.existing(), found.parent
    make_link(node, source, _parent(task, new_dirfd, new))
    return 0


def sys_link(task: Task, old: int, new: int) -> int:
    """link(2)."""
    return sys_linkat(task, _CWD, old, _CWD, new, 0)


def sys_symlinkat(task: Task, target: int, dirfd: int, path: int) -> int:
    """symlinkat(2)."""
    make_symlink(_parent(task, dirfd, path), path_of(task, target))
    return 0


def sys_symlink(task: Task, target: int, path: int) -> int:
    """symlink(2)."""
    return sys_symlinkat(task, target, _CWD, path)


def sys_mknodat(task: Task, dirfd: int, path: int, mode: int, device: int) -> int:
    """mknodat(2): regular files and named pipes; devices and sockets are refused with EPERM."""
    kind = modes.S_IFMT(mode & 0xFFFF)
    if kind == modes.S_IFDIR:
        raise Errno(errno.EPERM)
    if kind not in (0, modes.S_IFREG, modes.S_IFIFO, modes.S_IFCHR, modes.S_IFBLK, modes.S_IFSOCK):
        raise Errno(errno.EINVAL)
    found = _parent(task, dirfd, path)
    if found.node is not None:
        raise Errno(errno.EEXIST)
    if kind not in (0, modes.S_IFREG, modes.S_IFIFO):
        raise Errno(errno.EPERM)
    make = make_file if kind != modes.S_IFIFO else make_pipe
    make(found, mode & 0o7777 & ~task.process.umask)
    return 0


def sys_mknod(task: Task, path: int, mode: int, device: int) -> int:
    """mknod(2)."""
    return sys_mknodat(task, _CWD, path, mode, device)


# -- what a node says of itself ----------------------------------------------------------------------------


def _open_node(task: Task, fd: int) -> Node:
    """The node of a descriptor that is not O_PATH. Raises Errno(EBADF)."""
    file = file_of(task, fd)
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    return node_of(file)


def sys_fchmod(task: Task, fd: int, mode: int) -> int:
    """fchmod(2)."""
    _open_node(task, fd).set_mode(mode & 0o7777)
    return 0


def sys_fchmodat2(task: Task, dirfd: int, path: int, mode: int, flags: int) -> int:
    """fchmodat2(2)."""
    flags = as_int(flags)
    if flags & ~(of.AT_SYMLINK_NOFOLLOW | of.AT_EMPTY_PATH):
        raise Errno(errno.EINVAL)
    node = node_at(task, dirfd, path, flags)
    if isinstance(node, Symlink):
        raise Errno(errno.EOPNOTSUPP)
    node.set_mode(mode & 0o7777)
    return 0


def sys_fchmodat(task: Task, dirfd: int, path: int, mode: int) -> int:
    """fchmodat(2), the call without flags."""
    return sys_fchmodat2(task, dirfd, path, mode, 0)


def sys_chmod(task: Task, path: int, mode: int) -> int:
    """chmod(2)."""
    return sys_fchmodat2(task, _CWD, path, mode, 0)


def _chown(node: Node, uid: int, gid: int) -> int:
    """Any owner, as far as the node allows: to the private layer it makes no difference."""
    node.set_owner(
        None if as_int(uid) == -1 else uid & 0xFFFFFFFF, None if as_int(gid) == -1 else gid & 0xFFFFFFFF
    )
    return 0


def sys_fchown(task: Task, fd: int, uid: int, gid: int) -> int:
    """fchown(2)."""
    return _chown(_open_node(task, fd), uid, gid)


def sys_fchownat(task: Task, dirfd: int, path: int, uid: int, gid: int, flags: int) -> int:
    """fchownat(2)."""
    flags = as_int(flags)
    if flags & ~(of.AT_SYMLINK_NOFOLLOW | of.AT_EMPTY_PATH):
        raise Errno(errno.EINVAL)
    return _chown(node_at(task, dirfd, path, flags), uid, gid)


def sys_chown(task: Task, path: int, uid: int, gid: int) -> int:
    """chown(2)."""
    return sys_fchownat(task, _CWD, path, uid, gid, 0)


def sys_lchown(task: Task, path: int, uid: int, gid: int) -> int:
    """lchown(2)."""
    return sys_fchownat(task, _CWD, path, uid, gid, of.AT_SYMLINK_NOFOLLOW)


def sys_truncate(task: Task, path: int, size: int) -> int:
    """truncate(2)."""
    if as_long(size) < 0:
        raise Errno(errno.EINVAL)
    node = node_at(task, _CWD, path, 0)
    if isinstance(node, Directory):
        raise Errno(errno.EISDIR)
    if not isinstance(node, FileNode):
        raise Errno(errno.EINVAL)
    require(node, WRITE)
    node.check(True)
    node.truncate(size)
    task.process.space.reload()
    return 0


def sys_ftruncate(task: Task, fd: int, size: int) -> int:
    """ftruncate(2)."""
    if as_long(size) < 0:
        raise Errno(errno.EINVAL)
    file = file_of(task, fd)
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    space = task.process.space
    if space.has_shared_files:
        space.write_back()
    file.truncate(size)
    if space.has_shared_files:
        space.reload()
    return 0


# -- the process's place and mask ----------------------------------------------------------------------------


def _change(task: Task, node: Node) -> int:
    if not isinstance(node, Directory):
        raise Errno(errno.ENOTDIR)
    require(node, EXECUTE)
    task.process.filesystem.cwd = node
    return 0


def sys_chdir(task: Task, path: int) -> int:
    """chdir(2)."""
    return _change(task, node_at(task, _CWD, path, 0))


def sys_fchdir(task: Task, fd: int) -> int:
    """fchdir(2)."""
    return _change(task, node_of(file_of(task, fd)))


def sys_umask(task: Task, mask: int) -> int:
    """umask(2)."""
    old, task.process.umask = task.process.umask, mask & 0o777
    return old


CALLS = table(Subject.FILES, {
    "mkdirat": sys_mkdirat,
    "mkdir": sys_mkdir,
    "unlinkat": sys_unlinkat,
    "unlink": sys_unlink,
    "rmdir": sys_rmdir,
    "renameat2": in_part(sys_renameat2, "RENAME_WHITEOUT fails with EINVAL"),
    "renameat": sys_renameat,
    "rename": sys_rename,
    "linkat": sys_linkat,
    "link": sys_link,
    "symlinkat": sys_symlinkat,
    "symlink": sys_symlink,
    "mknodat": in_part(sys_mknodat, "regular files and named pipes, others fail with EPERM"),
    "mknod": in_part(sys_mknod, "as mknodat"),
    "fchmod": sys_fchmod,
    "fchmodat": sys_fchmodat,
    "fchmodat2": sys_fchmodat2,
    "chmod": sys_chmod,
    "fchown": in_part(sys_fchown, "any user may be made the owner"),
    "fchownat": in_part(sys_fchownat, "as fchown"),
    "chown": in_part(sys_chown, "as fchown"),
    "lchown": in_part(sys_lchown, "as fchown"),
    "truncate": Call(sys_truncate, files=FileBytes.CHANGED),
    "ftruncate": Call(sys_ftruncate, files=FileBytes.CHANGED),
    "chdir": sys_chdir,
    "fchdir": sys_fchdir,
    "umask": sys_umask,
})  # fmt: skip
