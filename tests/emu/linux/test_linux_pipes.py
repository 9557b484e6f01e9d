"""Pipes, event counters and timers that are read, against the host's kernel where it has them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

import pytest
from linux_io_factory import Guest
from linux_io_host import Host
from linux_io_script import both

from emu.linux.ground.failure import Errno
from emu.linux.ground.limits import RLIMIT_NOFILE
from emu.linux.waiting.pipe import open_pipe

SECOND = 1_000_000_000


@pytest.mark.parametrize("seed", range(60))
def test_pipes_as_the_host(seed: int) -> None:
    expected, got = both(seed, ("pipe", "pipe"), (1, 100, 3000, 4096, 5000, 70_000))
    assert got == expected


@pytest.mark.parametrize("seed", range(30))
def test_event_counters_as_the_host(seed: int) -> None:
    expected, got = both(seed, ("eventfd", "eventfd"), (8,))
    assert got == expected


def _fill(kernel: Guest | Host, size: int, flags: int = os.O_NONBLOCK) -> list[object]:
    """Writes of `size` until there is no room, then the sizes of reads."""
    reader, writer = kernel.pipe(flags)
    log: list[object] = []
    while (n := kernel.write(writer, bytes(size))) > 0:
        log.append(n)
    log += [n, kernel.poll(writer), kernel.read(reader, 10), kernel.poll(writer)]
    for n in (4086, 4096, 10_000, 1 << 20):
        got = kernel.read(reader, n)
        log.append(got if isinstance(got, int) else len(got))
    return log


@pytest.mark.parametrize("size", [1, 2000, 3000, 4096, 4097, 10_000, 65_536, 100_000])
def test_a_pipe_is_full_where_the_hosts_is(size: int) -> None:
    with Host() as host:
        assert _fill(Guest(), size) == _fill(host, size)


@pytest.mark.parametrize("size", [1, 4096, 5000])
def test_packets(size: int) -> None:
    with Host() as host:
        assert _fill(Guest(), size, os.O_NONBLOCK | os.O_DIRECT) == _fill(
            host, size, os.O_NONBLOCK | os.O_DIRECT
        )


def test_pipe_sizes_as_the_host() -> None:
    reader, writer = open_pipe(os.O_NONBLOCK, 7)
    with Host() as host:
        _, fd = host.pipe()
        os.write(fd, bytes(9000))
        writer.write(bytes(9000))
        for size in (1, 4096, 4097, 12_289, 100_000, 1 << 20):
            try:
                expected = fcntl.fcntl(fd, 1031, size)
            except OSError as failure:
                expected = -(failure.errno or 0)
            try:
                got = writer.set_pipe_size(size)
            except Errno as failure:
                got = -failure.number
            assert got == expected, size
        assert reader.pipe_size() == fcntl.fcntl(fd, 1032)
    assert int.from_bytes(reader.ioctl(0x541B, b""), "little") == 9000
    assert stat.S_ISFIFO(reader.stat().mode)
    assert reader.stat() == writer.stat()


def test_read_waits_for_data_and_for_the_end() -> None:
    guest = Guest()
    reader, writer = guest.pipe(0)
    at = guest.room(16)
    waiting = guest.begin("read", reader, at, 16)
    assert waiting.result is None
    assert guest.write(writer, b"late") == 4
    assert waiting.resume() == 4
    assert guest.memory.read(at, 4) == b"late"
    waiting = guest.begin("read", reader, at, 16)
    assert waiting.resume() is None
    guest.close(writer)
    assert waiting.resume() == 0


def test_write_waits_for_room_and_writes_all() -> None:
    guest = Guest()
    reader, writer = guest.pipe(0)
    n = 100_000
    data = bytes(i % 251 for i in range(n))
    waiting = guest.begin("write", writer, guest.put(data), n)
    assert waiting.result is None
    got = b""
    while len(got) < n:
        piece = guest.read(reader, 30_000)
        assert isinstance(piece, bytes)
        got += piece
        waiting.resume()
    assert waiting.result == n
    assert got == data


def test_write_without_a_reader() -> None:
    guest = Guest()
    reader, writer = guest.pipe()
    guest.close(reader)
    assert guest.write(writer, b"x") == -errno.EPIPE
    assert guest.signals.posted == [13]
    assert guest.write(reader, b"x") == -errno.EBADF


def test_a_read_that_waits_keeps_its_end_open() -> None:
    guest = Guest()
    reader, writer = guest.pipe(0)
    waiting = guest.begin("read", reader, guest.room(4), 4)
    guest.close(reader)
    assert guest.write(writer, b"x") == 1
    assert waiting.resume() == 1
    assert guest.write(writer, b"x") == -errno.EPIPE


def test_a_signal_ends_a_read() -> None:
    guest = Guest()
    reader, _ = guest.pipe(0)
    assert guest.begin("read", reader, guest.room(4), 4).signal() == "restart"


def test_pipe2_arguments() -> None:
    guest = Guest()
    assert guest.call("pipe2", guest.room(8), os.O_APPEND) == -errno.EINVAL
    assert guest.call("pipe", 0) == -errno.EFAULT
    assert guest.process.descriptors.items() == []
    guest.limits.soft[RLIMIT_NOFILE] = 1
    assert guest.call("pipe", guest.room(8)) == -errno.EMFILE
    assert guest.process.descriptors.items() == []
    guest.limits.soft[RLIMIT_NOFILE] = 2
    at = guest.room(8)
    assert guest.call("pipe2", at, os.O_CLOEXEC) == 0
    assert struct.unpack("<ii", guest.memory.read(at, 8)) == (0, 1)
    assert guest.process.descriptors.closes_on_exec(1)


def test_event_counter() -> None:
    guest = Guest()
    fd = guest.eventfd(3, 1)
    assert guest.read(fd, 8) == (1).to_bytes(8, "little")
    assert guest.read(fd, 7) == -errno.EINVAL
    assert guest.write(fd, b"\xff" * 8) == -errno.EINVAL
    assert guest.write(fd, (2**64 - 4).to_bytes(8, "little")) == 8
    assert guest.poll(fd) == 1
    assert guest.write(fd, (1).to_bytes(8, "little")) == -errno.EAGAIN
    assert guest.read(fd, 8) == (1).to_bytes(8, "little")
    assert guest.poll(fd) == 5
    assert guest.call("eventfd2", 0, 2) == -errno.EINVAL


def _timer(guest: Guest, clock: int, first: int, interval: int, flags: int = 0) -> int:
    fd = guest.call("timerfd_create", clock, os.O_NONBLOCK)
    raw = struct.pack("<qqqq", *divmod(interval, SECOND), *divmod(first, SECOND))
    assert guest.call("timerfd_settime", fd, flags, guest.put(raw), 0) == 0
    return fd


def _rest(guest: Guest, fd: int) -> tuple[int, int]:
    at = guest.room(32)
    assert guest.call("timerfd_gettime", fd, at) == 0
    parts = struct.unpack("<qqqq", guest.memory.read(at, 32))
    return parts[2] * SECOND + parts[3], parts[0] * SECOND + parts[1]


def _pass(guest: Guest, ns: int) -> None:
    guest.clock.skip_to(guest.clock.monotonic() + ns)


def test_timer_expires_and_repeats() -> None:
    guest = Guest()
    fd = _timer(guest, 1, 5 * SECOND, 2 * SECOND)
    assert _rest(guest, fd) == (5 * SECOND, 2 * SECOND)
    assert guest.read(fd, 8) == -errno.EAGAIN
    _pass(guest, 5 * SECOND - 1000)
    assert guest.poll(fd) == 0
    _pass(guest, 1000)
    assert guest.poll(fd) == 1
    _pass(guest, 5 * SECOND)
    assert _rest(guest, fd) == (SECOND, 2 * SECOND)
    assert guest.read(fd, 8) == (3).to_bytes(8, "little")
    assert guest.poll(fd) == 0
    _pass(guest, SECOND)
    assert guest.read(fd, 8) == (1).to_bytes(8, "little")


@pytest.mark.parametrize("clock", [0, 1, 7])
def test_absolute_timer_wakes_a_reader(clock: int) -> None:
    guest = Guest()
    now = guest.clock.realtime() if clock == 0 else guest.clock.monotonic()
    fd = _timer(guest, clock, now + SECOND, 0, flags=1)
    guest.process.descriptors.get(fd).flags &= ~os.O_NONBLOCK
    waiting = guest.begin("read", fd, guest.room(8), 8)
    assert waiting.wait.deadline == guest.clock.monotonic() + SECOND
    assert guest.advance(waiting, SECOND) == 8
    assert _rest(guest, fd) == (0, 0)


def test_setting_a_timer_changes_when_its_reader_wakes() -> None:
    guest = Guest()
    fd = _timer(guest, 1, 100 * SECOND, 0)
    guest.process.descriptors.get(fd).flags &= ~os.O_NONBLOCK
    waiting = guest.begin("read", fd, guest.room(8), 8)
    raw = guest.put(struct.pack("<qqqq", 0, 0, 1, 0))
    assert guest.call("timerfd_settime", fd, 0, raw, 0) == 0
    assert waiting.resume() is None
    assert waiting.wait.deadline == guest.clock.monotonic() + SECOND
    assert guest.advance(waiting, SECOND) == 8


def test_timer_arguments() -> None:
    guest = Guest()
    assert guest.call("timerfd_create", 2, 0) == -errno.EINVAL
    assert guest.call("timerfd_create", 8, 0) == -errno.EPERM
    fd = _timer(guest, 1, SECOND, 0)
    bad = guest.put(struct.pack("<qqqq", 0, 0, 0, SECOND))
    assert guest.call("timerfd_settime", fd, 0, bad, 0) == -errno.EINVAL
    assert guest.call("timerfd_settime", fd, 4, bad, 0) == -errno.EINVAL
    assert guest.call("timerfd_gettime", guest.eventfd(0, 0), bad) == -errno.EINVAL
    old = guest.room(32)
    disarm = guest.put(bytes(32))
    assert guest.call("timerfd_settime", fd, 0, disarm, old) == 0
    assert struct.unpack("<qqqq", guest.memory.read(old, 32)) == (0, 0, 1, 0)
    assert _rest(guest, fd) == (0, 0)
