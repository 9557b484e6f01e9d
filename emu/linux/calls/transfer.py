"""Calls that move bytes between files, reserve room, and flush; and what is refused about files.

Sources: sendfile(2), copy_file_range(2), fallocate(2), fsync(2), posix_fadvise(2), memfd_create(2), xattr(7).
"""

from __future__ import annotations

import errno

from emu.linux.calls.arguments import MOST_BYTES, file_of, node_at, node_of
from emu.linux.calls.moving import PIECE, Stopped, after_transfer, before_transfer, write_all
from emu.linux.files import open_flags as of
from emu.linux.files.host_tree import decode
from emu.linux.files.open_file import OpenFile
from emu.linux.files.private_layer import MAX_FILE
from emu.linux.files.private_nodes import PrivateFile
from emu.linux.files.regular import NodeFile, OpenDirectory, OpenPath, OpenRegular
from emu.linux.ground.call import Call, FileBytes, Subject, idle, in_part, refused, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.wait import Blocking, Handler
from emu.linux.ground.words import as_int, as_long
from emu.linux.pseudo.dev import OpenDevice
from emu.linux.tasks.task import Task

_KEEP_SIZE, _PUNCH_HOLE, _COLLAPSE, _ZERO_RANGE, _INSERT, _UNSHARE = 1, 2, 8, 0x10, 0x20, 0x40
_MFD_CLOEXEC, _MFD_ALLOW_SEALING, _MFD_HUGETLB, _MFD_NOEXEC_SEAL, _MFD_EXEC = 1, 2, 4, 8, 0x10
_F_SEAL_SEAL, _F_SEAL_EXEC = 1, 0x20
_MEMFD_NAME = 249


def _position(task: Task, address: int) -> int | None:
    """The offset at an address; None: none is given, so the file's position counts."""
    if not address:
        return None
    offset = as_long(task.process.memory.read_number(address, 8))
    if offset < 0:
        raise Errno(errno.EINVAL)
    return offset


def sys_sendfile(task: Task, out_fd: int, in_fd: int, offset: int, count: int) -> Blocking:
    """sendfile(2)."""
    out, source = file_of(task, out_fd), file_of(task, in_fd)
    if not out.writable or not source.readable or isinstance(out, OpenPath) or isinstance(source, OpenPath):
        raise Errno(errno.EBADF)
    if offset and task.process.memory.read(offset, 8) and not isinstance(source, NodeFile | OpenDevice):
        raise Errno(errno.ESPIPE)
    if as_long(count) < 0 or not isinstance(source, OpenRegular | OpenDevice) or out.flags & of.O_APPEND:
        raise Errno(errno.EINVAL)
    start = _position(task, offset)
    at = _here(source) if start is None else start
    done = yield from _copy(task, source, at, out, None, min(count, MOST_BYTES))
    if start is None:
        _set_position(source, at + done)
    else:
        task.process.memory.write_number(offset, 8, at + done)
    return done


def _here(file: OpenFile) -> int:
    return file.position if isinstance(file, OpenRegular) else 0


def _set_position(file: OpenFile, position: int) -> None:
    if isinstance(file, OpenRegular):
        file.position = position


def _copy(task: Task, source: OpenFile, at: int, out: OpenFile, to: int | None, count: int) -> Blocking:
    """Copy bytes of a file from `at` on. Returns how many."""
    before_transfer(task, source)
    done = 0
    try:
        while done < count:
            data = source.pread(min(PIECE, count - done), at + done)
            if not data:
                break
            done += yield from write_all(task, out, data, None if to is None else to + done, done)
    except Stopped as stopped:
        return done + stopped.done
    except Errno:
        if not done:
            raise
    finally:
        after_transfer(task, out)
    return done


