"""What AF_INET and AF_INET6 sockets share: their own address and the other's (ip(7), ipv6(7))."""

from __future__ import annotations

import errno

from emu.linux.ground.failure import Errno
from emu.linux.sockets.addresses import AF_INET, AF_INET6, Address, InetAddress, any_host, is_any, is_local
from emu.linux.sockets.network import Network
from emu.linux.sockets.options import IPV6_V6ONLY, SO_REUSEADDR, SO_REUSEPORT, SOL_IPV6, SOL_SOCKET
from emu.linux.sockets.socket import Socket


class InetSocket(Socket):
    """host, port: its own, canonical (IPv4 within IPv6 has 4 bytes). peer_host, peer_port: of the other."""

    def __init__(
        self, network: Network, family: int, kind: int, protocol: int, flags: int, inode: int
    ) -> None:
        super().__init__(network, family, kind, protocol, flags, inode)
        self.host, self.port = any_host(family), 0
        self.peer_host, self.peer_port = b"", 0
        #: The program has chosen the address itself.
        self._chosen_host = self._chosen_port = False

    @property
    def only6(self) -> bool:
        """IPV6_V6ONLY."""
        return self.family == AF_INET6 and self.options.flag(SOL_IPV6, IPV6_V6ONLY)

    @property
    def reuse_address(self) -> bool:
        """SO_REUSEADDR."""
        return self.options.flag(SOL_SOCKET, SO_REUSEADDR)

    @property
    def reuse_port(self) -> bool:
        """SO_REUSEPORT."""
        return self.options.flag(SOL_SOCKET, SO_REUSEPORT)

    @property
    def has_address(self) -> bool:
        """It was bound."""
        return bool(self.port)

    def bind(self, address: Address) -> None:
        """Take an address of this machine. Errno: EINVAL (has one), EADDRNOTAVAIL, EADDRINUSE, EACCES."""
        assert isinstance(address, InetAddress)
        host = address.host
        if not is_any(host) and not is_local(host):
            raise Errno(errno.EADDRNOTAVAIL)
        if self.port or (self.only6 and len(host) == 4):
            raise Errno(errno.EINVAL)
        self.host = host
        try:
            self.port = self._take_port(address.port)
        except Errno:
            self.host = any_host(self.family)
            raise
        self._chosen_host, self._chosen_port = not is_any(host), bool(address.port)

    def _take_port(self, port: int) -> int:
        """Enter the protocol's table; 0: any port."""
        raise NotImplementedError

    def _leave_port(self) -> None:
        """Leave the protocol's table."""
        raise NotImplementedError

    def _need_port(self) -> None:
        """Get a port if it has none."""
        if not self.port:
            self.port = self._take_port(0)

    def _forget_address(self) -> None:
        """Keep only what the program has chosen itself (connect(2) to AF_UNSPEC, a connection refused)."""
        if not self._chosen_host:
            self.host = any_host(self.family)
        if self.port and not self._chosen_port:
            self._leave_port()
            self.port = 0

    def _reachable(self, address: Address) -> InetAddress:
        """A destination of the same family. Errno: ENETUNREACH."""
        assert isinstance(address, InetAddress)
        if self.only6 and len(address.host) == 4:
            raise Errno(errno.ENETUNREACH)
        if not is_any(self.host) and len(self.host) != len(address.host):
            raise Errno(errno.EINVAL if self.family == AF_INET else errno.ENETUNREACH)
        return address

    def local_address(self) -> Address:
        """getsockname(2)."""
        return InetAddress(self.host, self.port, self.family)

    def peer_address(self) -> Address:
        """getpeername(2)."""
        if not self.peer_port:
            raise Errno(errno.ENOTCONN)
        return InetAddress(self.peer_host, self.peer_port, self.family)
