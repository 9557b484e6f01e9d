"""Socket options (socket(7), tcp(7), ip(7), ipv6(7)): most are only kept, a few mean something here."""

from __future__ import annotations

import errno
from typing import Protocol

from emu.linux.ground.failure import Errno
from emu.linux.ground.timespec import pack_timeval
from emu.linux.ground.words import as_int, as_long
from emu.linux.sockets.addresses import AF_INET6, AF_UNIX
from emu.linux.sockets.protocol_options import checked, default

SOL_SOCKET, SOL_IP, SOL_TCP, SOL_UDP, SOL_IPV6 = 1, 0, 6, 17, 41
#: Options of TCP that take a text: TCP_CONGESTION, TCP_ULP, TCP_FASTOPEN_KEY.
_TCP_TEXTS = (13, 31, 33)
SO_REUSEADDR, SO_TYPE, SO_ERROR, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE = 2, 3, 4, 7, 8, 9
SO_LINGER, SO_REUSEPORT, SO_PASSCRED, SO_PEERCRED, SO_RCVLOWAT, SO_SNDLOWAT = 13, 15, 16, 17, 18, 19
SO_RCVTIMEO, SO_SNDTIMEO, SO_ACCEPTCONN, SO_PROTOCOL, SO_DOMAIN = 20, 21, 30, 38, 39
SO_MARK, SO_INCOMING_CPU = 36, 49
IPV6_V6ONLY = 26
TCP_INFO = 11
#: Options of SOL_SOCKET that are an int (most: a flag), are kept, and change nothing.
_KEPT = {
    1, SO_REUSEADDR, 5, 6, SO_KEEPALIVE, 10, 11, 12, SO_REUSEPORT, SO_PASSCRED, SO_RCVLOWAT, 29, 34, 35, 37,
    41, 42, 43, 44, 45, 46, 47, 60, 63, 64, 75,
}  # fmt: skip
_FLAGS = {1, SO_REUSEADDR, 5, 6, SO_KEEPALIVE, 10, 11, SO_REUSEPORT, SO_PASSCRED, 29, 34, 35, 41, 43, 44, 45}
_READ_ONLY = {SO_TYPE, SO_ERROR, SO_PEERCRED, SO_ACCEPTCONN, SO_PROTOCOL, SO_DOMAIN, SO_SNDLOWAT}
#: net.core.wmem_max and rmem_max; what is asked for counts twice (socket(7)).
BUFFER = 212_992
_LEAST_SEND, _LEAST_RECEIVE = 4608, 2304
#: What Linux lets a loopback TCP connection grow to, unless the program has said how much.
TCP_SEND_BUFFER = 2_626_560


class SocketOptions:
    """What setsockopt has set. Buffers in bytes, timeouts in ns (None: no timeout)."""

    def __init__(self, send_buffer: int = BUFFER, receive_buffer: int = BUFFER) -> None:
        self.send_buffer, self.receive_buffer = send_buffer, receive_buffer
        self.send_buffer_chosen = False
        self.receive_timeout: int | None = None
        self.send_timeout: int | None = None
        self.kept: dict[tuple[int, int], bytes] = {}

    def flag(self, level: int, option: int) -> bool:
        """Whether an int option is not 0."""
        return any(self.kept.get((level, option), b""))

    def inherited(self) -> SocketOptions:
        """Those of a connection that is accepted."""
        copy = SocketOptions(self.send_buffer, self.receive_buffer)
        copy.send_buffer_chosen = self.send_buffer_chosen
        copy.receive_timeout, copy.send_timeout = self.receive_timeout, self.send_timeout
        copy.kept = dict(self.kept)
        return copy


class Optioned(Protocol):
    """A socket, as far as options need it. kind: SOCK_*. protocol: IPPROTO_*."""

    family: int
    kind: int
    protocol: int
    options: SocketOptions

    @property
    def tcp_state(self) -> int:
        """A number of the kernel's TCP states."""

    @property
    def is_stream(self) -> bool:
        """Bytes without borders."""

    @property
    def listening(self) -> bool:
        """After listen(2)."""

    @property
    def has_address(self) -> bool:
        """It was bound."""

    def take_error(self) -> int:
        """SO_ERROR, which is then 0."""

    def peer_credentials(self) -> tuple[int, int, int]:
        """SO_PEERCRED."""


