"""Files and directories that the guest may change without changing the host: copy-on-write, or its own."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable
from dataclasses import replace

from emu.linux.files.host_tree import HostFileBase, HostPlace
from emu.linux.files.nodes import (
    DEVICE,
    SEAL_WRITE,
    Directory,
    FileNode,
    Node,
    Special,
    Symlink,
    without_set_ids,
)
from emu.linux.files.open_file import Stat
from emu.linux.files.private_layer import NODE, Base, Contents, PrivateLayer
from emu.linux.ground.failure import Errno

DIRECTORY_SIZE = 4096
_MOST_LINKS = 65_000
#: F_SEAL_SHRINK, F_SEAL_GROW.
_SEAL_SHRINK, _SEAL_GROW = 2, 4


def fresh_status(layer: PrivateLayer, mode: int) -> Stat:
    """Of something new that belongs to the guest's user. mode: with its S_IFMT bits."""
    now = layer.now()
    return Stat(mode, layer.inode(), DEVICE, modified=now, changed=now, accessed=now)


def host_status(layer: PrivateLayer, status: os.stat_result, device: int = DEVICE) -> Stat:
    """What the guest is told of a host file: of its times the modification alone, which copies preserve."""
    directory = modes.S_ISDIR(status.st_mode)
    time = status.st_mtime_ns
    return Stat(
        mode=status.st_mode,
        inode=layer.inode(),
        device=device,
        links=1 if directory else status.st_nlink,
        uid=0 if status.st_uid == 0 else 1000,
        gid=0 if status.st_gid == 0 else 1000,
        size=DIRECTORY_SIZE if directory else status.st_size,
        modified=time,
        changed=time,
        accessed=time,
    )


