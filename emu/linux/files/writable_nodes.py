"""Host files and directories that the guest was given to write: every change goes to the host."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from emu.linux.files.host_tree import HostPlace, encode, host_errors
from emu.linux.files.nodes import WRITABLE_DEVICE, Directory, FileNode, Node, Special, Symlink
from emu.linux.files.open_file import Stat
from emu.linux.files.private_layer import MAX_FILE, PrivateLayer
from emu.linux.files.private_nodes import host_status
from emu.linux.ground.failure import Errno

_PIECE = 1 << 20


class WritableVolume:
    """One writable bind: what its nodes share. Nodes of files by the host's (device, inode)."""

    def __init__(self, layer: PrivateLayer, root: HostPlace, device: int = WRITABLE_DEVICE) -> None:
        self.layer, self.root, self.device = layer, root, device
        self.files: dict[tuple[int, int], WritableFile] = {}

    def top(self) -> Node:
        """What the bind shows."""
        status = self.root.status()
        if modes.S_ISDIR(status.st_mode):
            return WritableDirectory(self, host_status(self.layer, status, self.device))
        return self.file(status, None, "")

    def file(self, status: os.stat_result, parent: WritableDirectory | None, name: str) -> WritableFile:
        """The node of a regular file, now known under this name."""
        identity = (status.st_dev, status.st_ino)
        node = self.files.get(identity)
        if node is None:
            node = WritableFile(self, host_status(self.layer, status, self.device), identity)
            self.files[identity] = node
        node.parent, node.name = parent, name
        return node


class HostMetadata(Node):
    """Permissions, owner and times that are the host's. Host errors are the guest's."""

    def where(self) -> HostPlace:
        """Its place on the host now. Raises Errno(ENOENT) if it was removed."""
        raise NotImplementedError

    def _told(self, status: os.stat_result) -> Stat:
        old = self._status
        time = status.st_mtime_ns
        size = old.size if modes.S_ISDIR(status.st_mode) else status.st_size
        links = old.links if modes.S_ISDIR(status.st_mode) else status.st_nlink
        return replace(
            old, mode=status.st_mode, size=size, links=links, modified=time, changed=time, accessed=time
        )

    def stat(self) -> Stat:
        """As the host has it now; as it was when the host has it no more."""
        try:
            self._status = self._told(self.where().status())
        except Errno:
            return self._status
        return self._status

    def set_mode(self, mode: int) -> None:
        """New permission bits; those for set-user-ID and the like never reach the host."""
        place = self.where()
        with place.tree.path(place.parts) as here, host_errors():
            os.chmod(f"/proc/self/fd/{here}", mode & 0o777)

    def set_owner(self, uid: int | None, gid: int | None) -> None:
        """No file is given away on the host. Raises Errno(EPERM)."""
        old = self.stat()
        if uid not in (None, old.uid) or gid not in (None, old.gid):
            raise Errno(errno.EPERM)

    def set_times(self, accessed: int | None, modified: int | None) -> None:
        """New times; what stays is read from the host."""
        place = self.where()
        with place.tree.path(place.parts) as here, host_errors():
            os.utime(f"/proc/self/fd/{here}", ns=_times(os.fstat(here), accessed, modified))

    def add_links(self, n: int) -> None:
        """The host counts them."""


def _times(old: os.stat_result, accessed: int | None, modified: int | None) -> tuple[int, int]:
    return (
        old.st_atime_ns if accessed is None else accessed,
        old.st_mtime_ns if modified is None else modified,
    )