def sys_copy_file_range(
    task: Task, in_fd: int, in_offset: int, out_fd: int, out_offset: int, count: int, flags: int
) -> Blocking:
    """copy_file_range(2)."""
    source, out = file_of(task, in_fd), file_of(task, out_fd)
    if as_int(flags):
        raise Errno(errno.EINVAL)
    if isinstance(source, OpenDirectory) or isinstance(out, OpenDirectory):
        raise Errno(errno.EISDIR)
    if not isinstance(source, OpenRegular) or not isinstance(out, OpenRegular):
        raise Errno(
            errno.EBADF if isinstance(source, OpenPath) or isinstance(out, OpenPath) else errno.EINVAL
        )
    if not source.readable or not out.writable or out.flags & of.O_APPEND:
        raise Errno(errno.EBADF)
    first, second = _position(task, in_offset), _position(task, out_offset)
    at = source.position if first is None else first
    to = out.position if second is None else second
    count = min(count, MOST_BYTES, max(0, source.node.size() - at))
    if source.node is out.node and at < to + count and to < at + count:
        raise Errno(errno.EINVAL)
    done = yield from _copy(task, source, at, out, to, count)
    if first is None:
        source.position = at + done
    else:
        task.process.memory.write_number(in_offset, 8, at + done)
    if second is None:
        out.position = to + done
    else:
        task.process.memory.write_number(out_offset, 8, to + done)
    return done


def sys_fallocate(task: Task, fd: int, mode: int, offset: int, size: int) -> int:
    """fallocate(2): holes cost nothing here, so room is only checked for, not taken."""
    file, mode, start, length = file_of(task, fd), as_int(mode), as_long(offset), as_long(size)
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    if start < 0 or length <= 0:
        raise Errno(errno.EINVAL)
    if mode not in (0, _KEEP_SIZE, _PUNCH_HOLE | _KEEP_SIZE, _ZERO_RANGE, _ZERO_RANGE | _KEEP_SIZE):
        raise Errno(errno.EOPNOTSUPP)
    if not file.writable:
        raise Errno(errno.EBADF)
    if not isinstance(file, OpenRegular):
        raise Errno(errno.ESPIPE if not isinstance(file, NodeFile) else errno.ENODEV)
    if start + length > MAX_FILE:
        raise Errno(errno.EFBIG)
    node, layer = file.node, task.process.filesystem.layer
    before_transfer(task, file)
    if mode & (_PUNCH_HOLE | _ZERO_RANGE):
        node.zero(start, length)
    elif isinstance(node, PrivateFile) and start + length - node.size() > layer.limit - layer.used:
        raise Errno(errno.ENOSPC)
    if not mode & _KEEP_SIZE and start + length > node.size():
        node.truncate(start + length)
    after_transfer(task, file)
    return 0


def sys_fsync(task: Task, fd: int) -> int:
    """fsync(2), fdatasync(2), syncfs(2): what has a path is always safe."""
    file = file_of(task, fd)
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    if not isinstance(file, NodeFile):
        raise Errno(errno.EINVAL)
    return 0


def sys_syncfs(task: Task, fd: int) -> int:
    """syncfs(2)."""
    if isinstance(file_of(task, fd), OpenPath):
        raise Errno(errno.EBADF)
    return 0


def sys_sync(task: Task) -> int:
    """sync(2)."""
    return 0


def sys_fadvise64(task: Task, fd: int, offset: int, size: int, advice: int) -> int:
    """posix_fadvise(2): advice is not needed."""
    file = file_of(task, fd)
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    if not isinstance(file, NodeFile | OpenDevice):
        raise Errno(errno.ESPIPE)
    if as_long(size) < 0 or not 0 <= as_int(advice) <= 5:
        raise Errno(errno.EINVAL)
    return 0


def sys_readahead(task: Task, fd: int) -> int:
    """readahead(2)."""
    file = file_of(task, fd)
    if not file.readable or isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    if not isinstance(file, OpenRegular):
        raise Errno(errno.EINVAL)
    return 0


def sys_sync_file_range(task: Task, fd: int, offset: int, size: int, flags: int) -> int:
    """sync_file_range(2)."""
    file_of(task, fd)
    if as_long(offset) < 0 or as_long(offset + size) < as_long(offset) or flags & 0xFFFFFFF8:
        raise Errno(errno.EINVAL)
    return sys_fsync(task, fd)


