"""Rights of files: bits that writing takes away, directories that may not be changed. As Linux 6.18 has it
for user 1000."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

import pytest
from linux_guest_factory import BootedGuest, hello_spec

NOBODY = (1 << 32) - 1


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    booted = BootedGuest(hello_spec())
    yield booted
    booted.close()


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
