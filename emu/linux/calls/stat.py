"""Calls that tell of files. Sources: stat(2), statx(2), statfs(2), access(2), readlink(2), getdents(2)."""

from __future__ import annotations

import errno
import os

from emu.linux.calls.arguments import file_of, node_at, node_of, path_of, start_of
from emu.linux.files import open_flags as of
from emu.linux.files.host_tree import encode
from emu.linux.files.nodes import PIPE_DEVICE, PROC_DEVICE, SYS_DEVICE, Directory, Node, Symlink
from emu.linux.files.open_file import Stat
from emu.linux.files.path_walk import EXECUTE, READ, WRITE, require
from emu.linux.files.regular import OpenDirectory, OpenPath
from emu.linux.ground.call import Subject, in_part, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int, as_long
from emu.linux.tasks.task import Task
from isa.layout import Layout

_BLOCK = 4096
_AT_NO_AUTOMOUNT, _AT_STATX_SYNC_TYPE = 0x800, 0x6000
_AT_EACCESS = 0x200
_NS = 1_000_000_000

#: struct statx, the same on every ISA (linux/stat.h).
STATX = Layout(
    256,
    {
        "mask": (0, 4), "block_size": (4, 4), "links": (16, 4), "uid": (20, 4), "gid": (24, 4),
        "mode": (28, 2), "inode": (32, 8), "size": (40, 8), "blocks": (48, 8), "attributes_mask": (56, 8),
        "accessed": (64, 8), "accessed_ns": (72, 4), "created": (80, 8), "created_ns": (88, 4),
        "changed": (96, 8), "changed_ns": (104, 4), "modified": (112, 8), "modified_ns": (120, 4),
        "special_major": (128, 4), "special_minor": (132, 4), "major": (136, 4), "minor": (140, 4),
        "mount": (144, 8),
    },
)  # fmt: skip
#: struct statfs of 64-bit ISAs (asm-generic/statfs.h).
STATFS = Layout(
    120,
    {
        "type": (0, 8), "block_size": (8, 8), "blocks": (16, 8), "free": (24, 8), "available": (32, 8),
        "files": (40, 8), "files_free": (48, 8), "id": (56, 8), "name_length": (64, 8),
        "fragment_size": (72, 8), "flags": (80, 8),
    },
)  # fmt: skip
_STATX_BASIC = 0x7FF
#: f_type of statfs(2) by device.
_MAGIC = {PROC_DEVICE: 0x9FA0, SYS_DEVICE: 0x62656572, PIPE_DEVICE: 0x50495045}
_EXT4_MAGIC = 0xEF53


def stat_at(task: Task, dirfd: int, address: int, flags: int) -> Stat:
    """Of a path, or of the descriptor itself with AT_EMPTY_PATH. Raises Errno."""
    return node_at(task, dirfd, address, flags).stat()


def _write_stat(task: Task, address: int, stat: Stat) -> int:
    raw = task.process.abi.stat.pack(
        device=stat.device,
        inode=stat.inode,
        links=stat.links,
        mode=stat.mode,
        uid=stat.uid,
        gid=stat.gid,
        special_device=stat.special_device,
        size=stat.size,
        block_size=_BLOCK,
        blocks=stat.blocks,
        accessed=stat.accessed // _NS,
        accessed_ns=stat.accessed % _NS,
        modified=stat.modified // _NS,
        modified_ns=stat.modified % _NS,
        changed=stat.changed // _NS,
        changed_ns=stat.changed % _NS,
    )
    task.process.memory.write(address, raw)
    return 0


def sys_fstat(task: Task, fd: int, address: int) -> int:
    """fstat(2)."""
    return _write_stat(task, address, file_of(task, fd).stat())


def sys_newfstatat(task: Task, dirfd: int, path: int, address: int, flags: int) -> int:
    """fstatat(2)."""
    flags = as_int(flags)
    if flags & ~(of.AT_SYMLINK_NOFOLLOW | of.AT_EMPTY_PATH | _AT_NO_AUTOMOUNT):
        raise Errno(errno.EINVAL)
    return _write_stat(task, address, stat_at(task, dirfd, path, flags))


