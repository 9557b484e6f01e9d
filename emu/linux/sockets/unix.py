"""AF_UNIX sockets (unix(7)): streams, sequenced packets and datagrams."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP, OpenFile
from emu.linux.files.owner import POLL_HUP, POLL_IN, POLL_OUT
from emu.linux.ground.failure import Errno
from emu.linux.sockets.addresses import Address, UnixAddress
from emu.linux.sockets.inbox import END, Parcel, Received
from emu.linux.sockets.names import UnixNames
from emu.linux.sockets.socket import NOBODY, SHUT_BOTH, SHUT_RECEIVE, SHUT_SEND, Credentials, Socket
from emu.linux.sockets.stream import Backlog, StreamSocket, join
from emu.linux.waiting.readiness import POLLWRBAND, hold

if TYPE_CHECKING:
    from emu.linux.sockets.network import Network

#: What Linux keeps of the send buffer for itself.
_OVERHEAD = 32
#: net.unix.max_dgram_qlen.
_MOST_MESSAGES = 10
#: Bytes of a message and of a piece of a stream that Linux keeps out of whole pages, and of such a piece.
_HEAD_OF_MESSAGE, _HEAD_OF_STREAM, _MOST_PIECE = 16_064, 3_776, 36_544


def _true_size(n: int, most_head: int) -> int:
    """What n bytes take of the send buffer: Linux counts the memory that holds them (sk_buff's truesize)."""
    paged = min(n, -(-max(0, n - most_head) // PAGE_BYTES) * PAGE_BYTES)
    head = 1 << ((n - paged + 63 & ~63) + 320 - 1).bit_length()
    return 256 + max(512, head) + -(-paged // PAGE_BYTES) * PAGE_BYTES


class _Named(Socket):
    """What AF_UNIX sockets of all kinds share: a name."""

    names: UnixNames
    address = UnixAddress()

    def bind(self, address: Address) -> None:
        """Take a name; an empty one: any abstract name. Errno: EADDRINUSE, EINVAL, those of the path."""
        assert isinstance(address, UnixAddress)
        if self.address.name:
            if not address.name:
                return
            if address.name[0]:
                self.names.require_free(address)
            raise Errno(errno.EINVAL)
        if not address.name:
            address = UnixAddress(self.network.unused_name())
        self.names.take(address, self)
        self.address = address

    def local_address(self) -> Address:
        """getsockname(2)."""
        return self.address

    def most_message(self) -> int | None:
        """As long as the send buffer, nearly."""
        return None if self.is_stream else self.options.send_buffer - _OVERHEAD

    def uncharge(self, n: int) -> None:
        """Something that it has sent was read: there may be room again."""
        self.charged -= n
        if self._writable():
            self.announce(POLLOUT)
            if self.crowded:
                self.crowded = False
                self.tell_owner(POLL_OUT)

    def _writable(self) -> bool:
        """Three quarters of the send buffer are free (unix_writable)."""
        return 4 * self.charged <= self.options.send_buffer

    def _put(self, receiver: Socket, data: bytes, files: tuple[OpenFile, ...], most_head: int) -> None:
        hold(files)
        source = self.address if self.address.name else None
        charge = _true_size(len(data), most_head)
        self.charged += charge
        receiver.inbox.put(Parcel(data, source, files, self.credentials, self, charge))

    def _find(self, address: Address) -> Socket:
        """The socket with a name. Errno: ECONNREFUSED, EPROTOTYPE, those of the path."""
        assert isinstance(address, UnixAddress)
        found = self.names.find(address)
        if found.kind != self.kind:
            raise Errno(errno.EPROTOTYPE)
        return found


class UnixStream(_Named, StreamSocket):
    """SOCK_STREAM and SOCK_SEQPACKET."""

    def __init__(self, network: Network, names: UnixNames, kind: int, flags: int, inode: int) -> None:
        super().__init__(network, 1, kind, 0, flags, inode)
        self.names = names
        self._peer_name = UnixAddress()
        self._peer_credentials: Credentials = NOBODY

    def pair(self, other: Socket) -> None:
        """Connect two new sockets."""
        assert isinstance(other, UnixStream)
        join(self, other)
        self._peer_credentials, other._peer_credentials = other.credentials, self.credentials

    def connect(self, address: Address) -> None:
        """Errno: EISCONN, ECONNREFUSED, EAGAIN (too many wait for its accept)."""
        listener = self._find(address)
        if not isinstance(listener, UnixStream) or listener.backlog is None or listener.shut & SHUT_RECEIVE:
            raise Errno(errno.ECONNREFUSED)
        # The other end is looked for before this one is looked at, as in Linux.
        if self.connected:
            raise Errno(errno.EISCONN)
        if self.listening:
            raise Errno(errno.EINVAL)
        if listener.backlog.full:
            listener.refused[self] = None
            raise Errno(errno.EAGAIN)
        server = UnixStream(self.network, self.names, self.kind, 0, 0)
        server.address, server.credentials = listener.address, listener.credentials
        self.pair(server)
        self._peer_name, server._peer_name = listener.address, self.address
        listener.backlog.queue.append(server)
        self.announce(POLLOUT)
        listener.announce(POLLIN)
        listener.tell_owner(POLL_IN)

    def poll(self) -> int:
        """POLL* bits that hold now."""
        events = super().poll()
        return events | POLLWRBAND if events & POLLOUT else events

    def refuse(self) -> None:
        """Nobody waits inside the listener: it is told of room instead."""

    def listen(self, backlog: int) -> None:
        """Errno(EINVAL): without a name, or connected."""
        if not self.address.name or self.connected:
            raise Errno(errno.EINVAL)
        if self.backlog is None:
            self.backlog = Backlog(backlog)
        else:
            self.backlog.resize(backlog)
            self.tell_refused(POLLOUT)

    def send(self, data: bytes, to: Address | None, files: tuple[OpenFile, ...]) -> int:
        """Errno: EPIPE, ENOTCONN, EAGAIN, EISCONN, EMSGSIZE."""
        if to is not None and self.is_stream:
            raise Errno(errno.EISCONN if self.connected else errno.EOPNOTSUPP)
        if not self.connected:
            raise Errno(errno.EPIPE if self.shut & SHUT_SEND else errno.ENOTCONN)
        if not self.is_stream:
            self.raise_error()
        if self.shut & SHUT_SEND or self.peer is None:
            raise Errno(errno.EPIPE)
        most = self.most_message()
        if most is not None and len(data) > most:
            raise Errno(errno.EMSGSIZE)
        done = self._fill(self.peer, data, files)
        if done or not data:
            self.peer.announce(POLLIN)
            self.peer.tell_owner(POLL_IN)
        return done

    def _fill(self, peer: StreamSocket, data: bytes, files: tuple[OpenFile, ...]) -> int:
        """Send what there is room for, in the pieces that Linux makes. Errno(EAGAIN): nothing."""
        if self.charged >= self.options.send_buffer and (data or not self.is_stream):
            self.crowded = True
            raise Errno(errno.EAGAIN)
        if not self.is_stream:
            self._put(peer, data, files, _HEAD_OF_MESSAGE)
            return len(data)
        done = 0
        while done < len(data) and self.charged < self.options.send_buffer:
            piece = data[done : done + min(self.options.send_buffer // 2 - 64, _MOST_PIECE)]
            self._put(peer, piece, () if done else files, _HEAD_OF_STREAM)
            done += len(piece)
        return done

    def _not_connected(self) -> int:
        return errno.EINVAL if self.is_stream else errno.ENOTCONN

    def shutdown(self, directions: int) -> None:
        """What one end stops, the other sees."""
        self.shut |= directions
        self.announce(POLLIN | POLLOUT | POLLRDHUP | POLLHUP)
        peer = self.peer
        if peer is not None:
            peer.shut |= (SHUT_SEND if directions & SHUT_RECEIVE else 0) | (
                SHUT_RECEIVE if directions & SHUT_SEND else 0
            )
            peer.announce(POLLIN | POLLOUT | POLLRDHUP | POLLHUP)
            if directions & SHUT_SEND:
                peer.tell_owner(POLL_HUP if directions & SHUT_RECEIVE else POLL_IN)
        self.tell_refused(POLLOUT)

    def peer_address(self) -> Address:
        """getpeername(2)."""
        if not self.connected:
            raise Errno(errno.ENOTCONN)
        return self._peer_name

    def peer_credentials(self) -> Credentials:
        """SO_PEERCRED: whoever listened, connected or made the pair."""
        return self.credentials if self.listening else self._peer_credentials

    def close(self) -> None:
        """The other end gets ECONNRESET if something sent to this one was never read."""
        unread = bool(self.inbox)
        self.names.leave(self.address, self)
        self._stop_listening()
        self.inbox.clear()
        peer, self.peer = self.peer, None
        self.shut = SHUT_BOTH
        if peer is not None:
            peer.lose(errno.ECONNRESET if unread else 0)
        self.changed.wake()


class UnixDatagram(_Named):
    """SOCK_DGRAM. peer: where messages without an address go, the only one they come from."""

    def __init__(self, network: Network, names: UnixNames, flags: int, inode: int) -> None:
        super().__init__(network, 1, 2, 0, flags, inode)
        self.names = names
        self.peer: UnixDatagram | None = None
        self.open = True

    def pair(self, other: Socket) -> None:
        """Connect two new sockets."""
        assert isinstance(other, UnixDatagram)
        self.peer, other.peer = other, self

    def connect(self, address: Address) -> None:
        """Errno: ECONNREFUSED, EPERM."""
        receiver = self._receiver(address)
        if self.peer is not None and self.peer is not receiver:
            self.disconnect()
        self.peer = receiver

    def disconnect(self) -> None:
        """Messages may come from anywhere again; those that had come are lost, of which the other learns."""
        old, self.peer = self.peer, None
        if old is None or not self.inbox:
            return
        self.inbox.clear()
        self.tell_refused(POLLOUT)
        if old.open and old.peer is self:
            old.error = errno.ECONNRESET
            old.announce(POLLERR)

    def _receiver(self, address: Address) -> UnixDatagram:
        found = self._find(address)
        if not isinstance(found, UnixDatagram):
            raise Errno(errno.ECONNREFUSED)
        if found.peer is not None and found.peer is not self:
            raise Errno(errno.EPERM)
        return found

    def send(self, data: bytes, to: Address | None, files: tuple[OpenFile, ...]) -> int:
        """Errno: EMSGSIZE, ENOTCONN, ECONNREFUSED, EPIPE, EAGAIN."""
        most = self.most_message()
        if most is not None and len(data) > most:
            raise Errno(errno.EMSGSIZE)
        if self.shut & SHUT_SEND:
            raise Errno(errno.EPIPE)
        if self.charged >= self.options.send_buffer:
            self.crowded = True
            raise Errno(errno.EAGAIN)
        try:
            receiver = self._to(to)
        except Errno:
            # Linux has taken room for the message by now, and to give it back makes an edge.
            self.uncharge(0)
            raise
        self._put(receiver, data, files, _HEAD_OF_MESSAGE)
        receiver.announce(POLLIN)
        receiver.tell_owner(POLL_IN)
        return len(data)

    def _to(self, to: Address | None) -> UnixDatagram:
        """Who takes a message now. Errno."""
        receiver = self.peer
        if to is not None:
            receiver = self._receiver(to)
        elif receiver is not None and not receiver.open:
            self.disconnect()
            raise Errno(errno.ECONNREFUSED)
        if receiver is None:
            raise Errno(errno.ENOTCONN)
        if receiver.shut & SHUT_RECEIVE:
            raise Errno(errno.EPIPE)
        if receiver.full_for(self):
            receiver.refused[self] = None
            raise Errno(errno.EAGAIN)
        return receiver

    def full_for(self, sender: UnixDatagram) -> bool:
        """Too many messages wait for one that does not send back to the sender (max_dgram_qlen)."""
        return self.peer is not sender and len(self.inbox) > _MOST_MESSAGES

    def receive(self, n: int, peek: bool) -> Received:
        """A message. Errno(EAGAIN): none."""
        self.raise_error()
        if not self.inbox:
            if self.shut & SHUT_RECEIVE and not self.nonblocking:
                return END
            raise Errno(errno.EAGAIN)
        received = self.inbox.take_message(n, peek)
        if not peek:
            self.tell_refused(POLLOUT)
        return received

    def poll(self) -> int:
        """POLL* bits that hold now."""
        events = (POLLERR if self.error else 0) | (POLLIN if self.inbox else 0)
        if self.shut & SHUT_RECEIVE:
            events |= POLLIN | POLLRDHUP
        if self.shut == SHUT_BOTH:
            events |= POLLHUP
        if self.peer is not None and self.peer.open and self.peer.full_for(self):
            self.peer.refused[self] = None
            return events
        return events | POLLOUT | POLLWRBAND if self._writable() else events

    def shutdown(self, directions: int) -> None:
        """For this end only."""
        self.shut |= directions
        self.announce(POLLIN | POLLOUT | POLLRDHUP | POLLHUP)
        self.tell_refused(POLLOUT)

    def peer_address(self) -> Address:
        """getpeername(2)."""
        if self.peer is None:
            raise Errno(errno.ENOTCONN)
        return self.peer.address

    def peer_credentials(self) -> Credentials:
        """SO_PEERCRED, of a pair."""
        return NOBODY if self.peer is None else self.peer.credentials

    def close(self) -> None:
        """Messages that nobody read are lost."""
        self.open = False
        self.names.leave(self.address, self)
        self.inbox.clear()
        self.tell_refused(POLLOUT | POLLERR)
        self.changed.wake()