class PrivateFile(FileNode):
    """A regular file in memory, perhaps over a host file."""

    def __init__(self, layer: PrivateLayer, status: Stat, base: Base | None = None) -> None:
        super().__init__(status)
        self._layer = layer
        self.volume = layer
        self._contents = Contents(layer, base)

    @property
    def changed(self) -> bool:
        """Its bytes are not those of the host file."""
        return self._contents.changed

    def prepare(self, write: bool) -> None:
        """A host file below must be readable. Raises Errno."""
        self._contents.prepare()

    def now(self) -> int:
        """The time of a change."""
        return self._layer.now()

    def stat(self) -> Stat:
        """With the size as it is now."""
        if self._status.size != self._contents.size:
            self._status = replace(self._status, size=self._contents.size)
        return self._status

    def size(self) -> int:
        """Bytes now."""
        return self._contents.size

    def read(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on."""
        return self._contents.read(n, offset)

    def write(self, data: bytes, offset: int) -> int:
        """Write what there is room for. Raises Errno(ENOSPC, EFBIG, EPERM)."""
        self._refuse_sealed(SEAL_WRITE | (_SEAL_GROW if offset + len(data) > self.size() else 0))
        done = self._contents.write(data, offset)
        self._modified()
        return done

    def truncate(self, size: int) -> None:
        """Set the size. Raises Errno(EFBIG, EPERM)."""
        if size != self.size():
            self._refuse_sealed(_SEAL_GROW if size > self.size() else _SEAL_SHRINK)
        self._contents.truncate(size)
        self._modified()

    def zero(self, offset: int, length: int) -> None:
        """Make bytes zero. Raises Errno(EPERM)."""
        self._refuse_sealed(SEAL_WRITE)
        self._contents.zero(offset, length)
        self._modified()

    def next_data(self, offset: int, data: bool) -> int:
        """SEEK_DATA or SEEK_HOLE."""
        return self._contents.next_data(offset, data)

    def _refuse_sealed(self, seals: int) -> None:
        if self.seals and self.seals & seals:
            raise Errno(errno.EPERM)

    def _modified(self) -> None:
        now = self._layer.now()
        self._layer.changed.add((self.device, self.inode))
        mode = without_set_ids(self._status.mode)
        self._status = replace(self._status, mode=mode, modified=now, changed=now)
        self.touched = True


class CopyOnWrite:
    """Makes nodes of host files. One host file is one node, under however many names and binds it is seen."""

    def __init__(self, layer: PrivateLayer) -> None:
        self.layer = layer
        self._files: dict[tuple[int, int], PrivateFile] = {}

    def node(self, place: HostPlace) -> Node | None:
        """What is at `place`; None: nothing. Raises Errno."""
        try:
            status = place.status()
        except Errno as failure:
            if failure.number in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
                return None
            raise
        identity = (status.st_dev, status.st_ino)
        if modes.S_ISREG(status.st_mode):
            if identity not in self._files:
                base = HostFileBase(place, identity, status.st_size)
                self._files[identity] = PrivateFile(self.layer, host_status(self.layer, status), base)
            return self._files[identity]
        if modes.S_ISDIR(status.st_mode):
            return PrivateDirectory(self, host_status(self.layer, status), place)
        if modes.S_ISLNK(status.st_mode):
            return Symlink(host_status(self.layer, status), place.target())
        return Special(replace(host_status(self.layer, status), size=0))


class PrivateDirectory(Directory):
    """A directory in memory, perhaps over a host directory, whose names show until they are covered."""

    def __init__(self, source: CopyOnWrite, status: Stat, backing: HostPlace | None = None) -> None:
        super().__init__(replace(status, size=DIRECTORY_SIZE))
        self._source = source
        self._layer = source.layer
        self.backing = backing
        #: What is known of names here; None: removed, though it was given.
        self.children: dict[str, Node | None] = {}
        self._given: set[str] = set()

    @property
    def volume(self) -> object:
        """The private layer as a whole."""
        return self._layer

    def now(self) -> int:
        """The time of a change."""
        return self._layer.now()

    def lookup(self, name: str) -> Node | None:
        """What a name stands for. Raises Errno."""
        if name in self.children:
            return self.children[name]
        if self.backing is None:
            return None
        node = self._source.node(self.backing.child(name))
        if node is not None:
            self.put(name, node)
        return node

    def names(self) -> list[str]:
        """All names, sorted. Raises Errno."""
        found = set(self.backing.names()) if self.backing else set()
        covered = {name for name, node in self.children.items() if node is None}
        return sorted((found | set(self.children)) - covered)

    def put(self, name: str, node: Node) -> None:
        """Let a name stand for a node that the guest was given."""
        self._given.add(name)
        self._set(name, node)

    def _set(self, name: str, node: Node) -> None:
        self.children[name] = node
        if isinstance(node, Directory):
            node.place(self, name)

    def add_file(self, name: str, mode: int) -> Node:
        """A new, empty regular file."""
        self._layer.charge(NODE)
        file = PrivateFile(self._layer, fresh_status(self._layer, modes.S_IFREG | mode))
        return self._new(name, file, NODE)

    def unnamed_file(self, mode: int) -> Node:
        """A file without a name."""
        status = replace(fresh_status(self._layer, modes.S_IFREG | mode), links=0)
        return PrivateFile(self._layer, status)

    def add_directory(self, name: str, mode: int) -> None:
        """A new, empty directory."""
        self._layer.charge(NODE)
        status = fresh_status(self._layer, modes.S_IFDIR | mode)
        self._new(name, PrivateDirectory(self._source, status), NODE)

    def add_symlink(self, name: str, target: str) -> None:
        """A new symbolic link."""
        size = NODE + len(target)
        self._layer.charge(size)
        self._new(name, Symlink(fresh_status(self._layer, modes.S_IFLNK | 0o777), target), size)

    def add_special(self, name: str, mode: int, make: Callable[[Stat, PrivateLayer], Node]) -> Node:
        """A name for a socket or a pipe. mode: with its S_IFMT bits."""
        self._layer.charge(NODE)
        return self._new(name, make(fresh_status(self._layer, mode), self._layer), NODE)

    def add_node(self, name: str, node: Node) -> None:
        """A further name of a node. Raises Errno(EMLINK)."""
        if node.stat().links >= _MOST_LINKS:
            raise Errno(errno.EMLINK)
        node.add_links(1)
        self._new(name, node)

    def remove(self, name: str) -> None:
        """Take a name away."""
        node = self._take(name)
        if isinstance(node, Directory):
            node.removed = True
        else:
            node.add_links(-1)
        if isinstance(node, Directory) or node.stat().links == 0:
            self._layer.charge(-node.charged)
            node.charged = 0

    def move(self, name: str, target: Directory, new_name: str) -> None:
        """Rename within the private layer, over what is there."""
        assert isinstance(target, PrivateDirectory)
        if target.lookup(new_name) is not None:
            target.remove(new_name)
        target._new(new_name, self._take(name))

    def swap(self, name: str, target: Directory, new_name: str) -> None:
        """Exchange two names."""
        assert isinstance(target, PrivateDirectory)
        first, second = self._take(name), target._take(new_name)
        self._new(name, second)
        target._new(new_name, first)

    def _new(self, name: str, node: Node, charged: int = 0) -> Node:
        node.touched = node.fresh = True
        node.charged += charged
        self._set(name, node)
        self._changed()
        return node

    def _take(self, name: str) -> Node:
        node = self.lookup(name)
        if node is None:
            raise Errno(errno.ENOENT)
        # What the guest itself brought here leaves nothing behind, unless it covered a name that was given.
        if name in self._given or (self.backing and self._source.node(self.backing.child(name))):
            self.children[name] = None
        else:
            del self.children[name]
        self._changed()
        return node

    def _changed(self) -> None:
        now = self._layer.now()
        self._status = replace(self._status, modified=now, changed=now)
