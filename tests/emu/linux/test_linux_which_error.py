"""Which of several errors a call tells, and what rights of files allow, as Linux 6.18 does for user 1000."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

import pytest
from linux_guest_factory import BootedGuest, hello_spec

BAD = 8
NOBODY = (1 << 32) - 1
INVALID, FAULT, DENIED, NO_CHILD = -errno.EINVAL, -errno.EFAULT, -errno.EPERM, -errno.ECHILD


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    booted = BootedGuest(hello_spec())
    yield booted
    booted.close()


def name(guest: BootedGuest, text: bytes) -> tuple[int, int]:
    """A sockaddr_un: its address and length."""
    raw = struct.pack("<H", 1) + text
    return guest.put(raw), len(raw)


def test_sendfile_of_a_pipe_at_an_offset(guest: BootedGuest) -> None:
    out = guest.call("open", guest.path("/tmp/x"), os.O_RDWR | os.O_CREAT, 0o600)
    assert guest.call("pipe", guest.room) == 0
    reader = struct.unpack("<i", guest.process.memory.read(guest.room, 4))[0]
    assert guest.call("sendfile", out, reader, guest.put(bytes(8)), 3) == -errno.ESPIPE
    assert guest.call("sendfile", out, reader, 0, 3) == INVALID
    assert guest.call("sendfile", out, reader, BAD, 3) == FAULT


def test_a_second_name_of_a_socket(guest: BootedGuest) -> None:
    one, other = (guest.call("socket", 1, 1, 0) for _ in range(2))
    assert guest.call("bind", one, *name(guest, b"/tmp/s")) == 0
    assert guest.call("bind", one, *name(guest, b"/tmp/s")) == -errno.EADDRINUSE
    assert guest.call("bind", one, *name(guest, b"/tmp/s2")) == INVALID
    assert guest.call("access", guest.path("/tmp/s2"), 0) == -errno.ENOENT
    assert guest.call("bind", one, *name(guest, b"\0abq")) == INVALID
    assert guest.call("bind", one, *name(guest, b"")) == 0
    assert guest.call("bind", other, *name(guest, b"\0abq")) == 0
    assert guest.call("bind", other, *name(guest, b"\0abq")) == INVALID
    assert guest.call("bind", other, *name(guest, b"/tmp/s")) == -errno.EADDRINUSE


def test_a_second_connection_looks_for_the_other_end_first(guest: BootedGuest) -> None:
    listener, client = (guest.call("socket", 1, 1, 0) for _ in range(2))
    guest.call("bind", listener, *name(guest, b"/tmp/s"))
    guest.call("listen", listener, 1)
    assert guest.call("connect", client, *name(guest, b"/tmp/s")) == 0
    assert guest.call("connect", client, *name(guest, b"/tmp/none")) == -errno.ENOENT
    assert guest.call("connect", client, *name(guest, b"/tmp/s")) == -errno.EISCONN
    assert guest.call("connect", listener, *name(guest, b"/tmp/none")) == -errno.ENOENT
    assert guest.call("connect", listener, *name(guest, b"/tmp/s")) == INVALID


def test_a_mapping_of_a_mere_path(guest: BootedGuest) -> None:
    assert guest.call("creat", guest.path("/tmp/x"), 0o600) >= 0
    path = guest.call("open", guest.path("/tmp/x"), 0o10000000)
    for size, fd in ((4096, path), (0, path), (0, 99)):
        assert guest.call("mmap", 0, size, 3, 1, fd, 0) == -errno.EBADF
    assert guest.call("mmap", 0, 4096, 3, 1, 99, 5) == INVALID


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ((-1, 0, 0x1000), INVALID), ((-1, 0, 0xC0000000), NO_CHILD), ((-(1 << 31), 0, 0), -errno.ESRCH),
        ((-1, BAD, 1), NO_CHILD),
    ],
)  # fmt: skip
def test_wait4(guest: BootedGuest, arguments: tuple[int, ...], result: int) -> None:
    assert guest.call("wait4", *arguments) == result


@pytest.mark.parametrize(
    ("kind", "which", "options", "result"),
    [
        (0, 0, 1, INVALID), (0, 0, 0x104, INVALID), (0, 0, 4, NO_CHILD), (9, 0, 4, INVALID),
        (1, 0, 4, INVALID), (2, 0, 4, NO_CHILD), (2, -1, 4, INVALID), (3, -1, 4, INVALID),
        (3, 99, 4, -errno.EBADF),
    ],
)  # fmt: skip
def test_waitid(guest: BootedGuest, kind: int, which: int, options: int, result: int) -> None:
    assert guest.call("waitid", kind, which, 0, options) == result


@pytest.mark.parametrize(
    ("clock", "time", "result"),
    [
        (0, (1, 0), DENIED), (0, None, FAULT), (0, (0, -1), INVALID), (0, (-1, 0), INVALID),
        (0, (1 << 62, 0), INVALID), (1, (1, 0), INVALID), (99, None, INVALID), (-2, (1, 0), DENIED),
        (-2, None, FAULT), (-2, (0, -1), DENIED), (-9, (1, 0), INVALID), (-9, None, FAULT),
    ],
)  # fmt: skip
def test_clock_settime(guest: BootedGuest, clock: int, time: tuple[int, int] | None, result: int) -> None:
    address = BAD if time is None else guest.put(struct.pack("<2q", *time))
    assert guest.call("clock_settime", clock, address) == result


@pytest.mark.parametrize(
    ("time", "zone", "result"),
    [
        ((1, 0), 0, DENIED), ((0, 1_000_001), 0, INVALID), ((0, 1_000_000), 0, INVALID),
        ((-1, 0), 0, INVALID), (None, BAD, FAULT), (None, 0, DENIED), ((1, 0), BAD, FAULT),
        ((0, 1_000_001), BAD, INVALID),
    ],
)  # fmt: skip
def test_settimeofday(guest: BootedGuest, time: tuple[int, int] | None, zone: int, result: int) -> None:
    address = 0 if time is None else guest.put(struct.pack("<2q", *time))
    assert guest.call("settimeofday", address, zone) == result
    assert guest.call("settimeofday", BAD, 0) == FAULT


def mode_of(guest: BootedGuest, fd: int) -> int:
    assert guest.call("fstat", fd, guest.room + 1024) == 0
    return int(struct.unpack("<I", guest.process.memory.read(guest.room + 1024 + 24, 4))[0]) & 0o7777


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0o6777, 0o777), (0o2777, 0o777), (0o4755, 0o755), (0o2755, 0o755), (0o2745, 0o2745),
        (0o2765, 0o2765), (0o6711, 0o711),
    ],
)  # fmt: skip
def test_bits_that_go(guest: BootedGuest, before: int, after: int) -> None:
    fd = guest.call("open", guest.path("/tmp/s"), os.O_RDWR | os.O_CREAT, 0o600)
    for name, arguments in (
        ("write", (guest.room, 1)),
        ("ftruncate", (7,)),
        ("fchown", (NOBODY, NOBODY)),
        ("fchown", (1000, 1000)),
    ):
        assert guest.call("fchmod", fd, before) == 0
        assert guest.call(name, fd, *arguments) >= 0
        assert mode_of(guest, fd) == after, name
    assert guest.call("fchmod", fd, before) == 0
    assert guest.call("truncate", guest.path("/tmp/s"), 3) == 0
    assert mode_of(guest, fd) == after


def test_a_directory_keeps_its_bits(guest: BootedGuest) -> None:
    guest.call("mkdir", guest.path("/tmp/d"), 0o755)
    fd = guest.call("open", guest.path("/tmp/d"), os.O_RDONLY)
    assert guest.call("fchmod", fd, 0o2755) == 0
    assert guest.call("fchown", fd, 1000, 1000) == 0
    assert mode_of(guest, fd) == 0o2755


def renamed(guest: BootedGuest, old: str, new: str, flags: int = 0) -> int:
    """renameat2(2)."""
    return guest.call("renameat2", -100, guest.path(old), -100, guest.path(new, 512), flags)


def test_a_directory_that_may_not_be_written_keeps_its_parent(guest: BootedGuest) -> None:
    for name, mode in (("/tmp/p", 0o755), ("/tmp/c", 0o500), ("/tmp/p/w", 0o755)):
        assert guest.call("mkdir", guest.path(name), mode) == 0
    assert renamed(guest, "/tmp/c", "/tmp/p/c") == -errno.EACCES
    assert renamed(guest, "/tmp/c", "/tmp/p/w") == -errno.EACCES
    assert renamed(guest, "/tmp/p/w", "/tmp/c", flags=2) == -errno.EACCES
    assert renamed(guest, "/tmp/c", "/tmp/d") == 0
    assert guest.call("chmod", guest.path("/tmp/d"), 0o700) == 0
    assert renamed(guest, "/tmp/d", "/tmp/p/c") == 0


def test_rights_are_asked_before_kinds(guest: BootedGuest) -> None:
    for name in ("/tmp/q", "/tmp/q/sub"):
        assert guest.call("mkdir", guest.path(name), 0o755) == 0
    assert guest.call("creat", guest.path("/tmp/q/f"), 0o600) >= 0
    for mode, removed, unlinked in (
        (0o500, errno.EACCES, errno.EACCES),
        (0o700, errno.ENOTDIR, errno.EISDIR),
    ):
        assert guest.call("chmod", guest.path("/tmp/q"), mode) == 0
        assert guest.call("rmdir", guest.path("/tmp/q/f")) == -removed
        assert guest.call("unlink", guest.path("/tmp/q/sub")) == -unlinked
    assert guest.call("rmdir", guest.path("/tmp/q/none")) == -errno.ENOENT
