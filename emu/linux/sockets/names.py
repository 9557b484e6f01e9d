"""Names of AF_UNIX sockets: abstract ones, and paths in the guest's own file system."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Protocol

from emu.linux.files.nodes import Directory, Node, Special
from emu.linux.ground.failure import Errno
from emu.linux.sockets.addresses import UnixAddress
from emu.linux.sockets.network import Network

if TYPE_CHECKING:
    from emu.linux.sockets.socket import Socket


class _Entry:
    """What a socket's path holds. socket: None once it is closed; the path stays, as in Linux."""

    def __init__(self, socket: Socket) -> None:
        self.socket: Socket | None = socket


class Paths(Protocol):
    """The guest's own file system."""

    def create_special(self, path: str, kind: int, payload: object) -> Special:
        """A name for a socket."""

    def require_free(self, path: str) -> Directory:
        """The directory that a new name for a socket goes to."""

    def lookup(self, path: str) -> Node:
        """What a path leads to."""


class NamingProcess(Protocol):
    """What names need of the process."""

    @property
    def network(self) -> Network:
        """Its network, with the abstract names."""

    @property
    def umask(self) -> int:
        """Permissions that what it makes does not get."""

    @property
    def filesystem(self) -> Paths:
        """Where paths lead."""


class UnixNames:
    """Names within one process."""

    def __init__(self, process: NamingProcess) -> None:
        self._process = process
        self._entry: _Entry | None = None

    def take(self, address: UnixAddress, socket: Socket) -> None:
        """Give a socket a name. Errno: EADDRINUSE, those of the path."""
        abstract = self._process.network.abstract
        if address.name[0]:
            entry = _Entry(socket)
            mode = stat.S_IFSOCK | 0o777 & ~self._process.umask
            self._process.filesystem.create_special(os.fsdecode(address.name), mode, entry)
            self._entry = entry
        elif address.name in abstract:
            raise Errno(errno.EADDRINUSE)
        else:
            abstract[address.name] = socket

    def require_free(self, address: UnixAddress) -> None:
        """A path could be made. Errno: EADDRINUSE, those of the path."""
        self._process.filesystem.require_free(os.fsdecode(address.name))

    def find(self, address: UnixAddress) -> Socket:
        """The socket with a name. Errno: ECONNREFUSED, those of the path."""
        if address.name[:1] in (b"", b"\0"):
            found = self._process.network.abstract.get(address.name)
        else:
            node = self._process.filesystem.lookup(os.fsdecode(address.name))
            entry = node.payload if isinstance(node, Special) else None
            found = entry.socket if isinstance(entry, _Entry) else None
        if found is None:
            raise Errno(errno.ECONNREFUSED)
        return found

    def leave(self, address: UnixAddress, socket: Socket) -> None:
        """The socket is closed."""
        if self._entry is not None:
            self._entry.socket = None
        elif self._process.network.abstract.get(address.name) is socket:
            del self._process.network.abstract[address.name]
