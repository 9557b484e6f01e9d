"""TCP and UDP inside the guest."""

from __future__ import annotations

import errno
import struct

from linux_io_factory import Guest, blocking, inet, listen, port_of, unix

STREAM, DATAGRAM, PACKETS = 1, 2, 5
DONTWAIT, PEEK, WAITALL, TRUNC = 0x40, 2, 0x100, 0x20
OUTSIDE = inet(53, b"\x08\x08\x08\x08")
HERE6 = bytes(15) + b"\x01"


def inet6(port: int, host: bytes = HERE6) -> bytes:
    """A struct sockaddr_in6."""
    return struct.pack("<H", 10) + struct.pack(">H", port) + bytes(4) + host + bytes(4)


def _tcp(guest: Guest) -> tuple[int, int]:
    """Both ends of a connection."""
    listener, address = listen(guest, inet(0))
    client = guest.socket(2, STREAM)
    assert guest.connect(client, address) == -errno.EINPROGRESS
    assert guest.connect(client, address) == 0
    return client, guest.accept(listener)


def test_tcp_as_a_program_without_blocking_sees_it() -> None:
    guest = Guest()
    fresh = guest.socket(2, STREAM)
    # Literals: what Linux 6 answers to the same calls.
    assert guest.poll(fresh) == 0x114
    assert guest.recv(fresh, 1) == -errno.ENOTCONN
    assert guest.send(fresh, b"x") == -errno.EPIPE
    assert guest.shutdown(fresh, 2) == -errno.ENOTCONN
    assert guest.name(fresh, "getpeername") == -errno.ENOTCONN
    listener, address = listen(guest, inet(0))
    assert guest.accept(listener) == -errno.EAGAIN
    client = guest.socket(2, STREAM)
    assert guest.connect(client, address) == -errno.EINPROGRESS
    assert guest.poll(client) == 0x104
    assert guest.connect(client, address) == 0
    assert guest.connect(client, address) == -errno.EISCONN
    assert guest.poll(listener) == 0x41
    server = guest.accept(listener)
    assert guest.name(client, "getpeername") == guest.name(server) == address
    assert guest.name(server, "getpeername") == guest.name(client)
    assert guest.send(client, b"hello") == 5
    assert guest.recv(server, 3) == b"hel"
    assert guest.recv(server, 9, PEEK) == b"lo"
    assert guest.recv(server, 9) == b"lo"
    assert guest.recv(server, 9) == -errno.EAGAIN


def test_the_end_of_a_tcp_connection() -> None:
    guest = Guest()
    client, server = _tcp(guest)
    guest.send(server, b"last")
    guest.close(server)
    assert guest.poll(client) == 0x2145
    assert guest.recv(client, 10) == b"last"
    assert guest.recv(client, 10) == b""
    # The first write is answered by a reset, which the second one sees.
    assert guest.send(client, b"x") == 1
    assert guest.poll(client) == 0x215D
    assert guest.signals.posted == []
    assert guest.send(client, b"x", 0) == -errno.EPIPE
    assert guest.signals.posted == [13]
    assert guest.poll(client) == 0x2155
    assert guest.recv(client, 10) == b""


def test_closing_with_data_unread_resets() -> None:
    guest = Guest()
    client, server = _tcp(guest)
    guest.send(client, b"never read")
    guest.send(server, b"before")
    guest.close(server)
    assert guest.recv(client, 10) == b"before"
    assert guest.recv(client, 10) == -errno.ECONNRESET
    assert guest.recv(client, 10) == b""
    client, server = _tcp(guest)
    linger = guest.put(struct.pack("<ii", 1, 0))
    assert guest.call("setsockopt", server, 1, 13, linger, 8) == 0
    guest.close(server)
    assert guest.option(client, 1, 4) == errno.ECONNRESET
    assert guest.option(client, 1, 4) == 0


def test_half_a_connection() -> None:
    guest = Guest()
    client, server = _tcp(guest)
    assert guest.shutdown(client, 1) == 0
    assert guest.recv(server, 1) == b""
    assert guest.send(server, b"still") == 5
    assert guest.recv(client, 9) == b"still"
    assert guest.send(client, b"x") == -errno.EPIPE
    guest.close(server)
    assert guest.shutdown(client, 0) == -errno.ENOTCONN


