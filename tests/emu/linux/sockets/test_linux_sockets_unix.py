"""AF_UNIX sockets inside the guest, against the host's."""

from __future__ import annotations

import errno
import struct

import pytest
from linux_io_factory import Guest, blocking, listen, unix
from linux_io_host import Host
from linux_io_script import both

STREAM, DATAGRAM, PACKETS = 1, 2, 5


@pytest.mark.parametrize("seed", range(40))
def test_streams_as_the_host(seed: int) -> None:
    expected, got = both(seed, ("stream", "stream"), (8, 100), steps=60)
    assert got == expected


def _messages(kernel: Guest | Host, kind: int) -> list[object]:
    one, other = kernel.socketpair(kind)
    return [
        kernel.send(one, b"first"),
        kernel.send(one, b""),
        kernel.send(one, b"third"),
        kernel.recv(other, 3, 2),
        kernel.recv(other, 3),
        kernel.recv(other, 10),
        kernel.poll(other),
        kernel.recv(other, 10),
        kernel.recv(other, 10),
        kernel.shutdown(one, 1),
        kernel.send(one, b"x"),
        kernel.send(other, b"back"),
        kernel.name(other),
        kernel.name(other, "getpeername"),
        kernel.option(one, 1, 3),
        kernel.close(other),
        kernel.recv(one, 10),
    ]


@pytest.mark.parametrize("kind", [DATAGRAM, PACKETS])
def test_messages_as_the_host(kind: int) -> None:
    with Host() as host:
        assert _messages(Guest(), kind) == _messages(host, kind)


def test_a_send_waits_until_all_is_taken() -> None:
    guest = Guest()
    one, other = guest.socketpair(STREAM)
    blocking(guest, one)
    n = 400_000
    data = bytes(i % 251 for i in range(n))
    sending = guest.begin("sendto", one, guest.put(data), n, 0, 0, 0)
    got = b""
    while len(got) < n:
        piece = guest.recv(other, 50_000)
        assert isinstance(piece, bytes)
        got += piece
        sending.resume()
    assert sending.result == n
    assert got == data
    sending = guest.begin("sendto", one, guest.put(data), n, 0, 0, 0)
    assert 0 < sending.signal() < n  # type: ignore[operator]


@pytest.mark.parametrize("name", [b"/tmp/a.sock", b"\0abstract\0name"])
def test_unix_names(name: bytes) -> None:
    guest = Guest()
    listener, address = listen(guest, unix(name))
    assert address == unix(name + (b"\0" if name[0] else b""))
    client = guest.socket(1, STREAM)
    assert guest.bind(guest.socket(1, STREAM), unix(name)) == -errno.EADDRINUSE
    assert guest.connect(guest.socket(1, DATAGRAM), unix(name)) == -errno.EPROTOTYPE
    assert guest.connect(client, unix(name)) == 0
    server = guest.accept(listener)
    assert guest.name(client, "getpeername") == guest.name(server) == address
    assert guest.name(server, "getpeername") == unix(b"")
    room, length = guest.room(12), guest.put(struct.pack("<i", 12))
    assert guest.call("getsockopt", client, 1, 17, room, length) == 0
    assert struct.unpack("<iii", guest.memory.read(room, 12)) == (1234, 1000, 1000)
    guest.close(listener)
    assert guest.connect(guest.socket(1, STREAM), unix(name)) == -errno.ECONNREFUSED
    assert guest.bind(guest.socket(1, STREAM), unix(name)) == (-errno.EADDRINUSE if name[0] else 0)
    assert guest.connect(guest.socket(1, STREAM), unix(b"/tmp/none")) == -errno.ENOENT


def test_a_full_unix_backlog_makes_connect_wait() -> None:
    guest = Guest()
    listener, address = listen(guest, unix(b"\0x"), 0)
    one, other = guest.socket(1, STREAM), guest.socket(1, STREAM)
    assert guest.connect(one, address) == 0
    assert guest.connect(other, address) == -errno.EAGAIN
    blocking(guest, other)
    connecting = guest.begin("connect", other, guest.put(address), len(address))
    assert connecting.resume() is None
    guest.accept(listener)
    assert connecting.resume() == 0


def test_unix_datagrams_wait_for_their_receiver() -> None:
    guest = Guest()
    receiver, sender = guest.socket(1, DATAGRAM), guest.socket(1, DATAGRAM)
    assert guest.bind(receiver, unix(b"\0r")) == 0
    assert guest.bind(sender, unix(b"")) == 0
    assert guest.name(sender) == unix(b"\x0000001")
    assert guest.connect(sender, unix(b"\0r")) == 0
    sent = 0
    while guest.send(sender, b"m") == 1:
        sent += 1
    assert sent == 11
    assert guest.poll(sender) == 0
    blocking(guest, sender)
    waiting = guest.begin("sendto", sender, guest.put(b"m"), 1, 0, 0, 0)
    assert guest.recv(receiver, 5) == b"m"
    assert waiting.resume() == 1


