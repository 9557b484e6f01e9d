"""Buffers that end where memory ends, names that are too long, counts that are too small."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

import pytest
from linux_guest_factory import ROOM_BYTES, BootedGuest, hello_spec

PAGE = 4096
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