def test_refused() -> None:
    guest = Guest()
    client = guest.socket(2, STREAM)
    assert guest.connect(client, inet(40_000)) == -errno.EINPROGRESS
    assert guest.poll(client) == 0x215D
    assert guest.option(client, 1, 4) == errno.ECONNREFUSED
    patient = guest.socket(2, STREAM)
    blocking(guest, patient)
    assert guest.connect(patient, inet(40_000)) == -errno.ECONNREFUSED
    _, address = listen(guest, inet(40_000))
    assert guest.connect(patient, address) == 0


def test_nothing_outside_is_reached() -> None:
    guest = Guest()
    for kind in (STREAM, DATAGRAM):
        fd = guest.socket(2, kind)
        assert guest.connect(fd, OUTSIDE) == -errno.ENETUNREACH
        assert guest.bind(fd, inet(0, b"\x0a\0\0\x01")) == -errno.EADDRNOTAVAIL
        assert guest.bind(fd, inet(80)) == -errno.EACCES
    assert guest.send(guest.socket(2, DATAGRAM), b"x", 0, OUTSIDE) == -errno.ENETUNREACH
    assert guest.send(guest.socket(2, DATAGRAM), b"x", 0, inet(9, b"\xff" * 4)) == -errno.EACCES
    six = guest.socket(10, STREAM)
    assert guest.connect(six, inet6(53, b"\x20\x01" + bytes(14))) == -errno.ENETUNREACH
    for family in (16, 17, 40, 3):
        assert guest.call("socket", family, 3, 0) == -errno.EAFNOSUPPORT


def test_tcp_takes_much_and_tells_of_room() -> None:
    guest = Guest()
    client, server = _tcp(guest)
    epfd = guest.epoll()
    sent = 0
    while (n := guest.send(client, bytes(300_000))) > 0:
        sent += n
    assert n == -errno.EAGAIN
    assert sent >= 212_992
    assert guest.poll(client) == 0
    guest.ctl(epfd, 1, client, 4 | 1 << 31, client)
    assert guest.events(epfd) == []
    got = 0
    while isinstance(data := guest.recv(server, 300_000), bytes):
        got += len(data)
    assert got == sent
    assert guest.events(epfd) == [(client, 4)]
    assert guest.events(epfd) == []


def test_calls_that_block() -> None:
    guest = Guest()
    listener, address = listen(guest, inet(0))
    blocking(guest, listener)
    room, length = guest.room(16), guest.put(struct.pack("<i", 16))
    accepting = guest.begin("accept4", listener, room, length, 0)
    assert accepting.result is None
    client = guest.socket(2, STREAM)
    blocking(guest, client)
    assert guest.connect(client, address) == 0
    server = accepting.resume()
    assert isinstance(server, int)
    assert guest.memory.read(room, 16) == guest.name(client)
    at = guest.room(64)
    receiving = guest.begin("recvfrom", server, at, 10, WAITALL, 0, 0)
    guest.send(client, b"01234")
    assert receiving.resume() is None
    guest.send(client, b"56789abc")
    assert receiving.resume() == 10
    assert guest.memory.read(at, 10) == b"0123456789"
    assert guest.call("recvfrom", server, at, 10, DONTWAIT, 0, 0) == 3
    assert guest.call("recvfrom", server, at, 10, DONTWAIT, 0, 0) == -errno.EAGAIN
    assert guest.begin("recvfrom", server, at, 10, 0, 0, 0).signal() == "restart"


def test_timeouts() -> None:
    guest = Guest()
    one, _ = guest.socketpair(STREAM)
    blocking(guest, one)
    time = guest.put(struct.pack("<qq", 1, 500_000))
    assert guest.call("setsockopt", one, 1, 20, time, 16) == 0
    for name, arguments in (("recvfrom", (0, 0, 0)), ("read", ())):
        waiting = guest.begin(name, one, guest.room(8), 8, *arguments)
        assert guest.advance(waiting, 1_000_000_000) is None
        assert guest.advance(waiting, 500_000_000) == -errno.EAGAIN
    assert guest.begin("recvfrom", one, guest.room(8), 8, 0, 0, 0).signal() == "EINTR"
    bad = guest.put(struct.pack("<qq", 0, 1_000_000))
    assert guest.call("setsockopt", one, 1, 20, bad, 16) == -errno.EDOM


