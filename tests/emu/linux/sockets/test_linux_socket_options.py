"""Options of INET sockets: what they are, what they take, and what there is not, as on Linux 6.18."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

import pytest
from linux_guest_factory import BootedGuest, hello_spec

INET, STREAM, DGRAM = 2, 1, 2
SOL, TCP, IP = 1, 6, 0
KEEPIDLE, LINGER2, TTL = 4, 8, 2


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    booted = BootedGuest(hello_spec())
    yield booted
    booted.close()


def get(guest: BootedGuest, fd: int, level: int, option: int) -> int:
    length = guest.put(struct.pack("<i", 4), 64)
    result = guest.call("getsockopt", fd, level, option, guest.room, length)
    return result or int(struct.unpack("<i", guest.process.memory.read(guest.room, 4))[0])


def put(guest: BootedGuest, fd: int, level: int, option: int, value: int) -> int:
    return guest.call("setsockopt", fd, level, option, guest.put(struct.pack("<i", value)), 4)


@pytest.mark.parametrize(
    ("level", "option", "first"),
    [
        (TCP, KEEPIDLE, 7200), (TCP, 5, 75), (TCP, 6, 9), (TCP, 2, 536), (TCP, 7, 6), (TCP, LINGER2, 60),
        (TCP, 12, 1), (IP, TTL, 64), (IP, 10, 1), (IP, 34, 1), (IP, 49, 1), (SOL, 36, 0), (SOL, 49, 0),
    ],
)  # fmt: skip
def test_what_options_are_at_first(guest: BootedGuest, level: int, option: int, first: int) -> None:
    assert get(guest, guest.call("socket", INET, STREAM, 0), level, option) == first


@pytest.mark.parametrize(
    ("level", "option", "value", "told"),
    [
        (TCP, KEEPIDLE, 1, 1), (TCP, KEEPIDLE, 32_767, 32_767), (TCP, 1, 255, 1), (TCP, 2, 0, 536),
        (TCP, 2, 255, 255), (TCP, LINGER2, 0, 60), (IP, TTL, 255, 255), (IP, TTL, -1, 64), (IP, 10, 5, 5),
    ],
)  # fmt: skip
def test_what_is_set_is_told(guest: BootedGuest, level: int, option: int, value: int, told: int) -> None:
    fd = guest.call("socket", INET, STREAM, 0)
    assert put(guest, fd, level, option, value) == 0
    assert get(guest, fd, level, option) == told


@pytest.mark.parametrize(
    ("level", "option", "value"),
    [
        (TCP, KEEPIDLE, 0), (TCP, KEEPIDLE, 32_768), (TCP, 6, 255), (TCP, 7, 0), (TCP, 2, 5), (IP, TTL, 0),
        (IP, TTL, 300), (IP, 10, 255),
    ],
)  # fmt: skip
def test_what_options_do_not_take(guest: BootedGuest, level: int, option: int, value: int) -> None:
    fd = guest.call("socket", INET, STREAM, 0)
    before = get(guest, fd, level, option)
    assert put(guest, fd, level, option, value) == -errno.EINVAL
    assert get(guest, fd, level, option) == before


@pytest.mark.parametrize(("kind", "level"), [(STREAM, TCP), (STREAM, IP), (DGRAM, IP)])
def test_options_that_there_are_not(guest: BootedGuest, kind: int, level: int) -> None:
    fd = guest.call("socket", INET, kind, 0)
    assert get(guest, fd, level, 4444) == -errno.ENOPROTOOPT
    assert put(guest, fd, level, 4444, 1) == -errno.ENOPROTOOPT


def test_a_time_to_live_of_one_byte(guest: BootedGuest) -> None:
    fd = guest.call("socket", INET, DGRAM, 0)
    assert guest.call("setsockopt", fd, IP, TTL, guest.put(b"\7"), 1) == 0
    assert get(guest, fd, IP, TTL) == 7
    assert guest.call("setsockopt", fd, IP, TTL, guest.room, 0) == -errno.EINVAL
