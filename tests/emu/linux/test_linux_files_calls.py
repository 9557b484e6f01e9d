"""The calls on files: reading, writing, waiting, and descriptors."""

from __future__ import annotations

import errno
import os
import stat as modes
import struct

import pytest
from linux_files_factory import AT_FDCWD, MEMORY, Guest, resume

from emu.linux.files.open_file import OpenFile
from emu.linux.ground.failure import Errno
from emu.linux.ground.wait import Reason

RW_NEW = os.O_RDWR | os.O_CREAT
BAD = 16


class Slow(OpenFile):
    """A pipe of three bytes: reads and writes that must wait."""

    name = "slow"

    def __init__(self, flags: int = os.O_RDWR, held: bytes = b"") -> None:
        super().__init__(flags)
        self.held, self.closed, self.broken = held, 0, False

    def read(self, n: int) -> bytes:
        if not self.held:
            raise Errno(errno.EAGAIN)
        data, self.held = self.held[:n], self.held[n:]
        return data

    def write(self, data: bytes) -> int:
        if self.broken:
            raise Errno(errno.EPIPE)
        n = min(3 - len(self.held), len(data))
        if not n:
            raise Errno(errno.EAGAIN)
        self.held += data[:n]
        return n

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def guest() -> Guest:
    return Guest()


def _vector(guest: Guest, *buffers: tuple[int, int]) -> int:
    return guest.put(b"".join(struct.pack("<QQ", *buffer) for buffer in buffers))


# -- reading and writing -----------------------------------------------------------------------------------


def test_standard_streams() -> None:
    guest = Guest(stdin=b"typed\n")
    assert guest.read(0, 3) == b"typ"
    address = guest.room(4)
    assert guest.call("ioctl", 0, 0x541B, address) == 0
    assert guest.memory.read_number(address, 4) == 3
    assert guest.cat("/dev/stdin") == b"ed\n"
    assert guest.read(0) == b""
    assert guest.write(1, b"out") == guest.write(2, b"err") == 3
    assert guest.store("/dev/stdout", b"more") == 0
    assert guest.printed == [b"out", b"err", b"more"]
    assert guest.read(1) == guest.write(0, b"x") == -errno.EBADF
    assert guest.open("/dev/stdin", os.O_WRONLY) == 3
    for fd in range(3):
        stat = guest.stat("", 0x1000, fd)
        assert isinstance(stat, dict)
        assert modes.S_ISFIFO(stat["mode"])
        assert guest.call("lseek", fd, 0, 0) == -errno.ESPIPE
        assert guest.call("fsync", fd) == -errno.EINVAL
        assert guest.call("ioctl", fd, 0x5401, address) == -errno.ENOTTY


def test_bad_addresses(guest: Guest) -> None:
    fd = guest.open("/tmp/f", RW_NEW)
    assert guest.write(fd, b"0123456789") == 10
    assert guest.call("write", fd, BAD, 4) == -errno.EFAULT
    assert guest.call("lseek", fd, 2, 0) == 2
    assert guest.call("read", fd, BAD, 4) == -errno.EFAULT
    assert guest.read(fd, 4) == b"2345"
    good = guest.room(4)
    assert guest.call("lseek", fd, 0, 0) == 0
    assert guest.call("readv", fd, _vector(guest, (good, 4), (BAD, 4)), 2) == 4
    assert guest.read(fd, 4) == b"4567"
    assert guest.call("readv", fd, _vector(guest, (good, 4)), 1025) == -errno.EINVAL
    assert guest.call("readv", fd, _vector(guest, (good, 1 << 63)), 1) == -errno.EINVAL
    assert guest.call("read", fd, good, 1 << 63) == -errno.EFAULT
    assert guest.call("openat", AT_FDCWD, BAD, 0, 0) == -errno.EFAULT
    assert guest.call("read", 99, good, 1) == -errno.EBADF


def test_vectors_and_offsets(guest: Guest) -> None:
    fd = guest.open("/tmp/f", RW_NEW)
    one, two = guest.put(b"abc"), guest.put(b"defgh")
    assert guest.call("writev", fd, _vector(guest, (one, 3), (0, 0), (two, 5)), 3) == 8
    assert guest.call("pwritev", fd, _vector(guest, (one, 3)), 1, 20) == 3
    assert guest.pread(fd, 100, 0) == b"abcdefgh" + bytes(12) + b"abc"
    room = guest.room(8)
    assert guest.call("preadv", fd, _vector(guest, (room, 2), (room + 4, 2)), 2, 1) == 4
    assert guest.memory.read(room, 6) == b"bc\0\0de"
    assert guest.call("preadv2", fd, _vector(guest, (room, 2)), 1, -1, 0, 0) == 2
    assert guest.call("preadv2", fd, _vector(guest, (room, 2)), 1, 0, 0, 8) == -errno.EOPNOTSUPP
    assert guest.call("pread64", fd, room, 1, -1) == -errno.EINVAL
    assert guest.call("pread64", 0, room, 1, 0) == -errno.ESPIPE