def sys_stat(task: Task, path: int, address: int) -> int:
    """stat(2)."""
    return _write_stat(task, address, stat_at(task, of.AT_FDCWD, path, 0))


def sys_lstat(task: Task, path: int, address: int) -> int:
    """lstat(2)."""
    return _write_stat(task, address, stat_at(task, of.AT_FDCWD, path, of.AT_SYMLINK_NOFOLLOW))


def sys_statx(task: Task, dirfd: int, path: int, flags: int, mask: int, address: int) -> int:
    """statx(2): the basic fields. A null path is EFAULT, even with AT_EMPTY_PATH: glibc probes so."""
    flags = as_int(flags)
    known = of.AT_SYMLINK_NOFOLLOW | of.AT_EMPTY_PATH | _AT_NO_AUTOMOUNT | _AT_STATX_SYNC_TYPE
    if flags & ~known or flags & _AT_STATX_SYNC_TYPE == _AT_STATX_SYNC_TYPE or as_int(mask) < 0:
        raise Errno(errno.EINVAL)
    stat = stat_at(task, dirfd, path, flags)
    raw = STATX.pack(
        mask=_STATX_BASIC,
        block_size=_BLOCK,
        links=stat.links,
        uid=stat.uid,
        gid=stat.gid,
        mode=stat.mode,
        inode=stat.inode,
        size=stat.size,
        blocks=stat.blocks,
        accessed=stat.accessed // _NS,
        accessed_ns=stat.accessed % _NS,
        changed=stat.changed // _NS,
        changed_ns=stat.changed % _NS,
        modified=stat.modified // _NS,
        modified_ns=stat.modified % _NS,
        special_major=os.major(stat.special_device),
        special_minor=os.minor(stat.special_device),
        major=os.major(stat.device),
        minor=os.minor(stat.device),
    )
    task.process.memory.write(address, raw)
    return 0


def _write_statfs(task: Task, address: int, device: int) -> int:
    layer = task.process.filesystem.layer
    blocks, free = layer.limit // _BLOCK, (layer.limit - layer.used) // _BLOCK
    values = {
        "type": _MAGIC.get(device, _EXT4_MAGIC), "block_size": _BLOCK, "fragment_size": _BLOCK, "id": device,
        "blocks": blocks, "free": free, "available": free, "files": 1 << 20, "files_free": 1 << 19,
        "name_length": 255, "flags": 0x20,
    }  # fmt: skip
    task.process.memory.write(address, STATFS.pack(**values))
    return 0


def sys_statfs(task: Task, path: int, address: int) -> int:
    """statfs(2): the room is what the private layer has left."""
    return _write_statfs(task, address, stat_at(task, of.AT_FDCWD, path, 0).device)


def sys_fstatfs(task: Task, fd: int, address: int) -> int:
    """fstatfs(2)."""
    return _write_statfs(task, address, file_of(task, fd).stat().device)


def _check_access(node: Node, mode: int) -> int:
    if mode & ~7:
        raise Errno(errno.EINVAL)
    for bit, bits in ((4, READ), (2, WRITE), (1, EXECUTE)):
        if mode & bit:
            require(node, bits)
    return 0


def sys_faccessat2(task: Task, dirfd: int, path: int, mode: int, flags: int) -> int:
    """faccessat2(2)."""
    flags, mode = as_int(flags), as_int(mode)
    if mode & ~7 or flags & ~(_AT_EACCESS | of.AT_SYMLINK_NOFOLLOW | of.AT_EMPTY_PATH):
        raise Errno(errno.EINVAL)
    return _check_access(node_at(task, dirfd, path, flags), mode)


def sys_faccessat(task: Task, dirfd: int, path: int, mode: int) -> int:
    """faccessat(2), the call without flags."""
    return sys_faccessat2(task, dirfd, path, mode, 0)


def sys_access(task: Task, path: int, mode: int) -> int:
    """access(2)."""
    return sys_faccessat2(task, of.AT_FDCWD, path, mode, 0)


