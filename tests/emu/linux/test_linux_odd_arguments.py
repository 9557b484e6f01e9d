"""Arguments that few programs pass: the errors are Linux's."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from guest import Code
from linux_guest_factory import BootedGuest, hello_spec
from static_guest import call, record_linux_guest

from emu.native.state import RIGHT_READ, RIGHT_WRITE
from recorder.files.reader import Recording

PAGE = 4096
_F_SETLK, _F_SETSIG, _OMIT = 6, 10, (1 << 30) - 2
_GROWSDOWN = 0x122
_UPPER = 0xDEADBEEF << 32


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    booted = BootedGuest(hello_spec())
    yield booted
    booted.close()


def _file(guest: BootedGuest) -> int:
    return guest.call("open", guest.path("/tmp/x"), os.O_RDWR | os.O_CREAT, 0o600)


@pytest.mark.parametrize(
    ("start", "size", "result"),
    [(0, 0, 0), (5, -5, 0), (5, -6, -errno.EINVAL), (-5, 10, -errno.EINVAL), (0, -1, -errno.EINVAL)],
)
def test_locks_of_ranges_before_the_file(guest: BootedGuest, start: int, size: int, result: int) -> None:
    lock = guest.put(struct.pack("<hhiqqi", 1, 0, 0, start, size, 0), 256)
    assert guest.call("fcntl", _file(guest), _F_SETLK, lock) == result


@pytest.mark.parametrize(("signal", "result"), [(0, 0), (64, 0), (65, -errno.EINVAL), (100, -errno.EINVAL)])
def test_signals_of_descriptors(guest: BootedGuest, signal: int, result: int) -> None:
    assert guest.call("fcntl", _file(guest), _F_SETSIG, signal) == result


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ((0, 0, 7), 0),
        ((-1, 0, 0), -errno.EINVAL),
        ((0, 0, 0x100), -errno.EINVAL),
        ((5, -6, 0), -errno.EINVAL),
    ],
)
def test_ranges_that_are_flushed(guest: BootedGuest, arguments: tuple[int, ...], result: int) -> None:
    assert guest.call("sync_file_range", _file(guest), *arguments) == result


def test_times_that_stay_need_no_file(guest: BootedGuest) -> None:
    times = guest.put(struct.pack("<4q", 0, _OMIT, 0, _OMIT), 256)
    assert guest.call("utimensat", -100, guest.path("/none"), times, 0) == 0
    times = guest.put(struct.pack("<4q", 0, _OMIT, 0, 0), 256)
    assert guest.call("utimensat", -100, guest.path("/none"), times, 0) == -errno.ENOENT


@pytest.mark.parametrize("clock", [4, 5, 6, 8, 9])
def test_clocks_by_which_nobody_sleeps(guest: BootedGuest, clock: int) -> None:
    assert guest.call("clock_gettime", clock, guest.room) == 0
    assert guest.call("clock_nanosleep", clock, 0, guest.put(bytes(16))) == -errno.EOPNOTSUPP


@pytest.mark.parametrize("clock", [-1, -9, 99])
@pytest.mark.parametrize("name", ["clock_gettime", "clock_getres"])
def test_clocks_there_are_not(guest: BootedGuest, name: str, clock: int) -> None:
    assert guest.call(name, clock, guest.room) == -errno.EINVAL
    assert guest.call(name, -2, guest.room) == 0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("eventfd2", (0, 0)), ("timerfd_create", (1, 0)), ("epoll_create1", (0,))],
)
def test_positions_of_what_has_none(guest: BootedGuest, name: str, arguments: tuple[int, ...]) -> None:
    assert guest.call("lseek", guest.call(name, *arguments), 5, 0) == 0
    assert guest.call("lseek", 1, 5, 0) == -errno.ESPIPE


def test_a_futex_where_nothing_is(guest: BootedGuest) -> None:
    assert guest.call("futex", 0x10, 1, 1) == -errno.EFAULT
    assert guest.call("futex", 0x10, 1 | 128, 1) == 0
    assert guest.call("futex", guest.room, 1, 1) == 0


def test_socket_options(guest: BootedGuest) -> None:
    socket = guest.call("socket", 2, 1, 0)
    assert guest.call("setsockopt", socket, 6, 1, guest.put(bytes(4)), 1) == -errno.EINVAL
    assert guest.call("setsockopt", socket, 6, 1, guest.room, 4) == 0
    assert guest.call("setsockopt", socket, 6, 13, guest.put(b"cubic"), 3) == 0
    length = guest.put(struct.pack("<i", 4), 64)
    assert guest.call("getsockopt", socket, 999, 1, guest.room, length) == -errno.EOPNOTSUPP
    assert guest.call("setsockopt", socket, 999, 1, guest.room, 4) == -errno.ENOPROTOOPT


def test_the_name_of_a_file_that_is_gone(guest: BootedGuest) -> None:
    fd = _file(guest)
    link = guest.path(f"/proc/self/fd/{fd}", 512)
    for text in (b"/tmp/x", b"/tmp/x (deleted)"):
        n = guest.call("readlink", link, guest.room + 1024, 100)
        assert guest.process.memory.read(guest.room + 1024, n) == text
        guest.call("unlink", guest.path("/tmp/x"))


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "/dev/stderr"])
@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.O_RDONLY])
def test_standard_output_is_opened_as_a_pipe_is(guest: BootedGuest, name: str, flags: int) -> None:
    fd = guest.call("open", guest.path(name), flags, 0o666)
    assert fd > 2
    written = guest.call("write", fd, guest.put(b"said"), 4)
    assert written == (-errno.EBADF if flags == os.O_RDONLY else 4)
    assert guest.said == (b"" if flags == os.O_RDONLY else b"said")
    assert guest.call("read", fd, guest.room, 4) == (-errno.EBADF if flags == os.O_WRONLY else 0)
    assert guest.call("fcntl", fd, 3, 0) & 3 == flags & 3


def test_standard_input_is_opened_to_be_written_to(guest: BootedGuest) -> None:
    fd = guest.call("open", guest.path("/dev/stdin"), os.O_RDWR)
    assert guest.call("write", fd, guest.put(b" and more"), 9) == 9
    assert guest.call("read", fd, guest.room, 4) == 4
    assert guest.call("read", 0, guest.room, 100) == 15
    assert guest.process.memory.read(guest.room, 15) == b" input and more"


def test_a_page_of_a_pipe_that_does_not_fit_stays(guest: BootedGuest) -> None:
    guest.call("pipe", guest.room)
    reader, writer = struct.unpack("<ii", guest.process.memory.read(guest.room, 8))
    at = guest.call("mmap", 0, 2 * PAGE, 3, 0x22, -1, 0) + PAGE - 2
    guest.call("mprotect", at + 2, PAGE, 0)
    guest.call("write", writer, guest.put(b"abcde"), 5)
    assert guest.call("read", reader, at, 3) == -errno.EFAULT
    assert guest.call("read", reader, at, 2) == 2
    assert guest.call("read", reader, guest.room, 9) == 3
    guest.call("write", writer, guest.put(b"a" * PAGE + b"b" * PAGE), 2 * PAGE)
    at -= PAGE - 2
    assert guest.call("read", reader, at, 2 * PAGE) == PAGE
    assert guest.call("read", reader, guest.room, 2 * PAGE) == PAGE


def test_a_mapping_that_grows(guest: BootedGuest) -> None:
    """Down to the next one's guard, and no further than a stack; what is chosen by nobody keeps away."""
    at, end = 0x20000000, 0x20002000
    assert guest.call("mmap", at, 2 * PAGE, 3, _GROWSDOWN | 0x10, -1, 0) == at
    space = guest.process.space
    assert not space.present(at - (8 << 20) + PAGE, RIGHT_READ)
    assert space.present(at - 5 * PAGE, RIGHT_WRITE)
    assert space.mappings.at(at - PAGE) == space.mappings.at(end - 1)
    assert guest.call("read", 0, at - 6 * PAGE, 4) == 4
    assert not space.present(end, RIGHT_READ)
    below = at - (2 << 20)
    guest.call("mmap", below, PAGE, 3, 0x32, -1, 0)
    assert not space.present(below + PAGE * 256, RIGHT_READ)
    assert space.present(below + PAGE * 257, RIGHT_READ)
    chosen = guest.call("mmap", 0, 4 * PAGE, 3, _GROWSDOWN, -1, 0)
    assert guest.call("mmap", 0, PAGE, 3, 0x22, -1, 0) <= chosen - 256 * PAGE - PAGE
    assert guest.call("mprotect", chosen, PAGE, 1 | 0x1000000) == 0


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("futex", ("room", _UPPER | 1, 1), 0),
        ("futex", ("room", _UPPER | 0, 1), -errno.EAGAIN),
        ("futex", ("room", _UPPER | 128 | 9, 1, 0, 0, _UPPER | 1), -errno.EAGAIN),
        ("msync", ("room", PAGE, _UPPER | 4), 0),
        ("msync", ("room", PAGE, _UPPER | 5), -errno.EINVAL),
        ("membarrier", (_UPPER | 16, _UPPER), 0),
        ("arch_prctl", (_UPPER | 0x1003, "room"), 0),
    ],
)
def test_upper_halves_of_ints(
    guest: BootedGuest, name: str, arguments: tuple[int | str, ...], result: int
) -> None:
    given = (guest.room if isinstance(one, str) else one for one in arguments)
    assert guest.call(name, *given) == result


def test_the_upper_half_of_a_calls_number(tmp_path: Path) -> None:
    """exit_group(3) by a number that is one in its lower half only, after one that is negative (ENOSYS)."""
    code = call(Code(), 0xFFFFFFFF)
    recorded = record_linux_guest(call(code, _UPPER | 231, rdi=3), tmp_path, "sc")
    end = Recording.open(recorded).manifest.end
    assert end is not None
    assert (end.reason, end.exit_code) == ("exit", 3)


@pytest.mark.parametrize("flags", [0x10000, 0x10000 | 0x100, 0x800, 0x800 | 17])
def test_clones_that_share_too_little(guest: BootedGuest, flags: int) -> None:
    """CLONE_THREAD needs CLONE_SIGHAND, and that CLONE_VM."""
    assert guest.call("clone", flags, 0, 0, 0, 0) == -errno.EINVAL
    flags_and_signal = struct.pack("<11Q", flags & ~0xFF, 0, 0, 0, flags & 0xFF, *[0] * 6)
    assert guest.call("clone3", guest.put(flags_and_signal), 88) == -errno.EINVAL
