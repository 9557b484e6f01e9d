"""What of the kernel's a system call uses that other threads' calls use, too: descriptors, names of files,
the current directory, what is done on a signal.

Memory hints do not name what the kernel keeps for a process. Two calls that use one thing of it, one of which
changes it, are to that what two accesses to one word are. After the manual pages of section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from emu.linux.signals.numbers import SIGPIPE, signal_name

#: Calls by which of their arguments are descriptors.
_FIRST = (
    "accept", "accept4", "bind", "close", "connect", "dup", "epoll_pwait", "epoll_wait", "fallocate",
    "fchdir", "fchmod", "fchown", "fcntl", "fdatasync", "flock", "fstat", "fsync", "ftruncate",
    "getdents64", "getpeername", "getsockname", "getsockopt", "inotify_add_watch", "inotify_rm_watch",
    "ioctl", "listen", "lseek", "pread64", "preadv", "pwrite64", "pwritev", "read", "readv", "recvfrom",
    "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "timerfd_gettime",
    "timerfd_settime", "write", "writev",
)  # fmt: skip
_DESCRIPTORS = {
    **dict.fromkeys(_FIRST, (0,)),
    **dict.fromkeys(("copy_file_range", "epoll_ctl", "splice"), (0, 2)),
    **dict.fromkeys(("dup2", "dup3", "sendfile", "tee"), (0, 1)),
}
#: Calls that make descriptors, of which they return the one.
MAKES_DESCRIPTOR = frozenset({
    "accept", "accept4", "creat", "dup", "epoll_create", "epoll_create1", "eventfd", "eventfd2",
    "inotify_init", "inotify_init1", "memfd_create", "open", "openat", "signalfd", "signalfd4",
    "socket", "timerfd_create",
})  # fmt: skip
#: Of those with a descriptor, those that leave it as it is.
_LOOK = frozenset({
    "fchdir", "fdatasync", "fstat", "fsync", "getpeername", "getsockname", "getsockopt", "pread64",
    "preadv", "timerfd_gettime",
})  # fmt: skip
#: Calls whose first argument is a name of a file, and those that have the directory that it is relative to
#: before it; then of all, which arguments are directories, -1 for the current one, and names.
_OF_CURRENT = (
    "access", "chdir", "chmod", "chown", "creat", "lstat", "mkdir", "mknod", "open", "readlink",
    "rmdir", "stat", "statfs", "truncate", "unlink", "utime",
)  # fmt: skip
_OF_ONE = (
    "faccessat", "faccessat2", "fchmodat", "mkdirat", "mknodat", "newfstatat", "openat", "readlinkat",
    "statx", "unlinkat", "utimensat",
)  # fmt: skip
_NAMED = {
    **dict.fromkeys(_OF_CURRENT, ((-1, 0),)),
    **dict.fromkeys(_OF_ONE, ((0, 1),)),
    **dict.fromkeys(("link", "rename"), ((-1, 0), (-1, 1))),
    **dict.fromkeys(("linkat", "renameat", "renameat2"), ((0, 1), (2, 3))),
    "symlink": ((-1, 1),),
    "symlinkat": ((1, 2),),
}
#: Of these, those that change nothing of the file; and of those that open one, flags with which they do.
_LOOK_AT_FILE = frozenset({
    "access", "chdir", "faccessat", "faccessat2", "lstat", "newfstatat", "readlink", "readlinkat",
    "stat", "statfs", "statx",
})  # fmt: skip
_OPENS = {"open": 1, "openat": 2}
_CREATES = frozenset({"creat", "mkdir", "mkdirat", "mknod", "mknodat"})
_CREATE, _TRUNCATE, _WRITING = 0o100, 0o1000, 0o3
#: Calls that say to which signal, by its place among the arguments; and those that may bring SIGPIPE.
_SIGNALLED = {
    "rt_sigaction": 0, "kill": 1, "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2,
}  # fmt: skip
#: Those of them that send it, by which argument says to which thread; None: to the process.
_SENDS = {"kill": None, "rt_sigqueueinfo": None, "rt_tgsigqueueinfo": 1, "tgkill": 1, "tkill": 0}
_PIPED = frozenset({
    "sendmmsg", "sendmsg", "sendto", "splice", "write", "writev",
})  # fmt: skip
#: Calls after which memory, or what it shows of a file, may not be there any more, or not to be used.
TAKES_MEMORY = frozenset({"ftruncate", "madvise", "mmap", "mprotect", "mremap", "munmap", "truncate"})

_AT_FDCWD, _LONGEST, _PIECE = -100 & 0xFFFFFFFF, 4096, 64
_INT = 0xFFFFFFFF
_POLL_BYTES, _MOST_POLLED = 8, 64
_DIRECTORY = "the current directory"
#: Bytes of the guest's memory from an address on; None where there are none.
Read = Callable[[int, int], bytes | None]


class Use(NamedTuple):
    """what: of the kernel's, in words. changes: what other calls find there is another then."""

    what: str
    changes: bool