def sys_readlinkat(task: Task, dirfd: int, path: int, buffer: int, size: int) -> int:
    """readlinkat(2); an empty path means the descriptor, opened with O_PATH | O_NOFOLLOW."""
    if as_int(size) <= 0:
        raise Errno(errno.EINVAL)
    name = path_of(task, path)
    if not name and as_int(dirfd) != of.AT_FDCWD:
        node = node_of(file_of(task, dirfd))
        missing = errno.ENOENT
    else:
        node = task.process.filesystem.walk(name, start_of(task, dirfd, name), follow=False).existing()
        missing = errno.EINVAL
    if not isinstance(node, Symlink):
        raise Errno(missing)
    target = encode(node.target())[: as_int(size)]
    task.process.memory.write(buffer, target)
    return len(target)


def sys_readlink(task: Task, path: int, buffer: int, size: int) -> int:
    """readlink(2)."""
    return sys_readlinkat(task, of.AT_FDCWD, path, buffer, size)


def _directory(task: Task, fd: int) -> OpenDirectory:
    file = file_of(task, fd)
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    if not isinstance(file, OpenDirectory):
        raise Errno(errno.ENOTDIR)
    if file.node.removed:
        raise Errno(errno.ENOENT)
    return file


def _entries(task: Task, fd: int, address: int, size: int, modern: bool) -> int:
    """Records of whole entries from the position on, as many as fit. Errno: not even one fits the buffer
    (EINVAL), or its memory (EFAULT)."""
    file = _directory(task, fd)
    size, raw, position = min(size & 0xFFFFFFFF, 1 << 20), b"", file.position
    room = task.process.memory.reachable(address, size, True)
    listing = file.entries()
    while position < len(listing):
        name, inode, kind = listing[position]
        text = encode(name) + b"\0"
        length = (19 + len(text) + 7) & -8
        head = (
            inode.to_bytes(8, "little") + (position + 1).to_bytes(8, "little") + length.to_bytes(2, "little")
        )
        if modern:
            record = (head + bytes([kind]) + text).ljust(length, b"\0")
        else:
            record = (head + text).ljust(length - 1, b"\0") + bytes([kind])
        if len(raw) + length > size:
            if not raw:
                raise Errno(errno.EINVAL)
            break
        if len(raw) + length > room:
            if not raw:
                raise Errno(errno.EFAULT)
            break
        raw, position = raw + record, position + 1
    if raw:
        task.process.memory.write(address, raw)
    file.position = position
    return len(raw)


def sys_getdents64(task: Task, fd: int, address: int, size: int) -> int:
    """getdents64(2): sorted by name."""
    return _entries(task, fd, address, size, modern=True)


def sys_getdents(task: Task, fd: int, address: int, size: int) -> int:
    """getdents(2): the type is in each record's last byte."""
    return _entries(task, fd, address, size, modern=False)


def sys_getcwd(task: Task, buffer: int, size: int) -> int:
    """getcwd(2): the call's result counts the final 0."""
    directory: Directory = task.process.filesystem.cwd
    if directory.removed:
        raise Errno(errno.ENOENT)
    text = encode(directory.path()) + b"\0"
    if len(text) > 4096:
        raise Errno(errno.ENAMETOOLONG)
    if as_long(size) >= 0 and size < len(text):
        raise Errno(errno.ERANGE)
    task.process.memory.write(buffer, text)
    return len(text)


CALLS = table(Subject.FILES, {
    "fstat": sys_fstat,
    "newfstatat": sys_newfstatat,
    "stat": sys_stat,
    "lstat": sys_lstat,
    "statx": in_part(sys_statx, "the basic fields"),
    "statfs": in_part(sys_statfs, "the room is what the private layer has left"),
    "fstatfs": in_part(sys_fstatfs, "as statfs"),
    "access": sys_access,
    "faccessat": sys_faccessat,
    "faccessat2": sys_faccessat2,
    "readlink": sys_readlink,
    "readlinkat": sys_readlinkat,
    "getdents64": sys_getdents64,
    "getdents": sys_getdents,
    "getcwd": sys_getcwd,
})  # fmt: skip