def set_option(socket: Optioned, level: int, option: int, raw: bytes) -> None:
    """setsockopt(2). Errno: ENOPROTOOPT, EINVAL, EDOM."""
    if level != SOL_SOCKET:
        _set_protocol_option(socket, level, option, raw)
        return
    options = socket.options
    if option in (SO_RCVTIMEO, SO_SNDTIMEO):
        timeout = _timeout(raw)
        if option == SO_RCVTIMEO:
            options.receive_timeout = timeout
        else:
            options.send_timeout = timeout
        return
    if len(raw) < 4:
        raise Errno(errno.EINVAL)
    value = as_int(int.from_bytes(raw[:4], "little"))
    if option in (SO_SNDBUF, SO_RCVBUF):
        size = 2 * min(value & 0xFFFFFFFF, BUFFER)
        if option == SO_SNDBUF:
            options.send_buffer, options.send_buffer_chosen = max(size, _LEAST_SEND), True
        else:
            options.receive_buffer = max(size, _LEAST_RECEIVE)
    elif option == SO_LINGER:
        if len(raw) < 8:
            raise Errno(errno.EINVAL)
        options.kept[level, option] = raw[:8]
    elif option in _KEPT:
        if option in _FLAGS:
            value = int(bool(value))
        options.kept[level, option] = (value & 0xFFFFFFFF).to_bytes(4, "little")
    else:
        raise Errno(errno.ENOPROTOOPT)


def _timeout(raw: bytes) -> int | None:
    if len(raw) < 16:
        raise Errno(errno.EINVAL)
    seconds = as_long(int.from_bytes(raw[:8], "little"))
    microseconds = as_long(int.from_bytes(raw[8:16], "little"))
    if not 0 <= microseconds < 1_000_000:
        raise Errno(errno.EDOM)
    # A negative time is one that is over at once.
    return max(0, seconds * 1_000_000_000 + microseconds * 1000) or (1 if seconds < 0 else None)


def _protocol_levels(socket: Optioned) -> tuple[int, ...]:
    if socket.family == AF_UNIX:
        return ()
    transport = SOL_TCP if socket.is_stream else SOL_UDP
    return (transport, SOL_IP, SOL_IPV6) if socket.family == AF_INET6 else (transport, SOL_IP)


def _set_protocol_option(socket: Optioned, level: int, option: int, raw: bytes) -> None:
    if socket.family == AF_UNIX:
        raise Errno(errno.EOPNOTSUPP)
    if level not in _protocol_levels(socket):
        raise Errno(errno.ENOPROTOOPT)
    if (level, option) == (SOL_IPV6, IPV6_V6ONLY) and (len(raw) < 4 or socket.has_address):
        raise Errno(errno.EINVAL)
    if level == SOL_TCP and option not in _TCP_TEXTS and len(raw) < 4:
        raise Errno(errno.EINVAL)
    socket.options.kept[level, option] = checked(level, option, raw[:256])


def get_option(socket: Optioned, level: int, option: int) -> bytes:
    """getsockopt(2): the option's bytes. Errno: ENOPROTOOPT."""
    if level != SOL_SOCKET:
        if socket.family == AF_UNIX:
            raise Errno(errno.EOPNOTSUPP)
        if level not in _protocol_levels(socket):
            raise Errno(errno.ENOPROTOOPT if socket.family == AF_INET6 else errno.EOPNOTSUPP)
        if (level, option) == (SOL_TCP, TCP_INFO):
            return bytes([socket.tcp_state]) + bytes(103)
        kept = socket.options.kept.get((level, option))
        return default(level, option) if kept is None else kept
    options = socket.options
    if option in (SO_RCVTIMEO, SO_SNDTIMEO):
        return pack_timeval((options.receive_timeout if option == SO_RCVTIMEO else options.send_timeout) or 0)
    if option == SO_PEERCRED:
        return b"".join((n & 0xFFFFFFFF).to_bytes(4, "little") for n in socket.peer_credentials())
    if option == SO_LINGER:
        return options.kept.get((level, option), bytes(8))
    return _number(socket, option).to_bytes(4, "little")


def _number(socket: Optioned, option: int) -> int:
    if option == SO_ERROR:
        return socket.take_error()
    values = {
        SO_TYPE: socket.kind,
        SO_SNDBUF: socket.options.send_buffer,
        SO_RCVBUF: socket.options.receive_buffer,
        SO_RCVLOWAT: 1,
        SO_SNDLOWAT: 1,
        SO_ACCEPTCONN: int(socket.listening),
        SO_PROTOCOL: socket.protocol,
        SO_DOMAIN: socket.family,
        SO_MARK: 0,
        SO_INCOMING_CPU: 0,
    }
    kept = socket.options.kept.get((SOL_SOCKET, option))
    if kept is not None:
        return int.from_bytes(kept, "little")
    if option in values:
        return values[option]
    if option in _KEPT:
        return 0
    raise Errno(errno.ENOPROTOOPT)