def uses(name: str, arguments: Sequence[int], read: Read, result: int | None = None) -> tuple[Use, ...]:
    """What a call uses. arguments: at least six. result: what it returned, where that is known. Of a call
    that is not known here, nothing."""
    return tuple(dict.fromkeys(_each(name, arguments, read, result)))


def met(one: Sequence[Use], other: Sequence[Use]) -> str | None:
    """What two calls both use, and one of them changes, in words; None: nothing."""
    changed = {use.what for use in (*one, *other) if use.changes}
    theirs = {use.what for use in other}
    return next((use.what for use in one if use.what in changed and use.what in theirs), None)


def signal_to(name: str, arguments: Sequence[int], who: int) -> int | None:
    """The signal that a call sends to a thread, also where it is for the whole process; None: none."""
    if name not in _SENDS:
        return None
    place = _SENDS[name]
    mine = place is None or arguments[place] & _INT == who
    return arguments[_SIGNALLED[name]] & _INT if mine else None


def _each(name: str, arguments: Sequence[int], read: Read, result: int | None) -> Iterator[Use]:
    for place in _DESCRIPTORS.get(name, ()):
        yield Use(_descriptor(arguments[place]), name not in _LOOK)
    if name in MAKES_DESCRIPTOR and result is not None and result <= _INT >> 1:
        yield Use(_descriptor(result), True)
    if name in ("poll", "ppoll"):
        yield from (Use(_descriptor(one), False) for one in _polled(arguments[0], arguments[1], read))
    if name in ("pipe", "pipe2", "socketpair"):
        # Which ones it makes is written to memory.
        yield Use("which descriptors are free", True)
    for directory, place in _NAMED.get(name, ()):
        yield from _of_file(name, arguments, directory, _text(arguments[place], read))
    if name in ("chdir", "fchdir", "getcwd"):
        yield Use(_DIRECTORY, name != "getcwd")
    if name == "umask" or name in _CREATES or (name in _OPENS and arguments[_OPENS[name]] & _CREATE):
        yield Use("the mask of new files' modes", name == "umask")
    if name in _SIGNALLED:
        yield Use(_on_signal(arguments[_SIGNALLED[name]]), name == "rt_sigaction" and arguments[1] != 0)
    if name in _PIPED:
        yield Use(_on_signal(SIGPIPE), False)


def _of_file(name: str, arguments: Sequence[int], directory: int, file: str | None) -> Iterator[Use]:
    if file == "" and directory >= 0 and arguments[directory] & _INT != _AT_FDCWD:
        # AT_EMPTY_PATH: what the descriptor itself is of.
        yield Use(_descriptor(arguments[directory]), name not in _LOOK_AT_FILE)
    if not file:
        return
    flags = arguments[_OPENS[name]] if name in _OPENS else 0
    opened = bool(flags & (_CREATE | _TRUNCATE | _WRITING))
    yield Use(f"the file {file}", opened if name in _OPENS else name not in _LOOK_AT_FILE)
    if not file.startswith("/") and (directory < 0 or arguments[directory] & _INT == _AT_FDCWD):
        yield Use(_DIRECTORY, False)


def _descriptor(number: int) -> str:
    return f"descriptor {number & _INT}"


def _on_signal(number: int) -> str:
    return f"what is done on {signal_name(number & _INT)}"


def _polled(address: int, number: int, read: Read) -> Iterator[int]:
    """Descriptors of an array of `struct pollfd`."""
    data = read(address, _POLL_BYTES * min(number & _INT, _MOST_POLLED)) or b""
    for begin in range(0, len(data), _POLL_BYTES):
        number = int.from_bytes(data[begin : begin + 4], "little", signed=True)
        if number >= 0:
            yield number


def _text(address: int, read: Read) -> str | None:
    """What stands there up to a zero byte; None where there is no end of it."""
    found = b""
    while len(found) < _LONGEST:
        # Not beyond a page: the next one may not be there.
        piece = read(address + len(found), _PIECE - (address + len(found)) % _PIECE)
        if piece is None:
            return None
        text, zero, _ = piece.partition(b"\0")
        found += text
        if zero:
            return found.decode(errors="replace")
    return None