def test_large_transfers_go_in_pieces(guest: Guest) -> None:
    fd = guest.open("/tmp/f", RW_NEW)
    size = 3 << 20
    at = MEMORY - size
    pattern = bytes(range(251)) * (size // 251 + 1)
    guest.memory.write(at, pattern[:size])
    assert guest.call("write", fd, at, size) == size
    guest.memory.write(at, bytes(size))
    assert guest.call("lseek", fd, 0, 0) == 0
    assert guest.call("read", fd, at, size) == size
    assert guest.memory.read(at, size) == pattern[:size]
    # More than there is memory: what could be stored counts.
    assert guest.call("lseek", fd, 0, 0) == 0
    assert guest.call("read", fd, at, 1 << 40) == size
    assert guest.call("pread64", guest.open("/dev/zero"), at, 1 << 40, 0) == size
    assert guest.memory.read(at, size) == bytes(size)


def test_a_read_waits_for_what_comes(guest: Guest) -> None:
    slow = Slow()
    fd = guest.process.descriptors.add(slow)
    room = guest.room(8)
    waiting = guest.begin("read", fd, room, 8)
    wait = next(waiting)
    assert wait.queues == (slow.changed,)
    assert "slow" in wait.what
    assert resume(waiting, Reason.WOKEN) == "waits"
    slow.held = b"ab"
    assert resume(waiting, Reason.WOKEN) == 2
    waiting = guest.begin("read", fd, room, 8)
    next(waiting)
    assert resume(waiting, Reason.SIGNAL) == "restart"
    assert guest.call("fcntl", fd, 4, os.O_NONBLOCK) == 0
    assert guest.call("read", fd, room, 8) == -errno.EAGAIN


def test_a_write_goes_on_until_all_is_written(guest: Guest) -> None:
    slow = Slow()
    fd = guest.process.descriptors.add(slow)
    data = guest.put(b"abcdefgh")
    waiting = guest.begin("write", fd, data, 8)
    next(waiting)
    slow.held = b""
    assert resume(waiting, Reason.WOKEN) == "waits"
    assert slow.held == b"def"
    assert resume(waiting, Reason.SIGNAL) == 6
    waiting = guest.begin("write", fd, data, 8)
    next(waiting)
    assert resume(waiting, Reason.SIGNAL) == "restart"
    guest.call("fcntl", fd, 4, os.O_NONBLOCK)
    assert guest.call("write", fd, data, 8) == -errno.EAGAIN
    slow.held = b"a"
    assert guest.call("write", fd, data, 8) == 2


def test_a_broken_pipe_sends_a_signal(guest: Guest) -> None:
    slow = Slow()
    slow.broken = True
    fd = guest.process.descriptors.add(slow)
    assert guest.write(fd, b"x") == -errno.EPIPE
    assert guest.posted == [13]


def test_sendfile_and_copies(guest: Guest) -> None:
    source, target = guest.open("/tmp/a", RW_NEW), guest.open("/tmp/b", RW_NEW)
    guest.write(source, b"0123456789")
    offset = guest.put(struct.pack("<q", 2))
    assert guest.call("sendfile", 1, source, offset, 100) == 8
    assert guest.printed == [b"23456789"]
    assert guest.memory.read_number(offset, 8) == 10
    assert guest.call("lseek", source, 4, 0) == 4
    assert guest.call("sendfile", target, source, 0, 3) == 3
    assert guest.read(source) == b"789"
    assert guest.pread(target, 10, 0) == b"456"
    assert guest.call("sendfile", target, 0, 0, 1) == -errno.EINVAL
    first, second = guest.put(struct.pack("<q", 0)), guest.put(struct.pack("<q", 5))
    assert guest.call("copy_file_range", source, first, target, second, 1 << 60, 0) == 10
    assert guest.pread(target, 100, 0) == b"456\0\0" + b"0123456789"
    assert guest.call("copy_file_range", source, first, source, second, 10, 0) == 0
    guest.memory.write_number(first, 8, 0)
    guest.memory.write_number(second, 8, 5)
    assert guest.call("copy_file_range", source, first, source, second, 10, 0) == -errno.EINVAL
    assert guest.call("copy_file_range", 0, 0, target, 0, 1, 0) == -errno.EINVAL


# -- descriptors ---------------------------------------------------------------------------------------------


def test_the_lowest_number_is_taken(guest: Guest) -> None:
    assert [guest.open("/tmp", os.O_DIRECTORY) for _ in range(3)] == [3, 4, 5]
    assert guest.call("close", 3) == 0
    assert guest.call("close", 3) == -errno.EBADF
    assert guest.call("dup", 5) == 3
    assert guest.call("dup2", 5, 900) == 900
    assert guest.call("dup2", 5, 1024) == -errno.EBADF
    assert guest.call("dup2", 99, 99) == -errno.EBADF
    assert guest.call("dup3", 5, 5, 0) == -errno.EINVAL
    assert guest.call("dup3", 5, 6, os.O_CLOEXEC) == 6
    assert guest.call("fcntl", 6, 1, 0) == 1
    assert guest.call("fcntl", 5, 0, 10) == 10
    assert guest.call("fcntl", 5, 1030, 10) == 11
    assert [guest.call("fcntl", fd, 1, 0) for fd in (10, 11)] == [0, 1]
    assert guest.call("fcntl", 5, 0, 1024) == -errno.EINVAL
    assert guest.call("ioctl", 10, 0x5451, 0) == 0
    assert guest.call("fcntl", 10, 1, 0) == 1
    assert guest.call("close_range", 4, 0xFFFFFFFF, 0) == 0
    assert [number for number, _ in guest.process.descriptors.items()] == [0, 1, 2, 3]
    for _ in range(4, 1024):
        assert guest.call("dup", 3) > 0
    assert guest.call("dup", 3) == guest.open("/tmp") == -errno.EMFILE


def test_the_last_number_closes_the_file(guest: Guest) -> None:
    slow = Slow()
    fd = guest.process.descriptors.add(slow)
    other = guest.call("dup", fd)
    assert guest.call("close", fd) == 0
    assert slow.closed == 0
    assert guest.call("dup2", 1, other) == other
    assert slow.closed == 1


def test_flags_that_fcntl_tells_and_sets(guest: Guest) -> None:
    fd = guest.open("/tmp/f", RW_NEW | os.O_TRUNC | os.O_CLOEXEC | os.O_APPEND)
    assert guest.call("fcntl", fd, 3, 0) == os.O_RDWR | os.O_APPEND | 0o100000
    assert guest.call("fcntl", fd, 4, os.O_WRONLY | os.O_NONBLOCK | os.O_CREAT) == 0
    assert guest.call("fcntl", fd, 3, 0) == os.O_RDWR | os.O_NONBLOCK | 0o100000
    assert guest.call("fcntl", 0, 3, 0) & 3 == os.O_RDONLY
    assert guest.call("fcntl", 1, 3, 0) & 3 == os.O_WRONLY
    assert guest.call("fcntl", fd, 9999, 0) == -errno.EINVAL
    on = guest.put(struct.pack("<i", 0))
    assert guest.call("ioctl", fd, 0x5421, on) == 0
    assert guest.call("fcntl", fd, 3, 0) & os.O_NONBLOCK == 0


def test_record_locks_are_granted(guest: Guest) -> None:
    fd = guest.open("/tmp/f", RW_NEW)
    lock = guest.put(struct.pack("<hhiqqi", 1, 0, 0, 0, 0, 0).ljust(32, b"\0"))
    for command in (6, 7, 37, 38):
        assert guest.call("fcntl", fd, command, lock) == 0
    assert guest.call("fcntl", fd, 5, lock) == 0
    assert guest.memory.read_number(lock, 2) == 2
    assert guest.call("fcntl", fd, 6, BAD) == -errno.EFAULT
    reader = guest.open("/tmp/f")
    guest.memory.write_number(lock, 2, 1)
    assert guest.call("fcntl", reader, 6, lock) == -errno.EBADF


def test_flock_excludes_other_descriptions(guest: Guest) -> None:
    one, two = guest.open("/tmp/f", RW_NEW), guest.open("/tmp/f")
    twin = guest.call("dup", one)
    assert guest.call("flock", one, 2) == guest.call("flock", twin, 2) == 0
    assert guest.call("flock", two, 1 | 4) == -errno.EWOULDBLOCK
    waiting = guest.begin("flock", two, 2)
    wait = next(waiting)
    assert guest.call("close", one) == 0
    assert len(wait.queues) == 1
    assert guest.call("close", twin) == 0
    assert resume(waiting, Reason.WOKEN) == 0
    assert guest.call("flock", guest.open("/tmp/f"), 1 | 4) == -errno.EWOULDBLOCK
    assert guest.call("flock", two, 8) == 0
    assert guest.call("flock", two, 3) == -errno.EINVAL
