"""Calls that open, read and write. Sources: open(2), openat2(2), read(2), readv(2), write(2), lseek(2)."""

from __future__ import annotations

import errno

from emu.linux.calls.arguments import buffers, file_of, path_of, start_of
from emu.linux.calls.moving import read_into, write_from
from emu.linux.files import open_flags as of
from emu.linux.files.nodes import Directory
from emu.linux.files.open_file import OpenFile
from emu.linux.files.regular import OpenPath
from emu.linux.ground.call import Call, FileBytes, Subject, in_part, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Blocking
from emu.linux.ground.words import as_int, as_long
from emu.linux.tasks.task import Task
from emu.linux.waiting.named_pipe import await_partner, lacks_partner
from emu.linux.waiting.pipe import PipeReader, PipeWriter

_OPEN_HOW_BYTES = 24
_RWF_HIPRI, _RWF_DSYNC, _RWF_SYNC = 1, 2, 4


def _open(task: Task, dirfd: int, path: str, flags: int, mode: int) -> int | Blocking:
    """The descriptor is taken first: without one nothing is opened, and nobody else gets it meanwhile."""
    descriptors, cloexec = task.process.descriptors, bool(flags & of.O_CLOEXEC)
    number = descriptors.reserve()
    try:
        file = _opened(task, start_of(task, dirfd, path), path, flags, mode)
    except Errno:
        descriptors.give_back(number)
        raise
    if isinstance(file, PipeReader | PipeWriter) and lacks_partner(file):
        return _open_with_partner(task, number, file, cloexec)
    return descriptors.fill(number, file, cloexec)


def _opened(task: Task, at: Directory | None, path: str, flags: int, mode: int) -> OpenFile:
    process = task.process
    cuts = flags & of.O_TRUNC and process.space.has_shared_files
    if cuts:
        process.space.write_back()
    file = process.filesystem.open(path, flags, mode & 0o7777 & ~process.umask, at)
    if cuts:
        process.space.reload()
    return file


def _open_with_partner(task: Task, number: int, end: PipeReader | PipeWriter, cloexec: bool) -> Blocking:
    try:
        yield from await_partner(end)
    except Interrupted:
        task.process.descriptors.give_back(number)
        raise
    return task.process.descriptors.fill(number, end, cloexec)


def sys_openat(task: Task, dirfd: int, path: int, flags: int, mode: int) -> int | Blocking:
    """openat(2). Flags that are not known are ignored."""
    return _open(task, dirfd, path_of(task, path), as_int(flags) & of.ALL, mode)


def sys_open(task: Task, path: int, flags: int, mode: int) -> int | Blocking:
    """open(2)."""
    return sys_openat(task, of.AT_FDCWD, path, flags, mode)


def sys_creat(task: Task, path: int, mode: int) -> int | Blocking:
    """creat(2)."""
    return sys_openat(task, of.AT_FDCWD, path, of.O_CREAT | of.O_WRONLY | of.O_TRUNC, mode)


def sys_openat2(task: Task, dirfd: int, path: int, how: int, size: int) -> int | Blocking:
    """openat2(2). RESOLVE_* flags are refused with EINVAL: no restriction is done halfway."""
    if size < _OPEN_HOW_BYTES:
        raise Errno(errno.EINVAL)
    if size > 4096:
        raise Errno(errno.E2BIG)
    raw = task.process.memory.read(how, size)
    if any(raw[_OPEN_HOW_BYTES:]):
        raise Errno(errno.E2BIG)
    flags, mode, resolve = (int.from_bytes(raw[i : i + 8], "little") for i in (0, 8, 16))
    creates = flags & of.O_CREAT or of.is_unnamed(flags)
    if flags & ~of.ALL or mode & ~0o7777 or (mode and not creates) or resolve:
        raise Errno(errno.EINVAL)
    return _open(task, dirfd, path_of(task, path), flags, mode)


def sys_close(task: Task, fd: int) -> int:
    """close(2)."""
    task.process.descriptors.close(as_int(fd))
    return 0


def sys_read(task: Task, fd: int, buffer: int, count: int) -> Blocking:
    """read(2)."""
    file = file_of(task, fd)
    return (yield from read_into(task, file, [(buffer, count)]))


def sys_write(task: Task, fd: int, buffer: int, count: int) -> Blocking:
    """write(2)."""
    file = file_of(task, fd)
    return (yield from write_from(task, file, [(buffer, count)]))


