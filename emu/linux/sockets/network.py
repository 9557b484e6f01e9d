"""The guest's own network: which socket has which port or name. Nothing of it reaches the host's network."""

from __future__ import annotations

import errno
from typing import Any, Generic, Protocol, TypeVar

from emu.linux.ground.failure import Errno
from emu.linux.sockets.addresses import is_any

#: Ports handed out to sockets that did not ask for one, in ascending order.
_FIRST_PORT, _LAST_PORT = 32768, 60999
#: Ports below this one need a privilege.
_PRIVILEGED = 1024


class Bound(Protocol):
    """A socket with a port, as the table sees it.

    host: its own address. only6: an IPv6 socket that does not take IPv4. reuse_address, reuse_port:
    SO_REUSEADDR, SO_REUSEPORT. listening: it accepts connections.
    """

    host: bytes

    @property
    def only6(self) -> bool:
        """IPV6_V6ONLY."""

    @property
    def reuse_address(self) -> bool:
        """SO_REUSEADDR."""

    @property
    def reuse_port(self) -> bool:
        """SO_REUSEPORT."""

    @property
    def listening(self) -> bool:
        """After listen(2)."""


B = TypeVar("B", bound=Bound)


def covers(bound: Bound, host: bytes) -> bool:
    """Whether packets to `host` reach the socket."""
    if len(bound.host) == len(host):
        return bound.host == host or is_any(bound.host)
    return len(host) == 4 and is_any(bound.host) and not bound.only6


def _overlap(one: Bound, other: Bound) -> bool:
    """Whether some packet could reach both sockets."""
    if len(one.host) == len(other.host):
        return one.host == other.host or is_any(one.host) or is_any(other.host)
    six = one if len(one.host) == 16 else other
    return is_any(six.host) and not six.only6


class Ports(Generic[B]):
    """The ports of one protocol, and the sockets bound to each, in the order in which they were bound."""

    def __init__(self) -> None:
        self._sockets: dict[int, list[B]] = {}
        self._next = _FIRST_PORT

    def bind(self, socket: B, port: int) -> int:
        """Give the socket (its `host` is set) a port, 0: any; returns it. Errno: EADDRINUSE, EACCES."""
        if not port:
            port = self._free()
        elif port < _PRIVILEGED:
            raise Errno(errno.EACCES)
        elif any(self._conflict(other, socket) for other in self._sockets.get(port, ())):
            raise Errno(errno.EADDRINUSE)
        self._sockets.setdefault(port, []).append(socket)
        return port

    def release(self, socket: B, port: int) -> None:
        """The socket has the port no more."""
        sockets = self._sockets.get(port, [])
        if socket in sockets:
            sockets.remove(socket)
        if not sockets:
            self._sockets.pop(port, None)

    def reachable(self, host: bytes, port: int) -> list[B]:
        """Sockets that packets to there reach: those bound to that very address first."""
        found = [socket for socket in self._sockets.get(port, ()) if covers(socket, host)]
        return sorted(found, key=lambda socket: is_any(socket.host))

    def may_listen(self, socket: B, port: int) -> bool:
        """Whether no other socket listens there already."""
        return not any(
            other is not socket
            and other.listening
            and _overlap(other, socket)
            and not (other.reuse_port and socket.reuse_port)
            for other in self._sockets.get(port, ())
        )

    def _conflict(self, old: B, new: B) -> bool:
        if not _overlap(old, new) or (old.reuse_port and new.reuse_port):
            return False
        return not (old.reuse_address and new.reuse_address) or old.listening

    def _free(self) -> int:
        for _ in range(_LAST_PORT - _FIRST_PORT + 1):
            port = self._next
            self._next = _FIRST_PORT if port == _LAST_PORT else port + 1
            if port not in self._sockets:
                return port
        raise Errno(errno.EADDRINUSE)


class Network:
    """Every name and port of the process. tcp, udp: sockets of that protocol. abstract: AF_UNIX names that
    are no paths, and the socket of each. All sockets hold the network, so that it cannot name their types."""

    def __init__(self) -> None:
        self.tcp: Ports[Any] = Ports()
        self.udp: Ports[Any] = Ports()
        self.abstract: dict[bytes, Any] = {}
        self._last_name = 0

    def unused_name(self) -> bytes:
        """An abstract name that no socket has (unix(7), autobind)."""
        while True:
            self._last_name += 1
            name = b"\0%05x" % self._last_name
            if name not in self.abstract:
                return name
