"""Buffers that end where memory ends, names that are too long, counts that are too small."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

import pytest
from linux_guest_factory import ROOM_BYTES, BootedGuest, hello_spec

PAGE = 4096
NONBLOCK, PEEK, WAITALL = os.O_NONBLOCK, 2, 0x100
STREAM, DGRAM, SEQPACKET = 1, 2, 5
FAULT, AGAIN = -errno.EFAULT, -errno.EAGAIN
RDWR, CREATE = 2, 0o100
WAIT, WAKE, WAKE_BITSET, REALTIME = 0, 1, 10, 256
PR_SET_NAME, PR_GET_NAME = 15, 16
F_SETPIPE_SZ, F_GETPIPE_SZ, FIONREAD = 1031, 1032, 0x541B


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    """Its room is followed by a page that is not mapped."""
    booted = BootedGuest(hello_spec())
    assert booted.call("munmap", booted.room + ROOM_BYTES - PAGE, PAGE) == 0
    yield booted
    booted.close()


def end(guest: BootedGuest) -> int:
    """Where memory ends."""
    return guest.room + ROOM_BYTES - PAGE


def pipe(guest: BootedGuest) -> tuple[int, int]:
    assert guest.call("pipe", guest.room) == 0
    first, second = struct.unpack("<2i", guest.process.memory.read(guest.room, 8))
    return first, second


def test_a_pipe_keeps_what_cannot_be_stored(guest: BootedGuest) -> None:
    reader, writer = pipe(guest)
    assert guest.call("write", writer, guest.put(b"hello"), 5) == 5
    assert guest.call("read", reader, 8, 5) == -errno.EFAULT
    assert guest.call("read", reader, end(guest), 5) == -errno.EFAULT
    assert guest.call("read", reader, end(guest) - 2, 5) == -errno.EFAULT
    assert guest.call("read", reader, end(guest) - 2, 2) == 2
    assert guest.call("read", reader, guest.room, 5) == 3
    assert guest.process.memory.read(guest.room, 3) == b"llo"


def test_a_file_is_read_and_written_as_far_as_memory_goes(guest: BootedGuest) -> None:
    fd = guest.call("open", guest.path("/tmp/file"), RDWR | CREATE, 0o644)
    guest.process.memory.write(end(guest) - 96, b"a" * 96)
    assert guest.call("write", fd, end(guest) - 96, 200) == 96
    assert guest.call("write", fd, guest.room, 200) == 200
    assert guest.call("lseek", fd, 0, 0) == 0
    assert guest.call("read", fd, end(guest) - 50, 200) == 50
    assert guest.call("lseek", fd, 0, 1) == 50
    assert guest.call("read", fd, end(guest), 200) == -errno.EFAULT
    assert guest.call("lseek", fd, 0, 1) == 50
    vector = struct.pack("<4Q", guest.room + 1000, 10, end(guest), 10)
    assert guest.call("writev", fd, guest.put(vector), 2) == 10
    assert guest.call("write", fd, end(guest), 10) == -errno.EFAULT


def test_an_empty_write_needs_no_reader(guest: BootedGuest) -> None:
    reader, writer = pipe(guest)
    assert guest.call("close", reader) == 0
    assert guest.call("write", writer, guest.room, 0) == 0
    assert guest.call("write", writer, guest.room, 1) == -errno.EPIPE


def test_the_smallest_pipe(guest: BootedGuest) -> None:
    reader, _ = pipe(guest)
    assert guest.call("fcntl", reader, F_SETPIPE_SZ, 0) == PAGE
    assert guest.call("fcntl", reader, F_SETPIPE_SZ, -1) == -errno.EINVAL


def test_a_long_name_of_a_thread_is_cut(guest: BootedGuest) -> None:
    assert guest.call("prctl", PR_SET_NAME, guest.path("abcdefghijklmnopq")) == 0
    assert guest.call("prctl", PR_GET_NAME, guest.room + 100) == 0
    assert guest.process.memory.read(guest.room + 100, 16) == b"abcdefghijklmno\0"
    assert guest.call("prctl", PR_SET_NAME, 8) == -errno.EFAULT


def test_a_futex_wakes_one_before_it_counts(guest: BootedGuest) -> None:
    """As Linux does, whatever the number says; and only a wait with bits may be by the wall clock."""
    futexes, task = guest.process.futexes, guest.task
    for _ in range(3):
        futexes.sleep(task, guest.room, 1)
    assert guest.call("futex", guest.room, WAKE, 0) == 1
    assert guest.call("futex", guest.room, WAKE, -1) == 1
    assert guest.call("futex", guest.room, WAKE_BITSET, 0, 0, 0, 1) == 1
    assert guest.call("futex", guest.room, WAIT | REALTIME, 1) == -errno.ENOSYS


def test_priorities(guest: BootedGuest) -> None:
    limits = [(guest.call(f"sched_get_priority_{which}", 1)) for which in ("min", "max")]
    assert limits == [1, 99]
    assert guest.call("sched_get_priority_max", 0) == 0


def two(guest: BootedGuest, name: str, *arguments: int) -> tuple[int, int]:
    """Two descriptors that a call makes."""
    assert guest.call(name, *arguments, guest.room) == 0
    first, second = struct.unpack("<2i", guest.process.memory.read(guest.room, 8))
    return first, second


def pair(guest: BootedGuest, kind: int) -> tuple[int, int]:
    return two(guest, "socketpair", 1, kind | NONBLOCK, 0)


def quick_pipe(guest: BootedGuest) -> tuple[int, int]:
    assert guest.call("pipe2", guest.room, NONBLOCK) == 0
    reader, writer = struct.unpack("<2i", guest.process.memory.read(guest.room, 8))
    return reader, writer


def receive(guest: BootedGuest, fd: int, n: int, flags: int = 0, short: int | None = None) -> int:
    """recv(2) into a whole buffer, or one that ends after `short` bytes."""
    at = guest.room if short is None else end(guest) - short
    return guest.call("recvfrom", fd, at, n, flags, 0, 0)


@pytest.mark.parametrize("kind", [DGRAM, SEQPACKET])
def test_a_message_that_cannot_be_stored_is_lost(guest: BootedGuest, kind: int) -> None:
    one, other = pair(guest, kind)
    assert guest.call("read", other, end(guest), 5) == AGAIN
    for how in ("read", "recv"):
        guest.call("write", one, guest.room, 300)
        assert receive(guest, other, 300, PEEK, short=100) == FAULT
        if how == "read":
            assert guest.call("read", other, end(guest) - 100, 300) == FAULT
        else:
            assert receive(guest, other, 300, short=100) == FAULT
        assert receive(guest, other, 300) == AGAIN
    for n in (50, 100):
        guest.call("write", one, guest.room, n)
    assert receive(guest, other, 300, short=100) == 50
    assert receive(guest, other, 300) == 100
    guest.call("write", one, guest.room, 100)
    vector = guest.put(struct.pack("<4Q", guest.room + 512, 20, end(guest) - 10, 100), 64)
    assert guest.call("readv", other, vector, 2) == FAULT
    assert receive(guest, other, 300) == AGAIN


def test_bytes_of_a_stream_that_cannot_be_stored_stay(guest: BootedGuest) -> None:
    one, other = pair(guest, STREAM)
    guest.call("write", one, guest.room, 300)
    assert receive(guest, other, 300, PEEK, short=100) == FAULT
    assert guest.call("read", other, end(guest) - 100, 300) == FAULT
    assert receive(guest, other, 300, short=100) == FAULT
    assert receive(guest, other, 300, WAITALL, short=100) == FAULT
    assert receive(guest, other, 300) == 300
    for n in (50, 100, 10):
        guest.call("write", one, guest.room, n)
    assert receive(guest, other, 300, short=100) == 50
    assert receive(guest, other, 300) == 110
    assert receive(guest, other, 300) == AGAIN


def test_a_receive_of_nothing_waits_for_something(guest: BootedGuest) -> None:
    """Of a stream too; what is there stays."""
    one, other = pair(guest, STREAM)
    assert receive(guest, other, 0) == AGAIN
    assert guest.call("read", other, guest.room, 0) == 0
    guest.call("write", one, guest.room, 50)
    assert receive(guest, other, 0) == 0
    assert receive(guest, other, 300) == 50
    guest.call("close", one)
    assert receive(guest, other, 0) == 0


def test_whole_pages_are_written_to_a_pipe(guest: BootedGuest) -> None:
    reader, writer = quick_pipe(guest)

    def write(before: int, n: int) -> int:
        return guest.call("write", writer, end(guest) - before, n)

    assert write(PAGE + 50, 2 * PAGE) == PAGE
    assert guest.call("read", reader, guest.room, 2 * PAGE) == PAGE
    assert write(50, 100) == FAULT
    assert write(10, 10) == 10
    assert write(50, 60) == FAULT
    assert write(50, PAGE + 20) == 20
    assert write(PAGE + 20, 2 * PAGE + 10) == PAGE + 10
    assert guest.call("read", reader, guest.room, 3 * PAGE) == PAGE + 40
    assert write(100, PAGE) == FAULT
    assert guest.call("read", reader, guest.room, PAGE) == AGAIN
    for _ in range(16):
        assert write(PAGE, PAGE) == PAGE
    assert write(10, 20) == AGAIN
    assert write(PAGE, 2 * PAGE) == AGAIN
    guest.call("close", reader)
    assert write(10, 20) == -errno.EPIPE


def test_random_numbers_as_far_as_memory_goes(guest: BootedGuest) -> None:
    assert guest.call("getrandom", end(guest) - 100, 200, 0) == 100
    assert guest.call("getrandom", end(guest), 200, 0) == FAULT
    assert guest.call("getrandom", end(guest), 0, 0) == 0


@pytest.mark.parametrize(
    ("name", "part", "none"),
    [
        ("null", 200, 200),
        ("zero", 200, 200),
        ("full", -errno.ENOSPC, -errno.ENOSPC),
        ("urandom", 100, FAULT),
    ],
)
def test_devices_look_at_what_they_need(guest: BootedGuest, name: str, part: int, none: int) -> None:
    fd = guest.call("open", guest.path(f"/dev/{name}"), os.O_RDWR)
    assert guest.call("write", fd, end(guest) - 100, 200) == part
    assert guest.call("write", fd, end(guest), 200) == none
    assert guest.call("write", fd, -100, 50) == FAULT


def test_null_takes_what_one_call_may_write(guest: BootedGuest) -> None:
    fd = guest.call("open", guest.path("/dev/null"), os.O_WRONLY)
    assert guest.call("write", fd, guest.room, 3 << 30) == 0x7FFFF000


def test_more_than_a_piece_is_written_as_far_as_memory_goes(guest: BootedGuest) -> None:
    fd = guest.call("open", guest.path("/tmp/big"), os.O_RDWR | os.O_CREAT, 0o600)
    assert guest.call("write", fd, end(guest) - 100, 3 << 20) == 100


def test_entries_of_a_directory_as_far_as_memory_goes(guest: BootedGuest) -> None:
    assert guest.call("mkdir", guest.path("/tmp/d"), 0o755) == 0
    for i in range(9):
        assert guest.call("creat", guest.path(f"/tmp/d/f{i}"), 0o600) >= 0
    fd = guest.call("open", guest.path("/tmp/d"), os.O_RDONLY)
    assert guest.call("getdents64", fd, end(guest) - 100, 1000) == 96
    assert guest.call("getdents64", fd, end(guest), 1000) == FAULT
    assert guest.call("getdents64", fd, end(guest) - 20, 1000) == FAULT
    assert guest.call("getdents64", fd, guest.room, 1000) == 168


@pytest.mark.parametrize("count", [-1, 1 << 62, 1 << 63])
def test_a_count_that_no_program_has_memory_for(guest: BootedGuest, count: int) -> None:
    fd = guest.call("open", guest.path("/tmp/x"), os.O_RDWR | os.O_CREAT, 0o600)
    for name in ("read", "write", "pread64", "pwrite64"):
        assert guest.call(name, fd, guest.room, count, 0) == FAULT
        assert guest.call(name, 99, guest.room, count, 0) == -errno.EBADF
    only = guest.call("open", guest.path("/tmp/x"), os.O_WRONLY)
    assert guest.call("read", only, guest.room, count) == -errno.EBADF
