"""Owners of files: what signals they get, and when. What is expected was taken from Linux 6.18."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

import pytest
from linux_guest_factory import BootedGuest, hello_spec

from emu.linux.signals.numbers import SIGIO, signal_set

_GETFL, _SETFL, _SETOWN, _GETOWN, _SETSIG, _GETSIG, _SETOWN_EX, _GETOWN_EX = 3, 4, 8, 9, 10, 11, 15, 16
_FIOASYNC, _SIGNAL, _NOBODY = 0x5452, 40, 3_999_999
_IN, _OUT, _HUP = (1, 0x41), (2, 0x304), (6, 0x18)
_STREAM, _DATAGRAM = 1, 2


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    booted = BootedGuest(hello_spec())
    mask = booted.put(struct.pack("<Q", signal_set(SIGIO, _SIGNAL)))
    assert booted.call("rt_sigprocmask", 0, mask, 0, 8) == 0
    yield booted
    booted.close()


def _two(guest: BootedGuest, name: str, *arguments: int) -> tuple[int, int]:
    assert guest.call(name, *arguments, guest.room) == 0
    first, second = struct.unpack("<ii", guest.process.memory.read(guest.room, 8))
    return first, second


def _told(guest: BootedGuest, fd: int = -1) -> list[tuple[int, int]]:
    """(si_code, si_band) of the signals that have come about the descriptor, and are gone now."""
    found = []
    while (info := guest.process.signals.take_from(guest.task, signal_set(SIGIO, _SIGNAL))) is not None:
        band, about = struct.unpack("<qi", info.fields.ljust(12, b"\0")[:12])
        assert about == (0 if info.signal == SIGIO else fd)
        found.append((info.code, band))
    return found


def _owned(guest: BootedGuest, fd: int, signal: int = _SIGNAL) -> int:
    assert guest.call("fcntl", fd, _SETOWN, guest.process.pid) == 0
    assert guest.call("fcntl", fd, _SETSIG, signal) == 0
    flags = guest.call("fcntl", fd, _GETFL)
    assert guest.call("fcntl", fd, _SETFL, flags | os.O_NONBLOCK | os.O_ASYNC) == 0
    assert guest.call("fcntl", fd, _GETFL) & os.O_ASYNC
    return fd


def _write(guest: BootedGuest, fd: int, n: int = 1) -> int:
    return guest.call("write", fd, guest.room, n)


def _read(guest: BootedGuest, fd: int, n: int = 1) -> int:
    return guest.call("recvfrom", fd, guest.room, n, 0x40, 0, 0)


def test_who_owns_a_file(guest: BootedGuest) -> None:
    """Told as set; who is nobody cannot be an owner."""
    reader, _ = _two(guest, "pipe")
    own, owner = guest.process.pid, guest.room + 64
    assert [guest.call("fcntl", reader, what) for what in (_GETOWN, _GETSIG)] == [0, 0]
    for kind, given, told in ((0, own, own), (1, own, own), (2, own, -own)):
        assert guest.call("fcntl", reader, _SETOWN_EX, guest.put(struct.pack("<ii", kind, given), 64)) == 0
        assert guest.call("fcntl", reader, _GETOWN) == told
        assert guest.call("fcntl", reader, _GETOWN_EX, guest.put(bytes(8), 64)) == 0
        assert guest.process.memory.read(owner, 8) == struct.pack("<ii", kind, own)
    for kind, given, failure in ((7, own, errno.EINVAL), (1, _NOBODY, errno.ESRCH)):
        assert guest.call("fcntl", reader, _SETOWN_EX, guest.put(struct.pack("<ii", kind, given))) == -failure
    assert guest.call("fcntl", reader, _SETOWN, _NOBODY) == -errno.ESRCH
    assert guest.call("fcntl", reader, _SETSIG, 35) == 0
    assert guest.call("fcntl", reader, _GETSIG) == 35
    assert guest.call("fcntl", reader, _SETOWN, 0) == 0
    assert guest.call("fcntl", reader, _GETOWN) == 0


def test_pipes_tell_their_owners(guest: BootedGuest) -> None:
    reader, writer = _two(guest, "pipe")
    _owned(guest, reader)
    assert (_write(guest, writer), _told(guest, reader)) == (1, [_IN])
    assert (guest.call("read", reader, guest.room, 1), _told(guest)) == (1, [])
    assert (guest.call("close", writer), _told(guest, reader)) == (0, [_IN])
    reader, writer = _two(guest, "pipe")
    _owned(guest, writer)
    assert (_write(guest, writer), _told(guest)) == (1, [])
    assert (guest.call("read", reader, guest.room, 1), _told(guest, writer)) == (1, [_OUT])
    assert (guest.call("close", reader), _told(guest, writer)) == (0, [_OUT])


@pytest.mark.parametrize(
    ("kind", "ends"), [(_STREAM, [[_IN], [], [_HUP], [_HUP]]), (_DATAGRAM, [[], [], [], []])]
)
def test_pairs_of_sockets_tell_their_owners(
    guest: BootedGuest, kind: int, ends: list[list[tuple[int, int]]]
) -> None:
    one, other = _two(guest, "socketpair", 1, kind, 0)
    _owned(guest, one)
    assert (_write(guest, other), _told(guest, one)) == (1, [_IN])
    assert (_read(guest, one), _write(guest, one), _read(guest, other), _told(guest)) == (1, 1, 1, [])
    while _write(guest, one, 1000) > 0:
        pass
    assert _told(guest) == []
    while _read(guest, other, 1 << 15) > 0:
        pass
    assert _told(guest, one) == [_OUT]
    steps = ((other, 1), (one, 1), (other, 2))
    told = [(guest.call("shutdown", *step), _told(guest, one))[1] for step in steps]
    guest.call("close", other)
    assert [*told, _told(guest, one)] == ends


def test_connections_tell_their_owners(guest: BootedGuest) -> None:
    """TCP on loopback: somebody connects, something comes, the other end closes."""
    listener, client = guest.call("socket", 2, 1, 0), guest.call("socket", 2, 1, 0)
    address = guest.put(b"\2\0" + struct.pack(">H4s8x", 4000, bytes([127, 0, 0, 1])), 512)
    assert guest.call("bind", listener, address, 16) == guest.call("listen", listener, 2) == 0
    _owned(guest, listener)
    assert (guest.call("connect", client, address, 16), _told(guest, listener)) == (0, [_IN])
    server = guest.call("accept", listener, 0, 0)
    _owned(guest, client)
    assert (_write(guest, server), _told(guest, client), _read(guest, client)) == (1, [_IN], 1)
    assert (guest.call("close", server), _told(guest, client)) == (0, [_IN, _IN])


def test_which_signal_it_is(guest: BootedGuest) -> None:
    """SIGIO about nothing unless it was asked for by F_SETSIG; nobody's file tells nobody."""
    reader, writer = _two(guest, "pipe")
    assert guest.call("ioctl", reader, _FIOASYNC, guest.put(b"\1\0\0\0")) == 0
    assert (_write(guest, writer), _told(guest)) == (1, [])
    guest.call("fcntl", reader, _SETOWN, guest.process.pid)
    assert (_write(guest, writer), _told(guest)) == (1, [(0x80, 0)])
    guest.call("fcntl", reader, _SETSIG, _SIGNAL)
    assert (_write(guest, writer), _told(guest, reader)) == (1, [_IN])
    assert guest.call("ioctl", reader, _FIOASYNC, guest.put(bytes(4))) == 0
    assert (_write(guest, writer), _told(guest)) == (1, [])


def test_files_that_tell_nobody(guest: BootedGuest) -> None:
    counter = guest.call("eventfd2", 0, 0)
    assert guest.call("fcntl", counter, _SETFL, os.O_ASYNC) == 0
    assert guest.call("fcntl", counter, _GETFL) & os.O_ASYNC == 0
    assert guest.call("ioctl", counter, _FIOASYNC, guest.put(b"\1\0\0\0")) == -errno.ENOTTY