def test_a_full_backlog_makes_connections_wait() -> None:
    guest = Guest()
    listener, address = listen(guest, inet(0), 0)
    clients = [guest.socket(2, STREAM) for _ in range(3)]
    for fd in clients:
        assert guest.connect(fd, address) == -errno.EINPROGRESS
    assert [guest.poll(fd) for fd in clients] == [0x104, 0, 0]
    assert guest.connect(clients[1], address) == -errno.EALREADY
    first = guest.accept(listener)
    assert guest.name(first, "getpeername") == guest.name(clients[0])
    assert [guest.poll(fd) for fd in clients] == [0x104, 0x104, 0]
    guest.close(listener)
    # The second was connected and is reset; the third never was.
    assert guest.option(clients[1], 1, 4) == errno.ECONNRESET
    assert guest.option(clients[2], 1, 4) == errno.ECONNREFUSED
    assert guest.poll(clients[0]) == 0x104


def test_shutdown_wakes_an_accept() -> None:
    guest = Guest()
    listener, _ = listen(guest, inet(0))
    blocking(guest, listener)
    accepting = guest.begin("accept", listener, 0, 0)
    guest.shutdown(listener, 0)
    assert accepting.resume() == -errno.EINVAL


def test_ports() -> None:
    guest = Guest()
    ports = [port_of(listen(guest, inet(0))[1]) for _ in range(3)]
    assert ports == [32768, 32769, 32770]
    again = guest.socket(2, STREAM)
    assert guest.bind(again, inet(ports[0])) == -errno.EADDRINUSE
    assert guest.bind(again, inet(ports[0], b"\x7f\0\0\x02")) == 0
    assert guest.bind(again, inet(0)) == -errno.EINVAL
    assert guest.bind(guest.socket(2, STREAM), inet(ports[0], bytes(4))) == -errno.EADDRINUSE
    one = guest.put((1).to_bytes(4, "little"))
    shared = []
    for _ in range(2):
        shared.append(guest.socket(2, STREAM))
        assert guest.call("setsockopt", shared[-1], 1, 2, one, 4) == 0
        assert guest.bind(shared[-1], inet(5555)) == 0
    assert guest.listen(shared[0], 1) == 0
    assert guest.listen(shared[1], 1) == -errno.EADDRINUSE
    guest.close(shared[0])
    assert guest.listen(shared[1], 1) == 0


def test_two_address_families_meet() -> None:
    guest = Guest()
    listener, address = listen(guest, inet6(0, bytes(16)))
    four, six = guest.socket(2, STREAM), guest.socket(10, STREAM)
    guest.connect(four, inet(port_of(address)))
    guest.connect(six, inet6(port_of(address)))
    servers = [guest.accept(listener) for _ in range(2)]
    mapped = bytes(10) + b"\xff\xff\x7f\0\0\x01"
    assert guest.name(servers[0]) == inet6(port_of(address), mapped)
    assert guest.name(servers[0], "getpeername") == inet6(port_of(guest.name(four)), mapped)
    assert guest.name(servers[1], "getpeername") == guest.name(six)
    assert guest.bind(guest.socket(2, STREAM), inet(port_of(address))) == -errno.EADDRINUSE
    only = guest.socket(10, STREAM)
    assert guest.call("setsockopt", only, 41, 26, guest.put(b"\1\0\0\0"), 4) == 0
    assert guest.bind(only, inet6(7777, bytes(16))) == 0
    assert guest.bind(guest.socket(2, STREAM), inet(7777)) == 0


def test_datagrams() -> None:
    guest = Guest()
    one, other, dead = (guest.socket(2, DATAGRAM) for _ in range(3))
    for fd, port in ((one, 5001), (other, 5002), (dead, 0)):
        assert guest.bind(fd, inet(port)) == 0
    at, room, length = guest.room(16), guest.room(16), guest.put(struct.pack("<i", 16))
    assert guest.send(one, b"hello", 0, guest.name(other)) == 5  # type: ignore[arg-type]
    assert guest.call("recvfrom", other, at, 3, TRUNC, room, length) == 5
    assert guest.memory.read(at, 4) == b"hel\0"
    assert guest.memory.read(room, 16) == guest.name(one)
    assert guest.recv(other, 9) == -errno.EAGAIN
    assert guest.send(one, b"x") == -errno.EDESTADDRREQ
    assert guest.send(one, bytes(65_508), 0, guest.name(other)) == -errno.EMSGSIZE  # type: ignore[arg-type]
    gone = guest.name(dead)
    assert isinstance(gone, bytes)
    guest.close(dead)
    assert guest.send(one, b"lost", 0, gone) == 4
    assert guest.connect(one, gone) == 0
    assert guest.send(one, b"lost") == 4
    assert guest.poll(one) == 0x30C
    assert guest.send(one, b"lost") == -errno.ECONNREFUSED
    # Connected, it takes messages from nobody else.
    assert guest.send(other, b"no", 0, guest.name(one)) == 2  # type: ignore[arg-type]
    assert guest.recv(one, 9) == -errno.EAGAIN
    assert guest.connect(one, struct.pack("<H", 0) + bytes(14)) == 0
    assert guest.send(other, b"yes", 0, guest.name(one)) == 3  # type: ignore[arg-type]
    assert guest.recv(one, 9) == b"yes"
    # A port that it has not chosen itself is given back.
    third = guest.socket(2, DATAGRAM)
    guest.bind(third, inet(0))
    assert guest.connect(third, struct.pack("<H", 0) + bytes(14)) == 0
    assert guest.name(third) == inet(0)


