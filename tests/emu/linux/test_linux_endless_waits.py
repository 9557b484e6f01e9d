"""Waits whose time never comes are waits for ever: they neither move the clock nor break it."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

import pytest
from linux_guest_factory import BootedGuest, hello_spec

from emu.linux.ground.wait import Reason

LONGEST = (1 << 63) - 1
MONOTONIC, REALTIME, ABSOLUTE = 1, 0, 1
FUTEX_WAIT, FUTEX_WAIT_BITSET = 0, 9


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    booted = BootedGuest(hello_spec())
    yield booted
    booted.close()


@pytest.mark.parametrize("seconds", [LONGEST, 1 << 40, 1 << 33])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nanosleep", ["t", 0]),
        ("clock_nanosleep", [MONOTONIC, ABSOLUTE, "t", 0]),
        ("clock_nanosleep", [REALTIME, ABSOLUTE, "t", 0]),
        ("ppoll", [0, 0, "t", 0, 8]),
        ("select", [0, 0, 0, 0, "t"]),
        ("futex", ["word", FUTEX_WAIT, 0, "t", 0, 0]),
        ("futex", ["word", FUTEX_WAIT_BITSET, 0, "t", 0, 1]),
    ],
)
def test_a_time_that_never_comes(
    guest: BootedGuest, name: str, arguments: list[object], seconds: int
) -> None:
    places = {"t": guest.put(struct.pack("<2q", seconds, 999_999), 64), "word": guest.put(bytes(4))}
    waited: list[int | None] = []

    def answer() -> Reason:
        waited.append(guest.kernel.next_deadline())
        return Reason.TIMEOUT

    guest.call(name, *(places[one] if isinstance(one, str) else one for one in arguments), answer=answer)
    assert waited
    assert set(waited) == {None}
    assert not guest.machine.wait_for_time()


def test_a_long_sleep_ends(guest: BootedGuest) -> None:
    """Ten years go by at once."""
    guest.put(struct.pack("<2q", 10 * 365 * 86400, 0))
    before, jumps = guest.machine.now(), []

    def answer() -> Reason:
        jumps.append(guest.machine.wait_for_time())
        guest.machine.now()
        return Reason.TIMEOUT

    assert guest.call("nanosleep", guest.room, 0, answer=answer) == 0
    assert jumps == [True]
    assert guest.machine.now() - before >= 10 * 365 * 86400 * 10**9


def test_timers_for_ever(guest: BootedGuest) -> None:
    fd = guest.call("timerfd_create", MONOTONIC, 0o4000)
    guest.put(struct.pack("<4q", LONGEST, 5, 1 << 60, 1))
    assert guest.call("timerfd_settime", fd, 0, guest.room, 0) == 0
    assert guest.call("timerfd_gettime", fd, guest.room) == 0
    assert guest.call("read", fd, guest.room, 8) == -errno.EAGAIN
    guest.put(struct.pack("<4q", LONGEST, 0, LONGEST, 0))
    assert guest.call("setitimer", 0, guest.room, 0) == 0
    assert guest.call("getitimer", 0, guest.room) == 0
    assert not guest.machine.wait_for_time()
