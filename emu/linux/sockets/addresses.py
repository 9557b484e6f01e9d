"""Socket addresses (unix(7), ip(7), ipv6(7)) and where the guest's loopback network reaches."""

from __future__ import annotations

import errno
import ipaddress
from dataclasses import dataclass

from emu.linux.ground.failure import Errno

AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6 = 0, 1, 2, 10
_UNIX_MOST = 110
#: An IPv4 address as IPv6 writes it begins so (RFC 4291, 2.5.5.2).
_MAPPED = bytes(10) + b"\xff\xff"
ANY4, ANY6 = bytes(4), bytes(16)
LOOPBACK4, LOOPBACK6 = b"\x7f\0\0\x01", bytes(15) + b"\x01"


@dataclass(frozen=True)
class UnixAddress:
    """name: empty: none; beginning with a 0 byte: abstract; else a path."""

    name: bytes = b""

    def pack(self) -> bytes:
        """struct sockaddr_un, as long as Linux gives it."""
        end = b"\0" if self.name and self.name[0] else b""
        return AF_UNIX.to_bytes(2, "little") + self.name + end


@dataclass(frozen=True)
class InetAddress:
    """host: 4 or 16 bytes; one that IPv6 writes as mapped has 4 here. family: of the socket that tells it."""

    host: bytes
    port: int
    family: int = AF_INET

    def pack(self) -> bytes:
        """struct sockaddr_in or sockaddr_in6."""
        head = self.family.to_bytes(2, "little") + self.port.to_bytes(2, "big")
        if self.family == AF_INET:
            return head + self.host + bytes(8)
        host = _MAPPED + self.host if len(self.host) == 4 else self.host
        return head + bytes(4) + host + bytes(4)


Address = UnixAddress | InetAddress


def family_of(raw: bytes) -> int:
    """sa_family. Errno(EINVAL): too short."""
    if len(raw) < 2:
        raise Errno(errno.EINVAL)
    return int.from_bytes(raw[:2], "little")


def parse_unix(raw: bytes) -> UnixAddress:
    """An address given to an AF_UNIX socket; Errno(EINVAL)."""
    if family_of(raw) != AF_UNIX or len(raw) > _UNIX_MOST:
        raise Errno(errno.EINVAL)
    name = raw[2:]
    return UnixAddress(name if name[:1] == b"\0" else name.split(b"\0")[0])


def parse_inet(raw: bytes, family: int) -> InetAddress:
    """An address given to an AF_INET or AF_INET6 socket. Errno: EINVAL (short), EAFNOSUPPORT."""
    given = family_of(raw)
    if len(raw) < (16 if family == AF_INET else 24):
        raise Errno(errno.EINVAL)
    port = int.from_bytes(raw[2:4], "big")
    if family == AF_INET:
        if given != AF_INET and (given != AF_UNSPEC or raw[4:8] != ANY4):
            raise Errno(errno.EAFNOSUPPORT)
        return InetAddress(raw[4:8], port, family)
    if given != AF_INET6:
        raise Errno(errno.EAFNOSUPPORT)
    host = raw[8:24]
    return InetAddress(host[12:] if host.startswith(_MAPPED) else host, port, family)


def any_host(family: int) -> bytes:
    """The address that stands for all of the machine's."""
    return ANY4 if family == AF_INET else ANY6


def is_any(host: bytes) -> bool:
    """Whether it is 0.0.0.0 or ::."""
    return not any(host)


def is_local(host: bytes) -> bool:
    """Whether the host is this machine: 127.0.0.0/8 or ::1."""
    return host[0] == 127 if len(host) == 4 else host == LOOPBACK6


def destination(host: bytes) -> bytes:
    """Where packets to `host` go. Errno(ENETUNREACH): not in this machine."""
    if is_any(host):
        return LOOPBACK4 if len(host) == 4 else LOOPBACK6
    if not is_local(host):
        raise Errno(errno.ENETUNREACH)
    return host


def source(host: bytes) -> bytes:
    """The address that packets to `host` come from, if the socket has none."""
    return LOOPBACK4 if len(host) == 4 else LOOPBACK6


def text(address: Address) -> str:
    """For people."""
    if isinstance(address, UnixAddress):
        return repr(address.name.decode(errors="replace")) if address.name else "an unnamed socket"
    return f"{ipaddress.ip_address(address.host)}:{address.port}"
