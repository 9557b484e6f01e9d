"""Connected sockets: what AF_UNIX streams, their message kind (SOCK_SEQPACKET) and TCP share."""

from __future__ import annotations

import errno
from collections import deque
from typing import TypeVar

from emu.linux.files.open_file import POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP
from emu.linux.files.owner import POLL_HUP
from emu.linux.ground.failure import Errno
from emu.linux.sockets.inbox import END, Received
from emu.linux.sockets.socket import SHUT_BOTH, SHUT_RECEIVE, Socket

#: net.core.somaxconn.
_MOST_WAITING = 4096
S = TypeVar("S", bound="StreamSocket")


class Backlog:
    """Connections that nobody has accepted yet. As in Linux, one more than `limit` fit.

    waiting: sockets whose connection comes about as soon as there is room.
    """

    def __init__(self, limit: int) -> None:
        self.queue: deque[StreamSocket] = deque()
        self.waiting: deque[StreamSocket] = deque()
        self.resize(limit)

    def resize(self, limit: int) -> None:
        """listen(2) once more. limit: as an unsigned int."""
        self.limit = min(limit & 0xFFFFFFFF, _MOST_WAITING)

    @property
    def full(self) -> bool:
        """A further connection has to wait."""
        return len(self.queue) > self.limit


class StreamSocket(Socket):
    """One end of a connection, or a listening socket.

    peer: the other end; None before there is one, and after it is gone. connected: there was one.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.peer: StreamSocket | None = None
        self.connected = False
        self.backlog: Backlog | None = None

    @property
    def listening(self) -> bool:
        """After listen(2)."""
        return self.backlog is not None

    def _writable(self) -> bool:
        """Room enough to send that it is worth waking somebody."""
        raise NotImplementedError

    def receive(self, n: int, peek: bool) -> Received:
        """At most n bytes, or a message. Errno: EAGAIN, ECONNRESET, ENOTCONN."""
        if not self.is_stream:
            self.raise_error()
        if not self.inbox:
            return self._nothing()
        take = self.inbox.take_bytes if self.is_stream else self.inbox.take_message
        return take(n, peek)

    def _nothing(self) -> Received:
        """What a receive gets while no data are there."""
        self.raise_error()
        if self.shut & SHUT_RECEIVE:
            return END
        if not self.connected:
            raise Errno(self._not_connected())
        raise Errno(errno.EAGAIN)

    def _not_connected(self) -> int:
        return errno.ENOTCONN

    def poll(self) -> int:
        """POLL* bits that hold now."""
        if self.backlog is not None:
            return POLLIN if self.backlog.queue else 0
        events = POLLERR if self.error else 0
        if self.shut == SHUT_BOTH or not self.connected:
            events |= POLLHUP
        if self.shut & SHUT_RECEIVE:
            events |= POLLIN | POLLRDHUP
        if self.inbox:
            events |= POLLIN
        return events | POLLOUT if self._writable() else events

    def accept(self, flags: int) -> Socket:
        """The next connection. Errno: EINVAL (not listening), EAGAIN."""
        if self.backlog is None or self.shut & SHUT_RECEIVE:
            raise Errno(errno.EINVAL)
        if not self.backlog.queue:
            raise Errno(errno.EAGAIN)
        accepted = self.backlog.queue.popleft()
        accepted.flags |= flags
        self._room_in_backlog()
        return accepted

    def _room_in_backlog(self) -> None:
        """A connection was accepted: another one may come."""
        self.tell_refused(POLLOUT)

    def _stop_listening(self) -> None:
        """Connections that were not accepted are broken off."""
        backlog, self.backlog = self.backlog, None
        if backlog is None:
            return
        for embryo in backlog.queue:
            embryo.abandon()
        for client in backlog.waiting:
            client.refuse()
        self.tell_refused(POLLOUT | POLLERR)

    def abandon(self) -> None:
        """Close a connection that nobody accepted: its other end is reset."""
        peer, self.peer = self.peer, None
        self.inbox.clear()
        if peer is not None:
            peer.lose(errno.ECONNRESET)

    def refuse(self) -> None:
        """The connection that it waits for will never be."""
        raise NotImplementedError

    def lose(self, error: int) -> None:
        """The other end is gone. error: for SO_ERROR, 0: it went in good order."""
        self.peer = None
        self.shut = SHUT_BOTH
        self.error = error or self.error
        self.announce(POLLIN | POLLOUT | POLLHUP | POLLRDHUP | POLLERR)
        self.tell_owner(POLL_HUP)


def join(one: StreamSocket, other: StreamSocket) -> None:
    """Connect two sockets."""
    one.peer, other.peer = other, one
    one.connected = other.connected = True
