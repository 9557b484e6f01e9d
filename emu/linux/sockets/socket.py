"""Sockets (socket(7)): what all kinds share. They connect tasks of the one process and nothing else."""

from __future__ import annotations

import errno
import os
import stat

from emu.linux.files.open_file import OpenFile
from emu.linux.ground.failure import Errno
from emu.linux.sockets.addresses import Address, UnixAddress
from emu.linux.sockets.inbox import END, Inbox, Received
from emu.linux.sockets.network import Network
from emu.linux.sockets.options import SocketOptions
from emu.linux.waiting.readiness import WaitableFile, release

SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET = 1, 2, 5
#: Which directions are shut down: RCV_SHUTDOWN and SEND_SHUTDOWN of Linux.
SHUT_RECEIVE, SHUT_SEND, SHUT_BOTH = 1, 2, 3
FIONREAD, TIOCOUTQ, SIOCATMARK = 0x541B, 0x5411, 0x8905

Credentials = tuple[int, int, int]
NOBODY: Credentials = (0, -1, -1)


class Socket(WaitableFile):
    """One socket. What a kind cannot do raises the error that Linux gives.

    kind: SOCK_*. error: SO_ERROR. shut: SHUT_* bits. credentials: (pid, uid, gid) of who made it.
    """

    mode = stat.S_IFSOCK | 0o777
    is_async = True
    tcp_state = 7

    def __init__(
        self, network: Network, family: int, kind: int, protocol: int, flags: int, inode: int
    ) -> None:
        super().__init__(os.O_RDWR | flags, inode)
        self.network, self.family, self.kind, self.protocol = network, family, kind, protocol
        self.name = f"socket:[{inode}]"
        self.options = SocketOptions()
        self.inbox = Inbox()
        self.error = 0
        self.shut = 0
        #: Bytes of the send buffer that are taken, as Linux counts them; of AF_UNIX only.
        self.charged = 0
        self.credentials: Credentials = NOBODY
        #: A sender found no room since the owner was told of any.
        self.crowded = False
        #: Sockets that found no room here: told when there is.
        self.refused: dict[Socket, None] = {}

    def identify(self, inode: int) -> None:
        """Its inode, which an accepted connection gets only then."""
        self.inode, self.name = inode, f"socket:[{inode}]"

    @property
    def is_stream(self) -> bool:
        """Bytes without borders."""
        return self.kind == SOCK_STREAM

    @property
    def listening(self) -> bool:
        """After listen(2)."""
        return False

    @property
    def has_address(self) -> bool:
        """It was bound."""
        return self.local_address() != UnixAddress()

    def take_error(self) -> int:
        """SO_ERROR, which is then 0."""
        error, self.error = self.error, 0
        return error

    def raise_error(self) -> None:
        """Errno(SO_ERROR) if there is one."""
        if self.error:
            raise Errno(self.take_error())

    def pair(self, other: Socket) -> None:
        """socketpair(2): connect two new sockets."""
        raise Errno(errno.EOPNOTSUPP)

    def bind(self, address: Address) -> None:
        """bind(2), of a parsed address."""
        raise Errno(errno.EOPNOTSUPP)

    def connect(self, address: Address) -> None:
        """connect(2). Errno: EINPROGRESS or EAGAIN: not at once."""
        raise Errno(errno.EOPNOTSUPP)

    def disconnect(self) -> None:
        """connect(2) to AF_UNSPEC."""
        raise Errno(errno.EINVAL)

    def listen(self, backlog: int) -> None:
        """listen(2)."""
        raise Errno(errno.EOPNOTSUPP)

    def accept(self, flags: int) -> Socket:
        """The next connection. Errno(EAGAIN): none yet."""
        raise Errno(errno.EOPNOTSUPP)

    def shutdown(self, directions: int) -> None:
        """SHUT_* bits to add."""
        raise NotImplementedError

    def receive(self, n: int, peek: bool) -> Received:
        """At most n bytes, or the beginning of a message. Errno(EAGAIN): nothing yet."""
        raise NotImplementedError

    def receive_into(self, n: int, peek: bool, room: int) -> Received:
        """As `receive`, into a buffer of n bytes of which only the first `room` can be stored.

        Errno(EFAULT): it does not fit there. Bytes of a stream then stay, a message is lost, as in Linux.
        """
        if self.is_stream and self.inbox and not n:
            return END
        if self.is_stream and self.inbox and room < n:
            n = self.inbox.storable(n, room)
            if not n:
                raise Errno(errno.EFAULT)
        received = self.receive(n, peek)
        if len(received.data) > room:
            release(received.files)
            raise Errno(errno.EFAULT)
        return received

    def send(self, data: bytes, to: Address | None, files: tuple[OpenFile, ...]) -> int:
        """Send; returns how many bytes were taken. Errno(EAGAIN): no room."""
        raise NotImplementedError

    def local_address(self) -> Address:
        """getsockname(2)."""
        raise NotImplementedError

    def peer_address(self) -> Address:
        """getpeername(2). Errno(ENOTCONN)."""
        raise NotImplementedError

    def peer_credentials(self) -> Credentials:
        """SO_PEERCRED."""
        return NOBODY

    def most_message(self) -> int | None:
        """Bytes in the longest message; None: no messages."""
        return None

    def uncharge(self, n: int) -> None:
        """Something that it has sent was read."""
        self.charged -= n

    def tell_refused(self, events: int) -> None:
        """There is room again for those that found none."""
        refused, self.refused = self.refused, {}
        for socket in refused:
            socket.announce(events)

    def read(self, n: int) -> bytes:
        """As read(2); files that came with the bytes are lost."""
        return self.read_into(n, n)

    def read_into(self, n: int, room: int) -> bytes:
        """As read(2) into n bytes of which the first `room` can be stored. Errno: EFAULT."""
        if n == 0:
            return b""
        received = self.receive_into(n, False, room)
        release(received.files)
        return received.data

    def write(self, data: bytes) -> int:
        """As write(2)."""
        return self.send(data, None, ())

    def receive_timeout(self) -> int | None:
        """SO_RCVTIMEO."""
        return self.options.receive_timeout

    def send_timeout(self) -> int | None:
        """SO_SNDTIMEO."""
        return self.options.send_timeout

    def ioctl(self, request: int, argument: bytes) -> bytes:
        """FIONREAD and the like. Errno(ENOTTY): unknown."""
        if request == FIONREAD:
            if self.listening:
                raise Errno(errno.EINVAL)
            n = self.inbox.used if self.is_stream else self.inbox.first_length()
        elif request in (TIOCOUTQ, SIOCATMARK):
            n = 0
        else:
            raise Errno(errno.ENOTTY)
        return n.to_bytes(4, "little")