def sys_readv(task: Task, fd: int, vector: int, count: int) -> Blocking:
    """readv(2)."""
    file = file_of(task, fd)
    return (yield from read_into(task, file, buffers(task, vector, count)))


def sys_writev(task: Task, fd: int, vector: int, count: int) -> Blocking:
    """writev(2)."""
    file = file_of(task, fd)
    return (yield from write_from(task, file, buffers(task, vector, count)))


def _offset(offset: int) -> int:
    if as_long(offset) < 0:
        raise Errno(errno.EINVAL)
    return offset


def sys_pread64(task: Task, fd: int, buffer: int, count: int, offset: int) -> Blocking:
    """pread(2)."""
    at, file = _offset(offset), file_of(task, fd)
    return (yield from read_into(task, file, [(buffer, count)], at))


def sys_pwrite64(task: Task, fd: int, buffer: int, count: int, offset: int) -> Blocking:
    """pwrite(2)."""
    at, file = _offset(offset), file_of(task, fd)
    return (yield from write_from(task, file, [(buffer, count)], at))


def sys_preadv(task: Task, fd: int, vector: int, count: int, offset: int) -> Blocking:
    """preadv(2)."""
    at, file = _offset(offset), file_of(task, fd)
    return (yield from read_into(task, file, buffers(task, vector, count), at))


def sys_pwritev(task: Task, fd: int, vector: int, count: int, offset: int) -> Blocking:
    """pwritev(2)."""
    at, file = _offset(offset), file_of(task, fd)
    return (yield from write_from(task, file, buffers(task, vector, count), at))


def _at_position(offset: int, flags: int, known: int) -> int | None:
    """preadv2's offset: -1 is the position."""
    if as_int(flags) & ~known:
        raise Errno(errno.EOPNOTSUPP)
    return None if as_long(offset) == -1 else _offset(offset)


def sys_preadv2(task: Task, fd: int, vector: int, count: int, offset: int, high: int, flags: int) -> Blocking:
    """preadv2(2). RWF_NOWAIT is refused with EOPNOTSUPP, as by a file system without it."""
    at, file = _at_position(offset, flags, _RWF_HIPRI), file_of(task, fd)
    return (yield from read_into(task, file, buffers(task, vector, count), at))


def sys_pwritev2(
    task: Task, fd: int, vector: int, count: int, offset: int, high: int, flags: int
) -> Blocking:
    """pwritev2(2). RWF_APPEND and RWF_NOWAIT are refused with EOPNOTSUPP."""
    at = _at_position(offset, flags, _RWF_HIPRI | _RWF_DSYNC | _RWF_SYNC)
    file = file_of(task, fd)
    return (yield from write_from(task, file, buffers(task, vector, count), at))


def seekable(file: OpenFile) -> OpenFile:
    """The file, unless it is O_PATH. Raises Errno(EBADF)."""
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    return file


def sys_lseek(task: Task, fd: int, offset: int, whence: int) -> int:
    """lseek(2)."""
    return seekable(file_of(task, fd)).seek(as_long(offset), as_int(whence))


CALLS = table(Subject.FILES, {
    "openat": sys_openat,
    "open": sys_open,
    "creat": sys_creat,
    "openat2": in_part(sys_openat2, "RESOLVE_* fails with EINVAL"),
    "close": sys_close,
    "read": Call(sys_read, files=FileBytes.READ),
    "write": Call(sys_write, files=FileBytes.CHANGED),
    "readv": Call(sys_readv, files=FileBytes.READ),
    "writev": Call(sys_writev, files=FileBytes.CHANGED),
    "pread64": Call(sys_pread64, files=FileBytes.READ),
    "pwrite64": Call(sys_pwrite64, files=FileBytes.CHANGED),
    "preadv": Call(sys_preadv, files=FileBytes.READ),
    "pwritev": Call(sys_pwritev, files=FileBytes.CHANGED),
    "preadv2": in_part(sys_preadv2, "RWF_NOWAIT fails with EOPNOTSUPP", FileBytes.READ),
    "pwritev2": in_part(sys_pwritev2, "RWF_APPEND and RWF_NOWAIT fail with EOPNOTSUPP", FileBytes.CHANGED),
    "lseek": sys_lseek,
})  # fmt: skip