def _message(guest: Guest, data: int, n: int, control: int = 0, size: int = 0, name: int = 0) -> int:
    vector = guest.put(struct.pack("<QQQQ", data, 2, data + 2, n - 2))
    return guest.put(struct.pack("<QIIQQQQII", name, 16, 0, vector, 2, control, size, 0, 0))


def _send_file(guest: Guest, fd: int, *files: int) -> int:
    body = b"".join(struct.pack("<i", file) for file in files)
    control = guest.put(struct.pack("<Qii", 16 + len(body), 1, 1) + body)
    at = _message(guest, guest.put(b"file"), 4, control, 16 + len(body))
    return guest.call("sendmsg", fd, at, 0)


def _receive_file(guest: Guest, fd: int, room: int = 24, flags: int = 0) -> tuple[int, int, list[int]]:
    """(result, msg_flags, descriptors)"""
    control = guest.room(64)
    at = _message(guest, guest.room(16), 16, control, room)
    got = guest.call("recvmsg", fd, at, flags)
    length = guest.memory.read_number(at + 40, 8)
    raw = guest.memory.read(control, length)
    size = int.from_bytes(raw[:8], "little") if raw else 16
    return got, guest.memory.read_number(at + 48, 4), [n for (n,) in struct.iter_unpack("<i", raw[16:size])]


def test_files_travel() -> None:
    guest = Guest()
    one, other = guest.socketpair(STREAM)
    reader, writer = guest.pipe()
    assert _send_file(guest, one, reader) == 4
    guest.close(reader)
    # The file is open on its way.
    assert guest.write(writer, b"through") == 7
    got, flags, (copy,) = _receive_file(guest, other, flags=0x40000000)
    assert (got, flags) == (4, 0x40000000)
    assert guest.read(copy, 9) == b"through"
    assert guest.process.descriptors.closes_on_exec(copy)
    guest.close(copy)
    assert guest.write(writer, b"x") == -errno.EPIPE
    assert _send_file(guest, one, 99) == -errno.EBADF


def test_files_that_do_not_arrive_are_closed() -> None:
    guest = Guest()
    one, other = guest.socketpair(STREAM)
    pipes = [guest.pipe() for _ in range(3)]
    for reader, _ in pipes:
        _send_file(guest, one, reader)
        guest.close(reader)
    assert _receive_file(guest, other, room=0)[1:] == (8, [])
    assert guest.write(pipes[0][1], b"x") == -errno.EPIPE
    assert guest.recv(other, 9) == b"file"
    assert guest.write(pipes[1][1], b"x") == -errno.EPIPE
    guest.close(other)
    assert guest.write(pipes[2][1], b"x") == -errno.EPIPE


def test_bytes_after_a_file_come_separately() -> None:
    guest = Guest()
    one, other = guest.socketpair(STREAM)
    guest.send(one, b"ab")
    _send_file(guest, one, one)
    guest.send(one, b"cd")
    assert _receive_file(guest, other)[0] == 6
    assert guest.recv(other, 9) == b"cd"


def test_room_for_some_of_the_files_only() -> None:
    guest = Guest()
    one, other = guest.socketpair(STREAM)
    _send_file(guest, one, one, other, one)
    got, flags, numbers = _receive_file(guest, other, room=24)
    assert (got, flags, len(numbers)) == (4, 8, 2)


def test_many_messages_at_once() -> None:
    guest = Guest()
    one, other = guest.socketpair(DATAGRAM)
    headers = b"".join(
        guest.memory.read(_message(guest, guest.put(text), 4), 56) + bytes(8) for text in (b"abcd", b"efgh")
    )
    vector = guest.put(headers)
    assert guest.call("sendmmsg", one, vector, 2, 0) == 2
    assert [guest.memory.read_number(vector + 64 * i + 56, 4) for i in range(2)] == [4, 4]
    rooms = [guest.room(8) for _ in range(3)]
    headers = b"".join(guest.memory.read(_message(guest, at, 8), 56) + bytes(8) for at in rooms)
    vector = guest.put(headers)
    assert guest.call("recvmmsg", other, vector, 3, 0x10000, 0) == 2
    assert [guest.memory.read(at, 4) for at in rooms[:2]] == [b"abcd", b"efgh"]
    assert guest.call("recvmmsg", other, vector, 3, 0, 0) == -errno.EAGAIN