def test_a_full_udp_socket_loses_messages() -> None:
    guest = Guest()
    one, other = guest.socket(2, DATAGRAM), guest.socket(2, DATAGRAM)
    guest.bind(other, inet(0))
    guest.connect(one, guest.name(other))  # type: ignore[arg-type]
    for _ in range(2000):
        assert guest.send(one, b"") == 0
    got = 0
    while guest.recv(other, 1) == b"":
        got += 1
    assert 100 < got < 2000


def test_options() -> None:
    guest = Guest()
    tcp, local = guest.socket(2, STREAM), guest.socket(1, STREAM)
    number = guest.put(struct.pack("<i", 50_000))
    assert guest.call("setsockopt", tcp, 1, 7, number, 4) == 0
    assert guest.option(tcp, 1, 7) == 100_000
    assert guest.option(local, 1, 8) == 212_992
    assert (guest.option(tcp, 1, 39), guest.option(tcp, 1, 38), guest.option(tcp, 1, 3)) == (2, 6, 1)
    assert guest.call("setsockopt", tcp, 6, 1, number, 4) == 0
    assert guest.option(tcp, 6, 1) != 0
    assert guest.option(tcp, 1, 9999) == -errno.ENOPROTOOPT
    assert guest.call("setsockopt", tcp, 1, 9999, number, 4) == -errno.ENOPROTOOPT
    assert guest.call("setsockopt", tcp, 1, 7, number, 3) == -errno.EINVAL
    assert guest.option(tcp, 200, 1) == -errno.EOPNOTSUPP
    assert guest.option(local, 6, 1) == -errno.EOPNOTSUPP
    assert guest.option(guest.pipe()[0], 1, 3) == -errno.ENOTSOCK
    assert guest.option(tcp, 1, 30) == 0
    assert guest.listen(tcp, 1) == 0
    assert guest.option(tcp, 1, 30) == 1


def test_arguments() -> None:
    guest = Guest()
    assert guest.call("socket", 2, 3, 0) == -errno.ESOCKTNOSUPPORT
    assert guest.call("socket", 2, 1, 17) == -errno.EPROTONOSUPPORT
    assert guest.call("socket", 2, 1 | 1 << 20, 0) == -errno.EINVAL
    assert guest.call("socketpair", 2, 1, 0, guest.room(8)) == -errno.EOPNOTSUPP
    assert guest.call("socketpair", 1, 1, 0, 0) == -errno.EFAULT
    assert guest.process.descriptors.items() == []
    fd = guest.socket(2, STREAM)
    assert guest.bind(fd, unix(b"/tmp/x")) == -errno.EINVAL
    assert guest.bind(fd, unix(b"/tmp/xxxxxxxxxxxxx")) == -errno.EAFNOSUPPORT
    assert guest.call("bind", fd, guest.room(200), 129) == -errno.EINVAL
    assert guest.call("bind", fd, 0, 16) == -errno.EFAULT
    assert guest.call("shutdown", fd, 3) == -errno.EINVAL
    huge = guest.put(struct.pack("<QIIQQQQII", 0, 0, 0, 0, 1025, 0, 0, 0, 0))
    assert guest.call("sendmsg", fd, huge, 0) == -errno.EMSGSIZE
    one, _ = guest.socketpair(PACKETS)
    assert guest.call("sendto", one, guest.room(8), 1 << 40, 0, 0, 0) == -errno.EMSGSIZE


def test_the_same_calls_give_the_same_inodes() -> None:
    def inodes() -> list[int]:
        guest = Guest()
        client, server = _tcp(guest)
        fds = (*guest.pipe(), *guest.socketpair(STREAM), client, server)
        return [guest.process.descriptors.get(fd).stat().inode for fd in fds]

    first = inodes()
    assert first == inodes()
    assert len(set(first)) == len(first) - 1
