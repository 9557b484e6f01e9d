"""UDP sockets (udp(7)) between tasks of the guest. Nothing is lost but what the receiver has no room for."""

from __future__ import annotations

import errno

from emu.linux.files.open_file import POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP, OpenFile
from emu.linux.files.owner import POLL_ERR, POLL_IN
from emu.linux.ground.failure import Errno
from emu.linux.sockets.addresses import Address, InetAddress, destination, is_any, source
from emu.linux.sockets.inbox import END, Parcel, Received
from emu.linux.sockets.inet import InetSocket
from emu.linux.sockets.network import Network
from emu.linux.sockets.socket import SHUT_BOTH, SHUT_RECEIVE, SHUT_SEND
from emu.linux.waiting.readiness import POLLWRBAND

_PROTOCOL = 17
_MOST_MESSAGE = 65_507
#: Bytes that a datagram counts for besides its own, so that empty ones are not free.
_OVERHEAD = 256
_BROADCAST = b"\xff\xff\xff\xff"


class UdpSocket(InetSocket):
    """One socket; connected while `peer_port` is not 0."""

    listening = False

    def __init__(self, network: Network, family: int, flags: int, inode: int) -> None:
        super().__init__(network, family, 2, _PROTOCOL, flags, inode)

    def _take_port(self, port: int) -> int:
        return self.network.udp.bind(self, port)

    def _leave_port(self) -> None:
        self.network.udp.release(self, self.port)

    def most_message(self) -> int | None:
        """What fits in an IPv4 packet."""
        return _MOST_MESSAGE

    def connect(self, address: Address) -> None:
        """Choose where messages go and come from. Errno: ENETUNREACH."""
        to = self._reachable(address)
        self._refuse_broadcast(to)
        host = destination(to.host)
        self._need_port()
        if is_any(self.host):
            self.host = source(host)
        self.peer_host, self.peer_port = host, to.port

    def disconnect(self) -> None:
        """Messages may come from anywhere again."""
        self.peer_host, self.peer_port = b"", 0
        self._forget_address()

    def send(self, data: bytes, to: Address | None, files: tuple[OpenFile, ...]) -> int:
        """Errno: EDESTADDRREQ, EMSGSIZE, ECONNREFUSED (from an earlier message), ENETUNREACH, EPIPE."""
        self._need_port()
        if len(data) > _MOST_MESSAGE:
            raise Errno(errno.EMSGSIZE)
        if to is None and not self.peer_port:
            raise Errno(errno.EDESTADDRREQ)
        self.raise_error()
        if self.shut & SHUT_SEND:
            raise Errno(errno.EPIPE)
        host, port = self._target(to)
        own = source(host) if is_any(self.host) else self.host
        receiver = self._receiver(host, port, own)
        if receiver is not None:
            receiver.arrive(data, own, self.port)
        elif (host, port) == (self.peer_host, self.peer_port):
            self.error = errno.ECONNREFUSED
            self.announce(POLLERR)
            self.tell_owner(POLL_ERR)
        return len(data)

    def _target(self, to: Address | None) -> tuple[bytes, int]:
        if to is None:
            return self.peer_host, self.peer_port
        reachable = self._reachable(to)
        self._refuse_broadcast(reachable)
        if not reachable.port:
            raise Errno(errno.EINVAL)
        return destination(reachable.host), reachable.port

    def _refuse_broadcast(self, to: InetAddress) -> None:
        if to.host == _BROADCAST and not self.options.flag(1, 6):
            raise Errno(errno.EACCES)

    def _receiver(self, host: bytes, port: int, own: bytes) -> UdpSocket | None:
        """Who gets a message: a socket connected to this one before others, the one bound last first."""
        found = self.network.udp.reachable(host, port)
        mine = [socket for socket in found if (socket.peer_host, socket.peer_port) == (own, self.port)]
        free = [socket for socket in found if not socket.peer_port]
        exact = [socket for socket in free if not is_any(socket.host)]
        chosen = mine or exact or free
        if not chosen:
            return None
        return chosen[self.port % len(chosen)] if chosen[0].reuse_port else chosen[-1]

    def arrive(self, data: bytes, host: bytes, port: int) -> None:
        """A message for this socket; it is lost if there is no room."""
        used = self.inbox.used + _OVERHEAD * len(self.inbox)
        if used > self.options.receive_buffer:
            return
        self.inbox.put(Parcel(data, InetAddress(host, port, self.family)))
        self.announce(POLLIN)
        self.tell_owner(POLL_IN)

    def receive(self, n: int, peek: bool) -> Received:
        """A message. Errno: EAGAIN, ECONNREFUSED (a message sent before found nobody)."""
        self.raise_error()
        if self.inbox:
            return self.inbox.take_message(n, peek)
        if self.shut & SHUT_RECEIVE and not self.nonblocking:
            return END
        raise Errno(errno.EAGAIN)

    def poll(self) -> int:
        """POLL* bits that hold now."""
        events = (POLLERR if self.error else 0) | (POLLIN if self.inbox else 0)
        if self.shut & SHUT_RECEIVE:
            events |= POLLIN | POLLRDHUP
        if self.shut == SHUT_BOTH:
            events |= POLLHUP
        return events | POLLOUT | POLLWRBAND

    def shutdown(self, directions: int) -> None:
        """Errno(ENOTCONN) unless connected; it is shut down all the same, as on Linux."""
        connected = bool(self.peer_port)
        self.shut |= directions
        self.announce(POLLIN | POLLOUT | POLLHUP | POLLRDHUP)
        if not connected:
            raise Errno(errno.ENOTCONN)

    def close(self) -> None:
        """Messages that nobody read are lost."""
        if self.port:
            self._leave_port()
        self.inbox.clear()
        self.changed.wake()