class WritableFile(HostMetadata, FileNode):
    """A regular file of the host. parent, name: where it was seen last; parent None: the bind itself."""

    def __init__(self, volume: WritableVolume, status: Stat, identity: tuple[int, int]) -> None:
        super().__init__(status)
        self.volume: object = volume
        self._changed = volume.layer.changed
        self._volume = volume
        self.identity = identity
        self.parent: WritableDirectory | None = None
        self.name = ""
        self._root = volume.root
        self._files = volume.root.tree.files
        self._uses = 0
        self._unlinked = False
        #: A name went away while it was in use: its descriptor is kept.
        self._loose = False
        self._read_only = False

    def where(self) -> HostPlace:
        """Its place on the host now. Raises Errno(ENOENT) if it was removed."""
        if self._unlinked:
            raise Errno(errno.ENOENT)
        return self.parent.where().child(self.name) if self.parent else self._root

    def stat(self) -> Stat:
        """As the host has it now."""
        descriptor = self._files.get(self._key)
        if descriptor is None:
            return super().stat()
        self._status = self._told(os.fstat(descriptor))
        return self._status

    def set_mode(self, mode: int) -> None:
        """New permission bits, by its descriptor if its name is gone."""
        if not self._loose:
            super().set_mode(mode)
            return
        descriptor = self._descriptor()
        with host_errors():
            os.fchmod(descriptor, mode & 0o777)

    def set_times(self, accessed: int | None, modified: int | None) -> None:
        """New times, by its descriptor if its name is gone."""
        if not self._loose:
            super().set_times(accessed, modified)
            return
        descriptor = self._descriptor()
        with host_errors():
            os.utime(descriptor, ns=_times(os.fstat(descriptor), accessed, modified))

    def read(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on. Raises Errno."""
        descriptor = self._descriptor()
        with host_errors():
            return os.pread(descriptor, n, offset)

    def write(self, data: bytes, offset: int) -> int:
        """Write what the host takes. Raises Errno."""
        if offset + len(data) > MAX_FILE:
            raise Errno(errno.EFBIG)
        descriptor = self._descriptor()
        self._changed.add((self.device, self.inode))
        with host_errors():
            return os.pwrite(descriptor, data, offset)

    def truncate(self, size: int) -> None:
        """Set the size. Raises Errno."""
        if size > MAX_FILE:
            raise Errno(errno.EFBIG)
        descriptor = self._descriptor()
        self._changed.add((self.device, self.inode))
        with host_errors():
            os.ftruncate(descriptor, size)

    def zero(self, offset: int, length: int) -> None:
        """Write zeros where there is data, within the present size."""
        end, descriptor = min(offset + length, self.size()), self._descriptor()
        while offset < end:
            with host_errors():
                try:
                    offset = os.lseek(descriptor, offset, os.SEEK_DATA)
                except OSError as error:
                    if error.errno == errno.ENXIO:
                        return
                    raise
                stop = min(end, os.lseek(descriptor, offset, os.SEEK_HOLE))
            while offset < stop:
                offset += self.write(bytes(min(_PIECE, stop - offset)), offset)

    def prepare(self, write: bool) -> None:
        """The host must let it be opened so. Raises Errno."""
        self._descriptor()
        if write and self._read_only:
            raise Errno(errno.EACCES)

    def acquire(self) -> None:
        """One more open description or mapping."""
        self._uses += 1

    def release(self) -> None:
        """One fewer."""
        self._uses -= 1
        if self._loose and self._uses <= 0:
            self._files.drop(self._key)
            self._loose = False

    def before_unlink(self) -> bool:
        """Its name is about to go: whoever has it open keeps its bytes. Returns whether it is the last."""
        last = self.stat().links <= 1
        if self._uses > 0:
            self._descriptor()
            self._files.pin(self._key)
            self._loose = True
        else:
            self._files.drop(self._key)
        return last

    def unlinked(self) -> None:
        """The last name is gone."""
        self._unlinked = True
        self._volume.files.pop(self.identity, None)

    @property
    def _key(self) -> object:
        return (self.identity, True)

    def _descriptor(self) -> int:
        descriptor = self._files.get(self._key)
        if descriptor is not None:
            return descriptor
        try:
            descriptor = self.where().open(os.O_RDWR, self.identity)
            self._read_only = False
        except Errno as failure:
            if failure.number not in (errno.EACCES, errno.EROFS, errno.EPERM):
                raise
            descriptor = self.where().open(os.O_RDONLY, self.identity)
            self._read_only = True
        return self._files.put(self._key, descriptor)


class WritableDirectory(HostMetadata, Directory):
    """A directory of the host. It is looked at anew every time: others may change it too."""

    def __init__(self, volume: WritableVolume, status: Stat) -> None:
        super().__init__(status)
        self._volume = volume
        self._nodes: dict[str, tuple[tuple[int, int], Node]] = {}

    @property
    def volume(self) -> object:
        """The bind."""
        return self._volume

    def where(self) -> HostPlace:
        """Its place on the host now. Raises Errno(ENOENT) if it was removed."""
        if self.removed:
            raise Errno(errno.ENOENT)
        return (
            self.parent.where().child(self.name) if isinstance(self.parent, WritableDirectory) else self._top
        )

    @property
    def _top(self) -> HostPlace:
        return self._volume.root

    def lookup(self, name: str) -> Node | None:
        """What a name stands for now. Raises Errno."""
        place = self.where().child(name)
        try:
            status = place.status()
        except Errno as failure:
            self._nodes.pop(name, None)
            if failure.number in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise
        if modes.S_ISREG(status.st_mode):
            return self._volume.file(status, self, name)
        identity, node = self._nodes.get(name, (None, None))
        if node is None or identity != (status.st_dev, status.st_ino):
            node = self._fresh(status, place)
            self._nodes[name] = ((status.st_dev, status.st_ino), node)
            if isinstance(node, Directory):
                node.place(self, name)
        return node

    def _fresh(self, status: os.stat_result, place: HostPlace) -> Node:
        told = host_status(self._volume.layer, status, self._volume.device)
        if modes.S_ISDIR(status.st_mode):
            return WritableDirectory(self._volume, told)
        if modes.S_ISLNK(status.st_mode):
            return Symlink(told, place.target())
        return Special(replace(told, size=0))

    def names(self) -> list[str]:
        """All names, sorted. Raises Errno."""
        return self.where().names()

    def set_mode(self, mode: int) -> None:
        """New permission bits; of a directory that was removed, for what still has it open."""
        if self.removed:
            Node.set_mode(self, mode)
        else:
            super().set_mode(mode)

    def add_file(self, name: str, mode: int) -> Node:
        """A new, empty regular file."""
        place = self.where()
        with place.tree.path(place.parts) as here, host_errors():
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(encode(name), flags, 0o600, dir_fd=here)
            try:
                os.fchmod(descriptor, mode & 0o777)
                status = os.fstat(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        node = self._volume.file(status, self, name)
        place.tree.files.put(node._key, descriptor)
        return node

    def add_directory(self, name: str, mode: int) -> None:
        """A new, empty directory."""
        place = self.where()
        with place.tree.path(place.parts) as here, host_errors():
            os.mkdir(encode(name), 0o700, dir_fd=here)
        node = self.lookup(name)
        if node is not None:
            node.set_mode(mode & 0o777)

    def add_symlink(self, name: str, target: str) -> None:
        """A new symbolic link."""
        place = self.where()
        with place.tree.path(place.parts) as here, host_errors():
            os.symlink(encode(target), encode(name), dir_fd=here)

    def add_node(self, name: str, node: Node) -> None:
        """A further name of a regular file of this bind."""
        if not isinstance(node, WritableFile):
            raise Errno(errno.EPERM)
        target = self.where()
        if node.parent is None:
            raise Errno(errno.EXDEV)
        source = node.parent.where()
        with source.tree.path(source.parts) as old, target.tree.path(target.parts) as new, host_errors():
            os.link(encode(node.name), encode(name), src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Take a name away."""
        node = self.lookup(name)
        gone = _leave(node)
        place = self.where()
        with place.tree.path(place.parts) as here, host_errors():
            if isinstance(node, Directory):
                os.rmdir(encode(name), dir_fd=here)
            else:
                os.unlink(encode(name), dir_fd=here)
        gone()
        self._nodes.pop(name, None)

    def move(self, name: str, target: Directory, new_name: str) -> None:
        """Rename within the bind, over what is there."""
        assert isinstance(target, WritableDirectory)
        node, covered = self.lookup(name), target.lookup(new_name)
        gone = _leave(covered)
        source, destination = self.where(), target.where()
        with source.tree.path(source.parts) as old, source.tree.path(destination.parts) as new, host_errors():
            os.rename(encode(name), encode(new_name), src_dir_fd=old, dst_dir_fd=new)
        gone()
        if isinstance(node, WritableFile):
            node.parent, node.name = target, new_name
        known = self._nodes.pop(name, None)
        target._nodes.pop(new_name, None)
        if known is not None:
            target._nodes[new_name] = known
            if isinstance(known[1], Directory):
                known[1].place(target, new_name)


def _leave(node: Node | None) -> Callable[[], None]:
    """A name of the node is about to go: what is open keeps its bytes and its last state.

    Returns what is to be done once it has gone.
    """
    if isinstance(node, WritableFile):
        return node.unlinked if node.before_unlink() else _nothing
    if isinstance(node, WritableDirectory):
        node.stat()
        return partial(setattr, node, "removed", True)
    return _nothing if node is None else partial(node.add_links, -1)


def _nothing() -> None:
    pass
