"""TCP sockets (tcp(7)) between tasks of the guest: what programs see of the protocol, without packets."""

from __future__ import annotations

import errno

from emu.linux.files.open_file import POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP, OpenFile
from emu.linux.files.owner import POLL_HUP, POLL_IN, POLL_OUT
from emu.linux.ground.failure import Errno
from emu.linux.sockets.addresses import Address, destination, is_any, source
from emu.linux.sockets.inbox import END, Parcel, Received
from emu.linux.sockets.inet import InetSocket
from emu.linux.sockets.network import Network
from emu.linux.sockets.options import SO_LINGER, SOL_SOCKET, TCP_SEND_BUFFER, SocketOptions
from emu.linux.sockets.socket import SHUT_BOTH, SHUT_RECEIVE, SHUT_SEND
from emu.linux.sockets.stream import Backlog, StreamSocket, join

_PROTOCOL = 6
_ESTABLISHED, _SYN_SENT, _CLOSE, _LISTEN = 1, 2, 7, 10
_ANYTHING = POLLIN | POLLOUT | POLLHUP | POLLRDHUP | POLLERR


class TcpSocket(StreamSocket, InetSocket):
    """One socket.

    told: connect(2) has reported the connection; tried: it has not yet, nor its failure. connecting: the
    listener has no room yet. finished: the other end has sent everything (FIN). crowded: the other's buffer
    was found full; room is to be told.
    """

    def __init__(self, network: Network, family: int, flags: int, inode: int) -> None:
        super().__init__(network, family, 1, _PROTOCOL, flags, inode)
        self.options = SocketOptions(16_384, 131_072)
        self.told = self.tried = False
        self.connecting = False
        self.finished = False
        self.crowded = False
        #: Shut down after a connection that failed: it never connects any more (SS_DISCONNECTING).
        self.spoiled = False
        #: Bound in the table of ports, not merely connected.
        self._in_table = False

    @property
    def tcp_state(self) -> int:  # type: ignore[override]
        """As TCP_INFO tells it."""
        if self.listening:
            return _LISTEN
        if self.connecting:
            return _SYN_SENT
        return _CLOSE if self.closed else _ESTABLISHED

    @property
    def closed(self) -> bool:
        """There is no connection, or it is over (the state CLOSE)."""
        over = self.shut == SHUT_BOTH and (self.peer is None or self.finished)
        return not self.connected or over

    def _take_port(self, port: int) -> int:
        self._in_table = True
        return self.network.tcp.bind(self, port)

    def _leave_port(self) -> None:
        if self._in_table:
            self.network.tcp.release(self, self.port)
            self._in_table = False

    def connect(self, address: Address) -> None:
        """Errno: EISCONN, EALREADY, EINPROGRESS, ECONNREFUSED, ENETUNREACH.

        A socket that does not block always gets EINPROGRESS first, as on Linux's loopback.
        """
        if self.listening or self.told:
            raise Errno(errno.EINVAL if self.spoiled else errno.EISCONN)
        if not self.tried:
            self._begin(address)
            self.tried = True
            if self.nonblocking or self.connecting:
                raise Errno(errno.EINPROGRESS)
        if self.connecting:
            raise Errno(errno.EALREADY)
        self.tried = False
        if self.closed:
            # It was refused, or is over already; the socket may try again.
            error = self.take_error() or errno.ECONNABORTED
            self._reset()
            self._forget_address()
            raise Errno(error)
        self.told = True

    def _begin(self, address: Address) -> None:
        to = self._reachable(address)
        host = destination(to.host)
        self._need_port()
        if is_any(self.host):
            self.host = source(host)
        self.peer_host, self.peer_port = host, to.port
        found = [other for other in self.network.tcp.reachable(host, to.port) if other.listening]
        if not found:
            self.refuse()
            return
        self._ask(found[self.port % len(found)] if found[0].reuse_port else found[0])

    def _ask(self, listener: TcpSocket) -> None:
        """Connect, or wait until the listener has room."""
        backlog = listener.backlog
        assert backlog is not None
        self.connecting = backlog.full
        if backlog.full:
            backlog.waiting.append(self)
            return
        server = TcpSocket(self.network, listener.family, 0, 0)
        server.options = listener.options.inherited()
        server.host, server.port = self.peer_host, self.peer_port
        server.peer_host, server.peer_port = self.host, self.port
        server.told = True
        join(self, server)
        for end in (self, server):
            if not end.options.send_buffer_chosen:
                end.options.send_buffer = TCP_SEND_BUFFER
        backlog.queue.append(server)
        self.announce(POLLOUT)
        self.tell_owner(POLL_OUT)
        listener.announce(POLLIN)
        listener.tell_owner(POLL_IN)

    def refuse(self) -> None:
        """Nobody listens there."""
        self.connecting = False
        self.error = errno.ECONNREFUSED
        self.shut = SHUT_BOTH
        self.peer_host, self.peer_port = b"", 0
        self.announce(_ANYTHING)

    def disconnect(self) -> None:
        """connect(2) to AF_UNSPEC: break the connection off."""
        self._stop_listening()
        self._reset()
        self._forget_address()

    def _reset(self) -> None:
        self._reset_peer()
        self.inbox.clear()
        self.connected = self.told = self.tried = self.connecting = self.finished = False
        self.shut = self.error = 0
        self.peer_host, self.peer_port = b"", 0
        self.announce(_ANYTHING)

    def peer_address(self) -> Address:
        """getpeername(2). Errno(ENOTCONN)."""
        if self.closed:
            raise Errno(errno.ENOTCONN)
        return super().peer_address()

    def listen(self, backlog: int) -> None:
        """Errno: EINVAL (connected), EADDRINUSE."""
        if self.connected or self.connecting:
            raise Errno(errno.EINVAL)
        if self.backlog is not None:
            self.backlog.resize(backlog)
            self._room_in_backlog()
            return
        self._need_port()
        if not self.network.tcp.may_listen(self, self.port):
            raise Errno(errno.EADDRINUSE)
        self.shut = 0
        self.backlog = Backlog(backlog)

    def _room_in_backlog(self) -> None:
        backlog = self.backlog
        while backlog is not None and backlog.waiting and not backlog.full:
            client = backlog.waiting.popleft()
            assert isinstance(client, TcpSocket)
            if client.connecting:
                client._ask(self)

    def send(self, data: bytes, to: Address | None, files: tuple[OpenFile, ...]) -> int:
        """Errno: EPIPE, ECONNRESET, EAGAIN."""
        if self.connecting:
            raise Errno(errno.EAGAIN)
        self.raise_error()
        if self.shut & SHUT_SEND or not self.connected:
            raise Errno(errno.EPIPE)
        if self.peer is not None and self.peer.shut == SHUT_BOTH:
            # Data for a connection that is shut down both ways break it off.
            self.peer.lose(errno.ECONNRESET)
            self.peer = None
        if self.peer is None:
            # The other end is closed: what is sent there makes it answer with a reset, which comes later.
            self.lose(errno.EPIPE)
            return len(data)
        taken = data[: self._room()]
        self.crowded = len(taken) < len(data)
        if taken:
            self.peer.inbox.put(Parcel(taken))
            self.peer.announce(POLLIN)
            self.peer.tell_owner(POLL_IN)
        elif data:
            raise Errno(errno.EAGAIN)
        return len(taken)

    def _room(self) -> int:
        """Bytes that may be sent now."""
        return 0 if self.peer is None else max(0, self.options.send_buffer - self.peer.inbox.used)

    def _writable(self) -> bool:
        """A third of the buffer is free (sk_stream_is_writeable)."""
        if self.shut & SHUT_SEND or self.peer is None or 3 * self._room() >= self.options.send_buffer:
            return True
        self.crowded = True
        return False

    def receive(self, n: int, peek: bool) -> Received:
        """At most n bytes. Errno: EAGAIN, ECONNRESET, ENOTCONN."""
        received = super().receive(n, peek)
        sender = self.peer
        if not peek and isinstance(sender, TcpSocket) and sender.crowded and sender._writable():
            sender.crowded = False
            sender.announce(POLLOUT)
            sender.tell_owner(POLL_OUT)
        return received

    def _nothing(self) -> Received:
        if self.finished:
            return END
        if self.connecting:
            raise Errno(errno.EAGAIN)
        return super()._nothing()

    def poll(self) -> int:
        """POLL* bits that hold now."""
        return 0 if self.connecting else super().poll()

    def shutdown(self, directions: int) -> None:
        """The other end sees the end of what this one sends. Errno(ENOTCONN)."""
        if self.listening:
            if directions & SHUT_RECEIVE:
                self._stop_listening()
                self.announce(_ANYTHING)
            return
        if self.closed:
            self.shut |= directions
            if self.tried:
                self.told = self.spoiled = True
            self.announce(_ANYTHING)
            raise Errno(errno.ENOTCONN)
        peer = self.peer
        if isinstance(peer, TcpSocket) and directions & SHUT_SEND and not peer.finished:
            peer.finish()
        self.shut |= directions
        self.told, self.tried = True, False
        self.announce(_ANYTHING)

    def finish(self) -> None:
        """The other end sends no more."""
        self.finished = True
        self.shut |= SHUT_RECEIVE
        self.announce(POLLIN | POLLRDHUP | POLLHUP)
        # Of the end, and of something to be read (tcp_fin, tcp_data_queue).
        self.tell_owner(POLL_HUP if self.shut == SHUT_BOTH else POLL_IN)
        self.tell_owner(POLL_IN)

    def _reset_peer(self) -> None:
        peer, self.peer = self.peer, None
        if isinstance(peer, TcpSocket):
            peer.lose(errno.EPIPE if peer.finished else errno.ECONNRESET)

    def close(self) -> None:
        """The other end sees the end, or a reset if something sent to this one was never read."""
        linger = self.options.kept.get((SOL_SOCKET, SO_LINGER), bytes(8))
        reset = bool(self.inbox) or (any(linger[:4]) and not any(linger[4:]))
        self._leave_port()
        self._stop_listening()
        self.connecting = False
        self.inbox.clear()
        peer = self.peer
        if reset:
            self._reset_peer()
        elif isinstance(peer, TcpSocket):
            self.peer = peer.peer = None
            peer.finish()
        self.changed.wake()