def sys_memfd_create(task: Task, name: int, flags: int) -> int:
    """memfd_create(2). Huge pages are refused with EINVAL."""
    flags = as_int(flags)
    if flags & ~(_MFD_CLOEXEC | _MFD_ALLOW_SEALING | _MFD_NOEXEC_SEAL | _MFD_EXEC):
        raise Errno(errno.EINVAL)
    if flags & _MFD_NOEXEC_SEAL and flags & _MFD_EXEC:
        raise Errno(errno.EINVAL)
    process = task.process
    try:
        text = decode(process.memory.read_string(name, _MEMFD_NAME + 1))
    except Errno as failure:
        raise Errno(errno.EINVAL if failure.number == errno.ENAMETOOLONG else failure.number) from None
    seals = 0 if flags & (_MFD_ALLOW_SEALING | _MFD_NOEXEC_SEAL) else _F_SEAL_SEAL
    mode = 0o666 if flags & _MFD_NOEXEC_SEAL else 0o777
    seals |= _F_SEAL_EXEC if flags & _MFD_NOEXEC_SEAL else 0
    file = process.filesystem.memory_file(text, mode, seals)
    return process.descriptors.add(file, cloexec=bool(flags & _MFD_CLOEXEC))


# -- what there is none of -----------------------------------------------------------------------------------


def _attribute_call(number: int, follow: bool) -> Handler:
    """A call on extended attributes of a path."""

    def sys_xattr(task: Task, path: int) -> int:
        """xattr(7): no file has any."""
        node_at(task, of.AT_FDCWD, path, 0 if follow else of.AT_SYMLINK_NOFOLLOW)
        if number:
            raise Errno(number)
        return 0

    return sys_xattr


def _descriptor_attribute_call(number: int) -> Handler:
    def sys_fxattr(task: Task, fd: int) -> int:
        """xattr(7): no file has any."""
        node_of(file_of(task, fd))
        if number:
            raise Errno(number)
        return 0

    return sys_fxattr


def _refused(number: int) -> Handler:
    def sys_refused(task: Task) -> int:
        """Not for this process."""
        raise Errno(number)

    return sys_refused


_ATTRIBUTES = {"get": errno.ENODATA, "set": errno.EOPNOTSUPP, "remove": errno.ENODATA, "list": 0}
_NONE = "no file has any"

CALLS = table(Subject.FILES, {
    "sendfile": Call(sys_sendfile, files=FileBytes.CHANGED),
    "copy_file_range": Call(sys_copy_file_range, files=FileBytes.CHANGED),
    "fallocate": in_part(sys_fallocate, "room is checked for, not taken", FileBytes.CHANGED),
    "fsync": idle(sys_fsync, "there is no disk"),
    "fdatasync": idle(sys_fsync, "there is no disk"),
    "syncfs": idle(sys_syncfs, "there is no disk"),
    "sync": idle(sys_sync, "there is no disk"),
    "sync_file_range": idle(sys_sync_file_range, "there is no disk"),
    "fadvise64": idle(sys_fadvise64, "advice is not needed"),
    "readahead": idle(sys_readahead, "advice is not needed"),
    "memfd_create": in_part(sys_memfd_create, "MFD_HUGETLB fails with EINVAL"),
    **{f"{verb}xattr": in_part(_attribute_call(n, True), _NONE) for verb, n in _ATTRIBUTES.items()},
    **{f"l{verb}xattr": in_part(_attribute_call(n, False), _NONE) for verb, n in _ATTRIBUTES.items()},
    **{f"f{verb}xattr": in_part(_descriptor_attribute_call(n), _NONE) for verb, n in _ATTRIBUTES.items()},
}) | table(Subject.SYSTEM, {
    "name_to_handle_at": refused(_refused(errno.EOPNOTSUPP), "EOPNOTSUPP"),
    **{
        name: refused(_refused(errno.EPERM), "EPERM")
        for name in (
            "chroot", "mount", "umount2", "pivot_root", "open_by_handle_at", "open_tree", "move_mount",
            "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "fanotify_init",
        )
    },
})  # fmt: skip
