"""The guest's first tree: what was bound, and the directories that every program expects."""

from __future__ import annotations

import os
import stat as modes
from dataclasses import replace
from pathlib import Path

from corebraid.base.errors import UsageError
from emu.linux.files.host_tree import HostFiles, HostPlace, HostTree, kernel_devices
from emu.linux.files.nodes import DEVICE, Directory, Node, Symlink
from emu.linux.files.open_file import Stat
from emu.linux.files.private_layer import PrivateLayer
from emu.linux.files.private_nodes import CopyOnWrite, PrivateDirectory, PrivateFile
from emu.linux.files.writable_nodes import WritableVolume
from emu.linux.ground.failure import Errno
from emu.linux.pseudo.etc import ETC_FILES
from emu.linux.tree.root_spec import Bind, RootSpec

#: Directories of libraries and of data that libraries read, of the host.
SYSTEM_DIRECTORIES = (
    "/lib", "/lib64", "/lib32", "/libx32", "/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32",
    "/usr/libexec", "/usr/share", "/usr/local/lib", "/usr/local/lib64", "/usr/local/share",
    "/etc/alternatives", "/etc/ld.so.conf.d",
)  # fmt: skip
#: Where programs lie: not visible, but a link there leads to what is bound.
_PROGRAM_LINKS = ("/bin", "/sbin")
#: What the guest always has of its own: binding the host's there to itself means this.
_RESERVED = ("/proc/", "/sys/", "/dev/")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ssl/openssl.cnf")
_EMPTY = (
    "/home",
    "/root",
    "/mnt",
    "/opt",
    "/srv",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/var/log",
    "/var/cache",
    "/var/lib",
)
_OPEN_TO_ALL = ("/tmp", "/var/tmp", "/run", "/run/lock")


class TreeBuilder:
    """Puts nodes at guest paths; directories on the way come into being.

    trees: of the host, kept open while the guest runs.
    """

    def __init__(self, layer: PrivateLayer) -> None:
        self._layer = layer
        self._source = CopyOnWrite(layer)
        self._files = HostFiles()
        self._forbidden = kernel_devices()
        self.trees: list[HostTree] = []
        self.root = PrivateDirectory(self._source, self._status(modes.S_IFDIR | 0o755))

    def build(self, specification: RootSpec) -> Directory:
        """The whole tree, without /proc, /sys and /dev. Raises UsageError for what cannot be bound."""
        whole = [bind for bind in specification.binds if not bind.guest.strip("/.")]
        for bind in whole:
            self._bind_root(bind)
        for path in _EMPTY:
            self.directory(path)
        for path in _OPEN_TO_ALL:
            self.directory(path, 0o1777)
        for path, text in ETC_FILES.items():
            if self._existing(self.directory("/etc"), path.rpartition("/")[2]) is None:
                self.put(path, self.text_file(text))
        if specification.system and not whole:
            self._system()
        for bind in specification.binds:
            if bind not in whole:
                self._bind(bind)
        for path, target in specification.links:
            parent, _, name = path.rpartition("/")
            if self._existing(self.directory(parent), name) is None:
                self.put(path, Symlink(self._status(modes.S_IFLNK | 0o777), target))
        return self.root

    def _bind_root(self, bind: Bind) -> None:
        """A directory that holds a whole system: everything else is put over it."""
        tree = self._tree(bind.host)
        if bind.writable or not tree.is_directory:
            raise UsageError(
                "only a directory can be the guest's root, and never writable", where=str(bind.host)
            )
        self.root.backing = HostPlace(tree)

    def close(self) -> None:
        """Let go of every host file."""
        self._files.close()
        for tree in self.trees:
            tree.close()

    def directory(self, path: str, mode: int = 0o755) -> PrivateDirectory:
        """The directory at `path`, made where it is missing. Raises UsageError."""
        here = self.root
        names = [name for name in path.split("/") if name]
        for i, name in enumerate(names):
            node = self._existing(here, name)
            if node is None:
                bits = mode if i + 1 == len(names) else 0o755
                node = PrivateDirectory(self._source, self._status(modes.S_IFDIR | bits))
                here.put(name, node)
            if isinstance(node, Symlink) and isinstance(target := self._target(node), PrivateDirectory):
                node = target
            if not isinstance(node, PrivateDirectory):
                raise UsageError(
                    "nothing can be bound below it: not a directory of the guest's own", where=path
                )
            here = node
        return here

    def put(self, path: str, node: Node) -> None:
        """Let a path stand for a node."""
        parent, _, name = path.rstrip("/").rpartition("/")
        self.directory(parent).put(name, node)

    def text_file(self, text: str, mode: int = 0o644) -> PrivateFile:
        """A file with a text in it, as if it had always been there."""
        status = self._status(modes.S_IFREG | mode)
        return PrivateFile(self._layer, replace(status, size=len(text)), Text(text.encode()))

    def inode(self) -> int:
        """A fresh inode number."""
        return self._layer.inode()

    def now(self) -> int:
        """The time, ns since 1970."""
        return self._layer.now()

    def _existing(self, directory: PrivateDirectory, name: str) -> Node | None:
        try:
            return directory.lookup(name)
        except Errno:
            return None

    def _target(self, link: Symlink) -> Node | None:
        # Links of the system directories only: /lib -> usr/lib. Anything else is left to the guest.
        names = [name for name in link.target().split("/") if name]
        here: Node | None = self.root
        for name in names:
            if name in (".", "..") or not isinstance(here, PrivateDirectory):
                return None
            here = self._existing(here, name)
        return here

    def _status(self, mode: int) -> Stat:
        now = self._layer.now()
        return Stat(mode, self._layer.inode(), DEVICE, uid=0, gid=0, modified=now, changed=now, accessed=now)

    def _tree(self, host: Path) -> HostTree:
        tree = HostTree(host, self._files, self._forbidden)
        self.trees.append(tree)
        return tree

    def _bind(self, bind: Bind) -> None:
        if not bind.guest.startswith("/") or ".." in bind.guest.split("/") or "\0" in bind.guest:
            raise UsageError("the guest's path must be absolute, without '..'", where=bind.guest)
        guest = "/" + "/".join(name for name in bind.guest.split("/") if name not in ("", "."))
        if f"{guest}/".startswith(_RESERVED) and not guest.startswith("/dev/shm/"):
            if guest == str(bind.host):
                return
            raise UsageError("nothing can be bound there: the guest has its own", where=guest)
        place = HostPlace(self._tree(bind.host))
        try:
            node = WritableVolume(self._layer, place).top() if bind.writable else self._source.node(place)
        except Errno as failure:
            raise UsageError(
                f"cannot be bound: {os.strerror(failure.number)}", where=str(bind.host)
            ) from None
        assert node is not None
        self.put(guest, node)
        if isinstance(node, Directory):
            node.fixed = bind.writable

    def _system(self) -> None:
        """Links among the system directories stay links: /lib -> usr/lib. Of programs only links show."""
        for path in _PROGRAM_LINKS:
            if os.path.islink(path):
                self.put(path, Symlink(self._status(modes.S_IFLNK | 0o777), os.readlink(path)))
        for path in (*SYSTEM_DIRECTORIES, *SYSTEM_FILES):
            host = Path(path)
            if host.is_symlink():
                self.put(path, Symlink(self._status(modes.S_IFLNK | 0o777), os.readlink(path)))
            elif host.exists():
                node = self._source.node(HostPlace(self._tree(host)))
                if node is not None:
                    self.put(path, node)


class Text:
    """The bytes below a synthesised file."""

    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def read(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on."""
        return self._data[offset : offset + n]
